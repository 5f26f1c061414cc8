"""The two sparse indexes of a segment. One maps offsets to positions, and the other maps timestamps to offsets.

Kafka maps whole index files of a fixed size into memory. kcli collects new entries in a small buffer. The buffer is
written to the file when it is full, at a flush, and at a lookup. So an index file is not larger than its entries. After
a crash, recovery reads the batches and builds missing entries again.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import dataclass
from typing import ClassVar

from kcli.model.ids import NO_TIMESTAMP, Offset, Position
from kcli.runtime.descriptors import is_shortage
from kcli.storage.files import Handle

OFFSET_ENTRY = struct.Struct(">ii")  # offset - base offset, position of the batch with this offset
TIME_ENTRY = struct.Struct(">qi")  # timestamp, offset - base offset

PENDING_BYTES = 4096
"""The size of the buffer of entries that are not in the file yet: one page."""

WINDOW_BYTES = 4096
"""The number of bytes that a search reads first, at a guessed position. If the guess is wrong, a binary search that
reads single entries narrows the range to this size."""

MAX_RELATIVE_OFFSET = 0x7FFF_FFFF
"""The largest distance of an offset from the segment's base offset, because an index stores this distance as an
int32."""


class EntryFile:
    """A list of entries of a fixed size. Old entries are in a file, and the newest entries are in memory. One thread
    may write, and any thread may read."""

    __slots__ = (
        "_cuts",
        "_entry",
        "_guard",
        "_is_stale",
        "_is_synced",
        "_last",
        "_pending",
        "_written",
        "count",
        "handle",
        "is_torn",
    )

    _window: ClassVar[tuple[EntryFile | None, int, int, bytes]] = (None, 0, 0, b"")
    """A cache of the entries that were read last, in any thread: (entry file, number of its truncations, index of the
    first entry, entries). A fetch looks up its start offset and then its end offset, which are mostly in the same page,
    so the cache saves a read. Only a truncation changes entries."""

    def __init__(self, handle: Handle, entry: struct.Struct, size_bytes: int) -> None:
        self.handle = handle
        self._entry = entry
        self.count = size_bytes // entry.size
        self._written = self.count * entry.size
        self.is_torn = size_bytes != self._written
        self._pending = bytearray()
        self._last: tuple[int, int] | None = None
        self._cuts = 0  # the number of truncations so far
        self._is_stale = False  # the file still has old entries; the next write replaces them
        self._is_synced = True  # nothing was written since the last sync, or since the start
        self._guard = threading.Lock()

    @property
    def size_bytes(self) -> int:
        return self.count * self._entry.size

    def append(self, first: int, second: int) -> None:
        with self._guard:
            self._pending += self._entry.pack(first, second)
            self.count += 1
            self._last = (first, second)
            if len(self._pending) >= PENDING_BYTES and not self._is_stale:
                self._try_to_write()

    def try_to_write_out(self) -> None:
        """Writes the entries in memory to the file. During a shortage of descriptors they stay in memory."""
        with self._guard:
            self._try_to_write()

    def _try_to_write(self) -> None:
        try:
            self._write_pending()
        except OSError as error:
            if not is_shortage(error):
                raise

    def write_out(self) -> None:
        """Writes the entries in memory to the file."""
        with self._guard:
            self._write_pending()

    def _write_pending(self) -> None:
        if self._is_stale:
            self._replace()
        elif self._pending:
            self._is_synced = False
            self.handle.create().write_at(self._written, self._pending)
            self._written += len(self._pending)
            self._pending.clear()

    def _replace(self) -> None:
        """Replaces the content of the file by the entries in memory. A file that already has this content is not
        written. After a crash, most files already have it."""
        file = self.handle.create()
        if file.read_at(0, len(self._pending) + 1) != self._pending:
            file.write_at(0, self._pending)
            file.truncate(len(self._pending))
        self._written = len(self._pending)
        self._pending.clear()
        self._is_stale = False

    def entry(self, nth: int) -> tuple[int, int]:
        return self._unpack(self._read(nth, nth + 1), 0)

    def last(self) -> tuple[int, int] | None:
        if self._last is None and self.count:
            self._last = self.entry(self.count - 1)
        return self._last

    def entries(self) -> list[tuple[int, int]]:
        return [(first, second) for first, second in self._entry.iter_unpack(self._read(0, self.count))]

    def find(self, target: int, *, field: int) -> int:
        """The number of entries whose value in column `field` is at most `target`. The values of this column must not
        decrease."""
        low, high = 0, self.count  # entries before low are ≤ target, those from high on are > target
        page = WINDOW_BYTES // self._entry.size
        if high > page:
            low, high = self._narrow(target, field, page)
        while high - low > page:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return self._find_in(self._read_window(low, high), low, target, field) if low < high else low

    def floor(self, target: int, *, field: int) -> tuple[int, int] | None:
        """The last entry whose value in column `field` is at most `target`. None if there is no such entry."""
        count = self.find(target, field=field)
        if not count:
            return None
        file, cuts, start, window = EntryFile._window
        at = (count - 1 - start) * self._entry.size
        is_there = file is self and cuts == self._cuts and 0 <= at < len(window)
        return self._unpack(window, at) if is_there else self.entry(count - 1)

    def _narrow(self, target: int, field: int, page: int) -> tuple[int, int]:
        """Narrows the bounds of a search. First searches the entries that were read last. Then searches the page that
        would contain the target if the values rose evenly, as offsets mostly do."""
        file, cuts, start, window = EntryFile._window
        if file is self and cuts == self._cuts:
            nth = self._find_in(window, start, target, field)
            if start < nth < start + len(window) // self._entry.size:
                return nth, nth
        last = self.last()
        assert last is not None, "there is more than a page of entries"
        guess = target * self.count // max(last[field], 1) - page // 2
        start = min(max(guess, 0), self.count - page)
        nth = self._find_in(self._read_window(start, start + page), start, target, field)
        if nth == start:
            return 0, start
        return (nth, self.count) if nth == start + page else (nth, nth)

    def _read_window(self, start: int, end: int) -> bytes:
        cuts = self._cuts  # read first, because a truncation during the read makes the window invalid
        window = self._read(start, end)
        EntryFile._window = (self, cuts, start, window)
        return window

    def _find_in(self, window: bytes, start: int, target: int, field: int) -> int:
        """Returns the same as `find`, but searches only the entries in `window`. `start` is the index of the first of
        these entries."""
        size, unpack = self._entry.size, self._entry.unpack_from
        low, high = 0, len(window) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(window, middle * size)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return start + low

    def truncate(self, count: int) -> None:
        """Keeps only the first `count` entries."""
        with self._guard:
            self._write_pending()
            self.count = count
            self._written = count * self._entry.size
            self._last = None
            self._is_synced = False
            self.handle.create().truncate(self._written)
            self._cuts += 1  # changed last, so that a thread that reads removed entries notices this

    def rebuild(self) -> None:
        """Drops all entries, because recovery appends them again. The content of the file changes only at the next
        write.
        """
        with self._guard:
            # An empty file already has the right content.
            self._is_stale = self._is_stale or self.is_torn or self._written > 0
            self._is_synced = False
            self._pending.clear()
            self.count = self._written = 0
            self._last = None
            self._cuts += 1

    def sync(self) -> None:
        self.write_out()
        if not self._is_synced:
            # Set before the sync; if another thread writes during the sync, the next call syncs that write.
            self._is_synced = True
            try:
                self.handle.create().sync()
            except OSError:
                self._is_synced = False
                raise

    def _read(self, start: int, end: int) -> bytes:
        size = self._entry.size
        if end <= start:
            return b""
        if end * size > self._written:
            self.write_out()
        piece = self.handle.file().read_at(start * size, (end - start) * size)
        if len(piece) != (end - start) * size:
            raise OSError(f"{self.handle.path} ends before its entry {end - 1}")
        return piece

    def _unpack(self, buffer: bytes, at: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(buffer, at)
        return first, second


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    offset: Offset
    position: Position


@dataclass(frozen=True, slots=True)
class TimestampOffset:
    timestamp_ms: int
    offset: Offset


class OffsetIndex:
    """The offset index (`.index`). An entry is the last offset of a batch and the start position of this batch."""

    __slots__ = ("base_offset", "entries")

    def __init__(self, handle: Handle, base_offset: Offset, size_bytes: int) -> None:
        self.base_offset = base_offset
        self.entries = EntryFile(handle, OFFSET_ENTRY, size_bytes)

    def append(self, offset: Offset, position: Position) -> None:
        self.entries.append(offset - self.base_offset, position)

    def lookup(self, offset: Offset) -> OffsetPosition:
        """The last entry at or below `offset`. Without such an entry, the start of the segment."""
        entry = self.entries.floor(offset - self.base_offset, field=0)
        if entry is None:
            return OffsetPosition(self.base_offset, Position(0))
        relative, position = entry
        return OffsetPosition(Offset(self.base_offset + relative), Position(position))

    def position_at_or_below(self, position: Position) -> Position:
        """The last position in the index that is not after `position`."""
        entry = self.entries.floor(position, field=1)
        return Position(0 if entry is None else entry[1])

    def upper_bound(self, position: Position) -> Offset | None:
        """The offset of the first entry at or after `position`. None if there is no such entry."""
        nth = self.entries.find(position - 1, field=1)
        if nth == self.entries.count:
            return None
        return Offset(self.base_offset + self.entries.entry(nth)[0])

    def last(self) -> OffsetPosition | None:
        last = self.entries.last()
        return None if last is None else OffsetPosition(Offset(self.base_offset + last[0]), Position(last[1]))

    def truncate_to(self, offset: Offset) -> None:
        """Drops the entries at or after `offset`."""
        self.entries.truncate(self.entries.find(offset - self.base_offset - 1, field=0))

    def is_full(self, max_bytes: int) -> bool:
        return self.entries.count >= max_bytes // OFFSET_ENTRY.size

    def is_sane(self) -> bool:
        """Whether the index is valid. False if a crash left zeros at the end of its file."""
        last = self.entries.last()
        return last is None or last[0] > 0 or (last[0] == 0 and self.entries.count == 1)


class TimeIndex:
    """The time index (`.timeindex`). An entry is the largest timestamp so far, and the last offset of the batch that
    has this timestamp.
    """

    __slots__ = ("base_offset", "entries")

    def __init__(self, handle: Handle, base_offset: Offset, size_bytes: int) -> None:
        self.base_offset = base_offset
        self.entries = EntryFile(handle, TIME_ENTRY, size_bytes)

    def append_if_newer(self, timestamp_ms: int, offset: Offset) -> None:
        last = self.entries.last()
        if timestamp_ms > (NO_TIMESTAMP if last is None else last[0]):
            self.entries.append(timestamp_ms, offset - self.base_offset)

    def lookup(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry at or below `timestamp_ms`. Without such an entry, (−1, base offset)."""
        entry = self.entries.floor(timestamp_ms, field=0)
        if entry is None:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative = entry
        return TimestampOffset(timestamp, Offset(self.base_offset + relative))

    def last(self) -> TimestampOffset | None:
        last = self.entries.last()
        return None if last is None else TimestampOffset(last[0], Offset(self.base_offset + last[1]))

    def truncate_to(self, offset: Offset) -> None:
        """Drops the entries at or after `offset`."""
        self.entries.truncate(self.entries.find(offset - self.base_offset - 1, field=1))

    def is_full(self, max_bytes: int) -> bool:
        # One place is reserved for the entry that is added when the segment is sealed.
        return self.entries.count >= max_bytes // TIME_ENTRY.size - 1

    def is_sane(self) -> bool:
        """Whether the index is valid. False if a crash left zeros or a torn entry at the end of its file."""
        count = self.entries.count
        if count < 2:
            return not count or self.entries.entry(0)[1] >= 0
        (earlier_ms, earlier), (last_ms, last) = self.entries.entry(count - 2), self.entries.entry(count - 1)
        return last_ms > earlier_ms and last >= earlier
