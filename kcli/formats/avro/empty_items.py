"""Finds the types whose values have no bytes, of which a few bytes could be an endless array."""

from __future__ import annotations

from kcli.formats.avro.schema import Fixed, Kind, Part, Primitive, Record, all_parts

EMPTY_ITEMS_MAX = 10
"""The most elements in a block of an array whose elements have no bytes. A value contains the number of elements, so a
value of ten bytes could be an array of 2^60 elements, and the decoder would never end."""


def empty_parts(root: Part) -> frozenset[int]:
    """The identities of the types in a schema whose values have no bytes."""
    parts = all_parts(root)
    empty: set[int] = set()
    # A record is empty if all its fields are empty. So each round may find more empty types.
    while found := {id(part) for part in parts if id(part) not in empty and _is_empty(part, empty)}:
        empty |= found
    return frozenset(empty)


def _is_empty(part: Part, empty: set[int]) -> bool:
    """Whether the values of a type have no bytes. `empty` has the types that are known to be empty."""
    match part:
        case Primitive():
            return part.kind is Kind.NULL
        case Fixed():
            return part.size == 0
        case Record():
            return all(id(field.type) in empty for field in part.fields)
        case _:
            return False  # a union, an enum, an array and a map begin with a number
