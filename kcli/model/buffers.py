"""The types of bytes that readers accept and sockets send."""

from __future__ import annotations

from typing import Protocol

Buffer = bytes | bytearray | memoryview


class FileRange(Protocol):
    """Bytes of an open file, which are read when they are sent. Its length is that of the bytes.

    Methods raise StorageError if the disk fails.
    """

    def __len__(self) -> int: ...

    def read_cached_into(self, at: int, buffer: memoryview) -> int | None:
        """Copies the bytes from `at` into `buffer`, as far as the page cache has them. Returns their number.

        None: the page cache has none of them. 0: the file ends before `at`.
        """
        ...

    def read_piece(self, at: int, size: int) -> bytes:
        """`size` bytes from `at`; fewer only if the file ends. May wait for the device."""
        ...


Part = Buffer | FileRange
"""A part of an answer."""
