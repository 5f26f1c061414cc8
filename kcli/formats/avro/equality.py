"""Compares schemas as Apache Avro for Java and Confluent's registry do."""

from __future__ import annotations

import math

from kcli.formats.avro.json_text import Json
from kcli.formats.avro.schema import (
    Array,
    Default,
    Enum,
    Field,
    Fixed,
    Map,
    Part,
    Primitive,
    Properties,
    Record,
    Union,
)


def are_equal(one: Part, other: Part) -> bool:
    """Whether two schemas are equal in Java: in all but documentation, aliases and defaults of enums."""
    return _Comparison(with_texts=False).equal(one, other)


def are_equivalent(one: Part, other: Part) -> bool:
    """Whether the registry treats two schemas as one: equal in documentation, aliases and defaults too."""
    return _Comparison(with_texts=True).equal(one, other)


class _Comparison:
    def __init__(self, *, with_texts: bool) -> None:
        self._with_texts = with_texts
        self._records: set[tuple[int, int]] = set()

    def equal(self, one: Part, other: Part) -> bool:
        if one is other:
            return True
        match one, other:
            case Primitive(), Primitive():
                return one.kind is other.kind and same_properties(one.properties, other.properties)
            case Array(), Array():
                return same_properties(one.properties, other.properties) and self.equal(
                    one.items, other.items
                )
            case Map(), Map():
                return same_properties(one.properties, other.properties) and self.equal(
                    one.values, other.values
                )
            case Union(), Union():
                return len(one.branches) == len(other.branches) and all(
                    map(self.equal, one.branches, other.branches)
                )
            case Fixed(), Fixed():
                return one.size == other.size and self._same_names(one, other)
            case Enum(), Enum():
                return one.symbols == other.symbols and self._same_names(one, other)
            case Record(), Record():
                return self._equal_records(one, other)
            case _:
                return False

    def _same_names(self, one: Record | Enum | Fixed, other: Record | Enum | Fixed) -> bool:
        if one.name != other.name or not same_properties(one.properties, other.properties):
            return False
        if not self._with_texts:
            return True
        if isinstance(one, Enum) and isinstance(other, Enum) and one.default != other.default:
            return False
        return one.doc == other.doc and set(one.aliases) == set(other.aliases)

    def _equal_records(self, one: Record, other: Record) -> bool:
        if len(one.fields) != len(other.fields) or not self._same_names(one, other):
            return False
        pair = (id(one), id(other))
        if pair in self._records:  # the comparison of this pair is not complete, or found no difference
            return True
        self._records.add(pair)
        return all(map(self._equal_fields, one.fields, other.fields))

    def _equal_fields(self, one: Field, other: Field) -> bool:
        is_equal = (
            one.name == other.name
            and one.order is other.order
            and _same_default(one.default, other.default)
            and same_properties(one.properties, other.properties)
            and self.equal(one.type, other.type)
        )
        if not is_equal or not self._with_texts:
            return is_equal
        return one.doc == other.doc and set(one.aliases) == set(other.aliases)


def same_properties(one: Properties, other: Properties) -> bool:
    """Whether two declarations have the same properties, in any order."""
    return one.keys() == other.keys() and all(same_json(value, other[name]) for name, value in one.items())


def same_json(one: Json, other: Json) -> bool:
    """Whether two values are equal in Jackson, where 1 and 1.0 differ, and 1 and true."""
    if type(one) is not type(other):
        return False
    match one, other:
        case dict(), dict():
            return same_properties(one, other)
        case list(), list():
            return len(one) == len(other) and all(map(same_json, one, other))
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
        case _:
            return one == other


def _same_default(one: Default | None, other: Default | None) -> bool:
    if one is None or other is None:
        return one is other
    return same_json(one.json, other.json)
