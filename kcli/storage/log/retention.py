"""Retention: decides how many of the oldest segments of a log are deleted.

A segment is deleted only if all its records are below the high watermark. If the active segment is not empty, it may be
deleted too. Before this, the log begins a new segment, so that a partition always has a segment.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcli.config.topic import LogConfig
from kcli.model.ids import Offset
from kcli.storage.log.segment import Segment

_log = logging.getLogger(__name__)


def deletable_count(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
    now_ms: int,
) -> int:
    """The number of segments that must be deleted from the start of the log: by log start offset, then by size, then by
    time.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    count = sum(1 for end in ends[:-1] if end <= log_start_offset)
    if not config.delete:
        return count
    # Followers may still need the records above the high watermark, so their segments stay, as in Kafka.
    allowed = sum(1 for end in ends if end <= high_watermark)
    # The active segment is rolled before it is deleted, which is of no use if it is empty.
    if not segments[-1].size_bytes:
        allowed = min(allowed, len(segments) - 1)
    if config.retention_bytes >= 0:
        count = max(count, _past_size(segments, config.retention_bytes, count, allowed))
    if config.retention_ms >= 0:
        count = max(count, _past_time(segments, config.retention_ms, now_ms, count, allowed))
    return count


def _past_size(segments: Sequence[Segment], retention_bytes: int, count: int, allowed: int) -> int:
    """Returns `count` plus the number of next segments that can be deleted while at least `retention_bytes` of the log
    remain."""
    excess = sum(segment.size_bytes for segment in segments[count:]) - retention_bytes
    while count < allowed and excess >= segments[count].size_bytes:
        excess -= segments[count].size_bytes
        count += 1
    return count


def _past_time(segments: Sequence[Segment], retention_ms: int, now_ms: int, count: int, allowed: int) -> int:
    """Returns `count` plus the number of next segments that are older than `retention_ms`. Stops at a segment with a
    timestamp in the future, so that this segment and all later segments stay."""
    while count < allowed:
        largest_ms = segments[count].largest_timestamp_ms()
        if largest_ms > now_ms:
            _log.warning(
                "%s has a record with a timestamp in the future (%d): until then retention.ms deletes neither it "
                "nor later segments",
                segments[count].log.path,
                largest_ms,
            )
        if now_ms - largest_ms <= retention_ms:
            break
        count += 1
    return count
