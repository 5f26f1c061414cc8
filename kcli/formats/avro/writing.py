"""Writes a schema as text: as `Schema.toString` of Apache Avro for Java, and in the registry's normal form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcli.formats.avro import json_text
from kcli.formats.avro.json_text import Json, JsonObject
from kcli.formats.avro.schema import (
    Array,
    Default,
    Enum,
    Field,
    Fixed,
    Kind,
    Logical,
    LogicalType,
    Map,
    Named,
    Order,
    Part,
    Primitive,
    Properties,
    Record,
    Union,
    kind_of,
)
from kcli.formats.connect.values import Float32
from kcli.model.java_text import LONG_MAX, LONG_MIN


def java_text(part: Part, known: Iterable[str] = ()) -> str:
    """The text of a schema in Java. Types with the full names in `known` are written as their names."""
    return json_text.write(_Tree(set(known)).of(part, ""))


def canonical_text(part: Part, known: Iterable[str]) -> str:
    """The text of a schema in Java, which can be parsed again. Raises FormatError if it exceeds a limit of texts.

    The limits of the original text are not enough, because a type is written at its first use.
    """
    tree = _Tree(set(known)).of(part, "")
    json_text.check_depth(tree)
    text = json_text.write(tree)
    json_text.check_length(text)
    return text


class _Tree:
    """Makes the JSON of a schema. Each named type is declared where it comes first."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def of(self, part: Part, space: str) -> Json:
        match part:
            case Primitive():
                return {"type": part.kind.value, **part.properties} if part.properties else part.kind.value
            case Array():
                return {"type": "array", "items": self.of(part.items, space), **part.properties}
            case Map():
                return {"type": "map", "values": self.of(part.values, space), **part.properties}
            case Union():
                return [self.of(branch, space) for branch in part.branches]
            case _:
                if part.name.full in self._known:
                    return part.name.seen_from(space)
                self._known.add(part.name.full)
                return self._declaration(part, space)

    def _declaration(self, part: Named, space: str) -> JsonObject:
        kind = "error" if isinstance(part, Record) and part.is_error else kind_of(part).value
        tree: JsonObject = {"type": kind, "name": part.name.name}
        if part.name.space != space:
            tree["namespace"] = part.name.space
        if part.doc is not None:
            tree["doc"] = part.doc
        match part:
            case Record():
                tree["fields"] = [self._field(field, part.name.space) for field in part.fields]
            case Enum():
                tree["symbols"] = list(part.symbols)
                if part.default is not None:
                    tree["default"] = part.default
            case Fixed():
                tree["size"] = part.size
        tree |= part.properties
        if part.aliases:
            tree["aliases"] = [alias.seen_from(part.name.space) for alias in part.aliases]
        return tree

    def _field(self, field: Field, space: str) -> JsonObject:
        tree: JsonObject = {"name": field.name, "type": self.of(field.type, space)}
        if field.doc is not None:
            tree["doc"] = field.doc
        if field.default is not None:
            tree["default"] = field.default.json
        if field.order is not Order.ASCENDING:
            tree["order"] = field.order.value
        if field.aliases:
            tree["aliases"] = list(field.aliases)
        return tree | dict(field.properties)


def normal_text(part: Part, known: Iterable[str]) -> str:
    """The text of a schema in the registry's normal form, which must be parsed and written again."""
    return json_text.write(_NormalTree(set(known)).of(part))


class _NormalTree:
    """Makes the JSON of a normal form: full names, sorted aliases and properties, and defaults as Java values."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def of(self, part: Part) -> Json:
        match part:
            case Primitive():
                properties = _normal_properties(part.properties, part.logical)
                return {"type": part.kind.value, **properties} if properties else part.kind.value
            case Array():
                return {
                    "type": "array",
                    "items": self.of(part.items),
                    **_normal_properties(part.properties, None),
                }
            case Map():
                return {
                    "type": "map",
                    "values": self.of(part.values),
                    **_normal_properties(part.properties, None),
                }
            case Union():
                return [self.of(branch) for branch in part.branches]
            case _:
                if part.name.full in self._known:
                    return part.name.full
                self._known.add(part.name.full)
                return self._declaration(part)

    def _declaration(self, part: Named) -> JsonObject:
        # An error type becomes a record, as in the registry.
        tree: JsonObject = {"name": part.name.full, "type": kind_of(part).value}
        if not part.name.space:
            tree["namespace"] = ""
        match part:
            case Record():
                tree["fields"] = [self._field(field) for field in part.fields]
            case Enum():
                tree["symbols"] = list(part.symbols)
                if part.default is not None:
                    tree["default"] = part.default
            case Fixed():
                tree["size"] = part.size
        if part.doc:
            tree["doc"] = part.doc
        if part.aliases:
            tree["aliases"] = _sorted_texts(alias.full for alias in part.aliases)
        return tree | _normal_properties(part.properties, part.logical if isinstance(part, Fixed) else None)

    def _field(self, field: Field) -> JsonObject:
        tree: JsonObject = {"name": field.name, "type": self.of(field.type), "order": field.order.value}
        if field.doc is not None:
            tree["doc"] = field.doc
        if field.aliases:
            tree["aliases"] = _sorted_texts(field.aliases)
        default = None if field.default is None else _java_default(field.default.json, field.type)
        if default is not None:
            tree["default"] = _sorted_json(default.json)
        return tree | _normal_properties(field.properties, None)


def _normal_properties(properties: Properties, logical: LogicalType | None) -> JsonObject:
    first: JsonObject = {}
    if logical is not None:
        first["logicalType"] = logical.logical.value
        if logical.logical is Logical.DECIMAL:
            first["precision"] = logical.precision
            if logical.scale:
                first["scale"] = logical.scale
    names = sorted(properties, key=_java_order)
    return first | {name: _sorted_json(properties[name]) for name in names}


def _sorted_json(value: Json) -> Json:
    """The value with the members of objects in the order of Java's TreeMap."""
    if isinstance(value, list):
        return [_sorted_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _sorted_json(value[name]) for name in sorted(value, key=_java_order)}
    return value


def _sorted_texts(texts: Iterable[str]) -> Json:
    ordered = sorted(texts, key=_java_order)
    return [*ordered]


def _java_order(text: str) -> bytes:
    """Java compares text by its UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def _java_default(value: Json, part: Part | None) -> Default | None:
    """The default as Java's value. Returns None for a value that does not fit, because the normal form drops it."""
    if value is None:
        return Default(None)
    if isinstance(part, Union):
        values = (
            _java_default(value, branch) for branch in part.branches if kind_of(branch) is not Kind.NULL
        )
        return next((default for default in values if default is not None), None)
    kind = None if part is None else kind_of(part)
    match value:
        case bool():
            return Default(value)
        case int() if not LONG_MIN <= value <= LONG_MAX:
            return None
        case int() if kind in (None, Kind.INT, Kind.LONG):
            return Default(value)
        case int() | float() if kind is Kind.FLOAT:
            return Default(Float32.of(value))
        case int() if kind is Kind.DOUBLE:
            return Default(0.0 + value)
        case float() if kind in (None, Kind.DOUBLE):
            return Default(value)
        case str() if kind in (None, Kind.STRING, Kind.ENUM, Kind.BYTES, Kind.FIXED):
            is_binary = kind in (Kind.BYTES, Kind.FIXED)
            return Default(value.encode("latin-1", "replace").decode("latin-1") if is_binary else value)
        case list() if part is None or isinstance(part, Array):
            items = [_java_default(item, part and part.items) for item in value]
            return Default([item.json for item in items if item is not None])
        case dict():
            return _java_object(value, part)
        case _:
            return None


def _java_object(value: JsonObject, part: Part | None) -> Default:
    types: Mapping[str, Part] = {}
    if isinstance(part, Record):
        types = {field.name: field.type for field in part.fields}
    elif isinstance(part, Map):
        types = dict.fromkeys(value, part.values)
    members = {name: _java_default(member, types.get(name)) for name, member in value.items()}
    return Default({name: member.json for name, member in members.items() if member is not None})
