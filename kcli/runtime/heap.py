"""Gives free memory of the C library back to the system.

Large buffers come from the heap of the C library. After the program has freed a buffer of some megabytes, glibc keeps
up to 64 MB of free memory for the next large buffers. `malloc_trim` returns this memory.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

from kcli.runtime.process import resident_bytes

WORTH_BYTES = 8 << 20
"""The change of the process's memory that is large enough for a trim. A trim takes about 0.3 ms for each free
megabyte."""


class Heap:
    """The heap of this process."""

    def __init__(
        self,
        *,
        resident_bytes: Callable[[], int] = resident_bytes,
        trim: Callable[[], None] | None = None,
    ) -> None:
        self._resident_bytes = resident_bytes
        self._trim = trim or _trim
        self._after_trim = 0

    def trim_if_changed(self) -> None:
        """Returns free memory to the system, if the process has grown or shrunk since the last trim. A smaller process
        has freed large objects, and parts of their memory may still be in the heap. May take some milliseconds."""
        if abs(self._resident_bytes() - self._after_trim) >= WORTH_BYTES:
            self._trim()
            self._after_trim = self._resident_bytes()


def _trim() -> None:
    library = _library()
    if library is not None:
        library.malloc_trim(0)


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The C library. None if it is not glibc."""
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    return library if library is not None and hasattr(library, "malloc_trim") else None
