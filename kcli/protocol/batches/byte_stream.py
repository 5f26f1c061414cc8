"""Reads the decompressed bytes of a batch from front to back. The decompression yields these bytes in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kcli.errors import InvalidRecordException
from kcli.protocol.wire.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_varint, read_varlong


class ByteStream:
    """A stream of bytes. Its reader takes (reads and removes) bytes from the front. `front[at:]` are the bytes that are
    buffered and not taken yet. `taken` is the number of bytes that were taken so far."""

    __slots__ = ("_pieces", "at", "front", "taken")

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.front = b""
        self.at = 0
        self.taken = 0

    @property
    def ready_bytes(self) -> int:
        return len(self.front) - self.at

    def grow(self) -> bool:
        """Appends the next piece to `front`. Returns False at the end of the stream."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self.front = self.front[self.at :] + piece
        self.at = 0
        return True

    def grow_to(self, size_bytes: int) -> None:
        """Adds pieces until `size_bytes` are buffered. Raises InvalidRecordException if the stream ends earlier."""
        parts = [self.front[self.at :]]
        size = len(parts[0])
        while size < size_bytes:
            piece = next(self._pieces, None)
            if piece is None:
                raise _ended()
            parts.append(piece)
            size += len(piece)
        self.front, self.at = b"".join(parts), 0

    def is_at_end(self) -> bool:
        """Whether no byte is left. Reads the next pieces if all buffered bytes were taken."""
        while not self.ready_bytes:
            if not self.grow():
                return True
        return False

    def advance(self, size_bytes: int) -> None:
        """Takes `size_bytes` of the buffered bytes."""
        self.at += size_bytes
        self.taken += size_bytes

    def take(self, size_bytes: int) -> Iterator[bytes]:
        """Takes bytes in pieces. Raises InvalidRecordException if the stream ends earlier."""
        while True:
            piece = self.front[self.at : self.at + size_bytes]
            self.advance(len(piece))
            size_bytes -= len(piece)
            yield piece
            if not size_bytes:
                return
            if not self.grow():
                raise _ended()

    def skip(self, size_bytes: int) -> None:
        for _ in self.take(size_bytes):
            pass

    def varint(self) -> int:
        """Takes a varint. Raises VarintError if the varint is too long, and IndexError if the stream ends inside the
        varint."""
        self._reach(MAX_VARINT_BYTES)
        value, end = read_varint(self.front, self.at)
        self.advance(end - self.at)
        return value

    def varlong(self) -> int:
        self._reach(MAX_VARLONG_BYTES)
        value, end = read_varlong(self.front, self.at)
        self.advance(end - self.at)
        return value

    def size_of_record(self) -> int:
        """The size of the next record, including its length field. 0 if the buffered bytes end inside the length
        field."""
        try:
            length, body = read_varint(self.front, self.at)
        except IndexError:
            return 0
        if length < 0:
            raise InvalidRecordException(f"Invalid record size: {length} bytes")
        return body - self.at + length

    def _reach(self, size_bytes: int) -> None:
        while self.ready_bytes < size_bytes and self.grow():
            pass


def _ended() -> InvalidRecordException:
    return InvalidRecordException("The records of a batch end inside a record")
