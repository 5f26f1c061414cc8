"""The place where the batches of a segment are. Every reader of a log gets the bytes through this interface.

The only place today is a file in the directory of the log: a `Handle`, which opens a `File`. A segment that was copied
to a remote storage (KIP-405) is another implementation of these two protocols, and needs no other reader.
"""

from __future__ import annotations

from typing import Protocol


class ByteSource(Protocol):
    """The bytes of one segment, open for reading. Readers in several threads may use it at the same time."""

    def read_at(self, position: int, size: int) -> bytes:
        """Reads `size` bytes from `position`. Returns fewer bytes only if the segment ends earlier. May block."""
        ...

    def read_cached_at(self, position: int, size: int) -> bytes | bytearray | None:
        """Reads like `read_at`, but returns None if the read would block. The caller then calls `read_at` in a
        thread."""
        ...

    def read_cached_into(self, position: int, buffer: memoryview) -> int | None:
        """Reads bytes from `position` on into `buffer`. Returns the number of bytes, or None if the read would
        block."""
        ...


class SegmentBytes(Protocol):
    """The place of the bytes of one segment."""

    @property
    def path(self) -> str:
        """The name of the place in messages, such as the path of a file."""
        ...

    def file(self) -> ByteSource:
        """Opens the bytes, or returns the open ones. Raises OSError."""
        ...
