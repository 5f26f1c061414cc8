"""The codec of JSON values: bytes of JSON and values, with an optional validation."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from json.encoder import encode_basestring as quoted

from kcli.formats.codec import Value, ValueCodec
from kcli.formats.connect.errors import JavaException
from kcli.formats.connect.json_tree import MISSING, read_tree
from kcli.formats.json_schema.language import JsonSchema
from kcli.formats.json_schema.validation import value_validator

VALUE_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of a value, which is more than the largest record of a usual broker."""

_Check = Callable[[object, int], None]


def json_codec(schema: JsonSchema, *, validates: bool = False) -> ValueCodec:
    """Returns the codec of a schema. A number with a fraction is a Decimal, so that it keeps its digits.

    If `validates` is True, `decode` and `encode` raise InvalidValueError for a value that the schema does not permit.
    Raises FormatError if the values of the schema cannot be validated.
    """
    check: _Check = value_validator(schema.documents).check if validates else _accept

    def decode(data: bytes) -> Value:
        value = decoded(data)
        check(value, len(data))
        return value

    def encode(value: Value) -> bytes:
        try:
            data = _written(value).encode()
        except RecursionError:
            raise ValueError("the value is nested too deeply") from None
        if validates:
            check(decoded(data), len(data))
        return data

    return ValueCodec(decode, encode)


def decoded(data: bytes) -> Value:
    """Returns the value of a text as Jackson reads it. Raises ValueError."""
    if len(data) > VALUE_BYTES_MAX:
        raise ValueError(f"{len(data)} bytes, expected at most {VALUE_BYTES_MAX}")
    try:
        tree = read_tree(data)
    except JavaException as error:
        raise ValueError(f"no valid JSON: {error}") from None
    if tree is MISSING:
        raise ValueError("no valid JSON: the text is empty")
    assert tree is None or isinstance(tree, bool | int | Decimal | str | list | dict), "a value of the reader"
    return tree


def _accept(_value: object, _size_bytes: int) -> None:
    """Accepts a value that is not validated."""


def _written(value: Value) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case Decimal() if value.is_finite():
            return str(value)
        case list():
            return f"[{','.join(map(_written, value))}]"
        case dict():
            return f"{{{','.join([f'{quoted(name)}:{_written(item)}' for name, item in value.items()])}}}"
        case _:
            raise ValueError(f"JSON has no value such as {value!r}")
