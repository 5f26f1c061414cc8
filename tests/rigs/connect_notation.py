"""The notation of schemas, values and errors in the recordings of Kafka Connect's converters and transformations.

`read_…` makes objects of the data model. `written_…` writes such objects in the notation, so that a test compares JSON.
`comparable` removes what has no meaning in a recording, such as the order of maps.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

from kcli.connect.config.plugin import load_class
from kcli.connectors.builtin import BUILT_IN
from kcli.formats.connect.errors import java_chain
from kcli.formats.connect.schema import Field, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import (
    BigInteger,
    Float32,
    Float64,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    as_key,
)

Json = Any


def built_in(group: str) -> dict[str, Any]:
    """The classes of a group of built-in plugins that replace a class of Java, by the name of that class."""
    classes: list[Any] = [load_class(place, None) for place in BUILT_IN[group]]
    return {kind.java_class: kind for kind in classes}


LIBRARIES = ("java.", "com.fasterxml.", "jakarta.")
"""Packages whose messages are not Kafka's, so that only their classes are compared."""


def read_schema(written: Json) -> Schema | None:
    """The schema of a notation. Raises SchemaBuilderException."""
    if written is None:
        return None
    bare = _schema(written, None)
    if written.get("default") is None:
        return bare
    return _schema(written, read_value(bare, written["default"]))


def _schema(written: Json, default: object) -> Schema:
    is_map = written["type"] == "map"
    return Schema(
        SchemaType(written["type"]),
        optional=written.get("optional", False),
        default=default,
        name=written.get("name"),
        version=written.get("version"),
        doc=written.get("doc"),
        parameters=written.get("parameters"),
        fields=tuple(_field(name, schema) for name, schema in written.get("fields", ())),
        key_schema=read_schema(written.get("keys")),
        value_schema=read_schema(written.get("values" if is_map else "items")),
    )


def _field(name: str, written: Json) -> Field:
    schema = read_schema(written)
    assert schema is not None, f"the field {name} needs a schema"
    return Field(name, schema)


def read_value(schema: Schema | None, written: Json) -> object:
    """The value of a notation. Raises DataException if a struct does not take one of its values."""
    if not isinstance(written, dict):
        return written
    tag = next(iter(written))
    content = written[tag]
    match tag:
        case "list":
            items = schema.value_schema if schema is not None else None
            return [read_value(items, item) for item in content]
        case "map":
            keys = schema.key_schema if schema is not None else None
            values = schema.value_schema if schema is not None else None
            return {as_key(read_value(keys, key)): read_value(values, value) for key, value in content}
        case "struct":
            own = read_schema(written.get("schema")) or schema
            assert own is not None, "a struct has a schema"
            made = Struct(own)
            for name, value in content:
                field = own.field(name) if own.type is SchemaType.STRUCT else None
                made.put(name, read_value(field.schema if field else None, value))
            return made
        case _:
            return _READ[tag](content)


_READ: Mapping[str, Callable[[Json], object]] = {
    "i8": Int8,
    "i16": Int16,
    "i32": Int32,
    "i64": Int64,
    "f32": lambda text: Float32.of(float(text)),
    "f64": lambda text: Float64(float(text)),
    "b": base64.b64decode,
    "bb": lambda text: memoryview(base64.b64decode(text)),
    "dec": Decimal,
    "bigint": BigInteger,
    "date": Instant,
    "uuid": UUID,
}


def written_schema(schema: Schema | None) -> Json:
    if schema is None:
        return None
    written: dict[str, Json] = {"type": schema.type.value}
    if schema.type is SchemaType.ARRAY:
        written["items"] = written_schema(schema.value_schema)
    elif schema.type is SchemaType.MAP:
        written |= {"keys": written_schema(schema.key_schema), "values": written_schema(schema.value_schema)}
    elif schema.type is SchemaType.STRUCT:
        written["fields"] = [[field.name, written_schema(field.schema)] for field in schema.fields]
    options = {
        "optional": schema.optional or None,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": dict(schema.parameters) if schema.parameters is not None else None,
        "default": written_value(replace(schema, default=None), schema.default),
    }
    return written | {key: value for key, value in options.items() if value is not None}


_SHORT = {
    SchemaType.INT8: "i8",
    SchemaType.INT16: "i16",
    SchemaType.INT32: "i32",
    SchemaType.INT64: "i64",
    SchemaType.FLOAT32: "f32",
    SchemaType.FLOAT64: "f64",
}


def written_value(schema: Schema | None, value: object) -> Json:
    """The notation of a value. The schema names the class of a plain `int` and `float`."""
    match value:
        case None | bool() | str():
            return value
        case list() | tuple():
            items = schema.value_schema if schema is not None else None
            return {"list": [written_value(items, item) for item in value]}
        case dict():
            keys = schema.key_schema if schema is not None else None
            values = schema.value_schema if schema is not None else None
            pairs = [[written_value(keys, key), written_value(values, item)] for key, item in value.items()]
            return {"map": pairs}
        case Struct():
            pairs = [[field.name, written_value(field.schema, item)] for field, item in value.items()]
            own = {} if value.schema == schema else {"schema": written_schema(value.schema)}
            return {"struct": pairs} | own
        case _:
            return _written_scalar(schema, value)


def _written_scalar(schema: Schema | None, value: object) -> Json:
    match value:
        case Int8():
            return {"i8": int(value)}
        case Int16():
            return {"i16": int(value)}
        case Int32():
            return {"i32": int(value)}
        case BigInteger():
            return {"bigint": str(int(value))}
        case Instant():
            return {"date": int(value)}
        case Int64():
            return {"i64": int(value)}
        case int():
            return {_plain(schema, "i", "i64"): value}
        case Float32():
            return {"f32": float(value)}
        case Float64():
            return {"f64": float(value)}
        case float():
            return {_plain(schema, "f", "f64"): value}
        case bytes():
            return {"b": base64.b64encode(value).decode()}
        case memoryview():
            return {"bb": base64.b64encode(value).decode()}
        case Decimal():
            return {"dec": str(value)}
        case UUID():
            return {"uuid": str(value)}
        case _:
            raise AssertionError(f"no notation for {value!r}")


def _plain(schema: Schema | None, kind: str, default: str) -> str:
    """The tag of a plain number: that of the type of its schema."""
    tag = _SHORT.get(schema.type, "") if schema is not None else ""
    return tag if tag.startswith(kind) else default


def written_error(phase: str, error: BaseException) -> Json:
    chain = [{"class": name, "message": message} for name, message in java_chain(error)]
    return {"phase": phase, "chain": chain}


def comparable(written: Json) -> Json:
    """A notation with sorted maps, with numbers in place of their texts, and without messages of libraries."""
    match written:
        case {"map": pairs}:
            sorted_pairs = sorted((comparable(pair) for pair in pairs), key=lambda pair: json.dumps(pair[0]))
            return {"map": sorted_pairs}
        case {"f32": number}:
            return {"f32": repr(Float32.of(float(number)))}
        case {"f64": number}:
            return {"f64": repr(float(number))}
        case {"dec": number}:
            return {"dec": str(Decimal(number))}
        case {"phase": phase, "chain": chain}:
            return {"phase": phase, "chain": [_comparable_error(**_error_parts(item)) for item in chain]}
        case {"struct": pairs, **rest}:
            # A recording has only the fields that were set, so a field without a value has no meaning.
            stored = {name: comparable(value) for name, value in pairs if value is not None}
            return {"struct": stored, **comparable(rest)}
        case dict():
            return {key: comparable(value) for key, value in written.items()}
        case list():
            return [comparable(item) for item in written]
        case _:
            return written


def _error_parts(item: Json) -> dict[str, str]:
    return {"java_class": item["class"], "message": item.get("message") or ""}


def _comparable_error(java_class: str, message: str) -> list[str]:
    if java_class.startswith(LIBRARIES):
        return [java_class]
    if message.startswith(LIBRARIES):
        # The text of an exception of a library is a part of this message.
        message = message.partition(":")[0]
    return [java_class, message]
