"""Arrays that many responses contain. Each array is encoded once, and the responses share its bytes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import chain
from struct import Struct
from typing import Any, Generic, TypeVar

from kcli.model.buffers import Buffer
from kcli.model.pace import Pace

T = TypeVar("T")

Write = Callable[[Any, bytearray, Pace], Coroutine[Any, Any, None]]
StructVersion = tuple[type, int]

ELEMENT_COST = 2
"""The cost to encode an element, in microseconds."""

OWN_BUFFER_BYTES = 64 * 1024
"""Shared bytes of at least this size are sent as a separate buffer. Fewer bytes are copied, because the copy is faster
than one more buffer in a `writelines`."""

_SIZE = Struct(">i")


class SharedArray(tuple[T, ...], Generic[T]):
    """An array that keeps its encoded bytes, for the version in which it was encoded last.

    `parts`: if `joined` made this array, the shared arrays that it consists of. Otherwise empty.
    """

    parts: tuple[SharedArray[T], ...]
    _written: tuple[StructVersion, bytes] | None

    def __new__(cls, items: Iterable[T] = ()) -> SharedArray[T]:
        made = super().__new__(cls, items)
        made.parts = ()
        made._written = None
        return made

    @staticmethod
    def joined(parts: Sequence[SharedArray[T]]) -> SharedArray[T]:
        """Makes an array with all elements of the parts. If a part is already encoded, its bytes are used again."""
        made: SharedArray[T] = SharedArray(chain.from_iterable(parts))
        made.parts = tuple(parts)
        return made

    async def encoded(self, version: StructVersion, write: Write, pace: Pace) -> bytes:
        """Returns the elements as bytes, without their count. `version` is the class and the version of the elements,
        and `write` writes one of them."""
        if self._written is not None and self._written[0] == version:
            return self._written[1]
        if self.parts:
            written = b"".join([await part.encoded(version, write, pace) for part in self.parts])
        else:
            out = bytearray()
            for item in self:
                await pace(ELEMENT_COST)
                await write(item, out, pace)
            written = bytes(out)
        # Another answer may have written the same array in the meantime.
        if self._written is None or self._written[0] != version:
            self._written = (version, written)
        return self._written[1]


class Output(bytearray):
    """The bytes of a frame, without the shared bytes, which have their places in the frame. The frame begins with four
    empty bytes for the size."""

    def __init__(self, head: Buffer = b"") -> None:
        super().__init__(head)
        self._shared: list[tuple[int, bytes]] = []

    def share(self, written: bytes) -> None:
        self._shared.append((len(self), written))

    def frame(self) -> Buffer | list[Buffer]:
        """The whole frame with its size in its first four bytes, as one buffer or several."""
        if not self._shared:  # as in most answers
            _SIZE.pack_into(self, 0, len(self) - _SIZE.size)
            return self
        size = len(self) + sum(len(written) for _, written in self._shared)
        _SIZE.pack_into(self, 0, size - _SIZE.size)
        buffers: list[Buffer] = []
        whole, begin = memoryview(self), 0
        for at, written in self._shared:
            buffers += (whole[begin:at], written)
            begin = at
        buffers.append(whole[begin:])
        return [buffer for buffer in buffers if len(buffer)]


def append_shared(out: bytearray, written: bytes) -> None:
    """Appends shared bytes. Few bytes are copied, and many bytes are only referenced."""
    if len(written) >= OWN_BUFFER_BYTES and isinstance(out, Output):
        out.share(written)
    else:
        out += written
