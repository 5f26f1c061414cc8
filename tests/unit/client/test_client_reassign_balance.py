"""The planner of `reassign-partitions --balance`, by small examples."""

from __future__ import annotations

import pytest

from kcli.client.reassign.balance import (
    BrokerPlace,
    ImpossibleError,
    PlacedPartition,
    applied,
    balanced,
    loads,
)
from kcli.model.topic_partition import TopicPartition


def brokers(*racks: str | None) -> list[BrokerPlace]:
    """Brokers 1, 2, … on these racks."""
    return [BrokerPlace(index, rack) for index, rack in enumerate(racks, start=1)]


def topic(*replicas: tuple[int, ...], sizes: tuple[int, ...] = ()) -> list[PlacedPartition]:
    """The partitions 0, 1, … of topic t."""
    return [
        PlacedPartition(TopicPartition("t", number), each, sizes[number] if sizes else 0)
        for number, each in enumerate(replicas)
    ]


def replicas_after(
    cluster: list[BrokerPlace], partitions: list[PlacedPartition], replication_factor: int | None = None
) -> list[tuple[int, ...]]:
    changes = balanced(cluster, partitions, replication_factor=replication_factor)
    return [each.replicas for each in applied(partitions, changes)]


def test_a_broker_that_joined_gets_replicas_and_leaders() -> None:
    before = topic((1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1))
    after = applied(before, balanced(brokers(None, None, None), before))
    assert {(each.replicas, each.leaders) for each in loads((1, 2, 3), after).values()} == {(4, 2)}
    assert sum(3 in each.replicas for each in after) == 4


def test_replicas_of_a_broker_that_is_not_listed_move() -> None:
    assert replicas_after(brokers(None, None), topic((3, 1), (2, 3))) == [(1, 2), (2, 1)]


def test_leaders_are_made_even_without_a_copy() -> None:
    after = replicas_after(brokers(None, None), topic((1, 2), (1, 2), (1, 2), (1, 2)))
    assert sorted(after) == [(1, 2), (1, 2), (2, 1), (2, 1)]


def test_a_leadership_moves_through_a_third_broker() -> None:
    """Broker 1 leads two, broker 3 leads none, and only broker 2 shares partitions with both of them."""
    partitions = topic((1, 2), (1, 2), (2, 3), (3, 2), (3, 1), (1, 3))[:3]
    after = applied(partitions, balanced(brokers(None, None, None), partitions))
    assert [each.leaders for each in loads((1, 2, 3), after).values()] == [1, 1, 1]


def test_racks_are_kept_apart_and_repaired() -> None:
    cluster = brokers("a", "a", "b", "b")
    racks = {each.id: each.rack for each in cluster}
    after = replicas_after(cluster, topic((1, 2), (2, 1), (3, 4), (1, 3)))
    assert all({racks[broker] for broker in each} == {"a", "b"} for each in after)
    assert replicas_after(brokers("a", "a", "b"), topic((1, 3), (2, 3))) == [(1, 3), (2, 3)], (
        "no replica leaves broker 3, the only one of its rack"
    )


@pytest.mark.parametrize(("wanted", "counts"), [(1, [2, 2, 2]), (3, [6, 6, 6])])
def test_the_replication_factor_changes(wanted: int, counts: list[int]) -> None:
    before = topic((1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1))
    after = applied(before, balanced(brokers(None, None, None), before, replication_factor=wanted))
    assert [each.replicas for each in loads((1, 2, 3), after).values()] == counts
    assert all(len(each.replicas) == wanted for each in after)


def test_bytes_become_even_by_an_exchange() -> None:
    """Both brokers have two replicas, but broker 1 has both large ones."""
    before = topic((1,), (1,), (2,), (2,), sizes=(100, 100, 2, 2))
    after = applied(before, balanced(brokers(None, None), before))
    assert [each.size_bytes for each in loads((1, 2), after).values()] == [102, 102]
    nearly = topic((1,), (1,), (2,), (2,), sizes=(104, 100, 98, 96))
    assert balanced(brokers(None, None), nearly) == {}, "under 10 % from the average"


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(
        ImpossibleError, match=r"^t-0 would have 2 replicas, but the number of usable brokers is 1\."
    ):
        balanced(brokers(None), topic((1, 2)))
    assert replicas_after(brokers(None), topic((1, 2)), 1) == [(1,)]


def test_an_empty_cluster_needs_no_moves() -> None:
    assert balanced(brokers(None, None), []) == {}


def test_an_exchange_of_bytes_permits_one_more_move_across_racks() -> None:
    """Found by Hypothesis: the counts were even as far as racks permitted, until two replicas were exchanged."""
    cluster = brokers("a", "b", "a", "c", "b")
    replicas = [
        (1, 2, 3, 4), (1, 2), (1,), (1, 2, 3), (1, 2), (1, 2, 3, 4),
        (1, 2, 3, 4), (1,), (1, 4), (1, 2, 3), (1,), (1, 2, 3),
    ]  # fmt: skip
    sizes = {0: 1, 7: 2, 11: 2}
    before = [
        PlacedPartition(TopicPartition("tu"[number % 2], number // 2), each, sizes.get(number, 0))
        for number, each in enumerate(replicas)
    ]
    after = applied(before, balanced(cluster, before))
    assert balanced(cluster, after) == {}
