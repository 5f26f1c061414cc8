"""One segment of a partition's log: a `.log` file with batches one after another, and its indexes.

The active segment keeps the positions of its newest batches in memory. So a fetch at the log end finds these batches
without reading the file. Segments open their files only when the files are used. So to open a log with thousands of
segments, only the names of their files are listed.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from kcli.errors import CorruptRecordError
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_TIMESTAMP, Offset, Position
from kcli.protocol.batches.batch import (
    HEADER_SIZE,
    PREFIX_SIZE,
    BatchHeader,
    crc_is_valid,
    read_header,
)
from kcli.runtime.disk import Disk
from kcli.storage.files import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Handle,
    HandlePool,
    offset_name,
)
from kcli.storage.log.index import (
    MAX_RELATIVE_OFFSET,
    TIME_ENTRY,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
)
from kcli.storage.log.transaction_index import TransactionIndex

_log = logging.getLogger(__name__)

FIRST_SCAN_BYTES = 4096
SCAN_BYTES = 32_768
"""The sizes of reads when batch headers are read one after another. The first read has FIRST_SCAN_BYTES, the usual
distance of two index entries. Each further read is twice as large, up to SCAN_BYTES."""

MAX_RECENT_BATCHES = 512
"""The most batches whose positions a segment keeps in memory (8 kB). If there are more, the oldest quarter is
dropped."""

_START = Position(0)

Placed = tuple[Offset, int, int]
"""The last offset, the max timestamp and the size in bytes of a batch that will be written."""

_LOOKING = threading.Lock()
"""A segment holds this lock while it opens its indexes or looks up the sizes of its files."""


@dataclass(frozen=True, slots=True)
class Indexes:
    offset: OffsetIndex
    time: TimeIndex
    txn: TransactionIndex


class Segment:
    """A segment: the batches with offsets from `base_offset` up to the base offset of the next segment."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_end_position",
        "_first_timestamp_ms",
        "_indexes",
        "_is_changed",
        "_max_timestamp",
        "_name_suffix",
        "_pool",
        "_recent",
        "_sizes",
        "base_offset",
        "created_ms",
        "deleted",
        "directory",
        "disk",
        "log",
        "roll_jitter_ms",
    )

    def __init__(
        self,
        pool: HandlePool,
        directory: str,
        base_offset: Offset,
        *,
        created_ms: int,
        sizes: dict[str, int] | None,
        name_suffix: str = "",
    ) -> None:
        """Makes the segment without opening files. `sizes` contains the sizes of its files by suffix, or is None if the
        sizes are not known yet. `name_suffix` is an additional suffix of the file names, such as `.swap`."""
        self.disk: Disk = pool.disk
        self.directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.roll_jitter_ms = 0
        self.deleted = False
        self._pool = pool
        self._name_suffix = name_suffix
        self.log = self._handle(LOG_SUFFIX)
        self._end_position = None if sizes is None else Position(sizes.get(LOG_SUFFIX, 0))
        self._sizes = sizes
        self._indexes: Indexes | None = None
        self._bytes_since_index_entry = 0
        self._is_changed = False  # whether the segment changed after its files were opened or sealed
        self._max_timestamp: TimestampOffset | None = None
        self._first_timestamp_ms: int | None = None
        # The last offsets and the positions of the newest batches. A thread that reads takes the pair once.
        self._recent = _NONE

    def _handle(self, suffix: str) -> Handle:
        return Handle(self._pool, self._path(suffix))

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{offset_name(self.base_offset, suffix)}{self._name_suffix}"

    def _look(self) -> Indexes:
        """Opens the indexes. Called only at their first use, because most segments are never read or written between
        two starts.
        """
        with _LOOKING:
            if self._indexes is None:
                sizes = self._present_sizes() if self._sizes is None else self._sizes
                self._indexes = self._open_indexes(sizes)
            return self._indexes

    def _present_sizes(self) -> dict[str, int]:
        sizes = {}
        for suffix in SEGMENT_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                sizes[suffix] = self.disk.size(self._path(suffix))
        return sizes

    def _open_indexes(self, sizes: dict[str, int]) -> Indexes:
        return Indexes(
            OffsetIndex(self._handle(INDEX_SUFFIX), self.base_offset, sizes.get(INDEX_SUFFIX, 0)),
            TimeIndex(self._handle(TIME_INDEX_SUFFIX), self.base_offset, sizes.get(TIME_INDEX_SUFFIX, 0)),
            TransactionIndex(self.disk, self._handle(TXN_INDEX_SUFFIX), exists=TXN_INDEX_SUFFIX in sizes),
        )

    def look(self, suffixes: Iterable[str]) -> None:
        """Looks up the sizes of the files now. `suffixes` are the suffixes of the files that exist."""
        stem = self.log.path.removesuffix(LOG_SUFFIX)
        self._sizes = {suffix: self.disk.size(stem + suffix) for suffix in suffixes}
        self._end_position = Position(self._sizes.get(LOG_SUFFIX, 0))

    @property
    def _is_unindexed(self) -> bool:
        """Whether the offset index is not open, but its size shows that it has no entry."""
        return self._indexes is None and self._sizes is not None and not self._sizes.get(INDEX_SUFFIX)

    @property
    def end_position(self) -> Position:
        """The position of the next batch."""
        if self._end_position is None:
            self._end_position = Position(self.disk.size(self.log.path))
        return self._end_position

    @end_position.setter
    def end_position(self, position: Position) -> None:
        self._end_position = position

    @property
    def size_bytes(self) -> int:
        return self.end_position if self._end_position is None else self._end_position

    @property
    def offset_index(self) -> OffsetIndex:
        return (self._indexes or self._look()).offset

    @property
    def time_index(self) -> TimeIndex:
        return (self._indexes or self._look()).time

    @property
    def txn_index(self) -> TransactionIndex:
        return (self._indexes or self._look()).txn

    def create_files(self, preallocate_bytes: int) -> None:
        """Makes the empty files of a new segment. If a crash has left files with these names, empties them."""
        for handle in (self.log, self.offset_index.entries.handle, self.time_index.entries.handle):
            handle.create().truncate(0)
        self.txn_index.reset()
        self._is_changed = True
        if preallocate_bytes:
            self.log.create().truncate(preallocate_bytes)

    def remove_files(self) -> None:
        """Removes the files of a segment that is not in use."""
        self.close()
        for handle in self.handles():
            if self.disk.exists(handle.path):
                self.disk.remove(handle.path)

    # --- writing

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Writes batches at the end of the segment, in one write. They belong to the segment only after `add`. If the
        write fails, the segment does not change."""
        file = self.log.file()
        if self._max_timestamp is None:
            self.max_timestamp()  # `add` needs it, and must not read a file
        self._is_changed = True
        file.write_at(self.end_position, *buffers)

    def add(self, batches: Sequence[Placed], index_interval_bytes: int) -> None:
        """Adds the batches that `write` has written. Opens no file, so no shortage of descriptors can come between the
        two steps."""
        position = self.end_position
        if self._recent is _NONE:
            self._recent = array("q"), array("q")
        last_offsets, positions = self._recent
        if position == 0:
            # Remembered now, because the second append needs this timestamp and would have to read it from the file.
            self._first_timestamp_ms = batches[0][1]
        for last_offset, max_timestamp_ms, size_bytes in batches:
            self.note(position, last_offset, max_timestamp_ms, size_bytes, index_interval_bytes)
            positions.append(
                position
            )  # first, because a thread may find the last offset before the next line
            last_offsets.append(last_offset)
            position = Position(position + size_bytes)
        self.end_position = position
        if len(positions) > MAX_RECENT_BATCHES:
            surplus = len(positions) - MAX_RECENT_BATCHES * 3 // 4
            self._recent = last_offsets[surplus:], positions[surplus:]

    def note(
        self,
        position: Position,
        last_offset: Offset,
        max_timestamp_ms: int,
        size_bytes: int,
        index_interval_bytes: int,
    ) -> None:
        """Adds an index entry for the batch at `position`, if an entry is due. As in Kafka, the first batch of a
        segment never has an entry."""
        newest = self._max_timestamp or self.max_timestamp()
        if max_timestamp_ms > newest.timestamp_ms:
            self._max_timestamp = newest = TimestampOffset(max_timestamp_ms, last_offset)
        if self._bytes_since_index_entry > index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append_if_newer(newest.timestamp_ms, newest.offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size_bytes

    def seal(self) -> None:
        """Completes a segment that is no longer the active segment. Adds a last entry to the time index, writes the
        index entries in memory, and truncates the log file to its real size."""
        if not self._is_changed:
            return
        newest = self.max_timestamp()
        self.time_index.append_if_newer(newest.timestamp_ms, newest.offset)
        self.offset_index.entries.write_out()
        self.time_index.entries.write_out()
        file = self.log.file()
        if file.size() != self.size_bytes:  # the file was preallocated, or has the bytes of a failed append
            file.truncate(self.size_bytes)
        self._is_changed = False

    @property
    def is_sealed(self) -> bool:
        """Whether `seal` has nothing to do."""
        return not self._is_changed

    def flush(self) -> None:
        """Flushes all files. Blocks until they are on the device."""
        self.log.file().sync()
        self.flush_indexes()

    def flush_indexes(self) -> None:
        """Flushes the files of the indexes. Blocks until they are on the device."""
        self.offset_index.entries.sync()
        self.time_index.entries.sync()
        self.txn_index.sync()

    def open_files(self) -> None:
        """Opens the files before a truncation, so that a shortage of descriptors is known before it."""
        self.log.file()
        for index in (self.offset_index, self.time_index):
            index.entries.handle.create()
        if self.txn_index.entries():
            self.txn_index.handle.create()

    def truncate_to(self, offset: Offset) -> None:
        """Drops every batch whose last offset is at or after `offset`."""
        found = self.locate(offset)
        self._is_changed = True
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if found is not None:
            self.end_position = found[0]
            self.log.file().truncate(self.size_bytes)
        self.forget()
        self._bytes_since_index_entry = 0
        self._first_timestamp_ms = None
        self._max_timestamp = self._find_max_timestamp()

    def reset_indexes(self) -> None:
        """Empties the indexes, so that recovery can fill them again."""
        self.offset_index.entries.rebuild()
        self.time_index.entries.rebuild()
        self.txn_index.reset()
        self.forget()
        self._bytes_since_index_entry = 0
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def finish_recovery(self) -> None:
        """Ends the recovery. Call this method when the indexes cover the whole segment again and `end_position` is
        set."""
        self._is_changed = True
        self.seal()
        self._bytes_since_index_entry = 0
        self._first_timestamp_ms = None

    def forget(self) -> None:
        """Drops the positions of the newest batches from memory. These batches can still be found with the index and
        the file."""
        self._recent = _NONE

    def _find_max_timestamp(self) -> TimestampOffset:
        """Finds the largest timestamp of the segment. It is in the last entry of the time index, or in a batch after
        this entry. In a sealed segment, it is in the last entry."""
        newest = self.time_index.last() or TimestampOffset(NO_TIMESTAMP, self.base_offset)
        for _position, header in self.headers_near(newest.offset):
            if header.max_timestamp_ms > newest.timestamp_ms:
                newest = TimestampOffset(header.max_timestamp_ms, header.last_offset)
        return newest

    def close(self) -> None:
        for handle in (self.log,) if self._indexes is None else self.handles():
            handle.close()

    def handles(self) -> tuple[Handle, ...]:
        return (
            self.log,
            self.offset_index.entries.handle,
            self.time_index.entries.handle,
            self.txn_index.handle,
        )

    def rename_deleted(self) -> list[str]:
        """Renames the files to names with `.deleted`. Returns the new paths. The caller removes these files when no
        reader needs them."""
        self.deleted = True
        self.offset_index.entries.try_to_write_out()
        self.time_index.entries.try_to_write_out()
        paths = []
        for handle in self.handles():
            if self.disk.exists(handle.path):
                handle.rename(handle.path + DELETED_SUFFIX)
                paths.append(handle.path)
        return paths

    def rename_suffix(self, suffix: str, to: str) -> None:
        """Changes the suffix of the file names. When a cleaned segment is installed, `.cleaned` is changed to `.swap`,
        and then `.swap` is removed."""
        handles = self.handles()  # before the change, because this call may open files under their old names
        self._name_suffix = to
        for handle in handles:
            if self.disk.exists(handle.path):
                handle.rename(handle.path.removesuffix(suffix) + to)
            else:
                handle.path = handle.path.removesuffix(suffix) + to

    # --- reading

    def headers(self, position: Position = _START) -> Iterator[tuple[Position, BatchHeader]]:
        """Yields the position and the header of each batch from `position` on. Raises CorruptRecordError at an invalid
        header."""
        end, file = self.size_bytes, self.log.file()
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
            if position + header.size_bytes > end:
                # Kafka treats this as the end of the segment, and its consumers skip the rest without an error.
                raise CorruptRecordError(
                    f"{self.log.path} at byte {position}: the batch at offset {header.base_offset} states "
                    f"{header.size_bytes} bytes, but the segment ends {end - position} bytes after it begins"
                )
            yield position, header
            position = Position(position + header.size_bytes)

    def headers_near(self, offset: Offset) -> Iterator[tuple[Position, BatchHeader]]:
        """Yields the same as `headers`, but begins with the last indexed batch that ends at or below `offset`.

        An index has no checksum. If a bit of an entry is wrong, the entry may point to a position after `offset`. In
        this case, records would be skipped without an error. So this method checks that the batch at this position
        begins at or below the offset of the entry. If the check fails, the segment is read from its start. The batch
        may end before the offset of the entry, because Kafka 3 wrote one entry for several batches.
        """
        entry = self.offset_index.lookup(offset)
        if not entry.position:
            return self.headers()
        following = self.headers(entry.position)
        try:
            indexed = next(following, None)
        except CorruptRecordError:
            indexed = None
        if indexed is not None and self._fits_entry(*indexed, entry):
            return chain((indexed,), following)
        _log.error(
            "%s is damaged: it has offset %d at byte %d of the log, which is not there. Remove it while the "
            "broker is stopped: the next start rebuilds it",
            self.offset_index.entries.handle.path,
            entry.offset,
            entry.position,
        )
        return self.headers()

    def _fits_entry(self, position: Position, header: BatchHeader, entry: OffsetPosition) -> bool:
        """Whether `header` is the header of the indexed batch, and not a part of another batch."""
        if self.base_offset <= header.base_offset <= entry.offset:
            return True
        # A wrapper of an old format has only its last offset. Other bytes often look like a wrapper, so the checksum
        # decides.
        return header.magic < 2 and not self._is_damaged(position, header)

    def locate(self, offset: Offset, *, doubting_gaps: bool = False) -> tuple[Position, int] | None:
        """The position and the size of the first batch that ends at or after `offset`. None if all batches end before
        `offset`.

        `doubting_gaps` has an effect only if no batch contains `offset`. If it is True and the batch before `offset` is
        damaged, this batch is returned, because it may have contained `offset`. Its checksum is wrong, so the reader
        detects the damage.
        """
        size_bytes = self.size_bytes  # read first, because another thread may append the next batch
        last_offsets, positions = self._recent
        if last_offsets and offset > last_offsets[0]:
            nth = bisect_left(last_offsets, offset)
            if nth == len(last_offsets):
                return None
            following = nth + 1
            end = positions[following] if following < len(positions) else size_bytes
            position = Position(positions[nth])
            return position, end - position
        before = found = None
        for at in self.headers_near(offset):
            if at[1].last_offset >= offset:
                found = at
                break
            before = at
        holds = found is not None and (found[1].base_offset <= offset or found[1].magic < 2)
        if doubting_gaps and before is not None and not holds and self._is_damaged(*before):
            found = before
        return None if found is None else (found[0], found[1].size_bytes)

    def _is_damaged(self, position: Position, header: BatchHeader) -> bool:
        return not crc_is_valid(self.log.file().read_at(position, header.size_bytes), 0, header)

    def boundary_at_or_below(self, start: Position, limit: Position) -> Position:
        """The position at which the last whole batch between the positions `start` and `limit` ends. A batch must begin
        at `start`."""
        _, positions = self._recent
        if positions and limit >= positions[0]:
            return max(start, Position(positions[bisect_right(positions, limit) - 1]))
        # A damaged index may give a position inside a batch, where no header can be read.
        indexed = max(start, self.offset_index.position_at_or_below(limit))
        return self._boundary_after(indexed, limit) or self._boundary_after(start, limit) or start

    def _boundary_after(self, start: Position, limit: Position) -> Position | None:
        """Returns the same as `boundary_at_or_below`, but reads headers only up to the first invalid one. None if no
        batch begins at `start`."""
        boundary = None
        # The error is raised again when a reader reads this batch.
        with contextlib.suppress(CorruptRecordError):
            for position, header in self.headers(start):
                if position + header.size_bytes > limit:
                    return position
                boundary = Position(position + header.size_bytes)
        return boundary

    def tail(self) -> tuple[Offset, Position]:
        """The offset and the position after the last whole batch. Reads the headers from the last index entry on."""
        last = None if self._is_unindexed else self.offset_index.last()
        offset, end = self.base_offset, _START if last is None else last.position
        for position, header in self.headers(end):
            offset, end = header.next_offset, Position(position + header.size_bytes)
        return offset, end

    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp of the segment, and the last offset of the batch that has it. The timestamp is −1 if
        there are no records.
        """
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last() or TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return self._max_timestamp

    def largest_timestamp_ms(self) -> int:
        """The time that retention by time uses: the largest timestamp of the records or, if they have none, the time of
        the last write."""
        newest = self.max_timestamp().timestamp_ms
        return newest if newest >= 0 else self.disk.modified_ms(self.log.path)

    def first_timestamp_ms(self) -> int:
        """The max timestamp of the first batch. −1 if the segment has no batch."""
        if self._first_timestamp_ms is None:
            try:
                first = next(self.headers(), None)
            except CorruptRecordError:
                self._first_timestamp_ms = NO_TIMESTAMP  # an append works even if the first batch is damaged
            else:
                if first is None:
                    return NO_TIMESTAMP
                self._first_timestamp_ms = first[1].max_timestamp_ms
        return self._first_timestamp_ms

    def upper_bound_offset(self, position: Position) -> Offset | None:
        """An upper bound of the offsets in the batches that start before `position`. None if the offset index shows no
        such bound."""
        return self.offset_index.upper_bound(position)

    # --- rules

    def fits(self, last_offset: Offset) -> bool:
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def indexes_are_full(self, max_index_bytes: int) -> bool:
        indexes = self._indexes or self._look()
        return indexes.offset.is_full(max_index_bytes) or indexes.time.is_full(max_index_bytes)

    def waited_ms(self, max_timestamp_ms: int, now_ms: int) -> int:
        """The age of the segment, by which the log decides when to begin a new segment. It is `max_timestamp_ms` minus
        the timestamp of the first batch or, if this batch has no timestamp, the time since the segment was created."""
        first = self.first_timestamp_ms() if self.size_bytes else NO_TIMESTAMP
        return max_timestamp_ms - first if first >= 0 else now_ms - self.created_ms

    def has_sane_indexes(self, *, clean: bool) -> bool:
        """Whether both indexes are valid. False if an index is incomplete, or ends with zeros after a crash.

        After a clean stop the time index is not read, because nothing uses it before the next append or search.
        """
        if clean and self._is_unindexed:
            assert self._sizes is not None, "they show that the index is empty"
            return not self._sizes.get(TIME_INDEX_SUFFIX, 0) % TIME_ENTRY.size
        return (
            not self.offset_index.entries.is_torn
            and not self.time_index.entries.is_torn
            and self.offset_index.is_sane()
            and (clean or self.time_index.is_sane())
        )


_NONE: tuple[array[int], array[int]] = array("q"), array("q")
"""The lists of newest batches for segments without appends. All such segments share these empty arrays, so the arrays
must not change."""
