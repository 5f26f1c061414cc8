"""The statistics of a topic in the job `profile`: the figures that Spark computes, and the figures that are derived
from them.
"""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass

from kcli.command.rows import RowValue

SIZE_LIMITS = (0, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
"""The upper bounds (inclusive, in bytes) of the classes of value sizes. One more class contains all larger sizes."""


@dataclass(frozen=True, slots=True)
class PartitionProfile:
    """The statistics of a partition. `value_bytes` is the size of all values."""

    partition: int
    records: int
    first_offset: int
    last_offset: int
    value_bytes: int

    @property
    def missing_offsets(self) -> int:
        """The number of offsets without a record, because of compaction or transaction markers."""
        return self.last_offset - self.first_offset + 1 - self.records


@dataclass(frozen=True, slots=True)
class KeyCount:
    """A key, and the number of records with this key."""

    key: str
    records: int


@dataclass(frozen=True, slots=True)
class TopicProfile:
    """The statistics of a topic. Times are in milliseconds since 1970, sizes in bytes."""

    topic: str
    partitions: tuple[PartitionProfile, ...]
    key_bytes: int
    null_keys: int
    null_values: int
    smallest_value: int
    largest_value: int
    sizes: tuple[int, ...]
    """The number of records in each class of SIZE_LIMITS. The last entry is for all larger sizes."""
    first_ms: int
    last_ms: int
    step_ms: int
    rate: tuple[int, ...]
    """The number of records in each time step of `step_ms`."""
    distinct_keys: int | None = None
    top_keys: tuple[KeyCount, ...] = ()

    @property
    def records(self) -> int:
        return sum(partition.records for partition in self.partitions)

    @property
    def value_bytes(self) -> int:
        return sum(partition.value_bytes for partition in self.partitions)

    @property
    def missing_offsets(self) -> int:
        return sum(partition.missing_offsets for partition in self.partitions)

    @property
    def records_per_second(self) -> float:
        seconds = (self.last_ms - self.first_ms) / 1000
        return self.records / seconds if seconds else float(self.records)

    @property
    def most_records_per_second(self) -> float:
        """The rate in the time step with the most records, but at least the average rate. The computed rate of the last
        time step may be too low, because this step may be shorter than the others."""
        return max(max(self.rate) * 1000 / self.step_ms, self.records_per_second)

    @property
    def longest_silence_ms(self) -> int:
        """The longest time without records between the first and the last record, counted in whole time steps."""
        longest, length = 0, 0
        for count in self.rate:
            length = 0 if count else length + 1
            longest = max(longest, length)
        return longest * self.step_ms

    @property
    def key_skew(self) -> float | None:
        """The share of records that have the most frequent key."""
        return self.top_keys[0].records / self.records if self.top_keys else None

    @property
    def partition_skew(self) -> float:
        """The number of records in the largest partition, divided by the average of all partitions that have
        records.
        """
        return max(partition.records for partition in self.partitions) * len(self.partitions) / self.records


def as_json(profile: TopicProfile) -> dict[str, RowValue]:
    """Returns the figures of a topic as JSON values. Of the derived figures, only `most_records_per_second` is left
    out.
    """
    figures = (
        "records",
        "value_bytes",
        "missing_offsets",
        "records_per_second",
        "longest_silence_ms",
        "key_skew",
        "partition_skew",
    )
    return asdict(profile) | {name: getattr(profile, name) for name in figures}


def table(profile: TopicProfile) -> list[str]:
    """Returns the profile of a topic as lines of text."""
    records = profile.records
    average = profile.value_bytes / records
    most = profile.most_records_per_second
    sizes = f"{profile.smallest_value} to {profile.largest_value}, {average:.0f} on average"
    keys = "not counted" if profile.distinct_keys is None else f"{profile.distinct_keys} different"
    lines = [
        f"topic {profile.topic}",
        f"  records        {records} in {len(profile.partitions)} partitions with records",
        f"  time           {moment(profile.first_ms)} to {moment(profile.last_ms)}",
        f"  rate           {profile.records_per_second:.1f} records/s on average, {most:.1f} at most",
        f"  silence        {profile.longest_silence_ms / 1000:.0f} s at longest",
        f"  values         {profile.value_bytes} bytes; {sizes}; {profile.null_values} null",
        f"  keys           {keys}; {profile.null_keys} null; {profile.key_bytes} bytes",
        f"  gaps           {profile.missing_offsets} offsets without a record",
        f"  skew           the fullest partition has {profile.partition_skew:.2f} times the average",
    ]
    if profile.key_skew is not None:
        lines[-1] += f", the most frequent key {profile.key_skew:.1%} of the records"
    lines.append("  partition     records  first offset   last offset  missing         bytes")
    lines += [
        f"  {partition.partition:9}  {partition.records:10}  {partition.first_offset:12}  {partition.last_offset:12}  "
        f"{partition.missing_offsets:7}  {partition.value_bytes:12}"
        for partition in profile.partitions
    ]
    if profile.top_keys:
        lines.append("  most frequent keys")
        lines += [f"  {key.records:20}  {key.key}" for key in profile.top_keys]
    return lines


def moment(at_ms: int) -> str:
    """Returns a time in UTC, to the second."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
