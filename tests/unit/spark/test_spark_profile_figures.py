"""The figures of a topic's profile that are derived from others."""

from __future__ import annotations

from kcli.spark.jobs.profile.figures import SIZE_LIMITS, PartitionProfile, TopicProfile, table


def test_the_average_rate_is_never_above_the_largest() -> None:
    # 11 records in 1.1 seconds: the second time step is cut short.
    profile = TopicProfile(
        topic="t",
        partitions=(
            PartitionProfile(partition=0, records=11, first_offset=0, last_offset=10, value_bytes=11),
        ),
        key_bytes=0,
        null_keys=11,
        null_values=0,
        smallest_value=1,
        largest_value=1,
        sizes=(11,) + (0,) * len(SIZE_LIMITS),
        first_ms=0,
        last_ms=1100,
        step_ms=1000,
        rate=(6, 5),
    )
    assert profile.records_per_second == profile.most_records_per_second == 10.0
    assert "  rate           10.0 records/s on average, 10.0 at most" in table(profile)
