"""A disk in memory that can lose power and fail on command.

After a crash, a real disk has all synced data and a part of the data that was not synced. `crash_clone` makes such a
disk: it has every synced byte and name, and a random part of the other bytes and names. Writes may have happened in
another order, the last write may be incomplete, and the newest names may be missing.

A fault makes the n-th call fail. Only calls of one operation, or only calls on paths that contain a given text, can be
counted. A test can repeat its run, and make call 1 fail, then call 2, and so on, until no call fails in a run. Then
each call has failed once.
"""

from __future__ import annotations

import errno
import posixpath
import random
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from kcli.model.buffers import Buffer
from kcli.runtime.disk import DirectoryEntry

SIMULATED_SPACE_BYTES = 1 << 40
STALL_SECONDS = 0.7
"""The time that a slow call takes, for example on a worn-out device or on a volume that its host throttles."""


class FaultKind(Enum):
    ERROR = "error"  # EIO, without any effect
    SHORT = "short"  # EMFILE, without any effect
    FULL = "full"  # ENOSPC, after half of a write
    FLIP = "flip"  # a read returns one wrong bit
    SLOW = "slow"  # the call blocks its caller for STALL_SECONDS


@dataclass(slots=True)
class Fault:
    """A fault that happens once, at the `countdown`-th matching call."""

    operation: str
    path_part: str
    countdown: int
    kind: FaultKind


@dataclass(slots=True)
class Inode:
    """The data of a file. Readers see `content`. The device has all of `durable`, and an unknown part of `pending`."""

    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    # (position, bytes) is a write, and (size, None) a truncation.
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    modified_ms: int = 0
    read_only: bool = False

    def make_durable(self) -> None:
        """Makes all writes durable."""
        self.durable = bytes(self.content)
        self.pending.clear()


Names = dict[str, Inode | None]
"""The files by path. A directory has the value None."""


class SimDisk:
    """A `Disk` in memory. It must not be used by several threads. `stall(seconds)` lets simulated time pass."""

    def __init__(
        self, now_ms: Callable[[], int] = lambda: 0, stall: Callable[[float], None] = lambda seconds: None
    ) -> None:
        self._now_ms = now_ms
        self._stall = stall
        self._names: Names = {"/": None}
        self._durable: Names = {"/": None}
        self._journal: list[tuple[frozenset[str], Callable[[Names], None]]] = []
        self._locks: set[str] = set()
        self._faults: list[Fault] = []
        self._killed = False
        self.calls = 0
        self.counts: Counter[str] = Counter()  # the number of calls, by operation
        # As with a real file, the descriptor is closed when the last reference to the file is gone.
        self.open_files: weakref.WeakSet[SimFile] = weakref.WeakSet()

    # Faults and crashes.

    def fail(
        self, operation: str = "", path_part: str = "", *, nth: int = 1, kind: FaultKind = FaultKind.ERROR
    ) -> None:
        """Makes the n-th call after this moment fail.

        `operation` is `open`, `read`, `write`, `sync` …, or '' for any operation.
        """
        self._faults.append(Fault(operation, path_part, nth, kind))

    def heal(self) -> None:
        self._faults.clear()

    @property
    def has_faults(self) -> bool:
        return bool(self._faults)

    def struck(self, operation: str, path: str) -> FaultKind | None:
        """Counts a call. Raises the fault that is due, or returns it if the caller must simulate it."""
        self.calls += 1
        self.counts[operation] += 1
        if self._killed:
            raise OSError(errno.EIO, "the process that had this disk was killed", path)
        due = self._count_down(operation, path)
        if due is None:
            return None
        if due is FaultKind.ERROR:
            raise OSError(errno.EIO, "simulated disk error", path)
        if due is FaultKind.SHORT:
            raise OSError(errno.EMFILE, "simulated shortage of descriptors", path)
        if due is FaultKind.SLOW:
            self._stall(STALL_SECONDS)
        if due is FaultKind.FULL and operation != "write":
            raise OSError(errno.ENOSPC, "simulated disk full", path)
        return due

    def _count_down(self, operation: str, path: str) -> FaultKind | None:
        """Counts the call for every fault that matches it. Returns the first fault that is due, and drops all that are
        due."""
        matching = [
            fault for fault in self._faults if fault.operation in ("", operation) and fault.path_part in path
        ]
        for fault in matching:
            fault.countdown -= 1
        due = [fault for fault in matching if fault.countdown <= 0]
        for fault in due:
            self._faults.remove(fault)
        return due[0].kind if due else None

    def crash_clone(self, seed: int) -> SimDisk:
        """Returns the disk after a power failure at this moment. The disk itself is not changed."""
        rng = random.Random(seed)
        clone = SimDisk(self._now_ms, self._stall)
        names = dict(self._durable)
        for _directories, change in self._journal[: rng.randint(0, len(self._journal))]:
            change(names)
        survivors: dict[int, Inode] = {}
        for path, inode in sorted(names.items()):
            if not _parents_exist(path, names):
                continue
            if inode is None:
                clone._names[path] = None
            else:
                clone._names[path] = survivors.setdefault(id(inode), _survivor(inode, rng))
        clone._durable = dict(clone._names)
        return clone

    def full_clone(self) -> SimDisk:
        """Returns a copy whose device has all data, for experiments. The disk itself is not changed."""
        clone = SimDisk(self._now_ms, self._stall)
        clone._names = {
            path: inode
            and Inode(bytearray(inode.content), bytes(inode.content), [], inode.modified_ms, inode.read_only)
            for path, inode in self._names.items()
        }
        clone._durable = dict(clone._names)
        return clone

    def contents(self, path: str) -> dict[str, bytes]:
        """Returns the files in a directory by name, for checks. This is not counted as a call, and causes no fault."""
        return {
            posixpath.basename(name): bytes(inode.content)
            for name, inode in sorted(self._names.items())
            if inode is not None and posixpath.dirname(name) == path
        }

    def directories(self, path: str) -> list[str]:
        """Returns the names of the directories in a directory, for checks. This is not counted as a call."""
        return [
            posixpath.basename(name)
            for name, inode in sorted(self._names.items())
            if inode is None and name != path and posixpath.dirname(name) == path
        ]

    def flip(self, path: str, position: int, bit: int) -> None:
        """Flips one bit of a file permanently."""
        inode = self._require(path)
        assert inode is not None, "a directory has no bits"
        inode.content[position] ^= 1 << bit

    def kill_clone(self) -> SimDisk:
        """Returns a copy: the disk after a SIGKILL of the process. Only the locks are lost. The copy still knows which
        data is synced, so that a power failure may follow. Every further call to the original disk fails.
        """
        clone = SimDisk(self._now_ms, self._stall)
        clone._names, clone._durable, clone._journal = self._names, self._durable, self._journal
        self._killed = True
        return clone

    # Disk.

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SimFile:
        self.struck("open", path)
        inode = self._names.get(path)
        if inode is None:
            if path in self._names:
                raise IsADirectoryError(errno.EISDIR, "is a directory", path)
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._require_directory(posixpath.dirname(path))
            made = inode = Inode(modified_ms=self._now_ms())
            self._change({posixpath.dirname(path)}, lambda names: names.__setitem__(path, made))
        if inode.read_only and not read_only:
            raise PermissionError(errno.EACCES, "may only be read", path)
        file = SimFile(self, path, inode)
        self.open_files.add(file)
        return file

    def list_dir(self, path: str) -> list[DirectoryEntry]:
        self.struck("list", path)
        self._require_directory(path)
        return [
            DirectoryEntry(
                posixpath.basename(name),
                inode is None,
                0 if inode is None else len(inode.content),
                0 if inode is None else inode.modified_ms,
            )
            for name, inode in sorted(self._names.items())
            if posixpath.dirname(name) == path and name != path
        ]

    def list_names(self, path: str) -> list[str]:
        return [entry.name for entry in self.list_dir(path)]

    def read(self, path: str) -> bytes:
        file = self.open(path, read_only=True)
        try:
            return file.read_at(0, len(file._inode.content))
        finally:
            file.close()

    def list_dirs(self, path: str) -> list[str]:
        return [entry.name for entry in self.list_dir(path) if entry.is_dir]

    def size(self, path: str) -> int:
        self.struck("stat", path)
        inode = self._require(path)
        return 0 if inode is None else len(inode.content)

    def exists(self, path: str) -> bool:
        self.struck("exists", path)
        return path in self._names

    def make_dir(self, path: str) -> None:
        self.struck("make_dir", path)
        parent = posixpath.dirname(path)
        if parent not in self._names:
            self.make_dir(parent)
        if path not in self._names:
            self._change({parent}, lambda names: names.__setitem__(path, None))
        elif self._names[path] is not None:
            raise FileExistsError(errno.EEXIST, "is a file", path)

    def rename(self, source: str, target: str) -> None:
        self.struck("rename", source)
        self._require(source)
        self._change(
            {posixpath.dirname(source), posixpath.dirname(target)},
            lambda names: _rename(names, source, target),
        )

    def remove(self, path: str) -> None:
        self.struck("remove", path)
        self._require(path)
        self._change({posixpath.dirname(path)}, lambda names: _remove(names, path))

    def remove_tree(self, path: str) -> None:
        self.struck("remove_tree", path)
        self._require(path)
        self._change({posixpath.dirname(path)}, lambda names: _remove(names, path))

    def sync_dir(self, path: str) -> None:
        self.struck("sync_dir", path)
        self._require_directory(path)
        waiting = []
        for directories, change in self._journal:
            if path in directories:
                change(self._durable)
            else:
                waiting.append((directories, change))
        self._journal = waiting

    def sync_volume(self, path: str) -> bool:
        self.struck("sync_volume", path)
        self._require_directory(path)
        for inode in self._names.values():
            if inode is not None:
                inode.make_durable()
        for _directories, change in self._journal:
            change(self._durable)
        self._journal = []
        return True

    def modified_ms(self, path: str) -> int:
        self.struck("stat", path)
        inode = self._require(path)
        return 0 if inode is None else inode.modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.struck("stat", path)
        inode = self._require(path)
        assert inode is not None, "only files are dated"
        inode.modified_ms = modified_ms

    def make_read_only(self, path: str) -> None:
        self.struck("stat", path)
        inode = self._require(path)
        assert inode is not None, "only files are frozen"
        inode.read_only = True

    def space(self, path: str) -> tuple[int, int]:
        self.struck("space", path)
        used = sum(len(inode.content) for inode in self._names.values() if inode is not None)
        return SIMULATED_SPACE_BYTES, SIMULATED_SPACE_BYTES - used

    def lock(self, path: str) -> SimLock:
        self.struck("lock", path)
        if path in self._locks:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        self.open(path, create=True).close()
        self._locks.add(path)
        return SimLock(self, path)

    def unlock(self, path: str) -> None:
        self._locks.discard(path)
        if path in self._names:
            self.remove(path)

    def touch(self, inode: Inode) -> None:
        inode.modified_ms = self._now_ms()

    def _change(self, directories: set[str], change: Callable[[Names], None]) -> None:
        change(self._names)
        self._journal.append((frozenset(directories), change))

    def _require(self, path: str) -> Inode | None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return self._names[path]

    def _require_directory(self, path: str) -> None:
        if self._require(path) is not None:
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)


class SimFile:
    """An open file of a `SimDisk`. As on a real system, it can still be used after its name is removed."""

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def size(self) -> int:
        self._disk.struck("stat", self.path)
        return len(self._inode.content)

    def read_at(self, position: int, size: int) -> bytes:
        kind = self._disk.struck("read", self.path)
        piece = bytes(self._inode.content[position : position + size])
        if kind is FaultKind.FLIP and piece:
            middle = len(piece) // 2
            return piece[:middle] + bytes([piece[middle] ^ 0x10]) + piece[middle + 1 :]
        return piece

    def read_cached_at(self, position: int, size: int) -> bytes | None:
        return self.read_at(position, size)

    def read_cached_into(self, position: int, buffer: memoryview) -> int | None:
        piece = self.read_at(position, len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def write_at(self, position: int, *buffers: Buffer) -> None:
        kind = self._disk.struck("write", self.path)
        written = b"".join(buffers)
        if kind is FaultKind.FULL:
            written = written[: len(written) // 2]
        _apply(self._inode.content, position, written)
        self._inode.pending.append((position, written))
        self._disk.touch(self._inode)
        if kind is FaultKind.FULL:
            raise OSError(errno.ENOSPC, "simulated disk full", self.path)

    def truncate(self, size: int) -> None:
        self._disk.struck("truncate", self.path)
        _apply(self._inode.content, size, None)
        self._inode.pending.append((size, None))
        self._disk.touch(self._inode)

    def sync(self) -> None:
        self._disk.struck("sync", self.path)
        self._inode.make_durable()

    def close(self) -> None:
        self._disk.open_files.discard(self)


class SimLock:
    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.unlock(self._path)


def _apply(content: bytearray, position: int, piece: bytes | None) -> None:
    """Applies a write. If `piece` is None, applies a truncation, which may also extend the file with zeros."""
    if piece is None:
        del content[position:]
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    if piece:
        content[position : position + len(piece)] = piece


def _survivor(inode: Inode, rng: random.Random) -> Inode:
    """Returns a file as the device may have it after a crash: with all synced data, and a part of the later writes."""
    content = bytearray(inode.durable)
    in_order = rng.random() < 0.5  # in half of the cases only the newest writes are lost, else any writes
    kept = rng.randint(0, len(inode.pending))
    for nth, (position, piece) in enumerate(inode.pending):
        if piece is None:
            # a file's size is metadata, which the file system journals in order
            _apply(content, position, None)
        elif in_order:
            if nth < kept:
                _apply(content, position, piece)
            elif nth == kept:
                _apply(content, position, piece[: rng.randint(0, len(piece))])
        elif rng.random() < 0.7:
            _apply(content, position, piece)
    return Inode(content, bytes(content), [], inode.modified_ms, inode.read_only)


def _parents_exist(path: str, names: Names) -> bool:
    while path != "/":
        path = posixpath.dirname(path)
        if path not in names:
            return False
    return True


def _rename(names: Names, source: str, target: str) -> None:
    if source not in names:
        return  # the file was created after the last sync, and its creation is lost
    _remove(names, target)
    below = source + "/"
    for path in [path for path in names if path == source or path.startswith(below)]:
        names[target + path[len(source) :]] = names.pop(path)


def _remove(names: Names, path: str) -> None:
    below = path + "/"
    for found in [found for found in names if found == path or found.startswith(below)]:
        del names[found]
