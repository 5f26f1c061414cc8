"""Writes compact JSON as Jackson does, for records that Kafka's tools print.

Jackson's JSON differs from Python's in two ways. The escapes of control characters have upper-case digits. Numbers with
a fraction have the form of Java's `Double.toString` (`1.0E7`).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from kcli.protocol.records.schema import Json

_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
# Java writes numbers from 10^-3 up to (not including) 10^7 as plain decimals.
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def dumps(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _double(value)
        case str():
            return '"' + _ESCAPED.sub(_escape, value) + '"'
        case list():
            return "[" + ",".join([dumps(item) for item in value]) + "]"
        case dict():
            return "{" + ",".join([f"{dumps(name)}:{dumps(item)}" for name, item in value.items()]) + "}"


def _double(value: float) -> str:
    if not math.isfinite(value):  # not a JSON number, so Jackson writes a string
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    exact = Decimal(repr(value)).normalize()
    sign, digits, _ = exact.as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exact.adjusted()}"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT.get(character) or f"\\u{ord(character):04X}"
