"""Finds out whether the files of stores have changed, and whether other users of the machine can read private files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

Stamp = tuple[int, int, int]
"""The modification time, size and inode of a file. A change of the file changes at least one of them."""


def file_stamps(files: Iterable[str]) -> tuple[Stamp | None, ...]:
    """The stamp of each file. None for a file that cannot be read."""
    stamps: list[Stamp | None] = []
    for path in files:
        try:
            status = os.stat(path)
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)


def is_readable_by_all(path: str) -> bool:
    """Whether every user of this machine may read the file. False if the file is missing."""
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False
