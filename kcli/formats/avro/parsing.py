"""Parses the text of a schema, with the rules and the errors of Apache Avro's parser for Java.

A type may be used before it is declared. So a use is resolved after the whole text has been read, and unions and
defaults are checked after that.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.formats.avro import json_text
from kcli.formats.avro.defaults import check_defaults
from kcli.formats.avro.equality import are_equal
from kcli.formats.avro.json_text import Json, JsonObject
from kcli.formats.avro.logical_types import logical_type
from kcli.formats.avro.names import check_names, check_strict_name, check_strict_space
from kcli.formats.avro.schema import (
    PRIMITIVES,
    Array,
    Default,
    Enum,
    Field,
    Fixed,
    Kind,
    Map,
    Name,
    Named,
    Order,
    Part,
    Primitive,
    Properties,
    Record,
    Union,
    branch_name,
    inner_parts,
    kind_of,
)
from kcli.formats.avro.writing import java_text
from kcli.formats.codec import FormatError
from kcli.model.java_text import INT_MAX, INT_MIN, parse_double

PARTS_MAX = 20_000
"""The most types, fields and symbols in a schema with its references. Large real schemas have some thousands."""

DEPTH_MAX = 120
"""The deepest nesting of types in types. Each level takes several levels of Python's stack."""

_RESERVED = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
_RESERVED_OF_ENUMS = _RESERVED | {"default"}
_RESERVED_OF_FIELDS = frozenset(("default", "doc", "name", "order", "type", "aliases"))

_REST_MAX_CHARS = 200
"""The part of superfluous text that an error shows."""


@dataclass(slots=True, eq=False)
class _Use(Primitive):
    """Stands for a type that is not yet declared. `names` has the full names that it may have, the likeliest first."""

    names: tuple[str, ...] = ()


class Parser:
    """Parses several texts, of which each may use the types of those before it.

    With `is_strict`, the defaults of fields and the characters of namespaces are checked too.
    """

    def __init__(self, *, is_strict: bool) -> None:
        self.types: dict[str, Named] = {}
        self._is_strict = is_strict
        self._owners: list[Array | Map | Union | Field] = []
        self._parts = 0

    def parse(self, text: str) -> Part:
        """Parses a schema. Raises FormatError."""
        parsed = json_text.parse(text)
        if parsed is None:
            raise FormatError("Cannot parse <null> schema")
        root = self._part(parsed.value, "")
        if parsed.rest:
            raise FormatError(f"dangling content after end of schema: {parsed.rest[:_REST_MAX_CHARS]}")
        root = self._declared_part(root)
        owners, self._owners = self._owners, []
        for owner in owners:
            self._resolve(owner)
        check_nesting(root)
        for owner in owners:
            if isinstance(owner, Union):
                _check_union(owner)
        if self._is_strict:
            check_defaults(owner for owner in owners if isinstance(owner, Field))
        else:
            check_names(root)
        return root

    def _resolve(self, owner: Array | Map | Union | Field) -> None:
        """Replaces the uses of types by the types."""
        match owner:
            case Array():
                owner.items = self._declared_part(owner.items)
            case Map():
                owner.values = self._declared_part(owner.values)
            case Union():
                owner.branches = [self._declared_part(branch) for branch in owner.branches]
            case Field():
                owner.type = self._declared_part(owner.type)

    def _declared_part(self, part: Part) -> Part:
        if not isinstance(part, _Use):
            return part
        for name in part.names:
            if name in self.types:
                return self.types[name]
        raise FormatError(f"Undefined schema: {part.names[0]}")

    def _count(self, number: int) -> None:
        self._parts += number
        if self._parts > PARTS_MAX:
            raise FormatError(f"the schema has more than {PARTS_MAX} types, fields and symbols")

    def _part(self, schema: Json, space: str) -> Part:
        self._count(1)
        match schema:
            case str():
                return self._named(schema, space)
            case dict():
                return self._declaration(schema, space)
            case list():
                union = Union([self._part(branch, space) for branch in schema])
                self._owners.append(union)
                return union
            case _:
                raise FormatError(f"Schema not yet supported: {json_text.write(schema)}")

    def _named(self, name: str, space: str) -> Part:
        if name in PRIMITIVES:
            return Primitive(PRIMITIVES[name])
        full = f"{space}.{name}" if space and "." not in name else name
        return self.types.get(full) or self.types.get(name) or _Use(Kind.NULL, names=(full, name))

    def _declaration(self, schema: JsonObject, space: str) -> Part:
        kind = _required_text(schema, "type", "No type")
        if kind in PRIMITIVES:
            properties = _properties(schema, _RESERVED)
            return Primitive(PRIMITIVES[kind], properties, logical_type(PRIMITIVES[kind], properties))
        match kind:
            case "record" | "error":
                return self._record(schema, space, is_error=kind == "error")
            case "enum":
                return self._enum(schema, space)
            case "fixed":
                return self._fixed(schema, space)
            case "array":
                items = self._part(_required(schema, "items", "Array has no items type"), space)
                array = Array(items, _properties(schema, _RESERVED))
                self._owners.append(array)
                return array
            case "map":
                values = self._part(_required(schema, "values", "Map has no values type"), space)
                map_ = Map(values, _properties(schema, _RESERVED))
                self._owners.append(map_)
                return map_
            case _:
                return self._named(kind, space)

    def _record(self, schema: JsonObject, space: str, *, is_error: bool) -> Record:
        name = self._name(schema, space)
        items = schema.get("fields")
        if not isinstance(items, list):
            raise FormatError(f"Record has no fields: {json_text.write(schema)}")
        fields = [self._field(item, name.space) for item in items]
        positions: dict[str, int] = {}
        for position, field in enumerate(fields):
            if field.name in positions:
                first = fields[positions[field.name]]
                raise FormatError(
                    f"Duplicate field {field.name} in record {name.full}: "
                    f"{_described(field, position)} and {_described(first, positions[field.name])}."
                )
            positions[field.name] = position
        record = Record(
            name,
            tuple(fields),
            is_error,
            _text(schema, "doc"),
            self._aliases(schema, name),
            _properties(schema, _RESERVED),
        )
        self._declare(record)
        return record

    def _field(self, item: Json, space: str) -> Field:
        self._count(1)
        declared = item if isinstance(item, dict) else {}
        name = _required_text(declared, "name", "No field name", shown=item)
        if "type" not in declared:
            raise FormatError(f"No field type: {json_text.write(item)}")
        type_ = self._part(declared["type"], space)
        if self._is_strict:
            check_strict_name(name)
        field = Field(
            name,
            type_,
            _default(declared, type_),
            _order(declared),
            _text(declared, "doc"),
            tuple(dict.fromkeys(_alias_texts(declared))),
            _properties(declared, _RESERVED_OF_FIELDS),
        )
        self._owners.append(field)
        return field

    def _enum(self, schema: JsonObject, space: str) -> Enum:
        name = self._name(schema, space)
        symbols = schema.get("symbols")
        if not isinstance(symbols, list):
            raise FormatError(f"Enum has no symbols: {json_text.write(schema)}")
        self._count(len(symbols))
        texts: dict[str, None] = {}
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise FormatError("Null name")
            if self._is_strict:
                check_strict_name(symbol)
            if symbol in texts:
                raise FormatError(f"Duplicate enum symbol: {symbol}")
            texts[symbol] = None
        default = _text(schema, "default")
        if default is not None and default not in texts:
            listed = ", ".join(texts)
            raise FormatError(f"The Enum Default: {default} is not in the enum symbol set: [{listed}]")
        enum = Enum(
            name,
            tuple(texts),
            default,
            _text(schema, "doc"),
            self._aliases(schema, name),
            _properties(schema, _RESERVED_OF_ENUMS),
        )
        self._declare(enum)
        return enum

    def _fixed(self, schema: JsonObject, space: str) -> Fixed:
        name = self._name(schema, space)
        size = schema.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not INT_MIN <= size <= INT_MAX:
            raise FormatError(f"Invalid or no size: {json_text.write(schema)}")
        if size < 0:
            raise FormatError(f"Malformed data. Length is negative: {size}")
        properties = _properties(schema, _RESERVED)
        fixed = Fixed(
            name,
            size,
            _text(schema, "doc"),
            self._aliases(schema, name),
            properties,
            logical_type(Kind.FIXED, properties, size),
        )
        self._declare(fixed)
        return fixed

    def _name(self, schema: JsonObject, space: str) -> Name:
        own_space = _text(schema, "namespace")
        text = _required_text(schema, "name", "No name in schema")
        name = Name.of(text, space if own_space is None else own_space)
        if self._is_strict:
            check_strict_name(name.name)
        if name.full in PRIMITIVES:
            raise FormatError(f"Schemas may not be named after primitives: {name.full}")
        return name

    def _aliases(self, schema: JsonObject, owner: Name) -> tuple[Name, ...]:
        names = dict.fromkeys(Name.of(alias, owner.space) for alias in _alias_texts(schema))
        if self._is_strict:
            for name in names:
                check_strict_name(name.name)
        return tuple(names)

    def _declare(self, part: Named) -> None:
        full = part.name.full
        if self._is_strict:
            check_strict_space(full)
        other = self.types.setdefault(full, part)
        if other is not part and not are_equal(other, part):
            raise FormatError(f"Can't redefine: {full}")


def check_nesting(root: Part) -> None:
    """Raises FormatError if types are in types too deeply, because each later step goes through them recursively."""
    seen = {id(root)}
    path = [inner_parts(root)]
    while path:
        if len(path) > DEPTH_MAX:
            raise FormatError(f"the types are nested more than {DEPTH_MAX} times")
        for inner in path[-1]:
            if id(inner) not in seen:
                seen.add(id(inner))
                path.append(inner_parts(inner))
                break
        else:
            path.pop()


def _check_union(union: Union) -> None:
    names = set()
    for branch in union.branches:
        if isinstance(branch, Union):
            raise FormatError(f"Nested union: {java_text(union)}")
        name = branch_name(branch)
        if name in names:
            raise FormatError(f"Duplicate in union:{name}")
        names.add(name)


def _described(field: Field, position: int) -> str:
    return f"{field.name} type:{kind_of(field.type).upper()} pos:{position}"


def _default(declared: JsonObject, type_: Part) -> Default | None:
    if "default" not in declared:
        return None
    value = declared["default"]
    if isinstance(value, str) and kind_of(type_) in (Kind.FLOAT, Kind.DOUBLE):
        try:
            return Default(parse_double(value))
        except ValueError as error:
            raise FormatError(str(error)) from None
    return Default(value)


def _order(declared: JsonObject) -> Order:
    if "order" not in declared:
        return Order.ASCENDING
    text = str(declared["order"])
    try:
        return Order(text.lower())
    except ValueError:
        raise FormatError(f"No enum constant org.apache.avro.Schema.Field.Order.{text.upper()}") from None


def _alias_texts(declared: JsonObject) -> list[str]:
    aliases = declared.get("aliases", [])
    if not isinstance(aliases, list):
        raise FormatError(f"aliases not an array: {json_text.write(declared)}")
    for alias in aliases:
        if not isinstance(alias, str):
            raise FormatError(f"alias not a string: {json_text.write(alias)}")
    return [alias for alias in aliases if isinstance(alias, str)]


def _properties(declared: JsonObject, reserved: frozenset[str]) -> Properties:
    return {name: value for name, value in declared.items() if name not in reserved}


def _required(declared: JsonObject, name: str, error: str) -> Json:
    if name not in declared:
        raise FormatError(f"{error}: {json_text.write(declared)}")
    return declared[name]


def _required_text(declared: JsonObject, name: str, error: str, *, shown: Json = None) -> str:
    text = _text(declared, name)
    if text is None:
        raise FormatError(f"{error}: {json_text.write(declared if shown is None else shown)}")
    return text


def _text(declared: JsonObject, name: str) -> str | None:
    """The text of a member. A member of another type has no meaning, as in Java."""
    value = declared.get(name)
    return value if isinstance(value, str) else None
