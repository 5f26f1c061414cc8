"""The payloads of the three schema languages, for serializers and deserializers.

A value is a `Value` of Python, or JSON as Confluent's console tools read and print it: the JSON encoding of Avro, the
JSON mapping of Protobuf, or the JSON itself.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kcli.formats.codec import FormatError, Value
from kcli.formats.registry.deserializer import BulkDecode, Decode
from kcli.formats.registry.framing import path_bytes, read_path
from kcli.formats.registry.schemas import LoadedSchema
from kcli.formats.registry.serializer import Encoder
from kcli.formats.schemas import SchemaType
from kcli.model.java_json import parse_json

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from kcli.formats.avro.language import AvroSchema
    from kcli.formats.json_schema.language import JsonSchema
    from kcli.formats.protobuf.language import ProtobufSchema

T = TypeVar("T")

COLUMNS_FROM_VALUES = 20_000
"""The values of a schema after which they are decoded by columns. To import pyarrow, and pandas with it, takes as long
as to decode these values one by one."""


def value_decode(writer: LoadedSchema, reader: LoadedSchema | None) -> Decode[Value]:
    """Returns the function that decodes payloads to values. Raises FormatError."""
    match writer.type:
        case SchemaType.AVRO:
            from kcli.formats.avro.codec import avro_codec

            return _without_path(
                avro_codec(avro_schema_of(writer), None if reader is None else avro_schema_of(reader)).decode
            )
        case SchemaType.JSON:
            from kcli.formats.json_schema.codec import json_codec

            json_schema_of(reader or writer)
            return _without_path(json_codec(json_schema_of(writer)).decode)
        case SchemaType.PROTOBUF:
            from kcli.formats.protobuf.codec import protobuf_codec

            return _by_path(writer, reader, lambda message: protobuf_codec(message).decode)


def json_decode(writer: LoadedSchema, reader: LoadedSchema | None) -> Decode[str]:
    """Returns the function that decodes payloads to a line of JSON. Raises FormatError."""
    match writer.type:
        case SchemaType.AVRO:
            return _avro_lines(avro_schema_of(writer), None if reader is None else avro_schema_of(reader))
        case SchemaType.JSON:
            json_schema_of(reader or writer)
            return _without_path(_json_line)
        case SchemaType.PROTOBUF:
            return _protobuf_lines(writer, reader)


def value_encoder(
    schema: LoadedSchema, message: str | None = None, *, validates: bool = False
) -> Encoder[Value]:
    """Returns the function that encodes values. `message` is the full name of a Protobuf message, which is the first of
    the file by default. With `validates`, a JSON value must be valid by its schema. Raises FormatError."""
    match schema.type:
        case SchemaType.AVRO:
            from kcli.formats.avro.codec import avro_codec

            return Encoder(avro_codec(avro_schema_of(schema)).encode)
        case SchemaType.JSON:
            from kcli.formats.json_schema.codec import json_codec

            return Encoder(json_codec(json_schema_of(schema), validates=validates).encode)
        case SchemaType.PROTOBUF:
            from kcli.formats.protobuf.codec import protobuf_codec

            path, made = _message(schema, message)
            return Encoder(protobuf_codec(made).encode, path)


def json_encoder(
    schema: LoadedSchema, message: str | None = None, *, validates: bool = False
) -> Encoder[str]:
    """Returns the function that encodes a line of JSON. Raises FormatError as `value_encoder` does."""
    match schema.type:
        case SchemaType.AVRO:
            from kcli.formats.avro.codec import json_encoder

            return Encoder(json_encoder(avro_schema_of(schema)))
        case SchemaType.JSON:
            from kcli.formats.json_schema.codec import json_codec

            return Encoder(_checked_json(json_codec(json_schema_of(schema), validates=validates).decode))
        case SchemaType.PROTOBUF:
            from kcli.formats.protobuf.json_text import from_json

            path, made = _message(schema, message)
            return Encoder(lambda text: bytes(from_json(text, made).SerializeToString()), path)


def record_name(schema: LoadedSchema, message: str | None = None) -> str | None:
    """Returns the name of a schema for the subject strategies that use it: the full name of an Avro type or of a
    Protobuf message, or the title of a JSON Schema."""
    match schema.type:
        case SchemaType.AVRO:
            return avro_schema_of(schema).full_name
        case SchemaType.JSON:
            document = parse_json(schema.text)
            title = document.get("title") if isinstance(document, dict) else None
            return title if isinstance(title, str) else None
        case SchemaType.PROTOBUF:
            from kcli.formats.protobuf.messages import message_name

            return message or message_name(protobuf_schema_of(schema))


def _avro_lines(writer: AvroSchema, reader: AvroSchema | None) -> Decode[str]:
    """Decodes values to lines of JSON, and many at once if pyarrow is installed."""
    from kcli.formats.avro.codec import json_decoder

    def make() -> Many | None:
        from kcli.formats.avro.column_json import LineDecoder

        lines = LineDecoder(writer, reader)
        return (lambda payloads, paths: lines.decode(payloads)) if lines.is_possible else None

    return _with_columns(_without_path(json_decoder(writer, reader)), make)


def _protobuf_lines(writer: LoadedSchema, reader: LoadedSchema | None) -> Decode[str]:
    """Decodes messages to lines of JSON, and many of the first message type at once if pyarrow is installed."""
    from kcli.formats.protobuf.json_text import to_json

    def make() -> Many | None:
        from kcli.formats.protobuf.column_json import LineDecoder
        from kcli.formats.protobuf.messages import message_name, message_type

        name = message_name(protobuf_schema_of(writer))
        lines = LineDecoder(message_type(protobuf_schema_of(reader or writer), name))

        def decode(payloads: Sequence[bytes], paths: Sequence[bytes | None]) -> Sequence[str | None]:
            # The path of the first type is one zero byte.
            firsts = [
                payload if path is None and payload[:1] == b"\0" else None
                for payload, path in zip(payloads, paths, strict=True)
            ]
            return lines.decode(firsts, 1)

        return decode if lines.is_possible else None

    one = _by_path(writer, reader, lambda message: lambda raw: to_json(message.FromString(raw)))
    return _with_columns(one, make)


Many = Callable[[Sequence[bytes], Sequence[bytes | None]], Sequence[str | None]]
"""Decodes many payloads, with their paths, to lines. None: `one` must decode or refuse this payload."""


def _with_columns(one: Decode[str], make: Callable[[], Many | None]) -> Decode[str]:
    """Returns a function that decodes by columns what comes after the first COLUMNS_FROM_VALUES values."""
    made: list[Many | None] = []
    seen = 0

    def many(payloads: Sequence[bytes], paths: Sequence[bytes | None]) -> Sequence[str | None]:
        nonlocal seen
        seen += len(payloads)
        if seen < COLUMNS_FROM_VALUES:
            return ()
        if not made:
            try:
                made.append(make())
            except FormatError:  # the type has too many columns, or `one` says what is wrong
                made.append(None)
        return () if made[0] is None else made[0](payloads, paths)

    return one if importlib.util.find_spec("pyarrow") is None else BulkDecode(one, many)


def _without_path(decode: Callable[[bytes], T]) -> Decode[T]:
    return lambda payload, path: decode(payload)


def avro_schema_of(schema: LoadedSchema) -> AvroSchema:
    from kcli.formats.avro.language import AvroSchema

    parsed = schema.parsed
    if not isinstance(parsed, AvroSchema):
        raise FormatError(f"{schema.name} is {schema.type}, expected AVRO")
    return parsed


def json_schema_of(schema: LoadedSchema) -> JsonSchema:
    from kcli.formats.json_schema.language import JsonSchema

    parsed = schema.parsed
    if not isinstance(parsed, JsonSchema):
        raise FormatError(f"{schema.name} is {schema.type}, expected JSON")
    return parsed


def _json_line(raw: bytes) -> str:
    """Returns a JSON value as one line, with the digits of its numbers. Raises ValueError."""
    text = raw.decode().strip(" \t\r\n")
    value = json.loads(text, parse_constant=_refuse_constant)
    return json.dumps(value, ensure_ascii=False) if "\n" in text or "\r" in text else text


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _checked_json(check: Callable[[bytes], Value]) -> Callable[[str], bytes]:
    """Returns the function that checks a JSON text and leaves it as it is, with the digits of its numbers."""

    def encode(text: str) -> bytes:
        data = _json_line(text.encode()).encode()
        check(data)
        return data

    return encode


def _by_path(
    writer: LoadedSchema, reader: LoadedSchema | None, make: Callable[[type[Message]], Callable[[bytes], T]]
) -> Decode[T]:
    """Decodes messages of the types that their paths name, as types of the same name in the reader's schema."""
    from kcli.formats.protobuf.messages import message_name, message_type

    written = protobuf_schema_of(writer)
    read = written if reader is None else protobuf_schema_of(reader)
    decoders: dict[tuple[int, ...], Callable[[bytes], T]] = {}

    def decode(payload: bytes, path: bytes | None) -> T:
        place, at = read_path(payload if path is None else path)
        if place not in decoders:
            decoders[place] = make(message_type(read, message_name(written, place)))
        return decoders[place](payload[at:] if path is None else payload)

    return decode


def protobuf_schema_of(schema: LoadedSchema) -> ProtobufSchema:
    from kcli.formats.protobuf.language import ProtobufSchema

    parsed = schema.parsed
    if not isinstance(parsed, ProtobufSchema):
        raise FormatError(f"{schema.name} is {schema.type}, expected PROTOBUF")
    return parsed


def _message(schema: LoadedSchema, name: str | None) -> tuple[bytes, type[Message]]:
    """The path and the class of a message type by its full name, which is the first of the file by default."""
    from kcli.formats.protobuf.messages import message_indexes, message_name, message_type

    parsed = protobuf_schema_of(schema)
    full_name = name or message_name(parsed)
    return path_bytes(message_indexes(parsed, full_name)), message_type(parsed, full_name)
