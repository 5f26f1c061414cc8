"""The figures of the job `profile`; no Spark needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcli.spark.jobs.profile.figures import TIME_STEPS, PartitionProfile, TopicProfile, time_step_ms


def profiled(timestamps: list[int]) -> TopicProfile:
    """Returns the profile of records with these timestamps, with time steps as the job chooses them."""
    first, last = min(timestamps), max(timestamps)
    step_ms = time_step_ms(first, last)
    rate = [0] * TIME_STEPS
    for each in timestamps:
        rate[(each - first) // step_ms] += 1
    count = len(timestamps)
    return TopicProfile(
        topic="t",
        partitions=(PartitionProfile(0, count, 0, count - 1, 0),),
        key_bytes=0,
        null_keys=count,
        null_values=0,
        smallest_value=0,
        largest_value=0,
        sizes=(count,),
        first_ms=first,
        last_ms=last,
        step_ms=step_ms,
        rate=tuple(rate),
    )


def test_the_rates_of_records_at_a_steady_pace() -> None:
    two = profiled([5, 6])
    assert (two.records_per_second, two.highest_records_per_second) == (1000, 1000)
    minute = profiled(list(range(0, 60_000, 100)))
    assert round(minute.records_per_second, 1) == 10
    assert profiled([7] * 3).records_per_second == 3


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=200))
def test_the_average_rate_is_never_above_the_highest(timestamps: list[int]) -> None:
    profile = profiled(timestamps)
    assert profile.records_per_second <= profile.highest_records_per_second
