"""Java's serialised form of a `HashMap<byte[], byte[]>`, in which a single worker keeps its offsets.

The form is described in the "Java Object Serialization Specification". Only this one class is read: the classes of any
other stream are refused, so nothing but bytes is ever made of a file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kcli.model.java_order import DEFAULT_CAPACITY

_MAGIC = bytes.fromhex("aced0005")

_MAP = bytes.fromhex("7372") + b"\0\x11java.util.HashMap" + bytes.fromhex("0507dac1c31660d103")
"""An object of the class HashMap, with its version and the flags of a class that writes its own content."""
_MAP_FIELDS = b"\0\x02F\0\x0aloadFactorI\0\x09threshold" + bytes.fromhex("7870")
_ARRAY = bytes.fromhex("7572") + b"\0\x02[B" + bytes.fromhex("acf317f8060854e0020000") + bytes.fromhex("7870")
"""An array of bytes with the description of its class."""
_NEXT_ARRAY = bytes.fromhex("7571007e0002")
"""An array of bytes whose class is described before: it has the third handle of the stream."""
_NULL, _REFERENCE, _END = b"\x70", b"\x71", b"\x78"

_FIRST_HANDLE = 0x7E0000
_HANDLES_BEFORE = 3
"""The handles of the class HashMap, the map, and the class of arrays."""

_LOAD_FACTOR = 0.75
_HEAD = struct.Struct(">fi2sii")
_INT = struct.Struct(">i")

Entries = Mapping[bytes | None, bytes | None]


class InvalidMap(ValueError):
    """The bytes are not a serialised map of byte arrays."""


class TruncatedMap(InvalidMap):
    """The bytes end too early."""


def encode_map(entries: Entries) -> bytes:
    """Writes a map. Its entries are in their order: in Java, the order of arrays in a HashMap is arbitrary."""
    capacity = DEFAULT_CAPACITY
    while len(entries) > capacity * _LOAD_FACTOR:
        capacity *= 2
    threshold = int(capacity * _LOAD_FACTOR) if entries else 0
    head = _HEAD.pack(_LOAD_FACTOR, threshold, b"\x77\x08", capacity, len(entries))
    out = bytearray(_MAGIC + _MAP + _MAP_FIELDS + head)
    prefix = _ARRAY
    for item in (item for entry in entries.items() for item in entry):
        if item is None:
            out += _NULL
        else:
            out += prefix + _INT.pack(len(item)) + item
            prefix = _NEXT_ARRAY
    return bytes(out + _END)


def decode_map(content: bytes) -> dict[bytes | None, bytes | None]:
    """Reads a map. Raises TruncatedMap if the bytes end too early, and InvalidMap for any other content."""
    reader = _Reader(content)
    magic = reader.take(len(_MAGIC))
    if magic != _MAGIC:
        raise InvalidMap(f"java.io.StreamCorruptedException: invalid stream header: {magic.hex().upper()}")
    reader.expect(_MAP)
    reader.expect(_MAP_FIELDS)
    _, _, block, _, size = _HEAD.unpack(reader.take(_HEAD.size))
    if block != b"\x77\x08" or size < 0:
        raise InvalidMap("the content of the map is invalid")
    entries = {}
    for _ in range(size):
        key = reader.array()
        entries[key] = reader.array()
    reader.expect(_END)
    return entries


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0
        self._arrays: list[bytes] = []

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._content):
            raise TruncatedMap(f"the map ends after {len(self._content)} bytes")
        taken = self._content[self._position : end]
        self._position = end
        return taken

    def expect(self, expected: bytes) -> None:
        start = self._position
        if self.take(len(expected)) != expected:
            raise InvalidMap(f"expected a HashMap of byte arrays, found another object at byte {start}")

    def array(self) -> bytes | None:
        """Reads an array of bytes, null, or a reference to an array before it."""
        kind = self.take(1)
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            number = self._int() - _FIRST_HANDLE - _HANDLES_BEFORE
            if not 0 <= number < len(self._arrays):
                raise InvalidMap(f"expected a reference to an array at byte {self._position}")
            return self._arrays[number]
        self._position -= 1
        self.expect(_NEXT_ARRAY if self._arrays else _ARRAY)
        size = self._int()
        if size < 0:
            raise InvalidMap(f"an array has {size} bytes")
        self._arrays.append(self.take(size))
        return self._arrays[-1]

    def _int(self) -> int:
        number: int = _INT.unpack(self.take(_INT.size))[0]
        return number
