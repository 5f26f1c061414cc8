"""The interface to files. Storage takes a `Disk`, and tests pass a simulated `Disk` that can crash and fail.

A `File` reads and writes at given positions and has no current position. So a reader in a thread and the writer on the
event loop can share a `File`. All methods raise OSError as the operating system does. The package `storage` decides how
to handle the error.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from kcli.model.buffers import Buffer


class File(Protocol):
    def fileno(self) -> int:
        """The file descriptor. A simulated file has no descriptor and raises OSError."""
        ...

    def size(self) -> int: ...

    def read_at(self, position: int, size: int) -> bytes:
        """Reads `size` bytes from `position`. Returns fewer bytes only if the file ends earlier."""
        ...

    def read_cached_at(self, position: int, size: int) -> bytes | bytearray | None:
        """Reads like `read_at`, but returns None if the read would have to wait for the device."""
        ...

    def read_cached_into(self, position: int, buffer: memoryview) -> int | None:
        """Reads bytes from `position` on into `buffer`, as far as the page cache contains them. Returns the number of
        bytes that were read. 0 means that the file ends at or before `position`.

        None means that the page cache does not contain the first bytes.
        """
        ...

    def write_at(self, position: int, *buffers: Buffer) -> None:
        """Writes the buffers one after another from `position`. Raises OSError unless all bytes are written."""
        ...

    def truncate(self, size: int) -> None:
        """Cuts the file to `size`. If the file is shorter, extends it with zeros."""
        ...

    def sync(self) -> None:
        """Syncs the file, so that its content survives a power failure."""
        ...

    def close(self) -> None: ...


class FileLock(Protocol):
    def release(self) -> None:
        """Releases the lock and removes its file."""
        ...


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    name: str
    is_dir: bool
    size_bytes: int
    modified_ms: int


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Opens a file for reading and, unless `read_only`, for writing. If `create` is True, creates a missing
        file."""
        ...

    def list_dir(self, path: str) -> list[DirectoryEntry]:
        """The entries of a directory, ordered by name."""
        ...

    def list_names(self, path: str) -> list[str]:
        """The names in a directory, sorted. Faster than `list_dir`, because it reads no sizes or types of files."""
        ...

    def list_dirs(self, path: str) -> list[str]:
        """The sorted names of the directories in a directory. Faster than `list_dir`, because it reads no sizes."""
        ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes:
        """The content of a file, which may be read-only. Raises FileNotFoundError if the file is missing."""
        ...

    def size(self, path: str) -> int:
        """The size of a file, without opening it."""
        ...

    def make_dir(self, path: str) -> None:
        """Makes the directory and its parents. If the directory exists, does nothing."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory atomically. A file at `target` is replaced."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Syncs a directory, so that the names in the directory survive a power failure."""
        ...

    def sync_volume(self, path: str) -> bool:
        """Syncs everything on the file system of a directory: files, sizes and names. Returns False, and syncs nothing,
        if the operating system cannot do this reliably."""
        ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def make_read_only(self, path: str) -> None:
        """Removes all write permissions. The file can still be renamed and removed."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """The total bytes and the usable bytes of the volume of `path`."""
        ...

    def lock(self, path: str) -> FileLock:
        """Takes the lock file. Raises BlockingIOError if another process holds the lock."""
        ...


class SystemFile:
    """A real file. Its descriptor is closed by `close`, or when Python frees this object."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, size: int) -> bytes:
        piece = os.pread(self._fd, size, position)
        if len(piece) == size or not piece:
            return piece
        pieces = [piece]
        got = len(piece)
        while got < size and (piece := os.pread(self._fd, size - got, position + got)):
            pieces.append(piece)
            got += len(piece)
        return b"".join(pieces)

    def read_cached_at(self, position: int, size: int) -> bytes | bytearray | None:
        buffer = bytearray(size)
        try:
            got = os.preadv(self._fd, (buffer,), position, _NOWAIT)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return None
            if error.errno == errno.EOPNOTSUPP:  # this file system has no RWF_NOWAIT, so the read may wait
                return self.read_at(position, size)
            raise
        if got < size and position + got < self.size():
            return None
        # The buffer is not converted to bytes, because this copy and its page faults would take a fifth of the time of
        # a fetch.
        return buffer if got == size else buffer[:got]

    def read_cached_into(self, position: int, buffer: memoryview) -> int | None:
        try:
            return os.preadv(self._fd, (buffer,), position, _NOWAIT)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return None
            if error.errno == errno.EOPNOTSUPP:  # a file system without the flag
                return os.preadv(self._fd, (buffer,), position)
            raise

    def write_at(self, position: int, *buffers: Buffer) -> None:
        if len(buffers) > MAX_BUFFERS:
            buffers = (b"".join(buffers),)
        if len(buffers) == 1:
            written = os.pwrite(self._fd, buffers[0], position)
        else:
            written = os.pwritev(self._fd, buffers, position)
        size_bytes = sum(map(len, buffers))
        if written != size_bytes:
            self._write_rest(position, buffers, written)

    def _write_rest(self, position: int, buffers: Sequence[Buffer], written: int) -> None:
        rest = memoryview(b"".join(buffers))
        while written < len(rest):
            step = os.pwrite(self._fd, rest[written:], position + written)
            if step == 0:
                raise OSError(errno.EIO, "the device accepts no more bytes", self.path)
            written += step

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        # A thread may still read this file after the pool of open files has dropped it. So the descriptor is closed
        # with the last reference.
        with contextlib.suppress(OSError, AttributeError):
            self.close()


class SystemFileLock:
    """A POSIX record lock, like Java's FileLock. So a kcli broker and a Kafka broker cannot use the same log directory
    at the same time.

    The locks belong to the process. If a process takes the same lock twice, the operating system does not refuse the
    second lock. So this class refuses a second lock on a path in `held`.
    """

    held: ClassVar[set[str]] = set()
    _guard: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        with self._guard:
            if self._path in self.held:
                raise BlockingIOError(errno.EAGAIN, "locked by this very process", path)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(self._fd)
                raise BlockingIOError(errno.EAGAIN, "locked by another process", path) from error
            self.held.add(self._path)

    def release(self) -> None:
        with self._guard:
            if self._path in self.held:
                self.held.discard(self._path)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path)
                os.close(self._fd)


_READ = os.O_RDONLY | os.O_NONBLOCK
"""Without O_NONBLOCK, which has no effect on files, a named pipe in place of a file would block the node for ever."""


class SystemDisk:
    """The machine's own file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> SystemFile:
        access = _READ if read_only else os.O_RDWR
        flags = access | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SystemFile(path, os.open(path, flags, 0o644))

    def list_dir(self, path: str) -> list[DirectoryEntry]:
        listing = []
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except FileNotFoundError:  # the file was removed between the two calls, or is a dangling link
                    continue
                modified_ms = status.st_mtime_ns // 1_000_000
                listing.append(DirectoryEntry(entry.name, entry.is_dir(), status.st_size, modified_ms))
        listing.sort(key=lambda entry: entry.name)
        return listing

    def list_names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def list_dirs(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read(self, path: str) -> bytes:
        fd = os.open(path, _READ | os.O_CLOEXEC)
        try:
            pieces = [os.read(fd, SMALL_FILE_BYTES)]
            if len(pieces[0]) == SMALL_FILE_BYTES:
                while piece := os.read(fd, LARGE_FILE_BYTES):
                    pieces.append(piece)
            return b"".join(pieces)
        finally:
            os.close(fd)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_volume(self, path: str) -> bool:
        # The import takes milliseconds, and only a node with many logs needs it.
        from kcli.runtime.volume_sync import sync_volume

        return sync_volume(path)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_read_only(self, path: str) -> None:
        os.chmod(path, os.stat(path).st_mode & 0o7555)

    def space(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def lock(self, path: str) -> SystemFileLock:
        return SystemFileLock(path)


SMALL_FILE_BYTES = 4096
"""The size below which a file is read in one call. At its start, a broker reads a few small files for each
partition."""

LARGE_FILE_BYTES = 1 << 20
"""The number of bytes that each further call reads from a larger file."""

MAX_BUFFERS = os.sysconf("SC_IOV_MAX")
"""The most buffers that one call may write. With more, Linux returns EINVAL, which looks like a failed disk."""

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
"""The flag for reads that do not wait for the device. Only Linux has this flag. On other systems, the reads of cached
bytes are normal reads, which may wait."""


def read_file(disk: Disk, path: str) -> bytes:
    """The content of a small file, which may be read-only. Raises FileNotFoundError if the file is missing."""
    return disk.read(path)


def make_durable_dir(disk: Disk, path: str) -> None:
    """Makes the directory and its parents, and syncs their names, so that they survive a power failure."""
    if disk.exists(path):
        return
    parent = os.path.dirname(os.path.abspath(path))
    make_durable_dir(disk, parent)
    disk.make_dir(path)
    with contextlib.suppress(PermissionError):  # a parent that we may write but not read
        disk.sync_dir(parent)


def replace_file(disk: Disk, path: str, content: bytes, *, sync: bool = True) -> None:
    """Writes `content` to `path`. After a crash the file has the old or the new content.

    The steps are the same as for Kafka's checkpoints: write `<path>.tmp`, fsync, rename, fsync the directory.
    """
    end_replacing(disk, path, begin_replacing(disk, path, content), sync=sync)
    if sync:
        disk.sync_dir(os.path.dirname(path))


def begin_replacing(disk: Disk, path: str, content: bytes) -> File:
    """The first step of `replace_file`: writes `<path>.tmp` without a sync. If many files are written before the first
    sync, the syncs take less time."""
    file = disk.open(path + ".tmp", create=True)
    try:
        file.truncate(0)
        file.write_at(0, content)
    except OSError:
        file.close()
        raise
    return file


def end_replacing(disk: Disk, path: str, file: File, *, sync: bool = True) -> None:
    """The other steps of `replace_file`, except the sync of the directory, which the caller must do."""
    try:
        if sync:
            file.sync()
    finally:
        file.close()
    install_replacement(disk, path)


def install_replacement(disk: Disk, path: str) -> None:
    """Renames `<path>.tmp`, which is synced and closed, to `path`. The caller must then sync the directory."""
    disk.rename(path + ".tmp", path)
