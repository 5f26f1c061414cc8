"""One segment of a partition's log: a `.log` file with batches one after another, and its indexes.

The active segment keeps the positions of its newest batches in memory. So a fetch at the log end finds these batches
without reading the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from kcli.errors import CorruptRecordError
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_TIMESTAMP, Offset, Position
from kcli.storage.files import LOG_SUFFIX, TIME_INDEX_SUFFIX, HandlePool
from kcli.storage.log.batch_search import START, first_ending_at, headers, headers_near, last_boundary
from kcli.storage.log.index import MAX_RELATIVE_OFFSET, TIME_ENTRY, OffsetIndex, TimeIndex, TimestampOffset
from kcli.storage.log.segment_bytes import SegmentBytes
from kcli.storage.log.segment_files import SegmentFiles
from kcli.storage.log.transaction_index import TransactionIndex

MAX_RECENT_BATCHES = 512
"""The most batches whose positions a segment keeps in memory (8 kB). If there are more, the oldest quarter is
dropped."""

Placed = tuple[Offset, int, int]
"""The last offset, the max timestamp and the size in bytes of a batch that will be written."""


class Segment:
    """A segment: the batches with offsets from `base_offset` up to the base offset of the next segment."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_end_position",
        "_first_timestamp_ms",
        "_is_changed",
        "_max_timestamp",
        "_recent",
        "base_offset",
        "created_ms",
        "deleted",
        "files",
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
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.roll_jitter_ms = 0
        self.deleted = False
        self.files = SegmentFiles(pool, directory, base_offset, sizes, name_suffix)
        self.log: SegmentBytes = self.files.log
        """The place from which readers get the batches."""
        self._end_position = None if sizes is None else Position(sizes.get(LOG_SUFFIX, 0))
        self._bytes_since_index_entry = 0
        self._is_changed = False  # whether the segment changed after its files were opened or sealed
        self._max_timestamp: TimestampOffset | None = None
        self._first_timestamp_ms: int | None = None
        # The last offsets and the positions of the newest batches. A thread that reads takes the pair once.
        self._recent = _NONE

    @property
    def end_position(self) -> Position:
        """The position of the next batch."""
        if self._end_position is None:
            self._end_position = Position(self.files.disk.size(self.log.path))
        return self._end_position

    @end_position.setter
    def end_position(self, position: Position) -> None:
        self._end_position = position

    @property
    def size_bytes(self) -> int:
        return self.end_position if self._end_position is None else self._end_position

    @property
    def offset_index(self) -> OffsetIndex:
        return (self.files.indexes or self.files.open_indexes()).offset

    @property
    def time_index(self) -> TimeIndex:
        return (self.files.indexes or self.files.open_indexes()).time

    @property
    def txn_index(self) -> TransactionIndex:
        return (self.files.indexes or self.files.open_indexes()).txn

    def look(self, suffixes: Iterable[str]) -> None:
        """Looks up the sizes of the files now. `suffixes` are the suffixes of the files that exist."""
        self._end_position = Position(self.files.look(suffixes))

    def create_files(self, preallocate_bytes: int) -> None:
        """Makes the empty files of a new segment. If a crash has left files with these names, empties them."""
        self.files.create(preallocate_bytes)
        self._is_changed = True

    # --- writing

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Writes batches at the end of the segment, in one write. They belong to the segment only after `add`. If the
        write fails, the segment does not change."""
        file = self.files.log.file()
        if self._max_timestamp is None:
            self.max_timestamp()  # `add` needs it, and must not read a file
        self._is_changed = True
        position = self._end_position
        file.write_at(self.end_position if position is None else position, *buffers)

    def add(self, batches: Sequence[Placed], index_interval_bytes: int) -> None:
        """Adds the batches that `write` has written. Opens no file, so no shortage of descriptors can come between the
        two steps."""
        position = self._end_position
        assert position is not None, "`write` has looked it up"
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
        self._end_position = position
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
        file = self.files.log.file()
        if file.size() != self.size_bytes:  # the file was preallocated, or has the bytes of a failed append
            file.truncate(self.size_bytes)
        self._is_changed = False

    @property
    def is_sealed(self) -> bool:
        """Whether `seal` has nothing to do."""
        return not self._is_changed

    def flush(self) -> None:
        """Flushes all files. Blocks until they are on the device."""
        self.files.log.file().sync()
        self.flush_indexes()

    def flush_indexes(self) -> None:
        """Flushes the files of the indexes. Blocks until they are on the device."""
        self.offset_index.entries.sync()
        self.time_index.entries.sync()
        self.txn_index.sync()

    def open_files(self) -> None:
        """Opens the files before a truncation, so that a shortage of descriptors is known before it."""
        self.files.log.file()
        for index in (self.offset_index, self.time_index):
            index.entries.handle.create()
        if self.txn_index.entries():
            self.txn_index.handle.create()

    def truncate_to(self, offset: Offset) -> None:
        """Drops every batch whose last offset is at or after `offset`."""
        batch = self.locate(offset)
        self._is_changed = True
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        if batch is not None:
            self.end_position = batch[0]
            self.files.log.file().truncate(self.size_bytes)
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
        for _position, header in headers_near(self, newest.offset):
            if header.max_timestamp_ms > newest.timestamp_ms:
                newest = TimestampOffset(header.max_timestamp_ms, header.last_offset)
        return newest

    def rename_deleted(self) -> list[str]:
        """Renames the files to names with `.deleted`. Returns the new paths. The caller removes these files when no
        reader needs them."""
        self.deleted = True
        self.offset_index.entries.try_to_write_out()
        self.time_index.entries.try_to_write_out()
        return self.files.rename_deleted()

    # --- reading

    def locate(self, offset: Offset, *, doubting_gaps: bool = False) -> tuple[Position, int] | None:
        """The position and the size of the first batch that ends at or after `offset`. None if all batches end before
        `offset`. `doubting_gaps` has the meaning that it has in `first_ending_at`."""
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
        batch = first_ending_at(self, offset, doubting_gaps=doubting_gaps)
        return None if batch is None else (batch[0], batch[1].size_bytes)

    def boundary_at_or_below(self, start: Position, limit: Position) -> Position:
        """The position at which the last whole batch between the positions `start` and `limit` ends. A batch must begin
        at `start`."""
        _, positions = self._recent
        if positions and limit >= positions[0]:
            return max(start, Position(positions[bisect_right(positions, limit) - 1]))
        return last_boundary(self, start, limit)

    def tail(self) -> tuple[Offset, Position]:
        """The offset and the position after the last whole batch. Reads the headers from the last index entry on."""
        last = None if self.files.is_unindexed else self.offset_index.last()
        offset, end = self.base_offset, START if last is None else last.position
        for position, header in headers(self, end):
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
        return newest if newest >= 0 else self.files.disk.modified_ms(self.log.path)

    def first_timestamp_ms(self) -> int:
        """The max timestamp of the first batch. −1 if the segment has no batch."""
        if self._first_timestamp_ms is None:
            try:
                first = next(headers(self), None)
            except CorruptRecordError:
                self._first_timestamp_ms = NO_TIMESTAMP  # an append works even if the first batch is damaged
            else:
                if first is None:
                    return NO_TIMESTAMP
                self._first_timestamp_ms = first[1].max_timestamp_ms
        return self._first_timestamp_ms

    # --- rules

    def fits(self, last_offset: Offset) -> bool:
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def indexes_are_full(self, max_index_bytes: int) -> bool:
        indexes = self.files.indexes or self.files.open_indexes()
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
        files = self.files
        if clean and files.is_unindexed:
            assert files.sizes is not None, "they show that the index is empty"
            return not files.sizes.get(TIME_INDEX_SUFFIX, 0) % TIME_ENTRY.size
        return (
            not self.offset_index.entries.is_torn
            and not self.time_index.entries.is_torn
            and self.offset_index.is_sane()
            and (clean or self.time_index.is_sane())
        )


_NONE: tuple[array[int], array[int]] = array("q"), array("q")
"""The lists of newest batches for segments without appends. All such segments share these empty arrays, so the arrays
must not change."""
