"""The planner of `reassign-partitions --balance`, with random clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kcli.client.reassign.balance import (
    BYTES_TOLERANCE,
    LEAST_GAIN,
    BrokerPlace,
    PlacedPartition,
    applied,
    balanced,
    loads,
)
from kcli.model.topic_partition import TopicPartition


@dataclass(frozen=True)
class World:
    """A cluster: the brokers that stay, its partitions, and the wanted number of replicas."""

    brokers: tuple[BrokerPlace, ...]
    partitions: tuple[PlacedPartition, ...]
    replication_factor: int | None

    def planned(self) -> list[PlacedPartition]:
        changes = balanced(self.brokers, self.partitions, replication_factor=self.replication_factor)
        return applied(self.partitions, changes)


@st.composite
def worlds(draw: st.DrawFn, *, racks: bool = True, leaving: bool = True, sizes: bool = True) -> World:
    staying = draw(st.integers(1, 6))
    names = st.sampled_from(["a", "b", "c"]) if racks and draw(st.booleans()) else st.none()
    brokers = tuple(BrokerPlace(broker, draw(names)) for broker in range(1, staying + 1))
    # The brokers that leave have the highest ids.
    ids = list(range(1, staying + 1 + (draw(st.integers(0, 2)) if leaving else 0)))
    size = st.integers(0, 1000) if sizes else st.just(0)
    partitions = tuple(
        PlacedPartition(
            TopicPartition("tu"[number % 2], number // 2),
            tuple(draw(st.permutations(ids))[: draw(st.integers(1, staying))]),
            draw(size),
        )
        for number in range(draw(st.integers(0, 16)))
    )
    wanted = draw(st.none() | st.integers(1, staying)) if leaving else None
    return World(brokers, partitions, wanted)


def racks_of(brokers: Sequence[BrokerPlace], replicas: tuple[int, ...]) -> int:
    by_id = {each.id: each.rack or each.id for each in brokers}
    return len({by_id[broker] for broker in replicas if broker in by_id})


def spread(values: list[int]) -> int:
    return max(values) - min(values)


def added(world: World, after: list[PlacedPartition]) -> int:
    """The number of replicas that are copied to a broker."""
    return sum(
        len(set(new.replicas) - set(old.replicas)) for old, new in zip(world.partitions, after, strict=True)
    )


@given(worlds())
def test_replicas_are_on_different_brokers_that_stay_on_as_many_racks_as_possible(world: World) -> None:
    rack_count = racks_of(world.brokers, tuple(each.id for each in world.brokers))
    staying = {each.id for each in world.brokers}
    for old, new in zip(world.partitions, world.planned(), strict=True):
        wanted = world.replication_factor or len(old.replicas)
        assert len(new.replicas) == len(set(new.replicas)) == wanted
        assert set(new.replicas) <= staying
        racks = racks_of(world.brokers, new.replicas)
        assert racks == min(wanted, rack_count)
        assert racks >= min(wanted, racks_of(world.brokers, old.replicas))


@given(worlds(racks=False))
def test_counts_of_replicas_and_leaders_differ_by_one_without_racks(world: World) -> None:
    after = loads((each.id for each in world.brokers), world.planned())
    assert spread([each.replicas for each in after.values()]) <= 1
    if all(len(each.replicas) == len(world.brokers) for each in world.planned()):
        assert spread([each.leaders for each in after.values()]) <= 1, "any broker can lead any partition"


@given(worlds())
def test_no_single_change_makes_the_counts_more_even(world: World) -> None:
    after = world.planned()
    load = loads((each.id for each in world.brokers), after)
    for each in after:
        for old in each.replicas:
            for new in load.keys() - set(each.replicas):
                moved = tuple(new if broker == old else broker for broker in each.replicas)
                if racks_of(world.brokers, moved) == racks_of(world.brokers, each.replicas):
                    assert load[old].replicas - load[new].replicas <= 1
        for follower in each.replicas[1:]:
            assert load[each.replicas[0]].leaders - load[follower].leaders <= 1


@given(worlds(racks=False, leaving=False, sizes=False))
def test_moves_are_as_few_as_the_uneven_counts_need(world: World) -> None:
    counts = [each.replicas for each in loads((b.id for b in world.brokers), world.partitions).values()]
    least, rest = divmod(sum(counts), len(counts))
    most = least + (rest > 0)
    surplus = sum(max(0, count - most) for count in counts)
    deficit = sum(max(0, least - count) for count in counts)
    assert added(world, world.planned()) == max(surplus, deficit)


@given(worlds(racks=False, sizes=False))
def test_brokers_that_leave_cost_few_more_moves_than_their_replicas(world: World) -> None:
    after = world.planned()
    staying = {each.id for each in world.brokers}
    forced = sum(
        max(0, len(new.replicas) - len(staying & set(old.replicas)))
        for old, new in zip(world.partitions, after, strict=True)
    )
    counts = Counter(dict.fromkeys(staying, 0))
    for old in world.partitions:
        counts.update(staying & set(old.replicas))
    total = sum(len(each.replicas) for each in after)
    most = -(-total // len(staying))
    surplus = sum(max(0, count - most) for count in counts.values())
    assert forced <= added(world, after) <= forced + surplus + total % len(staying) + len(staying)


@given(worlds(racks=False))
def test_no_exchange_of_the_fullest_and_the_emptiest_broker_is_left(world: World) -> None:
    after = world.planned()
    load = loads((each.id for each in world.brokers), after)
    mean = sum(each.size_bytes for each in load.values()) / len(load)
    full, empty = (pick(load, key=lambda broker: load[broker].size_bytes) for pick in (max, min))
    difference = load[full].size_bytes - load[empty].size_bytes
    if max(load[full].size_bytes - mean, mean - load[empty].size_bytes) <= BYTES_TOLERANCE * mean:
        return
    given_up = [each for each in after if full in each.replicas and empty not in each.replicas]
    returned = [each for each in after if empty in each.replicas and full not in each.replicas]
    for given_one in given_up:
        for back in returned:
            transfer = given_one.size_bytes - back.size_bytes
            assert not LEAST_GAIN * mean <= transfer <= difference - LEAST_GAIN * mean


@given(worlds())
def test_the_plan_depends_on_the_values_only_and_is_stable(world: World) -> None:
    after = world.planned()
    assert balanced(world.brokers, after) == {}, "a plan for the result of a plan is empty"
    shuffled = sorted(world.partitions, key=lambda each: each.partition[::-1])
    assert balanced(world.brokers[::-1], shuffled, replication_factor=world.replication_factor) == balanced(
        world.brokers, world.partitions, replication_factor=world.replication_factor
    )
