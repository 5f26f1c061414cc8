"""JSON Schemas as schemas of Connect's data model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.json_typed.settings import (
    CONNECT_INDEX,
    CONNECT_PARAMETERS,
    CONNECT_TYPE,
    CONNECT_VERSION,
    ENUM,
    ID,
    KEY,
    NULL_SYMBOL,
    ONE_OF,
    UNION_FIELD,
    UNION_PREFIX,
    VALUE,
    JsonSettings,
)
from kcli.formats.connect.recursive import RecursiveSchema
from kcli.formats.connect.schema import STRING_SCHEMA, Field, Schema, SchemaType
from kcli.formats.connect.sum_types import ENUM_PARAMETER, UNION_PARAMETER
from kcli.formats.json_schema.nodes import (
    ArrayRules,
    Combined,
    ConstValue,
    Criterion,
    EnumValues,
    Node,
    NumberRules,
    ObjectRules,
    Plain,
    Reference,
    StringRules,
)
from kcli.formats.json_schema.text import Json, write_json
from kcli.model.java_order import copied_hash_order

DefaultOf = Callable[[Schema, Any], object]
"""Returns the value of a default in JSON. Raises DataException for a default that does not fit."""

_NUMBERS = {
    kind.value: kind
    for kind in (
        SchemaType.INT8,
        SchemaType.INT16,
        SchemaType.INT32,
        SchemaType.INT64,
        SchemaType.FLOAT32,
        SchemaType.FLOAT64,
        SchemaType.BYTES,
    )
}


@dataclass(slots=True)
class SchemaReader:
    """Translates one JSON Schema."""

    settings: JsonSettings
    default_of: DefaultOf
    _open: dict[int, list[RecursiveSchema]] = field(default_factory=dict)
    _unions: int = 0
    _ids: int = 0

    def schema(self, root: Node, version: int | None) -> Schema:
        """Returns the schema of a JSON Schema. `version` is the version in the registry. Raises DataException."""
        try:
            return self._of(root, version=version)
        except RecursionError:
            raise DataException("The JSON Schema is nested too deeply") from None

    def _of(self, node: Node, *, version: int | None = None, optional: bool = False) -> Schema:
        match node.rules:
            case Reference():
                return self._of(node.referred, version=version, optional=optional)
            case Combined(criterion=Criterion.ALL) if (
                len(node.rules.members) > 1 or not self.settings.flattens
            ):
                return self._all_of(node, node.rules, version, optional)
            case Combined():
                single = self._single(node.rules, version, optional)
                if single is not None:
                    return single
            case ObjectRules() if id(node) in self._open:
                return self._recursive(node, optional)
        base = self._base(node)
        return self._described(base, node, version=version, optional=optional)

    def _recursive(self, node: Node, optional: bool) -> Schema:
        schema = RecursiveSchema(node.annotations.title, optional=optional)
        self._open[id(node)].append(schema)
        return schema

    def _single(self, rules: Combined, version: int | None, optional: bool) -> Schema | None:
        """Returns the schema of a combination of one schema, or of one schema and null. None for any other."""
        if len(rules.members) == 1 and self.settings.flattens:
            return self._of(rules.members[0])
        others = [member for member in rules.members if member.referred.rules is not Plain.NULL]
        if len(rules.members) == 2 and len(others) == 1:
            return self._of(others[0], version=version, optional=True)
        return None

    def _base(self, node: Node) -> Schema:
        source = _source(node)
        connect_type = source.get(CONNECT_TYPE)
        match node.rules:
            case Plain.BOOLEAN:
                return Schema(SchemaType.BOOLEAN)
            case NumberRules():
                if connect_type is None:
                    return Schema(SchemaType.INT64 if node.rules.is_integer else SchemaType.FLOAT64)
                if connect_type not in _NUMBERS:
                    raise DataException(f"Unsupported type {connect_type}")
                return Schema(_NUMBERS[str(connect_type)])
            case StringRules():
                return Schema(SchemaType.BYTES if connect_type == "bytes" else SchemaType.STRING)
            case EnumValues():
                values = source.get("enum")
                return self._enum(values if isinstance(values, list) else [])
            case ConstValue():
                return self._enum([source.get("const")])
            case Combined():
                return self._union(node.rules)
            case ArrayRules():
                return self._array(node.rules, connect_type)
            case ObjectRules():
                return self._object(node, node.rules, connect_type)
            case _:
                raise DataException(f"Unsupported schema type: {write_json(node.source)[:100]}")

    def _enum(self, values: list[Json]) -> Schema:
        parameter = ENUM_PARAMETER if self.settings.generalized else ENUM
        parameters = {parameter: ""}
        for number, value in enumerate(values):
            symbol = NULL_SYMBOL if value is None else value if isinstance(value, str) else write_json(value)
            parameters[f"{parameter}.{symbol}"] = str(number) if self.settings.generalized else symbol
        return Schema(SchemaType.STRING, parameters=parameters)

    def _union(self, rules: Combined) -> Schema:
        name, parameters, prefix = ONE_OF, None, f"{ONE_OF}.field."
        if self.settings.generalized:
            name, prefix = f"{UNION_PREFIX}{self._unions}", UNION_FIELD
            parameters = {UNION_PARAMETER: name}
            self._unions += 1
        others = [member for member in rules.members if member.referred.rules is not Plain.NULL]
        fields = tuple(
            Field(f"{prefix}{number}", self._of(member, optional=True))
            for number, member in enumerate(others)
        )
        is_optional = len(others) < len(rules.members)
        return Schema(SchemaType.STRUCT, is_optional, None, name, parameters=parameters, fields=fields)

    def _array(self, rules: ArrayRules, connect_type: Json) -> Schema:
        if rules.every_item is None:
            raise DataException("Array schema did not specify the items type")
        entry = rules.every_item.rules
        if connect_type == "map" and isinstance(entry, ObjectRules):
            key, value = entry.properties.get(KEY), entry.properties.get(VALUE)
            if key is None or value is None:
                raise DataException("The items of a map have no key or no value")
            return Schema(SchemaType.MAP, key_schema=self._of(key), value_schema=self._of(value))
        return Schema(SchemaType.ARRAY, value_schema=self._of(rules.every_item))

    def _object(self, node: Node, rules: ObjectRules, connect_type: Json) -> Schema:
        if connect_type == "map":
            if rules.content.schema is None:
                raise DataException("The schema of a map has no schema of its values")
            return Schema(
                SchemaType.MAP, key_schema=STRING_SCHEMA, value_schema=self._of(rules.content.schema)
            )
        self._open[id(node)] = []
        names = copied_hash_order(rules.properties)
        placed = [
            (_index(rules.properties[name], position), position, name) for position, name in enumerate(names)
        ]
        fields = [
            self._property(name, rules.properties[name], is_required=name in rules.required)
            for _, _, name in sorted(placed)
        ]
        return Schema(SchemaType.STRUCT, fields=tuple(fields))

    def _property(self, name: str, node: Node, *, is_required: bool) -> Field:
        is_optional = self.settings.optional_unless_required and not is_required
        return Field(name, self._of(node, optional=is_optional))

    def _all_of(self, node: Node, rules: Combined, version: int | None, optional: bool) -> Schema:
        """Returns the schema of a combination whose parts all count: a struct with all properties, or the part that
        says most about the value."""
        properties: dict[str, tuple[Node, bool]] = {}
        _collect(node, properties, set())
        if properties:
            fields = [
                self._property(name, inner, is_required=is_required)
                for name, (inner, is_required) in properties.items()
            ]
            return Schema(SchemaType.STRUCT, optional, fields=tuple(fields))
        parts: dict[type, Node] = {type(member.rules): member for member in rules.members}
        text, number = parts.get(StringRules), parts.get(NumberRules)
        chosen = parts.get(Combined)
        if chosen is None and ConstValue in parts:
            chosen = text or number
        elif chosen is None and EnumValues in parts:
            chosen = parts[EnumValues] if text is not None else number
        elif chosen is None and text is not None and "format" in _source(text):
            chosen = number or text
        elif chosen is None:
            chosen = parts.get(Reference)
        if chosen is None:
            raise DataException(f"Unsupported criterion allOf for {write_json(node.source)[:100]}")
        return self._of(chosen, version=version, optional=optional)

    def _described(self, base: Schema, node: Node, *, version: int | None, optional: bool) -> Schema:
        """Adds the annotations of a JSON Schema to a schema."""
        source, annotations = _source(node), node.annotations
        own_version, parameters = source.get(CONNECT_VERSION), source.get(CONNECT_PARAMETERS)
        more = dict(base.parameters or {})
        if isinstance(parameters, dict):
            more |= {name: str(text) for name, text in parameters.items()}
        inner = self._open.pop(id(node), [])
        if inner:
            self._ids += 1
            more[ID] = f"#id{self._ids}"
        schema = replace(
            base,
            name=base.name or annotations.title,
            version=own_version if isinstance(own_version, int) else version,
            doc=annotations.description,
            parameters=more or None,
            optional=base.optional or optional,
        )
        for placeholder in inner:
            placeholder.close(schema)
        if annotations.default is None:
            return schema
        default = json.loads(annotations.default, parse_float=Decimal)
        return replace(schema, default=self.default_of(schema, default))


def _source(node: Node) -> Mapping[str, Json]:
    return node.source if isinstance(node.source, dict) else {}


def _index(node: Node, position: int) -> int:
    index = _source(node).get(CONNECT_INDEX)
    return index if isinstance(index, int) else position


def _collect(node: Node, properties: dict[str, tuple[Node, bool]], visited: set[int]) -> None:
    """Collects the properties of the objects in a combination."""
    if id(node) in visited:
        return
    visited.add(id(node))
    match node.rules:
        case Combined(criterion=Criterion.ALL):
            for member in node.rules.members:
                _collect(member, properties, visited)
        case ObjectRules():
            for name in copied_hash_order(node.rules.properties):
                properties[name] = node.rules.properties[name], name in node.rules.required
        case Reference():
            _collect(node.referred, properties, visited)
        case _:
            pass
