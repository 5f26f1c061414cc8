"""Finds batches in the bytes of a segment, with the offset index of the segment.

These functions only need a `ReadableSegment`: they do not know where the bytes of the segment are.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from kcli.errors import CorruptRecordError
from kcli.model.ids import Offset, Position
from kcli.protocol.batches.batch import HEADER_SIZE, PREFIX_SIZE, BatchHeader, crc_is_valid, read_header
from kcli.storage.log.index import OffsetIndex, OffsetPosition
from kcli.storage.log.segment_bytes import SegmentBytes

_log = logging.getLogger(__name__)

FIRST_SCAN_BYTES = 4096
SCAN_BYTES = 32_768
"""The sizes of reads when batch headers are read one after another. The first read has FIRST_SCAN_BYTES, the usual
distance of two index entries. Each further read is twice as large, up to SCAN_BYTES."""

START = Position(0)

PlacedHeader = tuple[Position, BatchHeader]
"""The position and the header of a batch."""


class ReadableSegment(Protocol):
    """The attributes of a segment that these functions use. `log` is the place of the bytes."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def log(self) -> SegmentBytes: ...

    @property
    def offset_index(self) -> OffsetIndex: ...


def headers(segment: ReadableSegment, position: Position = START) -> Iterator[PlacedHeader]:
    """Yields the position and the header of each batch from `position` on. Raises CorruptRecordError at an invalid
    header."""
    end, file = segment.size_bytes, segment.log.file()
    chunk, start, scan_bytes = b"", position, FIRST_SCAN_BYTES
    while end - position > PREFIX_SIZE:
        at = position - start
        if at + HEADER_SIZE > len(chunk) and start + len(chunk) < end:
            start, at = position, 0
            chunk = file.read_at(position, min(scan_bytes, end - position))
            scan_bytes = min(2 * scan_bytes, SCAN_BYTES)
            if len(chunk) <= PREFIX_SIZE:
                return  # the segment was truncated during the read
        header = read_header(chunk, at)
        next_position = Position(position + header.size_bytes)
        if next_position > end:
            # Kafka treats this as the end of the segment, and its consumers skip the rest without an error.
            raise CorruptRecordError(
                f"{segment.log.path} at byte {position}: the batch at offset {header.base_offset} states "
                f"{header.size_bytes} bytes, but the segment ends {end - position} bytes after it begins"
            )
        yield position, header
        position = next_position


def headers_near(segment: ReadableSegment, offset: Offset) -> Iterator[PlacedHeader]:
    """Yields the same as `headers`, but begins with the last indexed batch that ends at or below `offset`.

    An index has no checksum. If a bit of an entry is wrong, the entry may point to a position after `offset`. In
    this case, records would be skipped without an error. So this function checks that the batch at this position
    begins at or below the offset of the entry. If the check fails, the segment is read from its start. The batch
    may end before the offset of the entry, because Kafka 3 wrote one entry for several batches.
    """
    entry = segment.offset_index.lookup(offset)
    if not entry.position:
        return headers(segment)
    following = headers(segment, entry.position)
    try:
        indexed = next(following, None)
    except CorruptRecordError:
        indexed = None
    if indexed is not None and _fits_entry(segment, indexed, entry):
        return chain((indexed,), following)
    _log.error(
        "%s is damaged: it has offset %d at byte %d of the log, which is not there. Remove it while the "
        "broker is stopped: the next start rebuilds it",
        segment.offset_index.entries.handle.path,
        entry.offset,
        entry.position,
    )
    return headers(segment)


def _fits_entry(segment: ReadableSegment, batch: PlacedHeader, entry: OffsetPosition) -> bool:
    """Whether `batch` is the indexed batch, and not a part of another batch."""
    _position, header = batch
    if segment.base_offset <= header.base_offset <= entry.offset:
        return True
    # A wrapper of an old format has only its last offset. Other bytes often look like a wrapper, so the checksum
    # decides.
    return header.magic < 2 and not _is_damaged(segment, batch)


def first_ending_at(
    segment: ReadableSegment, offset: Offset, *, doubting_gaps: bool = False
) -> PlacedHeader | None:
    """The first batch that ends at or after `offset`. None if all batches end before `offset`.

    `doubting_gaps` has an effect only if no batch contains `offset`. If it is True and the batch before `offset` is
    damaged, this batch is returned, because it may have contained `offset`. Its checksum is wrong, so the reader
    detects the damage.
    """
    before = following = None
    for batch in headers_near(segment, offset):
        if batch[1].last_offset >= offset:
            following = batch
            break
        before = batch
    holds = following is not None and (following[1].base_offset <= offset or following[1].magic < 2)
    if doubting_gaps and before is not None and not holds and _is_damaged(segment, before):
        return before
    return following


def _is_damaged(segment: ReadableSegment, batch: PlacedHeader) -> bool:
    position, header = batch
    return not crc_is_valid(segment.log.file().read_at(position, header.size_bytes), 0, header)


def last_boundary(segment: ReadableSegment, start: Position, limit: Position) -> Position:
    """The position at which the last whole batch between the positions `start` and `limit` ends. A batch must begin at
    `start`."""
    # A damaged index may give a position inside a batch, where no header can be read.
    indexed = max(start, segment.offset_index.position_at_or_below(limit))
    return _boundary_after(segment, indexed, limit) or _boundary_after(segment, start, limit) or start


def _boundary_after(segment: ReadableSegment, start: Position, limit: Position) -> Position | None:
    """Returns the same as `last_boundary`, but reads headers only up to the first invalid one. None if no batch begins
    at `start`."""
    boundary = None
    # The error is raised again when a reader reads this batch.
    with contextlib.suppress(CorruptRecordError):
        for position, header in headers(segment, start):
            if position + header.size_bytes > limit:
                return position
            boundary = Position(position + header.size_bytes)
    return boundary
