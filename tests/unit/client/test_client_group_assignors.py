"""The assignors of classic consumer groups: Java's results, and the properties of cooperative-sticky."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kcli.client.group.assignors import (
    Assignment,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    SubscribedMember,
)
from kcli.model.topic_partition import TopicPartition


def member(
    name: str,
    *topics: str,
    instance: str | None = None,
    owned: tuple[TopicPartition, ...] = (),
    generation: int = 1,
) -> SubscribedMember:
    return SubscribedMember(name, instance, topics, owned, generation)


def parts(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


def shown(assignment: Assignment) -> dict[str, list[str]]:
    return {name: [str(each) for each in assigned] for name, assigned in assignment.items()}


def test_range_gives_neighbours_of_each_topic_and_the_rest_to_the_first() -> None:
    # the example in the documentation of Java's RangeAssignor
    assigned = RangeAssignor().assign(
        [member("C1", "t0", "t1"), member("C0", "t0", "t1")], {"t0": 3, "t1": 3}
    )
    assert shown(assigned) == {
        "C0": ["t0-0", "t0-1", "t1-0", "t1-1"],
        "C1": ["t0-2", "t1-2"],
    }


def test_range_leaves_members_without_a_topic_out() -> None:
    members = [member("a", "t"), member("b", "u"), member("c", "t", "u")]
    assert shown(RangeAssignor().assign(members, {"t": 3, "u": 1})) == {
        "a": ["t-0", "t-1"],
        "b": ["u-0"],
        "c": ["t-2"],
    }


def test_static_members_come_first_in_the_order_of_their_instances() -> None:
    members = [member("a", "t"), member("z", "t", instance="i1"), member("b", "t", instance="i2")]
    assert shown(RangeAssignor().assign(members, {"t": 4})) == {
        "z": ["t-0", "t-1"],
        "b": ["t-2"],
        "a": ["t-3"],
    }


def test_round_robin_deals_over_all_topics() -> None:
    # the examples in the documentation of Java's RoundRobinAssignor
    both = [member("C0", "t0", "t1"), member("C1", "t0", "t1")]
    assert shown(RoundRobinAssignor().assign(both, {"t0": 3, "t1": 3})) == {
        "C0": ["t0-0", "t0-2", "t1-1"],
        "C1": ["t0-1", "t1-0", "t1-2"],
    }
    different = [member("C0", "t0"), member("C1", "t0", "t1"), member("C2", "t0", "t1", "t2")]
    assert shown(RoundRobinAssignor().assign(different, {"t0": 1, "t1": 2, "t2": 3})) == {
        "C0": ["t0-0"],
        "C1": ["t1-0"],
        "C2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


def test_round_robin_ignores_a_topic_that_has_no_subscriber() -> None:
    assert RoundRobinAssignor().assign([member("a", "t")], {"t": 1, "u": 1}) == {"a": list(parts("t", 0))}


def test_a_partition_that_moves_is_withheld_until_its_owner_has_given_it_up() -> None:
    assignor = CooperativeStickyAssignor()
    first = assignor.assign([member("a", "t", owned=parts("t", 0, 1, 2, 3)), member("b", "t")], {"t": 4})
    assert [len(first["a"]), first["b"]] == [2, []]
    second = assignor.assign([member("a", "t", owned=tuple(first["a"])), member("b", "t")], {"t": 4})
    assert second["a"] == first["a"]
    assert sorted(second["a"] + second["b"]) == list(parts("t", 0, 1, 2, 3))


def test_the_later_generation_owns_a_partition_that_two_members_claim() -> None:
    assignor = CooperativeStickyAssignor()
    for old, new in (("a", "b"), ("b", "a")):
        late = member(old, "t", owned=parts("t", 0, 1))
        current = member(new, "t", owned=parts("t", 0), generation=2)
        assert assignor.assign([late, current], {"t": 2}) == {
            new: list(parts("t", 0)),
            old: list(parts("t", 1)),
        }


def test_a_partition_of_a_deleted_or_unsubscribed_topic_has_no_owner() -> None:
    owned = parts("gone", 0) + parts("t", 7) + parts("u", 0)
    assigned = CooperativeStickyAssignor().assign(
        [member("a", "t", owned=owned), member("b", "u")], {"t": 1, "u": 1}
    )
    assert assigned["a"] == list(parts("t", 0))


ROUNDS_MAX = 5
"""The rebalances that members with different subscriptions need at most. With equal subscriptions they need two, and a
third shows that nothing moves any more."""

TOPICS = {"t": 5, "u": 3, "v": 1}
MEMBERS = st.lists(st.sets(st.sampled_from(sorted(TOPICS)), min_size=1), min_size=1, max_size=5)


@given(MEMBERS, st.randoms(use_true_random=False))
def test_cooperative_rebalances_end_with_one_owner_of_each_partition(subscriptions, random) -> None:  # type: ignore[no-untyped-def]
    every = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]
    owners = {partition: random.randrange(len(subscriptions)) for partition in every if random.random() < 0.7}
    owned = [tuple(each for each in every if owners.get(each) == nth) for nth in range(len(subscriptions))]
    before: list[tuple[TopicPartition, ...]] = []
    rounds = 0
    while owned != before:
        before, rounds = owned, rounds + 1
        assert rounds <= ROUNDS_MAX
        members = [
            member(f"m{nth}", *sorted(topics), owned=owned[nth]) for nth, topics in enumerate(subscriptions)
        ]
        assigned = CooperativeStickyAssignor().assign(members, TOPICS)
        for nth, each in enumerate(members):
            others = set(itertools.chain(*(owned[:nth] + owned[nth + 1 :])))
            assert not others & set(assigned[each.member_id]), "a member gets what another has not given up"
            assert all(partition.topic in each.topics for partition in assigned[each.member_id])
        owned = [tuple(assigned[each.member_id]) for each in members]
    subscribed = set().union(*subscriptions)
    assert sorted(itertools.chain(*owned)) == sorted(each for each in every if each.topic in subscribed)
    if all(topics == subscriptions[0] for topics in subscriptions):
        assert rounds <= 3
        sizes = [len(each) for each in owned]
        assert max(sizes) - min(sizes) <= 1
