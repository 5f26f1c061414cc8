"""The defaults of columns as defaults of fields, by the rules of Debezium.

A default is a constant if its expression is one. A function stands for a value that only the server knows, so it
becomes the zero of the type: the epoch, an empty text, a UUID of zeros.
"""

from __future__ import annotations

import re

from kcli.connectors.cdc.value_types import ENUM, TypeInfo, ValueType
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import SchemaType

_ZERO_UUID = "00000000-0000-0000-0000-000000000000"
_TIMES = frozenset({"date", "time", "timestamp", "timestamptz", "interval"})
_INTEGERS = frozenset({"int2", "int4", "int8"})
_TEXTS = frozenset({"bpchar", "varchar", "text"})
_WITH_DEFAULTS = (
    _TIMES | _INTEGERS | _TEXTS
    | {"bool", "float4", "float8", "numeric", "uuid", "json", "jsonb", "xml", "bit", "varbit"}
)  # fmt: skip
"""The types whose fields have defaults. Debezium drops those of other types, and of structs (numbers of any scale)."""
_NAME = r'(?:"[^"]*"|[a-z0-9_ .\[\]])'
"""A part of a name as pg_get_expr writes it: with quotes, except if it has only these characters."""
_LITERAL = re.compile(rf"""(E|B)?'((?:[^']|'')*)'(?:::(?:{_NAME}|\([0-9, ]+\))+)?""")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_FUNCTION = re.compile(rf"{_NAME}+\(.*\)(?:::.*)?", re.DOTALL)
_KEYWORDS = frozenset({"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"})


def field_default(info: TypeInfo, expression: str | None, kind: ValueType) -> object:
    """The default of a field, or None. `expression` is the text of pg_get_expr, with constants in the output format."""
    if expression is None or not (info.kind == ENUM or info.name in _WITH_DEFAULTS) or info.item is not None:
        return None
    if kind.schema.type is SchemaType.STRUCT:
        return None
    text = _constant(expression)
    if text is None:
        return _zero(info, expression, kind)
    try:
        return kind.convert(text)
    except DataException:
        return None


def _constant(expression: str) -> str | None:
    """The text of a constant in PostgreSQL's output format."""
    if expression in ("true", "false"):
        return expression[0]
    if _NUMBER.fullmatch(expression):
        return expression
    match = _LITERAL.fullmatch(expression)
    if match is None:
        return None
    text = match[2].replace("''", "'")
    return text.replace("\\\\", "\\") if match[1] == "E" else text


def _zero(info: TypeInfo, expression: str, kind: ValueType) -> object:
    is_function = expression in _KEYWORDS or _FUNCTION.fullmatch(expression) is not None
    if not is_function:
        return None
    if info.name == "timestamptz":
        return kind.convert("1970-01-01 00:00:00+00")
    if info.name in _TIMES or (info.name in _INTEGERS and expression.startswith("nextval(")):
        return kind.fallback
    if info.name == "uuid":
        return _ZERO_UUID
    return "" if info.name in _TEXTS else None
