"""The types of Arrow for the values of a schema, and values as elements of such types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING

from kcli.formats.codec import Value
from kcli.formats.json_schema.nodes import (
    ArrayRules,
    Combined,
    Criterion,
    Node,
    NumberRules,
    ObjectRules,
    Plain,
    StringRules,
)
from kcli.formats.json_schema.text import Json
from kcli.model.java_numbers import decimal_to_double
from kcli.model.java_text import LONG_MAX, LONG_MIN

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_MAX = 50
"""The most characters of a value in an error."""
DEPTH_MAX = 30
"""The most structures within each other in a column."""

# Keywords that do not restrict the values of a column's type. The library does not check `format`.
_IMPLIED = frozenset(
    {
        *("$schema", "$id", "id", "$ref", "$defs", "definitions", "$comment"),
        *("title", "description", "default", "examples", "format", "connect.type", "connect.index"),
        *("type", "properties", "required", "additionalProperties", "items", "anyOf", "oneOf"),
    }
)


def arrow_type(node: Node) -> pa.StructType | None:
    """Returns the type of an object whose properties have simple types, or None for any other schema."""
    import pyarrow as pa

    found = _arrow_type(node, DEPTH_MAX)
    return found if found is not None and pa.types.is_struct(found) else None


def nodes_of(root: Node) -> list[Node]:
    """Lists the nodes of a schema, each once."""
    nodes: dict[Node, None] = {}
    pending = [root]
    while pending:
        node = pending.pop().referred
        if node in nodes:
            continue
        nodes[node] = None
        match node.rules:
            case ObjectRules(properties=properties):
                pending += properties.values()
            case ArrayRules(every_item=item) if item is not None:
                pending.append(item)
            case Combined(members=members):
                pending += members
    return list(nodes)


def is_implied(node: Node) -> bool:
    """Whether every value of the column's type is permitted, if it has no nulls."""
    if not isinstance(node.source, dict) or not node.source.keys() <= _IMPLIED:
        return False
    match node.rules:
        case ObjectRules(content=content, required=required, properties=properties):
            return content.schema is None and required <= properties.keys()
        case Combined(is_split=is_split):
            return not is_split
        case _:
            return True


def fitted(value: Value, expected: pa.DataType, path: str) -> object:
    """Returns a value for an array of a type. Raises ValueError, with the place, if the value has another type."""
    import pyarrow as pa

    if value is None:
        return None
    match value:
        case dict() if pa.types.is_struct(expected):
            return {
                item.name: fitted(value.get(item.name), item.type, f"{path}/{item.name}") for item in expected
            }
        case list() if pa.types.is_list(expected):
            return [fitted(item, expected.value_type, f"{path}/{at}") for at, item in enumerate(value)]
        case bool() if pa.types.is_boolean(expected):
            return value
        case str() if pa.types.is_string(expected):
            value.encode()  # raises a ValueError for half of a surrogate pair, which Arrow cannot hold
            return value
        case bool():
            pass
        case int() | Decimal() if pa.types.is_integer(expected) and _is_long(value):
            return round(value)
        case int() | Decimal() if pa.types.is_floating(expected) and math.isfinite(decimal_to_double(value)):
            return decimal_to_double(value)
    raise ValueError(f"{path}: expected {expected}, found {_shown(value)}")


def _is_long(value: int | Decimal) -> bool:
    return LONG_MIN <= value <= LONG_MAX and (isinstance(value, int) or value == value.to_integral_value())


def _shown(value: Value) -> str:
    """Returns the value, or its type if the value may be long."""
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return repr(value) if isinstance(value, bool) else str(value)[:SHOWN_MAX]


def _arrow_type(node: Node, depth: int) -> pa.DataType | None:
    """Returns the type of a schema, or None if its values have no type or several types."""
    import pyarrow as pa

    node = node.referred
    if depth == 0 or not isinstance(node.source, dict):
        return None
    match node.rules:
        case Combined():
            return _combined_type(node.rules, depth)
        case _ if "type" not in node.source:
            return None
        case StringRules():
            return pa.string()
        case NumberRules(is_integer=is_integer):
            return pa.int64() if is_integer else pa.float64()
        case Plain.BOOLEAN:
            return pa.bool_()
        case ArrayRules(every_item=item, items=()) if item is not None:
            item_type = _arrow_type(item, depth - 1)
            return None if item_type is None else pa.list_(item_type)
        case ObjectRules(properties=properties) if properties:
            return _struct_type(node.source, properties, depth)
        case _:
            return None


def _struct_type(
    source: Mapping[str, Json], properties: Mapping[str, Node], depth: int
) -> pa.DataType | None:
    """Returns the type of an object, whose fields are in the order of the schema's text."""
    import pyarrow as pa

    order = source["properties"]
    assert isinstance(order, dict), "the builder has checked it"
    fields = {name: _arrow_type(properties[name], depth - 1) for name in order}
    return None if None in fields.values() else pa.struct(list(fields.items()))


def _combined_type(rules: Combined, depth: int) -> pa.DataType | None:
    """Returns the type of `T or null`, or of a type with other keywords such as `enum`."""
    if rules.is_split:
        typed = [
            member for member in rules.members if isinstance(member.source, dict) and "type" in member.source
        ]
    elif rules.criterion is Criterion.ALL and len(rules.members) > 1:
        return None
    else:
        typed = [member for member in rules.members if member.referred.rules is not Plain.NULL]
    return _arrow_type(typed[0], depth - 1) if len(typed) == 1 else None
