"""Segments of a partition as files that somebody else may be writing, cleaning or deleting: found, searched and read.

Nothing is changed and nothing is trusted: a file may be gone by the time it is opened, may end in half a batch or,
where it was preallocated, in zeros; indexes of the newest segment are longer than what is in them. An index only says
where to begin, so a wrong one costs time and no records.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kcli.errors import CorruptRecordError
from kcli.protocol.batches.batch import LENGTH_OVERHEAD
from kcli.protocol.batches.batch_headers import BatchHeaders, read_headers
from kcli.spark.source.fetcher import check_order
from kcli.storage.log.transaction_index import ENTRY as ABORTED_ENTRY
from kcli.storage.log.transaction_index import AbortedTransaction

CHUNK_BYTES = 8 << 20
"""Read at once, as a fetch would be; more where a batch is larger."""

MAX_BATCH_BYTES = 1 << 30
"""A length beyond it is no batch's: Kafka's files of batches are themselves at most 2 GiB, and 1 by default."""

MIN_MESSAGE_SIZE = 14
"""CRC, magic, attributes and two lengths: the smallest message of the oldest format (magic 0)."""

NO_END = 1 << 63
"""Beyond every offset."""

OFFSET_INDEX = np.dtype([("offset", ">i4"), ("position", ">i4")])
TIME_INDEX = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])

_NAME = re.compile(r"(\d{20})\.log(\.swap)?")
_PREFIX = struct.Struct(">qi")
_MAGIC_AT = 16
_DELTA_AT, _DELTA = 23, struct.Struct(">i")
"""Where a batch of magic 2 has its last offset delta."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One `.log` file. `path` without its suffixes is what its indexes are called, too."""

    base_offset: int
    path: str

    def beside(self, suffix: str) -> str:
        """The path of another file of this segment; with `.swap`, as its log, while a cleaning is under way."""
        stem, _, swap = self.path.rpartition(".log")
        return f"{stem}{suffix}{swap}"

    def batches(
        self, position: int, partition: str, *, is_last: bool, end: int = NO_END
    ) -> Iterator[tuple[int, BatchHeaders]]:
        """The whole batches from byte `position` on, up to offset `end`, by chunks and with the position after each.

        FileNotFoundError where it is gone. CorruptRecordError names what is no batch; in the last segment the end of
        what was written is only the end.
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
                        return  # zeros of a preallocated file, or a batch that is being written or was torn
                    raise CorruptRecordError(
                        f"there is no whole batch of {partition} after offset {offset - 1}, at byte {position} of "
                        f"{self.path}"
                    )
                size = needed
        finally:
            os.close(descriptor)

    def position_of(self, offset: int) -> int:
        """Where to begin to read for `offset`: a batch start at or before it."""
        entries = self._index(".index", OFFSET_INDEX, "position")
        found = int(np.searchsorted(entries["offset"], offset - self.base_offset, side="right"))
        return self._checked(int(entries["position"][found - 1]), offset) if found else 0

    def offset_before(self, timestamp_ms: int) -> int:
        """An offset before which no record has `timestamp_ms` or later."""
        entries = self._index(".timeindex", TIME_INDEX, "timestamp")
        found = int(np.searchsorted(entries["timestamp"], timestamp_ms, side="left"))
        return self.base_offset + (int(entries["offset"][found - 1]) if found else 0)

    def ends_before(self, timestamp_ms: int) -> bool:
        """Whether the index says that no record here is as late; for segments that are not written any more."""
        entries = self._index(".timeindex", TIME_INDEX, "timestamp")
        return bool(len(entries)) and int(entries["timestamp"][-1]) < timestamp_ms

    def aborted(self) -> list[AbortedTransaction]:
        """The transactions whose abort marker lies here; the file is there only if there is one."""
        raw = _read(self.beside(".txnindex"))
        whole = len(raw) - len(raw) % ABORTED_ENTRY.size  # the rest is being written
        return [AbortedTransaction(*fields[1:]) for fields in ABORTED_ENTRY.iter_unpack(raw[:whole])]

    def _index(self, suffix: str, entry: np.dtype[np.void], rising: str) -> np.ndarray:
        """The entries up to where they stop rising: after that a file that is mapped is filled with zeros."""
        raw = _read(self.beside(suffix))
        entries = np.frombuffer(raw, entry, len(raw) // entry.itemsize)
        falls = np.flatnonzero(np.diff(entries[rising].astype(np.int64)) <= 0)
        entries = entries[: int(falls[0]) + 1] if len(falls) else entries
        return entries if len(entries) != 1 or any(entries[0].tolist()) else entries[:0]

    def _checked(self, position: int, offset: int) -> int:
        """`position` if a batch begins there that is not past `offset`, else the beginning of the file."""
        with open(self.path, "rb", buffering=0) as file:
            prefix = os.pread(file.fileno(), _PREFIX.size, max(position, 0))
        if len(prefix) == _PREFIX.size:
            base, length = _PREFIX.unpack(prefix)
            if self.base_offset <= base <= offset and MIN_MESSAGE_SIZE <= length <= MAX_BATCH_BYTES:
                return max(position, 0)
        return 0


def list_segments(directory: str) -> list[SegmentFile]:
    """The segments of a partition, oldest first.

    A `.swap` is a cleaned segment whose older form is going: it is whole, and goes before what it replaces.
    """
    found: dict[int, SegmentFile] = {}
    for name in sorted(os.listdir(directory)):
        match = _NAME.fullmatch(name)
        if match is not None and (match[2] is not None or int(match[1]) not in found):
            found[int(match[1])] = SegmentFile(int(match[1]), os.path.join(directory, name))
    return [found[base] for base in sorted(found)]


def whole_batches(raw: bytes, end: int) -> int:
    """How many bytes at the front are whole batches, or messages of an old format, that begin before offset `end`.

    What lies beyond is not looked at: it may be unfinished, and it is not asked for.
    """
    at, size, prefix = 0, len(raw), _PREFIX.unpack_from
    while at + _PREFIX.size <= size:
        last, length = prefix(raw, at)  # of compressed messages of old formats it is the last one's offset
        if length < MIN_MESSAGE_SIZE or at + LENGTH_OVERHEAD + length > size or _is_beyond(raw, at, end):
            break
        if raw[at + _MAGIC_AT] >= 2 and length >= _DELTA_AT:
            last += _DELTA.unpack_from(raw, at + _DELTA_AT)[0]
        at += LENGTH_OVERHEAD + length
        if last + 1 >= end:
            break
    return at


def _is_beyond(raw: bytes, at: int, end: int) -> bool:
    """Whether a batch at `at` begins at or after offset `end`, as only those of magic 2 can tell."""
    return at + _MAGIC_AT < len(raw) and raw[at + _MAGIC_AT] >= 2 and _PREFIX.unpack_from(raw, at)[0] >= end


def _refuse_overtaken(raw: bytes, partition: str, path: str, position: int) -> None:
    """A batch at the front that seems to be beyond the end, with lower offsets after it, has a wrong offset."""
    base, length = _PREFIX.unpack_from(raw)
    after = LENGTH_OVERHEAD + length
    if length < MIN_MESSAGE_SIZE or len(raw) <= after + _MAGIC_AT or raw[after + _MAGIC_AT] != 2:
        return
    following, length = _PREFIX.unpack_from(raw, after)
    if length >= MIN_MESSAGE_SIZE and following < base:
        raise CorruptRecordError(
            f"the batch at offset {base} of {partition} in {path} (position {position}) cannot be there: the one "
            f"after it is at offset {following}"
        )


def _needed(raw: bytes) -> int | None:
    """The size of the batch at the front of `raw`; None where no batch can begin so."""
    if len(raw) < _PREFIX.size:
        return _PREFIX.size
    length = int(_PREFIX.unpack_from(raw)[1])
    return LENGTH_OVERHEAD + length if MIN_MESSAGE_SIZE <= length <= MAX_BATCH_BYTES else None


def _read(path: str) -> bytes:
    """A whole file, or nothing where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
