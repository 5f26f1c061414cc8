"""Reads and writes Avro values (binary, without a file header) with fastavro."""

from __future__ import annotations

import io
import json
from typing import Required, TypedDict

from kcli.formats.codec import FormatError, Value, ValueCodec


class AvroField(TypedDict):
    """A field of a record type."""

    name: str
    type: AvroSchema


class AvroDeclaration(TypedDict, total=False):
    """A declared type. The value of `type` decides which other keys exist."""

    type: Required[AvroSchema]
    name: str
    namespace: str
    fields: list[AvroField]
    items: AvroSchema
    values: AvroSchema
    logicalType: str
    precision: int
    scale: int


AvroSchema = str | list["AvroSchema"] | AvroDeclaration
"""A schema in JSON: the name of a type, a union, or a declaration."""


def avro_schema(text: str | bytes) -> AvroSchema:
    """Parses the schema of an .avsc file. Raises FormatError if the text is not JSON."""
    try:
        schema: AvroSchema = json.loads(text)
    except ValueError as error:
        raise FormatError(f"the Avro schema is not JSON: {error}") from None
    return schema


def avro_codec(schema: AvroSchema) -> ValueCodec:
    """Returns the codec of a schema. Raises FormatError if the schema is invalid."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        parsed = fastavro.parse_schema(schema)
    except (SchemaParseException, UnknownType, KeyError, TypeError) as error:
        raise FormatError(f"the Avro schema is invalid: {type(error).__name__}: {error}") from None

    def decode(value: bytes) -> Value:
        stream = io.BytesIO(value)
        decoded: Value = fastavro.schemaless_reader(stream, parsed, None)
        left = len(value) - stream.tell()
        if left:
            raise ValueError(f"{left} bytes are left over")
        return decoded

    def encode(value: Value) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        return stream.getvalue()

    return ValueCodec(decode, encode)
