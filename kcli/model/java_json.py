"""Parses JSON as Jackson does in Kafka's tools and servers, for text that a user, a file or a client has written.

Python's `json.loads` also accepts NaN, Infinity, and numbers with thousands of digits. It raises RecursionError for
nested brackets, and a caller that expects ValueError then ends with a traceback.
"""

from __future__ import annotations

import json

from kcli.model.java_text import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

# The white space between the tokens of JSON.
_BLANK = " \t\n\r"


def parse_json(text: str) -> object:
    """The first JSON value in the text. As in Jackson's `readTree`, text after this value is ignored. Of several fields
    with the same name, the last one counts. Raises ValueError."""
    try:
        value, _ = _DECODER.raw_decode(text, len(text) - len(text.lstrip(_BLANK)))
    except RecursionError:
        raise ValueError("the brackets are nested too deeply") from None
    return value


def json_object(value: object) -> dict[str, object]:
    """The fields of an object. Raises ValueError for any other value."""
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object")
    return value


def json_int(value: object) -> int:
    """The value of a field of the type int. Raises ValueError for a text, a fraction, or a number out of range."""
    return _whole(value, INT_MIN, INT_MAX)


def json_long(value: object) -> int:
    """The value of a field of the type long. Raises ValueError like `json_int`."""
    return _whole(value, LONG_MIN, LONG_MAX)


def _whole(value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"expected a whole number from {least} to {most}, found {json.dumps(value)}")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
