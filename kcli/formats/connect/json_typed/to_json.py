"""Schemas of Connect's data model as JSON Schemas.

The members have the order in which Everit's library writes them, and maps have the order of Java's HashMap, because a
registry treats two texts as one schema only if they are equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.json_typed.encoding import JsonWriters, is_union
from kcli.formats.connect.json_typed.settings import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    ID,
    KEY,
    NULL_SYMBOL,
    SPACE,
    VALUE,
    JsonSettings,
)
from kcli.formats.connect.recursive import RecursiveSchema, required
from kcli.formats.connect.schema import DECIMAL, Schema, SchemaType
from kcli.formats.connect.sum_types import ENUM_PARAMETER, symbols_of
from kcli.formats.json_schema.text import Json
from kcli.model.java_order import hash_order

Members = dict[str, Json]

_KINDS = {
    SchemaType.INT8: "integer",
    SchemaType.INT16: "integer",
    SchemaType.INT32: "integer",
    SchemaType.INT64: "integer",
    SchemaType.FLOAT32: "number",
    SchemaType.FLOAT64: "number",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
}
_NULL: Members = {"type": "null"}


class SchemaWriter:
    """Translates one schema. `_ids` has the ids of the structs that the text declares."""

    def __init__(self, settings: JsonSettings) -> None:
        self._settings = settings
        self._ids: set[str] = set()

    def of(self, schema: Schema, index: int | None = None, *, is_branch: bool = False) -> Members:
        """Returns the JSON Schema of a schema. `index` is its position in a struct. A branch is not optional itself.

        Raises DataException.
        """
        own_id = (schema.parameters or {}).get(ID)
        if own_id is not None and own_id in self._ids:
            return {"$ref": own_id}
        if isinstance(schema, RecursiveSchema):
            raise DataException(f"{schema} contains itself, and has no parameter {ID}")
        if schema.type is SchemaType.STRUCT and (schema.optional or is_union(schema)):
            return self._combination(schema, index)
        if own_id is not None:
            self._ids.add(own_id)
        more: Members = {}
        members, inner = self._base(schema, more)
        self._annotate(members, schema, more)
        if own_id is not None:
            members["$id"] = own_id
        is_optional = schema.optional and not is_branch
        if index is not None and not is_optional:
            more[CONNECT_INDEX] = index
        made = {**members, **_in_hash_order(more), **inner}
        if not is_optional:
            return made
        return {**({} if index is None else {CONNECT_INDEX: index}), "oneOf": [_NULL, made]}

    def _combination(self, schema: Schema, index: int | None) -> Members:
        """Returns the combination of null and a struct, or of the schemas of a union."""
        branches: list[Json] = [_NULL] if schema.optional else []
        if is_union(schema):
            branches += [
                self.of(required(item.schema), position, is_branch=True)
                for position, item in enumerate(schema.fields)
            ]
        else:
            branches.append(self.of(required(schema)))
        return {**({} if index is None else {CONNECT_INDEX: index}), "oneOf": branches}

    def _base(self, schema: Schema, more: Members) -> tuple[Members, Members]:
        """Returns the members before and after the annotations. Adds those of Connect to `more`."""
        match schema.type:
            case SchemaType.STRING if (symbols := self._symbols(schema)) is not None:
                return {"enum": symbols}, {}
            case SchemaType.BYTES:
                more[CONNECT_TYPE] = "bytes"
                is_number = schema.name == DECIMAL and self._settings.numeric_decimals
                return {"type": "number" if is_number else "string"}, {}
            case SchemaType.ARRAY:
                assert schema.value_schema is not None
                return {"type": "array"}, {"items": self.of(schema.value_schema)}
            case SchemaType.MAP:
                more[CONNECT_TYPE] = "map"
                return self._map(schema)
            case SchemaType.STRUCT:
                members: Members = {"type": "object"}
                if not self._settings.additional:
                    members["additionalProperties"] = False
                made = {item.name: self.of(item.schema, nth) for nth, item in enumerate(schema.fields)}
                return members, {"properties": _in_hash_order(made)} if made else {}
            case SchemaType.BOOLEAN | SchemaType.STRING:
                return {"type": _KINDS[schema.type]}, {}
            case _:
                more[CONNECT_TYPE] = schema.type.value
                return {"type": _KINDS[schema.type]}, {}

    def _map(self, schema: Schema) -> tuple[Members, Members]:
        keys, values = schema.key_schema, schema.value_schema
        assert keys is not None and values is not None
        if keys.type is SchemaType.STRING and not keys.optional:
            return {"type": "object"}, {"additionalProperties": self.of(values)}
        entry = {KEY: self.of(keys, 0), VALUE: self.of(values, 1)}
        return {"type": "array"}, {"items": {"type": "object", "properties": _in_hash_order(entry)}}

    def _symbols(self, schema: Schema) -> list[Json] | None:
        parameters = schema.parameters or {}
        if ENUM_PARAMETER not in parameters and ENUM not in parameters:
            return None
        parameter = ENUM_PARAMETER if self._settings.generalized else ENUM
        return [None if symbol == NULL_SYMBOL else symbol for symbol in symbols_of(schema, parameter)]

    def _annotate(self, members: Members, schema: Schema, more: Members) -> None:
        if schema.name is not None:
            members["title"] = schema.name
        if schema.doc is not None:
            members["description"] = schema.doc
        if schema.default is not None:
            text = JsonWriters(JsonSettings(numeric_decimals=self._settings.numeric_decimals)).of(schema)(
                schema.default
            )
            members["default"] = json.loads(text, parse_float=Decimal)
        if schema.version is not None:
            more[CONNECT_VERSION] = schema.version
        parameters: Members = {
            name: text for name, text in (schema.parameters or {}).items() if not name.startswith(SPACE)
        }
        if parameters:
            more[CONNECT_PARAMETERS] = _in_hash_order(parameters)


def _in_hash_order(members: Mapping[str, Json]) -> Members:
    return {name: members[name] for name in hash_order(members)}
