"""The history of an end offset."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kcli.lag.history import POINTS_MAX, Arrival, EndHistory


def history(*points: tuple[int, int]) -> EndHistory:
    made = EndHistory()
    for time_ms, end in points:
        made.add(time_ms, end)
    return made


def test_records_between_two_points_arrived_evenly() -> None:
    made = history((0, 100), (10_000, 109))
    assert made.arrival(100) == Arrival(1000, at_most=False)
    assert made.arrival(104) == Arrival(5000, at_most=False)
    assert made.arrival(108) == Arrival(9000, at_most=False)


def test_one_record_arrived_in_the_middle() -> None:
    assert history((0, 5), (10_000, 6)).arrival(5) == Arrival(5000, at_most=False)


def test_a_record_beyond_the_end_has_not_arrived() -> None:
    made = history((0, 5), (10_000, 6))
    assert made.arrival(6) is None
    assert EndHistory().arrival(0) is None


def test_a_record_before_the_history_arrived_at_its_start_or_earlier() -> None:
    assert history((7000, 5), (9000, 6)).arrival(3) == Arrival(7000, at_most=True)


def test_the_end_at_a_time() -> None:
    made = history((1000, 10), (2000, 30))
    assert made.end_at(999) is None
    assert [made.end_at(time_ms) for time_ms in (1000, 1500, 2000, 9000)] == [10, 20, 30, 30]


def test_a_time_without_records_takes_two_points() -> None:
    made = history(*((time_ms, 5) for time_ms in range(0, 100_000, 1000)), (100_000, 6))
    assert len(made) == 3
    assert made.arrival(5) == Arrival(99_500, at_most=False)


def test_points_above_an_end_that_went_back_are_dropped() -> None:
    made = history((0, 5), (1000, 50), (2000, 20))
    assert made.end == 20
    assert made.end_at(1000) == 12
    assert made.arrival(20) is None


def test_recent_ends_have_at_least_the_newest() -> None:
    made = history((0, 1), (1000, 2), (2000, 3))
    assert made.recent(1000) == [2, 3]
    assert made.recent(5000) == [3]
    assert EndHistory().recent(0) == []


def test_a_full_history_reaches_back_hours_and_stays_dense_at_its_end() -> None:
    made = EndHistory()
    step_ms = 10_000
    for step in range(3000):
        made.add(step * step_ms, step * 10)
        assert len(made) <= POINTS_MAX
    now_ms = 2999 * step_ms
    for age_ms in (15_000, 95_000):
        arrival = made.arrival((now_ms - age_ms) // 1000)
        assert arrival is not None and abs(arrival.time_ms - (now_ms - age_ms)) <= step_ms
    hours = made.arrival((now_ms - 4 * 3_600_000) // 1000)
    assert hours is not None and not hours.at_most
    assert abs(now_ms - hours.time_ms - 4 * 3_600_000) < 600_000


def test_points_older_than_a_day_are_dropped() -> None:
    made = EndHistory()
    for step in range(30_000):
        made.add(step * 10_000, step)
    arrival = made.arrival(0)
    assert arrival is not None and arrival.at_most
    assert arrival.time_ms >= 30_000 * 10_000 - 3 * 24 * 3_600_000


def test_the_rate_counts_records_in_a_second() -> None:
    made = history((0, 0), (10_000, 50), (20_000, 100))
    assert made.rate(10_000, 20_000) == 5
    assert made.rate(-5, 20_000) == 5
    assert made.rate(20_000, 20_000) is None
    assert EndHistory().rate(0, 5) is None


def test_times_of_arrivals_are_in_the_order_of_offsets() -> None:
    made = history((0, 3), (10_000, 9), (20_000, 9), (30_000, 30))
    times = [arrival.time_ms for offset in range(3, 30) if (arrival := made.arrival(offset))]
    assert len(times) == 27
    assert all(before <= after for before, after in pairwise(times))


def test_a_history_begins_with_an_older_record() -> None:
    made = history((100_000, 10), (110_000, 12))
    made.begin_with(5, 40_000)
    assert made.arrival(5) == Arrival(40_000, at_most=False)
    assert made.arrival(4) == Arrival(40_000, at_most=True)
    assert made.arrival(6) == Arrival(52_000, at_most=False), "between the record and the old begin"
    made.begin_with(4, 30_000)
    assert made.arrival(4) == Arrival(30_000, at_most=False)
    assert made.arrival(5) == Arrival(40_000, at_most=False)


@pytest.mark.parametrize(("offset", "time_ms"), [(10, 50_000), (5, 100_001), (5, -1)])
def test_a_record_that_is_not_older_than_the_history_changes_nothing(offset: int, time_ms: int) -> None:
    made = history((100_000, 10), (110_000, 12))
    made.begin_with(offset, time_ms)
    assert made.arrival(5) == Arrival(100_000, at_most=True)
    empty = EndHistory()
    empty.begin_with(offset, time_ms)
    assert len(empty) == 0
