"""The wire format of Confluent's serializers: how a value names its schema.

In the prefix form, a value begins with the byte 0x00 and the id of its schema (int32, big endian). In the header form,
the header `__key_schema_id` or `__value_schema_id` has the byte 0x01 and the guid of the schema, and the value has only
its payload. The byte 0x01 and the guid may also be a prefix. Protobuf adds the path of the message type after the id.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kcli.formats.codec import FormatError
from kcli.protocol.wire.varint import VarintError, encode_varint, read_varint

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"

ID_MAGIC, GUID_MAGIC = 0, 1
ID_BYTES, GUID_BYTES = 5, 17
"""The bytes of an id or a guid with its magic byte."""

PATH_MAX = 100
"""The deepest nesting of a message type. Protobuf's own parsers stop at about this depth."""

Header = tuple[str, bytes | None]
SchemaKey = int | uuid.UUID
"""What a value says about its schema: the id or the guid."""


class Place(enum.StrEnum):
    """Where a serializer writes the schema of a value."""

    PREFIX = "prefix"
    HEADER = "header"


class UnknownMagicByte(FormatError):
    """A value does not name its schema, so no serializer of a schema registry has written it."""


@dataclass(frozen=True, slots=True)
class Framed:
    """A value in its parts. `path` has the bytes of the message path if the header contains them, or None."""

    schema: SchemaKey
    payload: bytes
    path: bytes | None = None


def header_of(*, is_key: bool) -> str:
    """Returns the name of the header that names the schema of keys or of values."""
    return KEY_HEADER if is_key else VALUE_HEADER


def framed(raw: bytes, headers: Iterable[Header] | None = None, *, is_key: bool = False) -> Framed:
    """Splits a value in either form. The header takes precedence over the prefix. Raises UnknownMagicByte."""
    name = header_of(is_key=is_key)
    for header, content in headers or ():
        if header == name and content is not None:
            key, path = header_parts(name, content)
            return Framed(key, raw, path)
    if (split := _split(raw)) is None:
        raise UnknownMagicByte(f"Unknown magic byte! The value has no registry prefix: {_beginning(raw)}")
    return Framed(*split)


def header_parts(name: str, content: bytes) -> tuple[SchemaKey, bytes]:
    """Returns the key of the schema and the message path in the content of a header. Raises UnknownMagicByte."""
    if (split := _split(content)) is None:
        raise UnknownMagicByte(f"Unknown magic byte! The header {name} has no guid of a schema")
    return split


def _split(raw: bytes) -> tuple[SchemaKey, bytes] | None:
    """Returns the id or the guid at the start of bytes, and the bytes after it."""
    if len(raw) >= ID_BYTES and raw[0] == ID_MAGIC:
        return int.from_bytes(raw[1:ID_BYTES], "big"), raw[ID_BYTES:]
    if len(raw) >= GUID_BYTES and raw[0] == GUID_MAGIC:
        return uuid.UUID(bytes=raw[1:GUID_BYTES]), raw[GUID_BYTES:]
    return None


def id_prefix(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def guid_prefix(guid: uuid.UUID) -> bytes:
    """Returns the content of a header, or a prefix, with the guid of a schema."""
    return b"\x01" + guid.bytes


def path_bytes(path: Sequence[int]) -> bytes:
    """Returns the path of a message type: the number of its elements and the elements, as zigzag varints. The path of
    the first type in the file is one zero byte."""
    if tuple(path) == (0,):
        return b"\0"
    return b"".join(encode_varint(number) for number in (len(path), *path))


def read_path(raw: bytes) -> tuple[tuple[int, ...], int]:
    """Returns the path of a message type at the start of a payload, and the position after the path. Raises
    FormatError."""
    try:
        count, at = read_varint(raw, 0)
        if count == 0:
            return (0,), at
        if not 0 < count <= PATH_MAX:
            raise FormatError(f"the path of the message type has {count} elements")
        path = []
        for _ in range(count):
            number, at = read_varint(raw, at)
            if number < 0:
                raise FormatError(f"the path of the message type has the negative element {number}")
            path.append(number)
        return tuple(path), at
    except (IndexError, VarintError):
        raise FormatError("the value ends inside the path of its message type") from None


def _beginning(raw: bytes) -> str:
    """Describes the beginning of a value without a prefix."""
    if not raw:
        return "it is empty"
    what = "JSON" if raw.lstrip()[:1] in (b"{", b"[") else "other bytes"
    return f"it begins with 0x{raw[0]:02x} ({what})"
