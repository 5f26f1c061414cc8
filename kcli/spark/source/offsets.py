"""Resolves the options of the source to partitions, offsets and tasks.

Spark's checkpoint stores the offsets of a stream as `{"topic": {"0": 23}}`, the form of Spark's own Kafka source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from kcli.errors import KcliError, UnknownTopicOrPartitionException
from kcli.model.java_text import parse_int
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import EARLIEST, LATEST
from kcli.model.topic_partition import TopicPartition
from kcli.spark.options import Position, SourceOptions, Subscription

_log = logging.getLogger("kcli.spark")

Offsets = dict[TopicPartition, int]

OffsetJson = dict[str, dict[str, int]]
"""Offsets by topic, then by partition, as in Spark's checkpoint."""


class OffsetSource(Protocol):
    """A source of partitions and offsets: a cluster, or log directories."""

    def topic_names(self) -> list[str]: ...

    def partitions(self, topics: Iterable[str]) -> list[TopicPartition]: ...

    def list_offsets(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt]: ...


class DataLossError(KcliError):
    """Raised if records that should be read are lost and failOnDataLoss is true."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition that one task reads: from `start` up to `end` (exclusive)."""

    part: TopicPartition
    start: int
    end: int

    def __len__(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.part} {self.start}..{self.end}"


def subscribed(cluster: OffsetSource, subscription: Subscription) -> list[TopicPartition]:
    """Returns the partitions that match the subscription now."""
    if subscription.partitions:
        known = set(cluster.partitions(part.topic for part in subscription.partitions))
        for part in subscription.partitions:
            if part not in known:
                raise UnknownTopicOrPartitionException(f"assign names {part}, which does not exist")
        return list(subscription.partitions)
    if subscription.pattern is not None:
        from kcli.model.java_regex import compile_java

        pattern = compile_java(subscription.pattern, ascii_only=True)
        return cluster.partitions(name for name in cluster.topic_names() if pattern.fullmatch(name))
    return cluster.partitions(subscription.topics)


def resolve(
    cluster: OffsetSource,
    parts: list[TopicPartition],
    position: Position,
    *,
    latest_if_no_offset: bool,
    name: str,
) -> Offsets:
    """Resolves `position` to an offset in each partition. Errors contain `name`, the name of the option."""
    if position.by_time:
        return _by_time(cluster, parts, position, latest_if_no_offset, name)
    if position.offsets and set(parts) != position.named():
        raise ValueError(
            f"{name} must name every partition that is read: {_difference(parts, position.named())}"
        )
    positions = {part: position.offsets.get(part, position.default) for part in parts}
    ends = {part: offset for part, offset in positions.items() if offset in (EARLIEST, LATEST)}
    offsets = cluster.list_offsets(ends) if ends else {}
    return {part: offsets[part].offset if part in offsets else offset for part, offset in positions.items()}


def _difference(parts: list[TopicPartition], named: set[TopicPartition]) -> str:
    missing, extra = sorted(set(parts) - named), sorted(named - set(parts))
    said = []
    if missing:
        said.append(f"{', '.join(map(str, missing))} not named")
    if extra:
        said.append(f"{', '.join(map(str, extra))} not read")
    return "; ".join(said)


def _by_time(
    cluster: OffsetSource,
    parts: list[TopicPartition],
    position: Position,
    latest_if_no_offset: bool,
    name: str,
) -> Offsets:
    if position.timestamp is not None:
        timestamps = dict.fromkeys(parts, position.timestamp)
    else:
        if set(parts) != position.named():
            said = _difference(parts, position.named())
            raise ValueError(f"{name}ByTimestamp must name every partition that is read: {said}")
        timestamps = dict(position.timestamps)
    offsets = cluster.list_offsets(timestamps)
    missing = [part for part in parts if offsets[part].offset < 0]
    if missing and position.default == EARLIEST and not latest_if_no_offset:
        raise ValueError(
            f"no record of {missing[0]} has timestamp {timestamps[missing[0]]} or later "
            "(startingOffsetsByTimestampStrategy=latest starts at the end instead)"
        )
    ends = cluster.list_offsets(dict.fromkeys(missing, LATEST)) if missing else {}
    return {part: ends[part].offset if part in ends else offsets[part].offset for part in parts}


def batch_ranges(cluster: OffsetSource, options: SourceOptions) -> list[OffsetRange]:
    """Returns the ranges of a batch, one for each partition that exists now."""
    parts = subscribed(cluster, options.subscription)
    late = options.latest_if_no_offset
    start = resolve(cluster, parts, options.start, latest_if_no_offset=late, name="startingOffsets")
    end = resolve(cluster, parts, options.end, latest_if_no_offset=True, name="endingOffsets")
    return _within_logs(cluster, [OffsetRange(part, start[part], end[part]) for part in parts], options)


def _within_logs(
    cluster: OffsetSource, ranges: list[OffsetRange], options: SourceOptions
) -> list[OffsetRange]:
    """Limits the offsets that the user gave to the offsets in the logs, and reports a loss.

    Without this check, a wrong offset would make a task fail, or wait for records that never come.
    """
    first = _ends(
        cluster,
        [
            offset_range.part
            for offset_range in ranges
            if options.start.offsets.get(offset_range.part, -1) >= 0
        ],
        EARLIEST,
    )
    last = _ends(
        cluster,
        [offset_range.part for offset_range in ranges if options.end.offsets.get(offset_range.part, -1) >= 0],
        LATEST,
    )
    checked = []
    for part, start, end in (
        (offset_range.part, offset_range.start, offset_range.end) for offset_range in ranges
    ):
        if start < first.get(part, start):
            data_loss(options, f"offset {start} of {part} cannot be read: the log begins at {first[part]}")
            start = first[part]
        if end > last.get(part, end):
            data_loss(options, f"{part} ends at offset {last[part]}, before the wanted end {end}")
            end = last[part]
        checked.append(OffsetRange(part, start, end))
    return checked


def _ends(cluster: OffsetSource, parts: list[TopicPartition], end: int) -> Offsets:
    offsets = cluster.list_offsets(dict.fromkeys(parts, end)) if parts else {}
    return {part: offset.offset for part, offset in offsets.items()}


def split(ranges: list[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    """Divides ranges into the ranges of tasks.

    Each range gets one task, or more if `minPartitions` or `maxRecordsPerPartition` requires more.
    """
    ranges = [offset_range for offset_range in ranges if len(offset_range)]
    pieces = dict.fromkeys(ranges, 1)
    if options.max_records_per_partition:
        pieces = {
            offset_range: -(-len(offset_range) // options.max_records_per_partition)
            for offset_range in ranges
        }
    if options.min_partitions and sum(pieces.values()) < options.min_partitions:
        total = sum(map(len, ranges))
        for offset_range in ranges:
            share = len(offset_range) * options.min_partitions / total
            pieces[offset_range] = min(len(offset_range), max(pieces[offset_range], round(share), 1))
    return [piece for offset_range in ranges for piece in _cut(offset_range, pieces[offset_range])]


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    edges = [whole.start + len(whole) * nth // pieces for nth in range(pieces + 1)]
    return [OffsetRange(whole.part, low, high) for low, high in pairwise(edges)]


def stream_ranges(
    start: Offsets, end: Offsets, earliest: Offsets, options: SourceOptions
) -> list[OffsetRange]:
    """Returns the ranges of a micro-batch.

    A partition that is new to the stream is read from its first offset (`earliest`).
    """
    ranges = []
    for part in sorted(end):
        first = start.get(part)
        if first is None:
            first = earliest[part]
            if first > 0:
                data_loss(options, f"{part} is new to this query, but begins at offset {first}, not at 0")
        if end[part] < first:
            data_loss(
                options,
                f"the end of {part} went back from {first} to {end[part]}: the topic may have been created again",
            )
        ranges.append(OffsetRange(part, first, end[part]))
    for part in sorted(set(start) - set(end)):
        data_loss(options, f"{part} was read before and is gone")
    return ranges


def data_loss(options: SourceOptions, what: str) -> None:
    """Raises DataLossError, or logs a warning if failOnDataLoss is false."""
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{what}. Some records may have been lost. To continue without them, set failOnDataLoss to false"
        )
    _log.warning("%s; failOnDataLoss is false, so reading continues", what)


def to_json(offsets: Offsets) -> OffsetJson:
    """Converts offsets to the form of Spark's checkpoint."""
    written: OffsetJson = {}
    for part in sorted(offsets):
        written.setdefault(part.topic, {})[str(part.partition)] = offsets[part]
    return written


def from_json(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Converts offsets from the form of Spark's checkpoint."""
    return {
        TopicPartition(topic, parse_int(part)): offset
        for topic, numbers in written.items()
        for part, offset in numbers.items()
    }
