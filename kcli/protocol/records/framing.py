"""The framing of metadata records: `frame version 1 | api key | record version`, all unsigned varints, then fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kcli.errors import CorruptRecordError
from kcli.protocol.records.schema import decode, encode, schema_of
from kcli.protocol.wire.varint import VarintError, encode_uvarint, read_uvarint

T = TypeVar("T")

FRAME_VERSION = 1


def encode_framed(record: object, version: int) -> bytes:
    frame = (FRAME_VERSION, schema_of(type(record)).key, version)
    return b"".join(map(encode_uvarint, frame)) + encode(record, version)


def framed_key(value: bytes) -> int | None:
    """The api key of a framed record; None if the frame is invalid."""
    try:
        frame_version, position = read_uvarint(value, 0)
        return read_uvarint(value, position)[0] if frame_version == FRAME_VERSION else None
    except (IndexError, VarintError):
        return None


def decode_framed(types: Mapping[int, type[T]], value: bytes) -> tuple[T, int]:
    """Decodes a record. Returns the record and its version. Raises CorruptRecordError for invalid bytes and for an api
    key that is not in `types`."""
    try:
        frame_version, position = read_uvarint(value, 0)
        if frame_version != FRAME_VERSION:
            raise CorruptRecordError(
                f"Could not deserialize metadata record due to unknown frame version {frame_version}"
                f"(only frame version {FRAME_VERSION} is supported)"
            )
        key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except (IndexError, VarintError) as error:
        raise CorruptRecordError(f"Error while reading the frame of a metadata record: {error}") from None
    cls = types.get(key)
    if cls is None:
        raise CorruptRecordError(f"Unknown metadata id {key}")
    return decode(cls, version, value, position), version
