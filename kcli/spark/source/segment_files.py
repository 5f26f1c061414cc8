"""Finds, searches and reads the segment files of a partition while a broker may write, clean or delete them.

This module changes no file, and assumes that the content of each file may be wrong. A file may have been deleted before
it is opened. A file may end with a part of a batch, or with zeros if the broker preallocated the file. The index files
of the newest segment are preallocated, so zeros follow their entries. An index is used only to find the position where
reading begins. So if an index is wrong, reading takes more time, but no records are lost.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kcli.errors import CorruptRecordError
from kcli.model.java_text import natural
from kcli.protocol.batches.batch import LENGTH_OVERHEAD
from kcli.protocol.batches.batch_headers import BatchHeaders, read_headers
from kcli.spark.source.fetcher import check_order
from kcli.storage.log.transaction_index import ENTRY as ABORTED_ENTRY
from kcli.storage.log.transaction_index import AbortedTransaction

CHUNK_BYTES = 8 << 20
"""The number of bytes of one read. A larger batch is read as a whole."""

MAX_BATCH_BYTES = 1 << 30
"""The largest valid length of a batch. Kafka's segments are 1 GiB by default, and 2 GiB at most."""

MIN_MESSAGE_SIZE = 14
"""The size in bytes of the smallest message in the oldest format (magic 0): CRC, magic, attributes and two lengths."""

NO_END = 1 << 63
"""A number that is greater than every offset."""

OFFSET_INDEX = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_INDEX = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])

_NAME = re.compile(r"([0-9]{20})\.log(\.swap)?")
_PREFIX = struct.Struct(">qi")
_MAGIC_AT = 16
_DELTA_AT, _DELTA = 23, struct.Struct(">i")
"""The position and format of last_offset_delta in the header of a batch of magic 2."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One `.log` file of a segment. The index files of the segment have the same path with other suffixes."""

    base_offset: int
    path: str

    def beside(self, suffix: str) -> str:
        """Returns the path of an index file of this segment.

        During a cleaning, the name of the `.log` file may end with `.swap`. Then the name of the index file ends with
        `.swap` too.
        """
        stem, _, swap = self.path.rpartition(".log")
        return f"{stem}{suffix}{swap}"

    def batches(
        self, position: int, partition: str, *, is_last: bool, end: int = NO_END
    ) -> Iterator[tuple[int, BatchHeaders]]:
        """Yields chunks of whole batches from byte `position` to offset `end`. Each chunk comes with the position after
        it.

        Raises FileNotFoundError if the file was deleted, and CorruptRecordError for bytes that are not a batch. In the
        last segment, an incomplete batch is not an error, because the log ends before this batch.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size, offset = CHUNK_BYTES, self.base_offset
            while raw := os.pread(descriptor, size, position):
                whole = whole_batches(raw, end)
                if whole:
                    name = f"{partition} in {self.path} from byte {position} on"
                    position += whole
                    table = read_headers(raw[:whole], name)
                    check_order(table, offset)
                    yield position, table
                    size, offset = CHUNK_BYTES, table.next_offset
                    continue
                if _is_beyond(raw, 0, end):
                    _refuse_overtaken(raw, partition, self.path, position)
                    return
                needed = _needed(raw)
                if needed is None or len(raw) < size:
                    if is_last:
                        return  # the zeros of a preallocated file, or a batch that is half written
                    raise CorruptRecordError(
                        f"there is no whole batch of {partition} after offset {offset - 1}, at byte {position} of "
                        f"{self.path}"
                    )
                size = needed
        finally:
            os.close(descriptor)

    def position_of(self, offset: int) -> int:
        """Returns the position of a batch whose base offset is not after `offset`."""
        entries = self._index(".index", OFFSET_INDEX, "position")
        index = int(np.searchsorted(entries["offset"], offset - self.base_offset, side="right"))
        return self._checked(int(entries["position"][index - 1]), offset) if index else 0

    def offset_before(self, timestamp_ms: int) -> int:
        """Returns an offset before which all records are older than `timestamp_ms`."""
        entries = self._index(".timeindex", TIME_INDEX, "timestamp")
        index = int(np.searchsorted(entries["timestamp"], timestamp_ms, side="left"))
        return self.base_offset + (int(entries["offset"][index - 1]) if index else 0)

    def ends_before(self, timestamp_ms: int) -> bool:
        """Whether all records are older than `timestamp_ms` according to the time index.

        The caller must not call this method for the segment to which a broker still appends.
        """
        entries = self._index(".timeindex", TIME_INDEX, "timestamp")
        return bool(len(entries)) and int(entries["timestamp"][-1]) < timestamp_ms

    def aborted(self) -> list[AbortedTransaction]:
        """Returns the transactions with an abort marker in this segment.

        A segment without such markers has no index file.
        """
        raw = _read(self.beside(".txnindex"))
        whole = len(raw) - len(raw) % ABORTED_ENTRY.size  # the last entry may be half written
        return [AbortedTransaction(*fields[1:]) for fields in ABORTED_ENTRY.iter_unpack(raw[:whole])]

    def _index(self, suffix: str, entry: np.dtype[np.void], rising: str) -> np.ndarray:
        """Returns the valid entries of an index file. The rest of a preallocated index file is filled with zeros. So
        the valid entries end where the values of the field `rising` stop growing.
        """
        raw = _read(self.beside(suffix))
        entries = np.frombuffer(raw, entry, len(raw) // entry.itemsize)
        falls = np.flatnonzero(np.diff(entries[rising].astype(np.int64)) <= 0)
        entries = entries[: int(falls[0]) + 1] if len(falls) else entries
        return entries if len(entries) != 1 or any(entries[0].tolist()) else entries[:0]

    def _checked(self, position: int, offset: int) -> int:
        """Returns `position` if a batch whose base offset is not after `offset` begins there.

        Otherwise returns 0, the start of the file.
        """
        with open(self.path, "rb", buffering=0) as file:
            prefix = os.pread(file.fileno(), _PREFIX.size, max(position, 0))
        if len(prefix) == _PREFIX.size:
            base, length = _PREFIX.unpack(prefix)
            if self.base_offset <= base <= offset and MIN_MESSAGE_SIZE <= length <= MAX_BATCH_BYTES:
                return max(position, 0)
        return 0


def list_segments(directory: str) -> list[SegmentFile]:
    """Returns the segments of a partition, oldest first.

    A `.swap` file is a complete cleaned segment, and takes precedence over the segment that it replaces.
    """
    segments: dict[int, SegmentFile] = {}
    for name in sorted(os.listdir(directory)):
        match = _NAME.fullmatch(name)
        offset = None if match is None else natural(match[1])
        if match is not None and offset is not None and (match[2] is not None or offset not in segments):
            segments[offset] = SegmentFile(offset, os.path.join(directory, name))
    return [segments[base] for base in sorted(segments)]


def whole_batches(raw: bytes, end: int) -> int:
    """Returns the size of the whole batches (or old messages) at the start of `raw`, up to offset `end`.

    Bytes beyond `end` are not read, because they may be unfinished.
    """
    at, size, prefix = 0, len(raw), _PREFIX.unpack_from
    while at + _PREFIX.size <= size:
        # For a compressed message of an old format, this is the offset of its last record.
        last, length = prefix(raw, at)
        if length < MIN_MESSAGE_SIZE or at + LENGTH_OVERHEAD + length > size or _is_beyond(raw, at, end):
            break
        if raw[at + _MAGIC_AT] >= 2 and length >= _DELTA_AT:
            last += _DELTA.unpack_from(raw, at + _DELTA_AT)[0]
        at += LENGTH_OVERHEAD + length
        if last + 1 >= end:
            break
    return at


def _is_beyond(raw: bytes, at: int, end: int) -> bool:
    """Whether the bytes at `at` are a batch of magic 2 whose base offset is at or after `end`."""
    return at + _MAGIC_AT < len(raw) and raw[at + _MAGIC_AT] >= 2 and _PREFIX.unpack_from(raw, at)[0] >= end


def _refuse_overtaken(raw: bytes, partition: str, path: str, position: int) -> None:
    """Raises CorruptRecordError if the first batch in `raw` has a higher base offset than the second batch."""
    base, length = _PREFIX.unpack_from(raw)
    after = LENGTH_OVERHEAD + length
    if length < MIN_MESSAGE_SIZE or len(raw) <= after + _MAGIC_AT or raw[after + _MAGIC_AT] != 2:
        return
    following, length = _PREFIX.unpack_from(raw, after)
    if length >= MIN_MESSAGE_SIZE and following < base:
        raise CorruptRecordError(
            f"the batch at offset {base} of {partition} in {path} (position {position}) has a wrong offset: the "
            f"one after it is at offset {following}"
        )


def _needed(raw: bytes) -> int | None:
    """Returns the number of bytes that are needed to read the batch at the start of `raw`, or None if its length is
    invalid.
    """
    if len(raw) < _PREFIX.size:
        return _PREFIX.size
    length = int(_PREFIX.unpack_from(raw)[1])
    return LENGTH_OVERHEAD + length if MIN_MESSAGE_SIZE <= length <= MAX_BATCH_BYTES else None


def _read(path: str) -> bytes:
    """Returns the content of a file. A missing file counts as empty."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
