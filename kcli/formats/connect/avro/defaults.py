"""Defaults of Connect's schemas as JSON in an Avro schema."""

from __future__ import annotations

from decimal import Decimal
from typing import cast

from kcli.formats.avro.json_text import Json
from kcli.formats.connect.avro import names
from kcli.formats.connect.avro.settings import AvroSettings
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.logical import date_to_days, decimal_to_bytes, time_to_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Instant


def default_to_json(schema: Schema, value: object, settings: AvroSettings) -> Json:
    """Returns a default as JSON. Raises DataException."""
    if value is None:
        return None
    value = _stored(schema, value)
    match schema.type:
        case SchemaType.BYTES:
            return bytes(cast(bytes, value)).decode("latin-1")
        case SchemaType.ARRAY:
            items = _present(schema.value_schema)
            return [default_to_json(items, item, settings) for item in cast(list[object], value)]
        case SchemaType.MAP:
            return _map(schema, cast(dict[object, object], value), settings)
        case SchemaType.STRUCT:
            return _struct(schema, cast(Struct, value), settings)
        case _:
            return cast(Json, value)


def _stored(schema: Schema, value: object) -> object:
    """Returns the value that Avro stores for a value of a logical type."""
    if schema.name == DECIMAL:
        return decimal_to_bytes(schema, cast(Decimal, value))
    if schema.name == DATE:
        return date_to_days(cast(Instant, value))
    if schema.name == TIME:
        return time_to_ms(cast(Instant, value))
    return int(cast(Instant, value)) if schema.name == TIMESTAMP else value


def _map(schema: Schema, value: dict[object, object], settings: AvroSettings) -> Json:
    keys, values = _present(schema.key_schema), _present(schema.value_schema)
    if names.is_text_map(schema, optional_keys=settings.optional_keys):
        return {str(key): default_to_json(values, item, settings) for key, item in value.items()}
    return [
        [default_to_json(keys, key, settings), default_to_json(values, item, settings)]
        for key, item in value.items()
    ]


def _struct(schema: Schema, value: Struct, settings: AvroSettings) -> Json:
    members = {}
    for item in schema.fields:
        json = default_to_json(item.schema, value.get(item.name), settings)
        if names.is_union(schema):
            return json
        members[names.scrubbed(item.name) if settings.scrubs else item.name] = json
    return members


def _present(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataException("The schema of an array or a map has no schema of its items")
    return schema
