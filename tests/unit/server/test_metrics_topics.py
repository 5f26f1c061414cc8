"""The meters of topics: the same values as with an update of every meter, and a total that never decreases."""

from __future__ import annotations

import random

import pytest

from kcli.server.metrics.meters import TICK_SECONDS, Meter
from kcli.server.metrics.topics import Meters, TopicMeters
from kcli.server.metrics.traffic import TrafficTable


def total(meters: TopicMeters, now: float) -> Meters:
    steps = meters.look(now)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Meters = end.value
            return found


@pytest.mark.parametrize("seed", range(20))
def test_the_rates_are_those_of_a_meter_that_is_updated_at_each_look(seed: int) -> None:
    rng = random.Random(seed)
    table, counted = TrafficTable(), 0
    traffic = table.of("a")
    meters, reference = TopicMeters(table, 0.0), None
    now = 0.0
    for _ in range(100):
        now += rng.choice((1.0, TICK_SECONDS, TICK_SECONDS, TICK_SECONDS + 0.1))
        if rng.random() < 0.3:
            counted += 100
            traffic.bytes_in += 100
        found = meters.of("a", now) if rng.random() < 0.5 else total(meters, now)
        if counted and reference is None:
            reference = Meter(now, began=0.0)
        if reference is not None:
            reference.count = counted
            reference.tick(now)
            expected = pytest.approx(reference.attributes("bytes", now))
            assert meters.of("a", now)["bytes_in"].attributes("bytes", now) == expected
            assert found.keys() == {"bytes_in"}
    assert counted > 0


def test_a_topic_without_traffic_has_no_meters() -> None:
    table = TrafficTable()
    table.of("a")
    meters = TopicMeters(table, 0.0)
    assert total(meters, 5.0) == {}
    assert meters.of("a", 5.0) == meters.of("unknown", 5.0) == {}


def test_the_total_has_all_topics_and_also_the_deleted_ones() -> None:
    table = TrafficTable()
    table.of("a").messages_in += 5
    table.of("b").messages_in += 2
    meters = TopicMeters(table, 0.0)
    assert total(meters, 5.0)["messages_in"].count == 7
    table.of("a").messages_in += 1  # the meters do not know this record when the topic is deleted
    table.forget("a")
    assert total(meters, 10.0)["messages_in"].count == 8
    table.of("a").messages_in += 3
    assert total(meters, 15.0)["messages_in"].count == 11
    assert meters.of("a", 15.0)["messages_in"].count == 3


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("steps_before", range(4))
def test_a_topic_deleted_during_a_look_counts_once(steps_before: int, again: bool) -> None:
    table = TrafficTable()
    for name in "abc":
        table.of(name).messages_in += 1
    meters = TopicMeters(table, 0.0)
    total(meters, 5.0)
    look = meters.look(10.0)
    for _ in range(steps_before):
        next(look)
    table.forget("b")
    if again:
        table.of("b")
    assert total(meters, 11.0)["messages_in"].count == 3
    for _ in look:
        pass
    assert total(meters, 15.0)["messages_in"].count == 3
