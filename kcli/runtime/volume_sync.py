"""Syncs a whole file system with one call, `syncfs` of Linux.

A separate sync for each of a hundred thousand files takes many seconds, although the device needs far less time for the
data. The manual page of `syncfs` promises the same effect as an fsync of every file. But Linux before 5.8 does not
report write errors to `syncfs`, and some file systems, such as FUSE, do not pass the call on. In these cases this
module does not use `syncfs`. The call also syncs other data on the same file system.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys

TRUSTED_FILE_SYSTEMS = frozenset({0xEF53, 0x5846_5342, 0x9123_683E})
"""The types (`f_type` of statfs) of ext4, xfs and btrfs. On these file systems, `syncfs` writes all data and the
journal, and then flushes the cache of the device."""

FIRST_KERNEL = (5, 8)
"""The first Linux whose `syncfs` reports write errors."""

STATFS_BYTES = 256
"""The size of the buffer for the structure `statfs`, which is smaller on every processor. The first field of the
structure, a long, is the type of the file system."""


def sync_volume(path: str) -> bool:
    """Syncs the file system of a directory. Returns False, and syncs nothing, if the caller must sync file by file.
    Raises OSError."""
    library = _library()
    if library is None or _type_of(library, path) not in TRUSTED_FILE_SYSTEMS:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if library.syncfs(fd):
            raise _error(path)
    finally:
        os.close(fd)
    return True


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The C library. None if its `syncfs` cannot be relied on."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release, re.ASCII)
    if sys.platform != "linux" or release is None or (int(release[1]), int(release[2])) < FIRST_KERNEL:
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "syncfs") else None


def _type_of(library: ctypes.CDLL, path: str) -> int:
    status = ctypes.create_string_buffer(STATFS_BYTES)
    if library.statfs(os.fsencode(path), status):
        raise _error(path)
    return ctypes.c_long.from_buffer(status).value


def _error(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
