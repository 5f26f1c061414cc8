"""Schemas as JSON, in the envelope of Kafka Connect's JsonConverter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from json.encoder import encode_basestring as quoted

from kcli.formats.connect.errors import DataException, SchemaBuilderException
from kcli.formats.connect.json_decoder import is_integer
from kcli.formats.connect.json_structs import Encode
from kcli.formats.connect.schema import Field, Schema, SchemaType, add_position
from kcli.model.java_numbers import to_int

_NAMES = {kind: kind.value for kind in SchemaType} | {
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
}
_TYPES = {name: kind for kind, name in _NAMES.items()}

Object = Mapping[str, object]


def schema_to_json(
    schema: Schema | None, encoder: Callable[[Schema], Encode], field_name: str | None = None
) -> str:
    """The JSON text of a schema, with its keys in the order of Java. `encoder` writes defaults.

    A schema of a field ends with the name of the field. Raises DataException for a default that cannot be written.
    """
    if schema is None:
        return "null"
    parts = [f'"type":"{_NAMES[schema.type]}"']
    match schema.type:
        case SchemaType.ARRAY:
            parts.append(f'"items":{schema_to_json(schema.value_schema, encoder)}')
        case SchemaType.MAP:
            parts.append(f'"keys":{schema_to_json(schema.key_schema, encoder)}')
            parts.append(f'"values":{schema_to_json(schema.value_schema, encoder)}')
        case SchemaType.STRUCT:
            fields = [schema_to_json(field.schema, encoder, field.name) for field in schema.fields]
            parts.append(f'"fields":[{",".join(fields)}]')
    parts.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        parts.append(f'"name":{quoted(schema.name)}')
    if schema.version is not None:
        parts.append(f'"version":{schema.version}')
    if schema.doc is not None:
        parts.append(f'"doc":{quoted(schema.doc)}')
    if schema.parameters is not None:
        texts = [f"{quoted(key)}:{quoted(value)}" for key, value in schema.parameters.items()]
        parts.append(f'"parameters":{{{",".join(texts)}}}')
    if schema.default is not None:
        parts.append(f'"default":{encoder(schema)(schema.default)}')
    if field_name is not None:
        parts.append(f'"field":{quoted(field_name)}')
    return f"{{{','.join(parts)}}}"


def schema_from_json(node: object, decode: Callable[[Schema, object], object]) -> Schema | None:
    """The schema of a tree of `read_tree`. `decode` reads defaults. Raises DataException."""
    if node is None:
        return None
    source = node if isinstance(node, dict) else {}
    name = _text(source, "type")
    if name is None:
        raise DataException("Schema must contain 'type' field")
    kind = _TYPES.get(name)
    if kind is None:
        raise DataException(f"Unknown schema type: {name}")
    keys, values, fields = _inside(kind, source, decode)
    version = source.get("version")
    schema = Schema(
        kind,
        optional=source.get("optional") is True,
        name=_text(source, "name"),
        version=to_int(version) if isinstance(version, int) and is_integer(version) else None,
        doc=_text(source, "doc"),
        parameters=_parameters(source.get("parameters")),
        fields=fields,
        key_schema=keys,
        value_schema=values,
    )
    return _with_default(schema, source, decode) if "default" in source else schema


def _with_default(schema: Schema, source: Object, decode: Callable[[Schema, object], object]) -> Schema:
    default = decode(schema, source["default"])
    if schema.type is SchemaType.STRUCT and default is not None:
        # In Java, the schema of this struct is not yet the schema that has the default.
        raise SchemaBuilderException("Invalid default value") from DataException(
            "Struct schemas do not match."
        )
    if default is None and not schema.optional:
        raise SchemaBuilderException("Invalid default value") from DataException(
            f"Invalid value: null used for required value, schema type: {schema.type.name}"
        )
    return replace(schema, default=default)


def _inside(
    kind: SchemaType, source: Object, decode: Callable[[Schema, object], object]
) -> tuple[Schema | None, Schema | None, tuple[Field, ...]]:
    """The schema of the keys, the schema of the values or items, and the fields."""
    match kind:
        case SchemaType.ARRAY:
            if source.get("items") is None:
                raise DataException("Array schema did not specify the element type")
            return None, schema_from_json(source["items"], decode), ()
        case SchemaType.MAP:
            for part, meaning in (("keys", "key"), ("values", "value")):
                if part not in source:
                    raise DataException(f"Map schema did not specify the {meaning} type")
            keys = schema_from_json(source["keys"], decode)
            values = schema_from_json(source["values"], decode)
            for meaning, schema in (("keySchema", keys), ("valueSchema", values)):
                if schema is None:
                    raise SchemaBuilderException(f"{meaning} cannot be null.")
            return keys, values, ()
        case SchemaType.STRUCT:
            items = source.get("fields")
            if not isinstance(items, list):
                raise DataException('Struct schema\'s "fields" argument is not an array.')
            return None, None, tuple(_fields(items, decode))
        case _:
            return None, None, ()


def _fields(items: list[object], decode: Callable[[Schema, object], object]) -> Iterator[Field]:
    """Reads the fields of a struct. The error of a name comes before the errors of the fields after it."""
    positions: dict[str, int] = {}
    for item in items:
        field = _field(item, decode)
        add_position(positions, field.name)
        yield field


def _field(node: object, decode: Callable[[Schema, object], object]) -> Field:
    name = _text(node, "field") if isinstance(node, dict) else None
    if name is None:
        raise DataException("Struct schema's field name not specified properly")
    schema = schema_from_json(node, decode)
    assert schema is not None, "the node is an object"
    return Field(name, schema)


def _text(source: Object, key: str) -> str | None:
    value = source.get(key)
    return value if isinstance(value, str) else None


def _parameters(node: object) -> Mapping[str, str] | None:
    if not isinstance(node, dict) or not node:
        return None
    for value in node.values():
        if not isinstance(value, str):
            raise DataException("Schema parameters must have string values.")
    return node
