"""The input and the results of one pass of the cleaner. All these values can be pickled and sent to another process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcli.model.ids import Offset, Position, ProducerId
from kcli.storage.log.index import MAX_RELATIVE_OFFSET
from kcli.storage.log.transaction_index import AbortedTransaction

MAX_BATCH_BYTES = 0x7FFF_FFFF
"""The largest possible length of a batch in bytes."""


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A sealed segment that a pass reads, with its sizes when the pass was planned. A sealed segment gets no more
    records.
    """

    base_offset: Offset
    size_bytes: int
    offset_index_bytes: int
    time_index_bytes: int


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The newest record of a live producer. `data_offset` is None if the log contains only markers of this producer."""

    producer_id: ProducerId
    producer_epoch: int
    data_offset: Offset | None


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """The memory and the rate of disk traffic that one cleaner thread may use."""

    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The plan of one pass over one log. The pass stores the last offset of each key between the first dirty offset and
    the upper bound. Then the pass filters all records before the upper bound.

    `upper_bound_offset` is the base offset of the segment after the last of `segments`. `first_dirty_position` is the
    position of the first dirty offset in its segment.
    """

    topic_partition: str
    path: str
    segments: tuple[SourceSegment, ...]
    first_dirty_offset: Offset
    first_dirty_position: Position
    upper_bound_offset: Offset
    aborted: tuple[AbortedTransaction, ...]
    last_records: tuple[LastRecord, ...]
    now_ms: int
    delete_retention_ms: int
    segment_size_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    max_message_bytes: int = MAX_BATCH_BYTES

    def end_of(self, nth: int) -> Offset:
        """The offset at which the segment with the index `nth` ends and the next segment begins."""
        following = nth + 1
        return (
            self.segments[following].base_offset
            if following < len(self.segments)
            else self.upper_bound_offset
        )


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """A cleaned segment and the segments that it replaces. Its `.cleaned` files are complete and on the device. `sizes`
    has the size of each file, by suffix."""

    replaced: tuple[Offset, ...]
    sizes: dict[str, int]

    @property
    def base_offset(self) -> Offset:
        return self.replaced[0]


@dataclass(frozen=True, slots=True)
class GrownBatch:
    """A batch that a pass has written again, and that is now larger than `max.message.bytes`."""

    last_offset: Offset
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleaningDone:
    """Reports the end of a pass, after which all records before `end_offset` are clean. `buffer_use` is the used
    fraction of the map of keys."""

    end_offset: Offset
    keys: int
    records_read: int
    records_kept: int
    bytes_read: int
    bytes_kept: int
    grown: tuple[GrownBatch, ...] = ()
    buffer_use: float = 0.0


@dataclass(frozen=True, slots=True)
class CleaningFailed:
    """Reports that a pass failed. `error_number` is the number of an OSError, and None if the log has invalid bytes."""

    reason: str
    error_number: int | None


CleaningEvent = CleanedSegment | CleaningDone | CleaningFailed


def grouped(
    segments: Sequence[SourceSegment], *, max_bytes: int, max_index_bytes: int, upper_bound_offset: Offset
) -> list[list[SourceSegment]]:
    """Groups consecutive segments. The size, indexes and relative offsets of each group fit into one segment."""
    groups: list[list[SourceSegment]] = []
    size = offset_index = time_index = 0
    for nth, segment in enumerate(segments):
        size += segment.size_bytes
        offset_index += segment.offset_index_bytes
        time_index += segment.time_index_bytes
        following = nth + 1
        end = segments[following].base_offset if following < len(segments) else upper_bound_offset
        if (
            groups
            and size <= max_bytes
            and max(offset_index, time_index) <= max_index_bytes
            # An empty segment has no offsets, so it always fits. Without this rule, an empty segment would remain for
            # every 2^31 offsets.
            and (not segment.size_bytes or end - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size = segment.size_bytes
            offset_index, time_index = segment.offset_index_bytes, segment.time_index_bytes
    return groups
