"""The result of a read of a log: a range of bytes of a segment. The caller reads the bytes when it needs them.

A `LogSlice` is a FileRange (model/buffers.py), which a connection sends in pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.model.ids import Position
from kcli.storage.directory import LogDirectory
from kcli.storage.log.segment_bytes import ByteSource


@dataclass(slots=True)
class LogSlice:
    """A range of whole batches of a segment. `file` stays readable while the slice exists, even if the log
    is deleted."""

    base_position: Position
    size_bytes: int
    file: ByteSource
    directory: LogDirectory

    def read(self) -> bytes:
        """Reads the batches. May wait for the device."""
        if not self.size_bytes:
            return b""
        try:
            return self.file.read_at(self.base_position, self.size_bytes)
        except OSError as error:
            raise self.directory.failed(error) from error

    def read_cached(self) -> bytes | bytearray | None:
        """Reads the batches if they are in the page cache. Otherwise returns None."""
        if not self.size_bytes:
            return b""
        try:
            return self.file.read_cached_at(self.base_position, self.size_bytes)
        except OSError as error:
            raise self.directory.failed(error) from error

    # The methods of a FileRange.

    def __len__(self) -> int:
        return self.size_bytes

    def read_cached_into(self, at: int, buffer: memoryview) -> int | None:
        try:
            return self.file.read_cached_into(self.base_position + at, buffer)
        except OSError as error:
            raise self.directory.failed(error) from error

    def read_piece(self, at: int, size: int) -> bytes:
        try:
            return self.file.read_at(self.base_position + at, size)
        except OSError as error:
            raise self.directory.failed(error) from error
