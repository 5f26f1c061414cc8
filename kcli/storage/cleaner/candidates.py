"""Decides whether a log needs a pass of the cleaner, and which of its segments the pass may replace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from kcli.model.ids import Offset
from kcli.model.topic_partition import TopicPartition
from kcli.storage.cleaner.plan import CleaningPlan, LastRecord, SourceSegment
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.segment import Segment


@dataclass(frozen=True, slots=True)
class Candidate:
    """A log that needs a pass, with its state when it was selected. The pass may replace only `segments`."""

    log: PartitionLog
    segments: tuple[Segment, ...]
    truncations: int  # the number of truncations of the log so far
    first_dirty_offset: Offset
    end_offset: Offset
    dirty_ratio: float
    overdue_ms: int  # the time for which a record has waited longer than max.compaction.lag.ms

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.log.topic, self.log.partition)


def candidate_of(log: PartitionLog, first_dirty_offset: Offset, now_ms: int) -> Candidate | None:
    """Returns the log with the segments that may be cleaned, or None if the log needs no pass. A segment may be cleaned
    if it is sealed, is below the last stable offset, and has only records that are older than `min.compaction.lag.ms`.
    """
    truncations, config = log.local.truncations, log.config
    bounded = [(segment, following.base_offset) for segment, following in pairwise(log.segments)]
    limit = log.last_stable_offset
    if config.min_compaction_lag_ms > 0:
        youngest_ms = now_ms - config.min_compaction_lag_ms
        for segment, end_offset in bounded:
            if end_offset > first_dirty_offset and segment.largest_timestamp_ms() > youngest_ms:
                limit = min(limit, segment.base_offset)
                break
    bounded = [(segment, end_offset) for segment, end_offset in bounded if end_offset <= limit]
    dirty = [segment for segment, end_offset in bounded if end_offset > first_dirty_offset]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if not dirty_bytes:
        return None
    clean_bytes = sum(
        segment.size_bytes for segment, _end in bounded if segment.base_offset < first_dirty_offset
    )
    ratio = dirty_bytes / (clean_bytes + dirty_bytes)
    late_ms = overdue_ms(log, first_dirty_offset, now_ms)
    if not late_ms and ratio <= config.min_cleanable_dirty_ratio:
        return None
    segments = tuple(segment for segment, _end in bounded)
    return Candidate(log, segments, truncations, first_dirty_offset, bounded[-1][1], ratio, late_ms)


def overdue_ms(log: PartitionLog, first_dirty_offset: Offset, now_ms: int) -> int:
    """The delay of a pass in milliseconds: the age of the oldest dirty record in a sealed segment, minus
    `max.compaction.lag.ms`. At least 0."""
    oldest_ms = now_ms - log.config.max_compaction_lag_ms
    if oldest_ms <= 0:
        return 0  # max.compaction.lag.ms is unlimited, so no file need be read
    first_ms = min(
        (
            time_ms
            for segment, following in pairwise(log.segments)
            if following.base_offset > first_dirty_offset and (time_ms := segment.first_timestamp_ms()) > 0
        ),
        default=oldest_ms,
    )
    return max(oldest_ms - first_ms, 0)


def plan_of(candidate: Candidate, now_ms: int) -> CleaningPlan:
    log, config, segments = candidate.log, candidate.log.config, candidate.segments
    holding = [segment for segment in segments if segment.base_offset <= candidate.first_dirty_offset]
    first_dirty = holding[-1] if holding else segments[0]
    return CleaningPlan(
        topic_partition=f"{log.topic}-{log.partition}",
        path=log.path,
        segments=tuple(
            SourceSegment(
                segment.base_offset,
                segment.size_bytes,
                segment.offset_index.entries.size_bytes,
                segment.time_index.entries.size_bytes,
            )
            for segment in segments
        ),
        first_dirty_offset=candidate.first_dirty_offset,
        first_dirty_position=first_dirty.offset_index.lookup(candidate.first_dirty_offset).position,
        upper_bound_offset=candidate.end_offset,
        aborted=tuple(log.local.aborted_transactions(segments[0].base_offset, candidate.end_offset)),
        last_records=tuple(
            LastRecord(entry.producer_id, entry.epoch, entry.last_data_offset if entry.batches else None)
            for entry in log.producers.active()
        ),
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_size_bytes=config.segment_size_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        max_message_bytes=config.max_message_bytes,
    )


def is_unchanged(candidate: Candidate, segments: Iterable[Segment]) -> bool:
    """Whether the log is online, was not truncated, still has these segments, and its cleanup.policy still contains
    `compact`.
    """
    log = candidate.log
    return (
        log.directory.error is None
        and log.config.compact
        and log.local.truncations == candidate.truncations
        and not any(segment.deleted for segment in segments)
    )
