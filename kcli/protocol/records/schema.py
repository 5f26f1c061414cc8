"""Encodes and decodes every record that Kafka defines by a schema. The fields of a dataclass are the schema.

The annotation of a field decides its encoding (kcli.protocol.fields). Fields are declared in the order of Kafka's
schema, which is also the order of the JSON. On the wire, tagged fields come last, in ascending order, and only if they
differ from their default (KIP-482).

A field of the type `UUID` can have the zero uuid as its value. A field of the type `UUID | None` reads the zero uuid as
None.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import struct
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, TypeVar, dataclass_transform
from uuid import UUID

from kcli.errors import CorruptRecordError, UnsupportedVersionException
from kcli.model.ids import ZERO_ID
from kcli.model.java_utf8 import decode_utf8
from kcli.model.uuids import uuid_to_text
from kcli.protocol.fields import SAME_AS_DEFAULT, Number, only, since, tag
from kcli.protocol.wire.varint import VarintError, encode_uvarint, read_uvarint
from kcli.protocol.wire_struct import wire_struct

T = TypeVar("T")
Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


# --- declaring


@dataclass(frozen=True, slots=True)
class Schema:
    """The properties of a record class besides its fields. `key` is its api key or record type, or -1 for a nested
    struct."""

    key: int
    min_version: int
    max_version: int
    flexible_since: int


_SCHEMAS: dict[type, Schema] = {}
NEVER_FLEXIBLE = 1 << 15
MAX_VERSION = NEVER_FLEXIBLE - 1


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(
    key: int = -1, *, versions: tuple[int, int] = (0, MAX_VERSION), flexible_since: int = 0
) -> Callable[[type[T]], type[T]]:
    """Declares a record class with its schema. A nested struct is encoded in the version of its record, and is flexible
    if its record is flexible."""

    def declare(cls: type[T]) -> type[T]:
        made = wire_struct(cls)
        _SCHEMAS[made] = Schema(key, *versions, flexible_since)
        return made

    return declare


def schema_of(cls: type) -> Schema:
    return _SCHEMAS[cls]


# --- using


def encode(value: object, version: int) -> bytes:
    """Encodes the fields, without framing. Raises UnsupportedVersionException if `version` cannot express a value."""
    schema = _checked(type(value), version)
    out = bytearray()
    _layout(type(value), version, version >= schema.flexible_since).write(out, value)
    return bytes(out)


def decode(cls: type[T], version: int, buffer: bytes, position: int = 0, *, exact: bool = True) -> T:
    """Decodes a record of the class `cls` at `position`. If `exact` is True, the record must end at the end of the
    buffer. Raises CorruptRecordError for invalid bytes."""
    schema = _checked(cls, version)
    reader = _Reader(buffer, position)
    try:
        value = _layout(cls, version, version >= schema.flexible_since).read(reader)
    except _INVALID as error:
        raise CorruptRecordError(_invalid_text(cls, version, error)) from None
    if exact and reader.position != len(buffer):
        raise CorruptRecordError(
            f"Found {len(buffer) - reader.position} byte(s) of garbage after version {version} of {cls.__name__}"
        )
    return typing.cast("T", value)


def decode_elements(cls: type[object], version: int, buffer: bytes, position: int = 0) -> Iterator[object]:
    """Decodes the elements of the first field of a record, which must be an array, one at a time. So the caller can
    pause between two elements. After the last element, decodes the other fields, only to check them.

    Raises CorruptRecordError for invalid bytes, which may be after the first elements.
    """
    schema = _checked(cls, version)
    layout = _layout(cls, version, version >= schema.flexible_since)
    first = layout.plain[0].type
    assert isinstance(first, _Array), f"the first field of {cls.__name__} is an array"
    reader = _Reader(buffer, position)
    try:
        for _ in range(first.length.read(reader)):
            yield first.element.read(reader)
        for field in layout.plain[1:]:
            field.type.read(reader)
    except _INVALID as error:
        raise CorruptRecordError(_invalid_text(cls, version, error)) from None


def to_json(value: object, version: int) -> dict[str, Json]:
    """Converts a record to the JSON of Kafka's JSON converters. Names are in camelCase and in the order of the schema.
    Tagged fields with their default values are left out."""
    schema = _checked(type(value), version)
    return _layout(type(value), version, version >= schema.flexible_since).to_json(value)


_INVALID = (IndexError, VarintError, struct.error)
"""The errors of a reader that finds invalid bytes."""


def _invalid_text(cls: type, version: int, error: Exception) -> str:
    return f"Error reading version {version} of {cls.__name__}: {error}"


def _checked(cls: type, version: int) -> Schema:
    schema = _SCHEMAS[cls]
    if not schema.min_version <= version <= schema.max_version:
        raise UnsupportedVersionException(
            f"Version {version} of {cls.__name__} is not known; {schema.min_version} to {schema.max_version} are"
        )
    return schema


# --- the wire types

UUIDS_KEPT = 1000
"""The most UUIDs in the cache of decoded UUIDs. Thousands of records have the UUID of the same topic or directory."""


class _Reader:
    __slots__ = ("buffer", "position")

    def __init__(self, buffer: bytes, position: int) -> None:
        self.buffer = buffer
        self.position = position

    def take(self, size: int) -> bytes:
        start = self.position
        end = start + size
        if end > len(self.buffer):
            raise IndexError(f"{size} bytes wanted where {len(self.buffer) - start} are left")
        self.position = end
        return self.buffer[start:end]

    def uvarint(self) -> int:
        value = self.buffer[self.position]
        if value < 0x80:  # one byte, as most lengths, counts and tags have
            self.position += 1
        else:
            value, self.position = read_uvarint(self.buffer, self.position)
        return value

    def number(self, form: struct.Struct) -> int:
        value: int = form.unpack_from(self.buffer, self.position)[0]
        self.position += form.size
        return value


class _Type(typing.Protocol):
    def write(self, out: bytearray, value: typing.Any) -> None: ...
    def read(self, reader: _Reader) -> object: ...
    def to_json(self, value: typing.Any) -> Json: ...


class _Number:
    def __init__(self, code: str) -> None:
        self.form = struct.Struct(">" + code)

    def write(self, out: bytearray, value: float) -> None:
        out += self.form.pack(value)

    def read(self, reader: _Reader) -> object:
        return reader.number(self.form)

    def to_json(self, value: float) -> Json:
        return value


@functools.lru_cache(UUIDS_KEPT)
def _uuid(raw: bytes) -> UUID:
    return UUID(bytes=raw)


class _Uuid:
    def __init__(self, nullable: bool) -> None:
        self.nullable = nullable

    def write(self, out: bytearray, value: UUID | None) -> None:
        out += (value or ZERO_ID).bytes

    def read(self, reader: _Reader) -> object:
        value = _uuid(reader.take(16))
        return None if self.nullable and not value.int else value

    def to_json(self, value: UUID | None) -> Json:
        return uuid_to_text(value or ZERO_ID)


class _Length:
    """The codec for the length before a string, bytes or array. The length is compact in flexible versions. -1 means
    null."""

    def __init__(self, form: struct.Struct, flexible: bool, nullable: bool) -> None:
        self.form = form
        self.flexible = flexible
        self.nullable = nullable

    def write(self, out: bytearray, length: int) -> None:
        out += encode_uvarint(length + 1) if self.flexible else self.form.pack(length)

    def write_null(self, out: bytearray) -> None:
        if not self.nullable:
            raise TypeError("null in a field that is not nullable")
        self.write(out, -1)

    def read(self, reader: _Reader) -> int:
        length = reader.uvarint() - 1 if self.flexible else reader.number(self.form)
        if length < 0 and not self.nullable:
            raise IndexError("a field that is not nullable was serialized as null")
        # This check works for arrays too, because each element has at least one byte.
        if length > len(reader.buffer) - reader.position:
            raise IndexError(
                f"a length of {length} where {len(reader.buffer) - reader.position} bytes are left"
            )
        return length


_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class _String:
    def __init__(self, flexible: bool, nullable: bool) -> None:
        self.length = _Length(_INT16, flexible, nullable)

    def write(self, out: bytearray, value: str | None) -> None:
        if value is None:
            self.length.write_null(out)
            return
        encoded = value.encode()
        self.length.write(out, len(encoded))
        out += encoded

    def read(self, reader: _Reader) -> object:
        length = self.length.read(reader)
        return None if length < 0 else decode_utf8(reader.take(length))

    def to_json(self, value: str | None) -> Json:
        return value


class _Bytes:
    def __init__(self, flexible: bool, nullable: bool) -> None:
        self.length = _Length(_INT32, flexible, nullable)

    def write(self, out: bytearray, value: bytes | None) -> None:
        if value is None:
            self.length.write_null(out)
            return
        self.length.write(out, len(value))
        out += value

    def read(self, reader: _Reader) -> object:
        length = self.length.read(reader)
        return None if length < 0 else reader.take(length)

    def to_json(self, value: bytes | None) -> Json:
        return None if value is None else base64.b64encode(value).decode()


class _Array:
    def __init__(self, element: _Type, flexible: bool, nullable: bool) -> None:
        self.element = element
        self.length = _Length(_INT32, flexible, nullable)

    def write(self, out: bytearray, value: tuple[object, ...] | None) -> None:
        if value is None:
            self.length.write_null(out)
            return
        self.length.write(out, len(value))
        write = self.element.write
        for element in value:
            write(out, element)

    def read(self, reader: _Reader) -> object:
        length = self.length.read(reader)
        if length < 0:
            return None
        read = self.element.read
        return tuple([read(reader) for _ in range(length)])

    def to_json(self, value: tuple[object, ...] | None) -> Json:
        return None if value is None else [self.element.to_json(element) for element in value]


class _Numbers:
    """The codec for an array of numbers, which may be the partitions of a large topic. It packs all of them at once."""

    def __init__(self, code: str, flexible: bool, nullable: bool) -> None:
        self.code = code
        self.size = struct.calcsize(">" + code)
        self.length = _Length(_INT32, flexible, nullable)

    def write(self, out: bytearray, value: tuple[int, ...] | None) -> None:
        if value is None:
            self.length.write_null(out)
            return
        self.length.write(out, len(value))
        out += struct.pack(f">{len(value)}{self.code}", *value)

    def read(self, reader: _Reader) -> object:
        length = self.length.read(reader)
        return None if length < 0 else struct.unpack(f">{length}{self.code}", reader.take(length * self.size))

    def to_json(self, value: tuple[int, ...] | None) -> Json:
        return None if value is None else list(value)


class _NullableStruct:
    """The codec for a struct that may be null. The byte before the struct is 1 if the struct is present, and -1 if it
    is null. Inside a tagged field, the byte for null is 0."""

    def __init__(self, layout: _Layout, tagged: bool) -> None:
        self.layout = layout
        self.null = b"\x00" if tagged else b"\xff"

    def write(self, out: bytearray, value: object) -> None:
        if value is None:
            out += self.null
        else:
            out += b"\x01"
            self.layout.write(out, value)

    def read(self, reader: _Reader) -> object:
        return None if reader.take(1) == self.null else self.layout.read(reader)

    def to_json(self, value: object) -> Json:
        return None if value is None else self.layout.to_json(value)


# --- layouts: a class at a version


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    json_name: str
    type: _Type
    default: object
    constructor_default: object
    tag: int | None
    ignorable: bool


class _Layout:
    """The encoders and decoders for the fields of one class at one version."""

    def __init__(self, cls: type, fields: list[_Field], absent: list[_Field], flexible: bool) -> None:
        self.cls = cls
        self.fields = fields
        self.plain = [field for field in fields if field.tag is None]
        self.tagged = sorted(
            (field for field in fields if field.tag is not None), key=lambda field: field.tag or 0
        )
        # A field is left out if it has the value that stands for a missing field. This value may differ from the
        # constructor's default.
        self.absent = {
            field.name: field.default
            for field in self.tagged
            if field.default is not field.constructor_default
        }
        self.by_tag = {field.tag: field for field in self.tagged}
        self.refused = [field for field in absent if not field.ignorable]
        self.flexible = flexible

    def write(self, out: bytearray, value: object) -> None:
        for field in self.refused:
            if getattr(value, field.name) != field.constructor_default:
                raise UnsupportedVersionException(
                    f"Attempted to write a non-default {field.json_name} of {self.cls.__name__} "
                    "at a version that has no such field"
                )
        for field in self.plain:
            try:
                field.type.write(out, getattr(value, field.name))
            except (TypeError, struct.error) as error:
                raise TypeError(f"{self.cls.__name__}.{field.name} cannot be written: {error}") from error
        if self.flexible:
            self._write_tagged(out, value)

    def _write_tagged(self, out: bytearray, value: object) -> None:
        present = [
            (field, item) for field in self.tagged if (item := getattr(value, field.name)) != field.default
        ]
        out += encode_uvarint(len(present))
        for field, item in present:
            content = bytearray()
            field.type.write(content, item)
            out += encode_uvarint(field.tag or 0)
            out += encode_uvarint(len(content))
            out += content

    def read(self, reader: _Reader) -> object:
        values = {field.name: field.type.read(reader) for field in self.plain}
        values |= self.absent
        if self.flexible:
            for _ in range(reader.uvarint()):
                number = reader.uvarint()
                content = reader.take(reader.uvarint())
                field = self.by_tag.get(number)
                if field is not None:  # an unknown tag, which a newer Kafka may write, is skipped
                    values[field.name] = field.type.read(_Reader(content, 0))
        return self.cls(**values)

    def to_json(self, value: object) -> dict[str, Json]:
        node: dict[str, Json] = {}
        for field in self.fields:
            item = getattr(value, field.name)
            if field.tag is None or item != field.default:
                node[field.json_name] = field.type.to_json(item)
        return node


_LAYOUTS: dict[tuple[type, int, bool], _Layout] = {}


def _layout(cls: type, version: int, flexible: bool) -> _Layout:
    layout = _LAYOUTS.get((cls, version, flexible))
    if layout is None:
        layout = _LAYOUTS[cls, version, flexible] = _make_layout(cls, version, flexible)
    return layout


def _make_layout(cls: type, version: int, flexible: bool) -> _Layout:
    # include_extras keeps the Annotated metadata, which is the schema.
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: list[_Field] = []
    absent: list[_Field] = []
    for declared in dataclasses.fields(cls):
        hint = hints[declared.name]
        metadata = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
        place = next((item for item in metadata if isinstance(item, tag)), None)
        first = next((item for item in metadata if isinstance(item, since)), None)
        single = next((item for item in metadata if isinstance(item, only)), None)
        field = _Field(
            name=declared.name,
            json_name=camel_case(declared.name),
            type=_type(hint, version, flexible, tagged=place is not None),
            default=(declared.default if place is None or place.absent is SAME_AS_DEFAULT else place.absent),
            constructor_default=declared.default,
            tag=None if place is None else place.number,
            ignorable=single is not None or (first is not None and first.ignorable),
        )
        has_field = (first is None or version >= first.version) and (
            single is None or version == single.version
        )
        (fields if has_field else absent).append(field)
    return _Layout(cls, fields, absent, flexible)


def _type(
    hint: object, version: int, flexible: bool, *, tagged: bool = False, nullable: bool = False
) -> _Type:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if origin is Annotated:
        number = next((item for item in arguments[1:] if isinstance(item, Number)), None)
        return _Number(number.code) if number else _type(arguments[0], version, flexible, tagged=tagged)
    if origin in (typing.Union, UnionType):
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _type(inner, version, flexible, tagged=tagged, nullable=True)
    if origin is tuple:
        element = _type(arguments[0], version, flexible)
        if isinstance(element, _Number):
            return _Numbers(element.form.format[1:], flexible, nullable)
        return _Array(element, flexible, nullable)
    if hint is str:
        return _String(flexible, nullable)
    if hint is bytes:
        return _Bytes(flexible, nullable)
    if hint is bool:
        return _Number("?")
    if hint is float:
        return _Number("d")
    if hint is UUID:
        return _Uuid(nullable)
    assert isinstance(hint, type) and hint in _SCHEMAS, f"no wire type for the annotation {hint!r}"
    layout = _layout(hint, version, flexible)
    return _NullableStruct(layout, tagged) if nullable else layout


# --- texts


def camel_case(name: str) -> str:
    """`k_raft_version` -> `kRaftVersion`."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
