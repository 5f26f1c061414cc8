"""What the server-side assignors promise, for groups of any shape: complete, disjoint, balanced, and nothing moves that
need not."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber
from kcli.coordinator.group.consumer.assignors.table import ASSIGNORS, GroupSpec, range_, uniform
from kcli.coordinator.group.consumer.state.assignment import Assignment, size

IDS = [uuid.UUID(int=(number + 1) << 72) for number in range(5)]


@st.composite
def specs(draw: st.DrawFn, *, homogeneous: bool | None = None) -> GroupSpec:
    counts = {topic_id: draw(st.integers(1, 12)) for topic_id in IDS[: draw(st.integers(1, 5))]}
    topic_ids = list(counts)
    same = draw(st.booleans()) if homogeneous is None else homogeneous
    names = draw(
        st.lists(st.text("abcdefXYZ-19", min_size=1, max_size=8), min_size=1, max_size=8, unique=True)
    )
    everything = tuple(draw(st.permutations(topic_ids)))
    subscriptions = {
        name: everything if same else tuple(draw(st.lists(st.sampled_from(topic_ids), unique=True)))
        for name in names
    }
    owners = draw(st.lists(st.integers(-1, len(names) - 1), min_size=60, max_size=60))
    had: dict[str, dict[uuid.UUID, set[int]]] = {name: {} for name in names}
    each = ((topic_id, number) for topic_id, count in counts.items() for number in range(count))
    for (topic_id, number), owner in zip(each, owners, strict=False):
        if owner >= 0:
            had[names[owner]].setdefault(topic_id, set()).add(number)
    instances = draw(st.lists(st.one_of(st.none(), st.sampled_from("ijklmnop")), min_size=8, max_size=8))
    members = {
        name: Subscriber(
            None if instances[nth] is None else f"{instances[nth]}{nth}",
            subscriptions[name],
            {topic_id: frozenset(numbers) for topic_id, numbers in had[name].items()},
        )
        for nth, name in enumerate(names)
    }
    subscribed = {topic_id for member in members.values() for topic_id in member.topic_ids}
    known = {topic_id: count for topic_id, count in counts.items() if topic_id in subscribed}
    return GroupSpec(members, known, same)


def check_complete_and_disjoint(spec: GroupSpec, assigned: Mapping[str, Assignment]) -> None:
    seen: dict[tuple[uuid.UUID, int], str] = {}
    assert set(assigned) == set(spec.members)
    for name, has in assigned.items():
        for topic_id, numbers in has.items():
            assert numbers, "a topic without partitions is left out"
            assert topic_id in spec.members[name].topic_ids
            for number in numbers:
                assert (topic_id, number) not in seen
                seen[topic_id, number] = name
    wanted = {
        (topic_id, number)
        for topic_id, count in spec.partition_counts.items()
        if any(topic_id in member.topic_ids for member in spec.members.values())
        for number in range(count)
    }
    assert set(seen) == wanted


def settled(spec: GroupSpec, assigned: Mapping[str, Assignment]) -> GroupSpec:
    """The same group when everybody has what was assigned."""
    members = {name: replace(member, assigned=assigned[name]) for name, member in spec.members.items()}
    return GroupSpec(members, spec.partition_counts, spec.homogeneous)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=specs())
def test_every_partition_has_one_owner_that_subscribes_it(name: str, spec: GroupSpec) -> None:
    check_complete_and_disjoint(spec, ASSIGNORS[name](spec))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=specs())
def test_a_second_assignment_changes_nothing(name: str, spec: GroupSpec) -> None:
    assigned = ASSIGNORS[name](spec)
    assert ASSIGNORS[name](settled(spec, assigned)) == assigned


@given(spec=specs(homogeneous=True))
def test_uniform_differs_by_one_at_most(spec: GroupSpec) -> None:
    sizes = [size(has) for has in uniform(spec).values()]
    assert max(sizes) - min(sizes) <= 1


@given(spec=specs(homogeneous=True))
def test_uniform_moves_no_more_than_balance_asks_for(spec: GroupSpec) -> None:
    """A member keeps what it has, up to the share that everybody gets."""
    assigned = uniform(spec)
    share = sum(spec.partition_counts.values()) // len(spec.members)
    for name, member in spec.members.items():
        had = {
            (t, n) for t, numbers in member.assigned.items() if t in spec.partition_counts for n in numbers
        }
        has = {(t, n) for t, numbers in assigned[name].items() for n in numbers}
        assert len(had & has) >= min(len(had), share)


@given(spec=specs(homogeneous=False))
def test_uniform_balances_each_topic_between_its_subscribers(spec: GroupSpec) -> None:
    """No member has a partition that a subscriber with two partitions fewer could have."""
    assigned = uniform(spec)
    for topic_id in spec.partition_counts:
        loads = {
            name: size(assigned[name])
            for name, member in spec.members.items()
            if topic_id in member.topic_ids
        }
        givers = [load for name, load in loads.items() if assigned[name].get(topic_id)]
        assert max(givers) - min(loads.values()) <= 1


@given(spec=specs())
def test_range_gives_contiguous_ranges_in_the_order_of_members(spec: GroupSpec) -> None:
    assigned = range_(spec)

    def order(name: str) -> tuple[bool, str]:
        instance = spec.members[name].instance_id
        return (instance is None, instance or name)

    for topic_id, count in spec.partition_counts.items():
        subscribers = [
            name for name in sorted(spec.members, key=order) if topic_id in spec.members[name].topic_ids
        ]
        at = 0
        for nth, name in enumerate(subscribers):
            numbers = sorted(assigned[name].get(topic_id, ()))
            assert numbers == list(range(at, at + len(numbers)))
            assert len(numbers) == count // len(subscribers) + (nth < count % len(subscribers))
            at += len(numbers)


def test_kafkas_own_example_of_overlapping_subscriptions() -> None:
    """Balance is by topic: with few members who overlap it may stay two apart over the group."""
    first, second = IDS[:2]
    members = {
        "a": Subscriber(None, (first,), {}),
        "b": Subscriber(None, (first, second), {}),
        "c": Subscriber(None, (second,), {}),
    }
    assigned = uniform(GroupSpec(members, {first: 15, second: 15}, False))
    sizes = sorted(size(has) for has in assigned.values())
    assert sum(sizes) == 30
    assert sizes[-1] - sizes[0] <= 2


@pytest.mark.parametrize("homogeneous", [True, False])
@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_hundred_members_of_a_thousand_partitions_take_milliseconds(name: str, homogeneous: bool) -> None:
    counts = {uuid.UUID(int=(number + 1) << 72): 100 for number in range(10)}
    topic_ids = tuple(counts)
    members = {
        f"member-{number}": Subscriber(None, topic_ids if homogeneous else topic_ids[number % 3 :], {})
        for number in range(100)
    }
    spec = GroupSpec(members, counts, homogeneous)
    began = time.process_time()
    assigned = ASSIGNORS[name](spec)
    assert sum(map(size, assigned.values())) == 1000
    # Tens of milliseconds: what grows with members times partitions takes seconds.
    assert time.process_time() - began < 1
