"""Avro schemas for schemas of Connect, and the reverse, as io.confluent.connect.avro.AvroData maps them.

Properties such as `connect.name` hold what Avro cannot express. Each schema has one function that converts its values
between the data model of Connect and the values of fastavro.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from kcli.formats.connect.charsets import whole_characters
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.logical import decimal_scale, decimal_to_bytes
from kcli.formats.connect.schema import (
    DATE,
    DECIMAL,
    LOGICAL_NAMES,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaType,
    decimal_schema,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import MS_PER_DAY, Float32, Instant, as_key

Convert = Callable[[Any], Any]
Json = dict[str, Any]

_NAMESPACE = "io.confluent.connect.avro"
_DEFAULT_NAME = "ConnectDefault"
_ENTRY_NAME = "MapEntry"
_TYPES: Mapping[SchemaType, str] = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_CONNECT_TYPES = {
    "int": SchemaType.INT32,
    **{name: kind for kind, name in _TYPES.items() if name != "int"},
    "fixed": SchemaType.BYTES,
    "enum": SchemaType.STRING,
}
_SMALL = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}
_LOGICAL_TYPES = {DECIMAL: "decimal", DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_DECIMAL_PRECISION = 64
_LOGICAL_NAMES: Mapping[str, str] = {
    "date": DATE,
    "time-millis": TIME,
    "time-micros": TIME,
    "timestamp-millis": TIMESTAMP,
    "timestamp-micros": TIMESTAMP,
    "local-timestamp-millis": TIMESTAMP,
    "local-timestamp-micros": TIMESTAMP,
}


def _same(value: object) -> object:
    return value


def _or_none(convert: Convert) -> Convert:
    return convert if convert is _same else lambda value: None if value is None else convert(value)


# From Connect to Avro.


@dataclass(slots=True)
class AvroWriter:
    """Maps the schemas of one file. Avro wants that each record of a file is declared once, under its own name."""

    _names: dict[str, Schema] = field(default_factory=dict)

    def schema(self, schema: Schema) -> tuple[object, Convert]:
        """The Avro schema, and the function that converts a value for fastavro."""
        bare, convert = self._bare(schema)
        if schema.default is not None and not schema.optional:
            default, inner = schema.default, convert
            return bare, lambda value: inner(default if value is None else value)
        if not schema.optional:
            return bare, convert
        default = schema.default
        if default is None:
            return ["null", bare], _or_none(convert)
        filled = _or_none(convert)
        return [bare, "null"], lambda value: filled(default if value is None else value)

    def _bare(self, schema: Schema) -> tuple[object, Convert]:
        match schema.type:
            case SchemaType.STRUCT:
                return self._struct(schema)
            case SchemaType.ARRAY:
                items, convert = self.schema(_inside(schema.value_schema))
                declared = {"type": "array", "items": items, **_properties(schema)}
                return declared, lambda value: [convert(item) for item in value]
            case SchemaType.MAP:
                return self._map(schema)
            case _:
                return _plain(schema)

    def _struct(self, schema: Schema) -> tuple[object, Convert]:
        full = schema.name or f"{_NAMESPACE}.{_DEFAULT_NAME}"
        bare_schema = replace(schema, optional=False, default=None)
        number, unique = 1, full
        while unique in self._names and self._names[unique] != bare_schema:
            number += 1
            unique = f"{full}{number}"
        is_new = unique not in self._names
        self._names[unique] = bare_schema
        fields, converts = [], []
        for item in schema.fields:
            inner, convert = self.schema(item.schema)
            declared: Json = {"name": item.name, "type": inner}
            if item.schema.default is not None:
                declared["default"] = avro_default(inner, convert(item.schema.default))
            elif item.schema.optional:
                declared["default"] = None
            fields.append(declared)
            converts.append((item.name, convert))

        def write(value: Struct) -> Json:
            return {name: convert(cell) for (name, convert), cell in zip(converts, value.values, strict=True)}

        if not is_new:
            return unique, write
        namespace, _, name = unique.rpartition(".")
        record: Json = {"type": "record", "name": name, "fields": fields, **_properties(schema)}
        return record | ({"namespace": namespace} if namespace else {}), write

    def _map(self, schema: Schema) -> tuple[object, Convert]:
        keys, values = _inside(schema.key_schema), _inside(schema.value_schema)
        value_type, convert = self.schema(values)
        if keys.type is SchemaType.STRING and not keys.optional:
            declared = {"type": "map", "values": value_type, **_properties(schema)}
            return declared, lambda value: {
                whole_characters(key): convert(item) for key, item in value.items()
            }
        key_type, convert_key = self.schema(keys)
        number = sum(name.startswith(f"{_NAMESPACE}.{_ENTRY_NAME}") for name in self._names)
        name = f"{_ENTRY_NAME}{number or ''}"
        self._names[f"{_NAMESPACE}.{name}"] = schema
        entry = {
            "type": "record",
            "name": name,
            "namespace": _NAMESPACE,
            "connect.internal.type": _ENTRY_NAME,
            "fields": [{"name": "key", "type": key_type}, {"name": "value", "type": value_type}],
        }
        return (
            {"type": "array", "items": entry, **_properties(schema)},
            lambda value: [{"key": convert_key(key), "value": convert(item)} for key, item in value.items()],
        )


def _plain(schema: Schema) -> tuple[object, Convert]:
    declared: Json = {"type": _TYPES[schema.type], **_properties(schema)}
    if schema.type.value in _SMALL:
        declared["connect.type"] = schema.type.value
    convert: Convert = _same
    if schema.name in LOGICAL_NAMES:
        declared["logicalType"] = _LOGICAL_TYPES[schema.name]
    if schema.name == DECIMAL:
        declared |= {"scale": decimal_scale(schema), "precision": _DECIMAL_PRECISION}
        return declared, lambda value: decimal_to_bytes(schema, value)
    if schema.name == DATE:
        return declared, lambda value: value // MS_PER_DAY
    if schema.type is SchemaType.BYTES:
        convert = bytes
    elif schema.type is SchemaType.STRING:
        convert = whole_characters
    return (declared if len(declared) > 1 else declared["type"]), convert


def _properties(schema: Schema) -> Json:
    """What only Connect has. A default is repeated here, as AvroData does."""
    values = {
        "connect.version": schema.version,
        "connect.doc": schema.doc,
        "connect.parameters": None if schema.parameters is None else dict(schema.parameters),
        "connect.name": schema.name,
    }
    return {key: value for key, value in values.items() if value is not None}


def avro_default(declared: object, value: object) -> object:
    """A default as JSON: bytes are text with one character for each byte, and a struct is an object."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {key: avro_default(None, item) for key, item in value.items()}
    if isinstance(value, list):
        return [avro_default(None, item) for item in value]
    return value


def _inside(schema: Schema | None) -> Schema:
    assert schema is not None, "arrays and maps have the schemas of their items"
    return schema


# From Avro to Connect.


@dataclass(slots=True)
class AvroReader:
    """Maps the schemas of one file. Each named type is declared at its first use."""

    _named: dict[str, tuple[Schema, Convert]] = field(default_factory=dict)

    def schema(self, declared: object) -> tuple[Schema, Convert]:
        """The schema of Connect, and the function that converts a value of fastavro.

        Raises ConnectException for a schema that Connect cannot express.
        """
        if isinstance(declared, str):
            if declared in self._named:
                return self._named[declared]
            declared = {"type": declared}
        if isinstance(declared, list):
            return self._union(declared)
        assert isinstance(declared, dict), "fastavro has checked the schema"
        match declared["type"]:
            case "record" | "error":
                return self._record(declared)
            case "array":
                return self._array(declared)
            case "map":
                values, convert = self.schema(declared["values"])
                schema = Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=values)
                return _with_properties(schema, declared), lambda value: {
                    key: convert(item) for key, item in value.items()
                }
            case dict() | list():
                return self.schema(declared["type"])
            case _:
                return self._plain(declared)

    def _union(self, branches: list[object]) -> tuple[Schema, Convert]:
        others = [branch for branch in branches if branch != "null"]
        if len(others) != 1:
            raise ConnectException(
                "The Avro file has a union of several types, which the source cannot read: convert the file first"
            )
        schema, convert = self.schema(others[0])
        schema, convert = _changed(schema, convert, optional=len(branches) > len(others))
        return schema, _or_none(convert)

    def _record(self, declared: Json) -> tuple[Schema, Convert]:
        fields, converts = [], []
        full_name = declared["name"]
        self._named[full_name] = _no_recursion(full_name)
        for item in declared["fields"]:
            schema, convert = self.schema(item["type"])
            if item.get("default") is not None:
                default = _connect_default(item["type"], item["default"], convert)
                schema, convert = _changed(schema, convert, default=default)
            fields.append(Field(item["name"], schema))
            converts.append((item["name"], convert))
        is_unnamed = full_name.startswith(f"{_NAMESPACE}.{_DEFAULT_NAME}")
        name = declared.get("connect.name") or (None if is_unnamed else full_name)
        schema = _with_properties(Schema(SchemaType.STRUCT, name=name, fields=tuple(fields)), declared)

        def read(value: Json) -> Struct:
            return Struct.of_checked(schema, [convert(value[name]) for name, convert in converts])

        self._named[full_name] = schema, read
        return schema, read

    def _array(self, declared: Json) -> tuple[Schema, Convert]:
        items, convert = self.schema(declared["items"])
        entry = declared["items"]
        if isinstance(entry, dict) and entry.get("connect.internal.type") == _ENTRY_NAME:
            schema = Schema(
                SchemaType.MAP, key_schema=items.fields[0].schema, value_schema=items.fields[1].schema
            )
            return _with_properties(schema, declared), lambda value: {
                as_key(key): item for key, item in (convert(pair).values for pair in value)
            }
        schema = Schema(SchemaType.ARRAY, value_schema=items)
        return _with_properties(schema, declared), lambda value: [convert(item) for item in value]

    def _plain(self, declared: Json) -> tuple[Schema, Convert]:
        kind = _CONNECT_TYPES.get(declared["type"])
        if kind is None:
            raise ConnectException(f"Connect has no schema for the Avro type {declared['type']}")
        kind = _SMALL.get(declared.get("connect.type", ""), kind)
        logical = declared.get("logicalType")
        if logical == "decimal":
            return _with_properties(decimal_schema(declared.get("scale", 0)), declared), _same
        if isinstance(logical, str) and logical in _LOGICAL_NAMES:
            name = _LOGICAL_NAMES[logical]
            stored = SchemaType.INT64 if name == TIMESTAMP else SchemaType.INT32
            return _with_properties(Schema(stored, name=name, version=1), declared), Instant.of
        convert: Convert = Float32 if kind is SchemaType.FLOAT32 else str if logical == "uuid" else _same
        result = _with_properties(Schema(kind), declared), convert
        if "name" in declared:
            self._named[declared["name"]] = result
        return result


def _changed(schema: Schema, convert: Convert, **changes: object) -> tuple[Schema, Convert]:
    """A schema with another field, and its values. A struct has the schema of its field, which Connect compares."""
    changed = replace(schema, **changes)  # type: ignore[arg-type]
    if changed.type is not SchemaType.STRUCT:
        return changed, convert

    def read(value: object) -> Struct | None:
        struct = convert(value)
        return None if struct is None else Struct.of_checked(changed, struct.values)

    return changed, read


def _no_recursion(name: str) -> tuple[Schema, Convert]:
    def refuse(_value: object) -> object:
        raise DataException(f"The record {name} contains itself, and a schema of Connect cannot")

    return Schema(SchemaType.STRUCT, name=name), refuse


def _connect_default(declared: object, default: object, convert: Convert) -> object:
    """The value of a default. Logical types have numbers in JSON, and fastavro would return dates for them."""
    first = declared[0] if isinstance(declared, list) else declared
    logical = first.get("logicalType") if isinstance(first, dict) else None
    if isinstance(logical, str) and logical in _LOGICAL_NAMES:
        assert isinstance(default, int), "fastavro has checked the schema"
        unit = MS_PER_DAY if logical == "date" else 1
        return Instant(default * unit // (1000 if logical.endswith("micros") else 1))
    kind = first["type"] if isinstance(first, dict) else first
    if kind in ("bytes", "fixed"):
        raw = cast(str, default).encode("latin-1")
        return _decimal(first, raw) if logical == "decimal" else raw
    return convert(default)


def _decimal(declared: Any, raw: bytes) -> object:
    from kcli.formats.connect.logical import decimal_from_bytes

    return decimal_from_bytes(decimal_schema(declared.get("scale", 0)), raw)


def _with_properties(schema: Schema, declared: Json) -> Schema:
    return replace(
        schema,
        name=declared.get("connect.name", schema.name),
        version=declared.get("connect.version", schema.version),
        doc=declared.get("connect.doc", schema.doc),
        parameters=declared.get("connect.parameters", schema.parameters),
    )
