"""Compiles the functions that write and read the structs of one schema as JSON.

The source of a function has an expression for each field, with the check of the usual class of its value. It is two to
three times as fast as a call for each field. A value of another class goes to the function of its field. The source
has no text of a schema: names of fields are constants of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring as quoted
from typing import cast

from kcli.formats.connect.schema import LOGICAL_NAMES, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.model.java_text import (
    BYTE_MAX,
    BYTE_MIN,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    SHORT_MAX,
    SHORT_MIN,
)

Encode = Callable[[object], str]
Decode = Callable[[object], object]


def _whole(least: int, most: int) -> str:
    return f"{{0}} if type({{0}}) is int and {least} <= {{0}} <= {most}"


_INTEGERS = {
    SchemaType.INT8: _whole(BYTE_MIN, BYTE_MAX),
    SchemaType.INT16: _whole(SHORT_MIN, SHORT_MAX),
    SchemaType.INT32: _whole(INT_MIN, INT_MAX),
    SchemaType.INT64: _whole(LONG_MIN, LONG_MAX),
}
# Expressions without their last `else`. {0} is the value.
_WRITES: Mapping[SchemaType, str] = {
    **_INTEGERS,
    # In this range, the text of a double is the same in Java and in Python.
    SchemaType.FLOAT64: "{0} if type({0}) is float and 1e-3 <= {0} < 1e7",
    SchemaType.BOOLEAN: "'true' if {0} is True else 'false' if {0} is False",
    SchemaType.STRING: "quoted({0}) if type({0}) is str",
}
_READS: Mapping[SchemaType, str] = {
    **_INTEGERS,
    SchemaType.FLOAT64: "{0} if type({0}) is float",
    SchemaType.BOOLEAN: "{0} if type({0}) is bool",
    SchemaType.STRING: "{0} if type({0}) is str",
}


def struct_encoder(
    schema: Schema, encoders: Sequence[Encode], *, unusual: Encode, mismatch: Encode
) -> Encode:
    """The function that writes a struct. `encoders` write values of the fields, and `unusual` another value."""
    scope: dict[str, object] = {
        "Struct": Struct,
        "quoted": quoted,
        "schema": schema,
        "unusual": unusual,
        "mismatch": mismatch,
        **{
            f"name{at}": f"{',' if at else ''}{quoted(field.name)}:" for at, field in enumerate(schema.fields)
        },
        **{f"field{at}": encode for at, encode in enumerate(encoders)},
    }
    fields = [_expression(_WRITES, field.schema, at, null="'null'") for at, field in enumerate(schema.fields)]
    parts = [f"{{name{at}}}{{{field}}}" for at, field in enumerate(fields)]
    values = "".join(f"value{at}, " for at in range(len(parts)))
    lines = [
        "def function(value):",
        "    if type(value) is not Struct:",
        "        return unusual(value)",
        "    if value.schema is not schema and value.schema != schema:",
        "        return mismatch(value)",
        f"    {values}= value.values" if parts else "",
        f'    return f"{{{{{"".join(parts)}}}}}"',
    ]
    return cast(Encode, _compiled(lines, scope))


def struct_decoder(schema: Schema, decoders: Sequence[Decode], *, other: Decode) -> Decode:
    """The function that reads a struct. `decoders` read values of the fields, and `other` a node that is no object."""
    scope: dict[str, object] = {
        "schema": schema,
        "make": Struct.of_checked,
        "other": other,
        **{f"name{at}": field.name for at, field in enumerate(schema.fields)},
        **{f"field{at}": decode for at, decode in enumerate(decoders)},
    }
    fields = [_expression(_READS, field.schema, at, null="None") for at, field in enumerate(schema.fields)]
    lines = [
        "def function(node):",
        "    if type(node) is not dict:",
        "        return other(node)",
        "    get = node.get",
        *(f"    value{at} = get(name{at})" for at in range(len(fields))),
        f"    return make(schema, [{', '.join(fields)}])",
    ]
    return cast(Decode, _compiled(lines, scope))


def _expression(usual: Mapping[SchemaType, str], schema: Schema, at: int, *, null: str) -> str:
    parts = []
    if schema.name not in LOGICAL_NAMES and schema.type in usual:
        parts.append(usual[schema.type].format(f"value{at}"))
    if schema.optional and schema.default is None:
        parts.append(f"{null} if value{at} is None")
    return " else ".join([*parts, f"field{at}(value{at})"])


def _compiled(lines: Sequence[str], scope: dict[str, object]) -> object:
    exec(compile("\n".join(lines), "<struct of Connect>", "exec"), scope)
    return scope["function"]
