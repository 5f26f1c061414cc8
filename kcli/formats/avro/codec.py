"""Encodes and decodes Avro values in binary form, without a file header."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TypeGuard, cast

from kcli.formats.avro import json_text
from kcli.formats.avro.decoding import JSON, PLAIN, Form, Readers
from kcli.formats.avro.empty_items import empty_parts
from kcli.formats.avro.encoding import Write, Writers
from kcli.formats.avro.json_values import value_of
from kcli.formats.avro.language import AvroSchema, parse
from kcli.formats.avro.logical_values import to_stored
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.avro.schema import Kind, Part, Primitive
from kcli.formats.avro.stored_values import Read
from kcli.formats.codec import FormatError, Value, ValueCodec


def avro_schema(text: str | bytes) -> AvroSchema:
    """Parses the schema of an .avsc file. Raises FormatError."""
    try:
        return parse(text if isinstance(text, str) else text.decode(), {}, is_new=False)
    except (FormatError, UnicodeDecodeError) as error:
        raise FormatError(f"the Avro schema is invalid: {error}") from None


def avro_codec(schema: AvroSchema, reader: AvroSchema | None = None) -> ValueCodec:
    """Returns the codec of a schema. With `reader`, values are decoded as values of this other schema.

    The functions of the codec raise InvalidAvro, a ValueError. They accept and return a value of the schema "bytes" as
    it is, because Confluent's serializers write such values without their length.
    """
    decode = decoder(schema, reader, PLAIN)
    encode = _encoder(schema.root)
    return ValueCodec(lambda value: cast(Value, decode(value)), encode)


def json_decoder(schema: AvroSchema, reader: AvroSchema | None = None) -> Callable[[bytes], str]:
    """Returns a function that decodes a value to a line of JSON, as Confluent's kafka-avro-console-consumer prints it.

    The function raises InvalidAvro.
    """
    decode = decoder(schema, reader, JSON)
    return lambda value: as_bytes_text(json_text.write(decode(value)))


def json_encoder(schema: AvroSchema) -> Callable[[str], bytes]:
    """Returns a function that encodes a value in JSON, as Confluent's kafka-avro-console-producer accepts it.

    The function raises InvalidAvro. In a union, the name of the branch may be missing if the value fits one branch.
    """
    encode = _encoder(schema.root)

    def encode_json(text: str) -> bytes:
        try:
            parsed = json_text.parse(text)
        except FormatError as error:
            raise InvalidAvro(str(error)) from None
        if parsed is None or parsed.rest:
            raise InvalidAvro("expected one JSON value")
        return encode(value_of(schema.root, parsed.value))

    return encode_json


# Jackson escapes these characters if it writes bytes, but not if it writes the text of a schema.
_SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")


def as_bytes_text(text: str) -> str:
    """Returns a JSON text as Jackson writes it to bytes, which escapes characters above U+FFFF."""
    return _SUPPLEMENTARY.sub(_surrogates, text)


def _surrogates(match: re.Match[str]) -> str:
    high, low = struct.unpack(">HH", match[0].encode("utf-16-be"))
    return f"\\u{high:04X}\\u{low:04X}"


def decoder(
    schema: AvroSchema, reader: AvroSchema | None, form: Form, *, is_framed: bool = True
) -> Callable[[bytes], object]:
    """Returns the function that decodes values in a form. It raises InvalidAvro.

    `is_framed` is False for a value of the schema "bytes" that begins with its length.
    """
    target = schema.root if reader is None else reader.root
    try:
        read = Readers(form, empty_parts(schema.root) | empty_parts(target)).of(schema.root, target)
    except RecursionError:
        raise FormatError("the Avro schema is nested too deeply") from None
    if is_framed and _is_bytes(schema.root):
        read = _raw_reader(schema.root, form)

    def decode(value: bytes) -> object:
        try:
            decoded, end = read(value, 0)
        except InvalidAvro:
            raise
        except (IndexError, struct.error):
            raise InvalidAvro("the value ends too early") from None
        except RecursionError:
            raise InvalidAvro("the value is nested too deeply") from None
        except (
            ValueError,
            OverflowError,
        ) as error:  # text that is not UTF-8, or a date that Python does not have
            raise InvalidAvro(str(error)) from None
        if end != len(value):
            raise InvalidAvro(f"{len(value) - end} bytes are left over")
        return decoded

    return decode


def _encoder(root: Part) -> Callable[[Value], bytes]:
    write = _raw_writer(root) if _is_bytes(root) else Writers().of(root)

    def encode(value: Value) -> bytes:
        out = bytearray()
        try:
            write(value, out)
        except RecursionError:
            raise InvalidAvro("the value is nested too deeply") from None
        return bytes(out)

    return encode


def _is_bytes(part: Part) -> TypeGuard[Primitive]:
    return isinstance(part, Primitive) and part.kind is Kind.BYTES


def _raw_reader(part: Primitive, form: Form) -> Read:
    convert = form.converter(part)

    def read(data: bytes, at: int) -> tuple[object, int]:
        value = bytes(data[at:])
        return value if convert is None else convert(value), len(data)

    return read


def _raw_writer(part: Primitive) -> Write:
    convert = None if part.logical is None else to_stored(part.logical, None)

    def write(value: object, out: bytearray) -> None:
        stored = value if convert is None else convert(value)
        if not isinstance(stored, (bytes, bytearray, memoryview)):
            raise InvalidAvro(f"expected bytes, found {value!r:.100}")
        out += stored

    return write
