"""Rules about disks: offline directories, full disks, and partitions with too many segments.

The growth of a partition is estimated: the number of records of the last day, multiplied by the mean size of a record.
A partition stops growing when its oldest records reach their retention time, or when its size reaches retention.bytes.
Compaction is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcli.client.admin.log_dirs import LogDirDescription
from kcli.client.diagnosis.checkup.finding import CheckupFinding, Severity, listed
from kcli.client.diagnosis.checkup.snapshot import Snapshot
from kcli.model.amounts import counted
from kcli.model.command_words import quoted_option
from kcli.model.java_text import parse_long
from kcli.model.topic_names import is_internal
from kcli.model.topic_partition import TopicPartition

DAY_MS = 24 * 3600 * 1000
CRITICAL_DAYS = 3.0
WARNING_DAYS = 30.0
FULL_SHARE = 0.9
"""A disk is reported if its used share is at least this, even if its data does not grow."""
SEGMENTS_MAX = 100
SMALL_SEGMENT_BYTES = 1 << 20
"""A partition has too many small segments if it has more segments than SEGMENTS_MAX, and if their mean size is smaller
than this. Each segment costs three open files, and time when the broker starts.
"""
SEGMENT_KEYS = ("segment.bytes", "segment.ms")
"""The settings of a topic that make its segments small."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a partition: bytes a day, and the days until its retention ends the growth (None: never)."""

    bytes_a_day: float
    days: float | None


def offline_dirs(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds log directories that a broker cannot use."""
    for broker, directories in snapshot.log_dirs.items():
        for directory in directories:
            if directory.error is not None:
                yield CheckupFinding(
                    Severity.CRITICAL,
                    "offline-directory",
                    f"broker {broker}",
                    f"The log directory {directory.path} is offline. Repair its disk, and start the broker again",
                    (directory.error.message,),
                    f"kcli log-dirs --describe --broker-list {broker}",
                )


def filling_disks(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds disks that are nearly full, or that will be full soon if they continue to grow as in the last day."""
    for broker, directories in snapshot.log_dirs.items():
        for directory in directories:
            if directory.usable_bytes is None or not directory.total_bytes:
                continue
            growth = _growth(snapshot, directory)
            days = days_until_full(directory.usable_bytes, growth)
            used = 1 - directory.usable_bytes / directory.total_bytes
            if used < FULL_SHARE and (days is None or days > WARNING_DAYS):
                continue
            a_day = sum(part.bytes_a_day for part in growth)
            when = "does not grow at present" if days is None else f"is full in {days:.1f} days"
            is_critical = used >= FULL_SHARE or (days is not None and days <= CRITICAL_DAYS)
            yield CheckupFinding(
                Severity.CRITICAL if is_critical else Severity.WARNING,
                "disk-full",
                f"broker {broker}",
                f"The disk of {directory.path} is {used:.0%} full and, with the growth of the last 24 hours, {when}",
                (
                    f"free: {_size(directory.usable_bytes)} of {_size(directory.total_bytes)}",
                    f"growth: {_size(a_day)} a day, by the timestamps of records",
                    f"measured: {counted(len(growth), 'partition')} of {len(directory.replicas)}",
                ),
                "kcli reassign-partitions --balance --dry-run",
            )


def days_until_full(free_bytes: float, growth: list[Growth]) -> float | None:
    """The days until the partitions have grown by `free_bytes`. None if retention ends the growth earlier."""
    rate = sum(replica.bytes_a_day for replica in growth)
    passed, left = 0.0, free_bytes
    for replica in sorted(
        (replica for replica in growth if replica.days is not None),
        key=lambda replica: replica.days or 0.0,
    ):
        assert replica.days is not None
        grown = rate * (replica.days - passed)
        if grown >= left and rate > 0:
            break
        left -= grown
        passed, rate = replica.days, rate - replica.bytes_a_day
    return passed + left / rate if rate > 1.0 else None


def small_segments(snapshot: Snapshot) -> Iterator[CheckupFinding]:
    """Finds partitions with many small segments."""
    sizes: dict[TopicPartition, int] = {}
    for directories in snapshot.log_dirs.values():
        for directory in directories:
            for replica in directory.replicas:
                sizes[TopicPartition(replica.topic, replica.partition)] = replica.size_bytes
    small = [
        (key, count, sizes[key] // count)
        for key, count in sorted(snapshot.metrics.segments.items())
        if count > SEGMENTS_MAX and key in sizes and sizes[key] // count < SMALL_SEGMENT_BYTES
    ]
    if small:
        yield CheckupFinding(
            Severity.WARNING,
            "small-segments",
            "cluster",
            f"{counted(len(small), 'partition has', 'partitions have')} more than {SEGMENTS_MAX} segments with a mean "
            f"below {_size(SMALL_SEGMENT_BYTES)}. They cost open files and time at a start",
            listed(f"{key}: {count} segments of {_size(mean)}" for key, count, mean in small),
            _larger_segments(snapshot, [key.topic for key, *_ in small]),
        )


def _larger_segments(snapshot: Snapshot, topics: list[str]) -> str:
    """The command that deletes the segment configs of the first topic that has them. Internal topics keep their
    configs. If no topic has such configs, the command shows the sources of a topic's values.
    """
    for name in topics:
        described = snapshot.topics.get(name)
        is_own = not (described.is_internal if described else is_internal(name))
        overrides = [key for key in SEGMENT_KEYS if key in snapshot.topic_overrides.get(name, ())]
        if is_own and overrides:
            entity = quoted_option("entity-name", name)
            return f"kcli configs --alter --entity-type topics {entity} --delete-config {','.join(overrides)}"
    return f"kcli configs --describe --all --entity-type topics {quoted_option('entity-name', topics[0])}"


def _growth(snapshot: Snapshot, directory: LogDirDescription) -> list[Growth]:
    rates = []
    for replica in directory.replicas:
        key = TopicPartition(replica.topic, replica.partition)
        history = snapshot.history.get(key)
        if history is None:
            continue
        count, of_a_day = history.end - history.start, history.end - max(history.day_ago, history.start)
        if count <= 0 or of_a_day <= 0:
            rates.append(Growth(0.0, None))
            continue
        a_day = replica.size_bytes / count * of_a_day
        rates.append(Growth(a_day, _days_left(snapshot, key, replica.size_bytes, a_day)))
    return rates


def _days_left(snapshot: Snapshot, key: TopicPartition, size_bytes: int, a_day: float) -> float | None:
    """The days until retention deletes as many records as producers write."""
    history = snapshot.history[key]
    configs = snapshot.topic_configs.get(key.topic, {})
    limits = []
    if "delete" not in (configs.get("cleanup.policy") or "delete"):
        return None
    retention_ms, retention_bytes = (
        parse_long(configs.get(f"retention.{unit}") or "-1") for unit in ("ms", "bytes")
    )
    if retention_bytes >= 0:
        limits.append(max(0.0, (retention_bytes - size_bytes) / a_day))
    if retention_ms >= 0:
        is_reached = history.at_retention is not None and history.at_retention > history.start
        age_days = (history.end - history.start) / (history.end - max(history.day_ago, history.start))
        limits.append(0.0 if is_reached else max(0.0, retention_ms / DAY_MS - age_days))
    return min(limits, default=None)


def _size(size_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size_bytes) < 1000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.3g} TB"
