"""The names of the files of a partition, and a pool that limits how many files are open.

Ten thousand partitions have more than thirty thousand files, but a process may only have a few thousand descriptors
open. A `Handle` opens its file at the first use. The pool closes the handles that were not used for the longest time.
"""

from __future__ import annotations

import contextlib
import resource
import threading
from collections import OrderedDict

from kcli.model.ids import Offset
from kcli.model.java_text import natural
from kcli.runtime.descriptors import is_last_reserved, is_shortage
from kcli.runtime.disk import Disk, File

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

OFFSET_DIGITS = 20
"""The number of digits of a base offset in a file name. Because of the leading zeros, sorted names are in the order of
the offsets."""


def offset_name(offset: Offset, suffix: str) -> str:
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def offset_of(name: str) -> Offset | None:
    """The offset at the start of a file name such as `00000000000000000042.log`. None for other names."""
    offset = natural(name.partition(".")[0])
    return None if offset is None else Offset(offset)


def default_handle_capacity() -> int:
    """The default capacity of a pool: half of the descriptors that this process may have, within limits. The other half
    is reserved for sockets.
    """
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_OPEN_HANDLES
    return max(MIN_OPEN_HANDLES, min(soft // 2, MAX_OPEN_HANDLES))


MIN_OPEN_HANDLES = 64
# More handles would gain little, because opening a file takes only ten microseconds.
MAX_OPEN_HANDLES = 16_384
SHED_COUNT = 16
"""The files that are closed together if too few descriptors are free. One file each time would be too slow, because the
next file would be short of a descriptor again."""


class HandlePool:
    """A pool of handles. If more than `capacity` handles are open, it closes those that were not used for the longest
    time.

    The pool uses the second-chance algorithm: a handle stays open if it was used since the last check. To close a file,
    the pool only drops its reference to the file. So a thread that reads the file can finish before the descriptor is
    closed.
    """

    def __init__(self, disk: Disk, capacity: int | None = None) -> None:
        self.disk = disk
        self._capacity = default_handle_capacity() if capacity is None else capacity
        self._open: OrderedDict[Handle, None] = OrderedDict()
        self._guard = threading.Lock()

    def open(self, handle: Handle, *, create: bool) -> File:
        with self._guard:
            if handle.open_file is not None:
                return handle.open_file
            file = self._opened(handle.path, create=create)
            handle.open_file = file
            handle.used = True
            self._open[handle] = None
            while len(self._open) > self._capacity:
                self._evict()
            return file

    def open_once(self, path: str, *, create: bool = False) -> File:
        """Opens a file that does not stay in the pool. The caller closes it."""
        with self._guard:
            return self._opened(path, create=create)

    def _opened(self, path: str, *, create: bool) -> File:
        """Opens a file. If too few descriptors are free, closes files that were not used for a long time."""
        try:
            file = self.disk.open(path, create=create)
        except OSError as error:
            if not is_shortage(error) or not self._open:
                raise
            self._shed()
            return self.disk.open(path, create=create)
        if _is_scarce(file):
            self._shed()
        return file

    def _shed(self) -> None:
        """Closes a part of the files, first those that were not used for the longest time."""
        for _ in range(min(SHED_COUNT, len(self._open))):
            self._open.popitem(last=False)[0].open_file = None

    def rename(self, handle: Handle, path: str) -> None:
        """Renames a file while holding the pool's lock, so that no thread tries to open the old name later."""
        with self._guard:
            self.disk.rename(handle.path, path)
            handle.path = path

    def close(self, handle: Handle) -> None:
        """Closes a file and removes it from the pool. Without this call, files of deleted segments would displace files
        in use."""
        with self._guard:
            handle.open_file = None
            self._open.pop(handle, None)

    def _evict(self) -> None:
        oldest, _ = self._open.popitem(last=False)
        if oldest.used:
            oldest.used = False
            self._open[oldest] = None
        else:
            oldest.open_file = None


def _is_scarce(file: File) -> bool:
    """Whether the file has one of the last free descriptors. A simulated file has no descriptor."""
    with contextlib.suppress(OSError):
        return is_last_reserved(file.fileno())
    return False


class Handle:
    """One file of a log, which is opened at its first use."""

    __slots__ = ("_pool", "open_file", "path", "used")

    def __init__(self, pool: HandlePool, path: str) -> None:
        self._pool = pool
        self.path = path
        self.open_file: File | None = None
        self.used = False

    def file(self) -> File:
        """The open file. Raises FileNotFoundError if it does not exist."""
        file = self.open_file
        if file is None:
            return self._pool.open(self, create=False)
        self.used = True
        return file

    def create(self) -> File:
        return self._pool.open(self, create=True)

    def rename(self, path: str) -> None:
        """Renames the file. The file stays open, and readers can continue."""
        self._pool.rename(self, path)

    def close(self) -> None:
        self._pool.close(self)
