"""Splits a segment whose offsets are too far apart.

An index entry has 31 bits for the distance from the base offset. Compaction in Kafka before 1.0 could merge segments so
that a distance exceeds 31 bits. Such a segment is split into several segments, each with a base offset near its
batches. The new segments are written as `.cleaned` files, and then renamed to `.swap`, beginning with the highest
offset. The start after a crash removes `.cleaned` files and installs `.swap` files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcli.errors import CorruptRecordError
from kcli.model.ids import Offset, Position
from kcli.protocol.batches.batch import BatchHeader
from kcli.storage.files import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, offset_name
from kcli.storage.log.batch_search import headers
from kcli.storage.log.index import MAX_RELATIVE_OFFSET
from kcli.storage.log.segment import Segment

_log = logging.getLogger(__name__)

COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    base_offset: Offset
    start: Position
    end: Position


def split_of(segment: Segment) -> list[Piece] | None:
    """Returns the pieces into which a segment is split, because it contains an offset too far from the base offset.
    Returns None if this offset seems to be damaged.

    The checksum of a batch does not cover its base offset, so a bit of this offset may be wrong. An offset counts as
    damaged if later batches have lower offsets. The last offset also counts as damaged if it is far above the offset
    before it.
    """
    pieces = []
    base_offset = next_offset = segment.base_offset
    start = end = Position(0)
    leaps = False
    for position, header in _readable(segment):
        if header.last_offset < next_offset:
            return None
        if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
            pieces.append(Piece(base_offset, start, position))
            # The header of a wrapper of the old formats has only its last offset. Its first offset follows the offset
            # of the batch before it.
            first_offset = header.base_offset if header.magic == 2 else next_offset
            lowest = Offset(header.last_offset - MAX_RELATIVE_OFFSET)
            base_offset, start = max(first_offset, lowest), position
        leaps = header.last_offset - next_offset > MAX_RELATIVE_OFFSET
        next_offset = header.next_offset
        end = Position(position + header.size_bytes)
    # The first piece keeps the segment's base offset, even if the piece is empty.
    return None if leaps else [*pieces, Piece(base_offset, start, end)]


def _readable(segment: Segment) -> Iterator[tuple[Position, BatchHeader]]:
    """Yields the headers before the first invalid header. The batches after the invalid header cannot be read."""
    try:
        yield from headers(segment)
    except CorruptRecordError as error:
        _log.warning("%s: %s", segment.log.path, error)


def write_split(segment: Segment, pieces: Sequence[Piece]) -> None:
    """Writes the `.swap` files of the pieces beside the segment. The next opening of the log installs these files."""
    _log.warning(
        "%s holds offsets too far from its base offset; it is split into %d segments, at offsets %s",
        segment.log.path,
        len(pieces),
        ", ".join(str(piece.base_offset) for piece in pieces),
    )
    files, disk = segment.files, segment.files.disk
    paths = [f"{files.directory}/{offset_name(piece.base_offset, LOG_SUFFIX)}" for piece in pieces]
    for path, piece in zip(paths, pieces, strict=True):
        _copy(segment, piece, path + CLEANED_SUFFIX)
    disk.sync_dir(files.directory)
    for path in reversed(paths):
        disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
    disk.sync_dir(files.directory)


def _copy(segment: Segment, piece: Piece, path: str) -> None:
    source, disk = segment.log.file(), segment.files.disk
    target = disk.open(path, create=True)
    try:
        target.truncate(0)
        for position in range(piece.start, piece.end, COPY_BYTES):
            size = min(COPY_BYTES, piece.end - position)
            target.write_at(position - piece.start, source.read_at(position, size))
        target.sync()
    finally:
        target.close()
    # If no record has a timestamp, retention by time uses the modification time of the file.
    disk.set_modified_ms(path, disk.modified_ms(segment.log.path))
