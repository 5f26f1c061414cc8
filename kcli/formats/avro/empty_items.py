"""Finds the types whose values have no bytes, of which a few bytes could be an endless array."""

from __future__ import annotations

from kcli.formats.avro.schema import Fixed, Kind, Part, Primitive, Record, all_parts

EMPTY_ITEMS_MAX = 10
"""The most elements in a block of an array whose elements have no bytes. A value contains the number of elements, so a
value of ten bytes could be an array of 2^60 elements, and the decoder would never end."""


def empty_parts(root: Part) -> frozenset[int]:
    """The identities of the types in a schema whose values have no bytes."""
    users: dict[int, list[Record]] = {}
    """The records that have a type as the type of a field, once for each field."""
    left: dict[int, int] = {}
    """The number of fields of each record whose types are not known to be empty."""
    empty: list[Part] = []
    for part in all_parts(root):
        match part:
            case Primitive(kind=Kind.NULL) | Fixed(size=0) | Record(fields=()):
                empty.append(part)
            case Record():
                left[id(part)] = len(part.fields)
                for field in part.fields:
                    users.setdefault(id(field.type), []).append(part)
            case _:
                pass  # a union, an enum, an array and a map begin with a number
    for part in empty:  # the list grows while the loop runs
        for record in users.get(id(part), ()):
            left[id(record)] -= 1
            if not left[id(record)]:
                empty.append(record)
    return frozenset(map(id, empty))
