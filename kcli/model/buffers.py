"""The types of bytes that readers accept and sockets send."""

from __future__ import annotations

from typing import Protocol

Buffer = bytes | bytearray | memoryview


class FileRange(Protocol):
    """A range of bytes in an open file. The bytes are read when they are sent. `len` returns the number of bytes.

    Methods raise StorageError if the disk fails.
    """

    def __len__(self) -> int: ...

    def read_cached_into(self, at: int, buffer: memoryview) -> int | None:
        """Copies the bytes from `at` on into `buffer`, as far as the page cache contains them. Returns the number of
        copied bytes.

        None means that the page cache contains none of these bytes. 0 means that the file ends before `at`.
        """
        ...

    def read_piece(self, at: int, size: int) -> bytes:
        """Reads `size` bytes from `at`. Returns fewer bytes only if the file ends. May wait for the device."""
        ...


Part = Buffer | FileRange
"""A part of a response: bytes in memory, or bytes of a file."""
