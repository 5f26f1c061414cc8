"""Reads the value of a keyword. A value of a wrong type is a FormatError, whose message names the place."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from kcli.formats.codec import FormatError
from kcli.formats.json_schema.text import Json
from kcli.model.java_text import INT_MAX, INT_MIN

_TYPES = {
    dict: "an object",
    list: "an array",
    str: "a text",
    bool: "a boolean",
    int: "a number",
    Decimal: "a number",
}


def wrong_type(path: str, expected: str, value: Json) -> FormatError:
    """Returns the error of a value that has another type than its keyword."""
    return FormatError(f"Invalid JSON: {path}: expected {expected}, found {_TYPES.get(type(value), 'null')}")


def text(schema: dict[str, Json], keyword: str, path: str) -> str | None:
    value = schema.get(keyword)
    if keyword in schema and not isinstance(value, str):
        raise wrong_type(f"{path}/{keyword}", "a text", value)
    return value if isinstance(value, str) else None


def boolean(schema: dict[str, Json], keyword: str, path: str) -> bool | None:
    value = schema.get(keyword)
    if keyword in schema and not isinstance(value, bool):
        raise wrong_type(f"{path}/{keyword}", "a boolean", value)
    return value if isinstance(value, bool) else None


def number(schema: dict[str, Json], keyword: str, path: str) -> Decimal | None:
    if keyword not in schema:
        return None
    value = schema[keyword]
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise wrong_type(f"{path}/{keyword}", "a number", value)
    return Decimal(value)


def integer(schema: dict[str, Json], keyword: str, path: str) -> int | None:
    """Returns the value of a keyword that is an int of Java. Also `5.0` is an int."""
    value = number(schema, keyword, path)
    if value is None:
        return None
    if not INT_MIN <= value <= INT_MAX or value != value.to_integral_value():
        raise FormatError(f"Invalid JSON: {path}/{keyword}: expected an int, found {value}")
    return round(value)


def whole_number(schema: dict[str, Json], keyword: str) -> int | None:
    """Returns the value of a keyword that Confluent's registry ignores if it is no number."""
    value = schema.get(keyword)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def array(schema: dict[str, Json], keyword: str, path: str) -> list[Json]:
    """Returns the elements of a keyword, or an empty list if the schema does not have it."""
    value = schema.get(keyword, [])
    if not isinstance(value, list):
        raise wrong_type(f"{path}/{keyword}", "an array", value)
    return value


def members(schema: dict[str, Json], keyword: str, path: str) -> dict[str, Json]:
    """Returns the members of a keyword, or an empty dict if the schema does not have it."""
    value = schema.get(keyword, {})
    if not isinstance(value, dict):
        raise wrong_type(f"{path}/{keyword}", "an object", value)
    return value


def texts(values: Iterable[Json], path: str) -> list[str]:
    """Returns the elements of an array of texts."""
    result = []
    for value in values:
        if not isinstance(value, str):
            raise wrong_type(path, "a text", value)
        result.append(value)
    return result
