"""Striped placement: spread over racks and brokers, fenced brokers last and never leading."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.controller.placement import UsableBroker, place
from kcli.errors import InvalidReplicationFactorException
from kcli.runtime.rng import SystemRng


def brokers(count: int, rack: Any = None, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [UsableBroker(each, rack, each in fenced) for each in range(1, count + 1)]


class Zeros:
    """A source of randomness that always returns 0. So every ring starts at its first place, and shuffling the list
    1, 2, 3 gives 2, 3, 1."""

    def randrange(self, stop: int) -> int:
        assert stop > 0
        return 0

    def random(self) -> float:
        return 0.0

    def uuid(self) -> uuid.UUID:
        raise AssertionError("no id is needed")


def cluster(**racks: str) -> list[UsableBroker]:
    """Brokers by rack, as in `a="1 2*"`: the brokers 1 and 2, where 2 is fenced."""
    return [
        UsableBroker(int(each.rstrip("*")), rack, each.endswith("*"))
        for rack, members in racks.items()
        for each in members.split()
    ]


@pytest.mark.parametrize(
    ("usable", "factor", "placed"),
    [
        # One rack: each partition starts one broker later. After as many partitions as brokers, all is shuffled.
        (cluster(a="1 2 3"), 3, ["1 2 3", "2 3 1", "3 1 2", "2 3 1", "3 1 2", "1 2 3", "3 1 2"]),
        (cluster(a="1 2 3"), 1, ["1", "2", "3", "2"]),
        # As many racks as replicas: one in each rack, and each partition starts one rack and one broker later.
        (cluster(a="0 1 2", b="3 4 5", c="6 7 8"), 3, ["0 3 6", "4 7 1", "8 2 5"]),
        # More racks than replicas.
        (cluster(a="1", b="2", c="3"), 2, ["1 2", "2 3", "3 1"]),
        # More replicas than racks: they are placed all the same, in turn.
        (cluster(a="1 2", b="3"), 3, ["1 3 2", "3 2 1", "1 3 2"]),
        # A fenced broker fills up its own rack, and never leads.
        (cluster(a="1 2*", b="3*"), 3, ["1 3 2", "1 3 2", "1 3 2"]),
        # The other replicas start at the partition's rack, and not after the rack of the leader. So the fenced broker 1
        # comes before the unfenced broker 3.
        (cluster(a="1*", b="2", c="3"), 2, ["2 1", "2 3"]),
        # Brokers without a rack form a rack of their own, which comes first.
        (
            [UsableBroker(7, "a", False), UsableBroker(6, "", False), UsableBroker(5, None, False)],
            3,
            ["5 6 7", "6 7 5"],
        ),
    ],
)
def test_the_table_of_placements(usable: list[UsableBroker], factor: int, placed: list[str]) -> None:
    assert [" ".join(map(str, each)) for each in place(usable, len(placed), factor, Zeros())] == placed


def test_leaders_go_round_the_brokers() -> None:
    placed = place(brokers(3), 6, 2, SystemRng(1))
    assert Counter(replicas[0] for replicas in placed) == {1: 2, 2: 2, 3: 2}
    assert Counter(replica for replicas in placed for replica in replicas) == {1: 4, 2: 4, 3: 4}


def test_replicas_go_to_different_racks() -> None:
    spread = [UsableBroker(each, "abc"[each % 3], False) for each in range(9)]
    for replicas in place(spread, 30, 3, SystemRng(2)):
        assert len({replica % 3 for replica in replicas}) == 3


def test_fenced_brokers_fill_up_but_do_not_lead() -> None:
    for replicas in place(brokers(3, fenced=(3,)), 10, 3, SystemRng(3)):
        assert replicas[2] == 3 and replicas[0] in (1, 2)
    for replicas in place(brokers(3, fenced=(3,)), 10, 2, SystemRng(3)):
        assert 3 not in replicas


def test_the_start_is_random_and_a_seed_repeats_it() -> None:
    starts = {place(brokers(5), 1, 1, SystemRng(seed))[0][0] for seed in range(40)}
    assert starts == {1, 2, 3, 4, 5}
    assert place(brokers(5), 9, 3, SystemRng(8)) == place(brokers(5), 9, 3, SystemRng(8))


@pytest.mark.parametrize(
    ("usable", "factor", "reason"),
    [
        (
            brokers(2),
            3,
            "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered",
        ),
        (brokers(2, fenced=(1, 2)), 1, "All brokers are currently fenced"),
        ([], 1, "All brokers are currently fenced"),
    ],
)
def test_impossible_placements_are_refused(usable: list[UsableBroker], factor: int, reason: str) -> None:
    with pytest.raises(InvalidReplicationFactorException) as refused:
        place(usable, 1, factor, SystemRng(1))
    assert refused.value.message.startswith(reason)


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.booleans()), min_size=1, max_size=12),
    st.integers(1, 20),
    st.integers(0, 1000),
    st.data(),
)
def test_any_cluster_gets_distinct_replicas_with_an_unfenced_leader(
    layout: list[Any], partitions: int, seed: int, data: st.DataObject
) -> None:
    usable = [UsableBroker(index, rack, fenced) for index, (rack, fenced) in enumerate(layout)]
    unfenced = {broker.id for broker in usable if not broker.fenced}
    if not unfenced:
        return
    factor = data.draw(st.integers(1, len(usable)))
    for replicas in place(usable, partitions, factor, SystemRng(seed)):
        assert len(replicas) == len(set(replicas)) == factor
        assert replicas[0] in unfenced
        if factor <= len(unfenced):
            leaders_left = [replica for replica in replicas if replica in unfenced]
            racks = {broker.rack for broker in usable}
            assert len(leaders_left) == factor or len(racks) > 1
