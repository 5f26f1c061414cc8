"""Histograms with fixed limits, and the delay of the event loop."""

from __future__ import annotations

import asyncio
import math
import random

import pytest

from kcli.server.beans.loop_delay import (
    BUSY_SAMPLE_SECONDS,
    IDLE_SAMPLE_SECONDS,
    WINDOW_SECONDS,
    LoopDelay,
    next_wait,
)
from kcli.server.metrics.buckets import TIME_LIMITS_S, Buckets, CountedLater
from rigs.loops import until


def test_a_value_counts_in_each_bucket_from_its_limit_on() -> None:
    buckets = Buckets((1.0, 10.0))
    for value in (0.5, 1.0, 1.1, 99.0):
        buckets.add(value)
    assert buckets.attributes() == {"1": 2, "10": 3, "+Inf": 4, "Count": 4, "Sum": pytest.approx(101.6)}
    assert (buckets.above(1.0), buckets.above(10.0)) == (2, 1)


@pytest.mark.parametrize("count", [0, 1, len(TIME_LIMITS_S), 500])
def test_many_values_count_as_each_one_alone(count: int) -> None:
    values = [random.expovariate(10) for _ in range(count)] + [*TIME_LIMITS_S[: count // 2]]
    together, alone = Buckets(), Buckets()
    together.add_sorted(sorted(values))
    for value in values:
        alone.add(value)
    expected = alone.attributes()
    assert together.attributes() == expected | {"Sum": pytest.approx(expected["Sum"])}


def test_values_that_are_counted_later_count_once() -> None:
    later = CountedLater()
    for value in (0.2, 0.1):
        later.add(value)
    assert later.buckets.count == 0
    later.fold()
    later.add(0.3)
    later.fold()
    later.fold()
    assert later.buckets.attributes()["Count"] == 3
    assert later.buckets.total == pytest.approx(0.6)


def test_the_ranges_of_the_buckets_have_no_gap() -> None:
    assert list(Buckets((1.0, 10.0)).ranges()) == [
        ("1", -1.0, 1.0),
        ("10", 1.0, 10.0),
        ("+Inf", 10.0, math.inf),
    ]


def test_the_largest_delay_is_forgotten_after_the_window() -> None:
    delay = LoopDelay()
    delay.note(0.3, 1000.0)
    delay.note(0.1, 1000.5)
    delay.note(0.2, 1000.0 + WINDOW_SECONDS + 1)
    assert [each for _, each in delay._largest] == [0.2]
    assert delay.delays.count == 3


def test_work_that_holds_the_loop_is_a_delay() -> None:
    async def story() -> float:
        delay = LoopDelay()
        delay.start()
        import time

        time.sleep(0.2)  # noqa: ASYNC251 (this is what is measured)
        await until(lambda: delay.delays.count > 0)
        delay.stop()
        return delay.largest()

    assert asyncio.run(story()) > 0.1


@pytest.mark.parametrize(
    ("busy_share", "delay", "expected"),
    [
        (0.9, 0.0, BUSY_SAMPLE_SECONDS),
        (0.1, 0.0, IDLE_SAMPLE_SECONDS),
        (0.1, 0.3, BUSY_SAMPLE_SECONDS),
    ],
)
def test_an_idle_loop_is_sampled_less_often(busy_share: float, delay: float, expected: float) -> None:
    assert next_wait(busy_share, delay) == expected
