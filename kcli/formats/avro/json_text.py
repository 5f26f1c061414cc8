"""Reads and writes JSON as Jackson does in Apache Avro for Java, because the registry hashes the written text."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass

from kcli.formats.codec import FormatError
from kcli.formats.connect.values import Float32
from kcli.model.java_floats import java_double, java_float

TEXT_MAX_CHARS = 4 << 20
"""The longest schema. Real schemas have some hundred kilobytes at most."""

DEPTH_MAX = 400
"""The deepest nesting of brackets. Each level takes a level of Python's stack."""

DIGITS_MAX = 1000
"""The most digits of a whole number, as in Jackson. Python needs quadratic time for longer numbers."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonObject = dict[str, Json]

_BLANK = re.compile(r"[ \t\n\r]*")
# A string is matched too, because a comment may not begin in a string. If the end is missing, a match takes the whole
# rest of the text, so that the search takes linear time.
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"?|/\*(?:.*?\*/|.*)|//[^\n\r]*', re.DOTALL)
_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class Parsed:
    """The first JSON value of a text, and the rest of the text without blanks."""

    value: Json
    rest: str


def parse(text: str) -> Parsed | None:
    """Parses the first JSON value of a text, which may have comments. Returns None for a text without a value.

    Raises FormatError.
    """
    check_length(text)
    bare = _STRING_OR_COMMENT.sub(_without_comment, text) if "/" in text else text
    start = _end_of_blanks(bare, 0)
    if start == len(bare):
        return None
    try:
        value, end = _DECODER.raw_decode(bare, start)
    except RecursionError:
        raise FormatError(f"the brackets are nested more than {DEPTH_MAX} times") from None
    except ValueError as error:
        raise FormatError(f"the text is not JSON: {error}") from None
    if end < len(bare) and isinstance(value, (int, float)) and bare[end] not in " \t\n\r/":
        raise FormatError(f"the text is not JSON: unexpected character at position {end}")
    check_depth(value)
    _refuse_half_pairs(text, value)
    # Comments have the length of the blanks that replace them, so the rest has its comments.
    return Parsed(value, text[end:].strip(" \t\n\r"))


def _refuse_half_pairs(text: str, value: Json) -> None:
    """Raises FormatError for half of a surrogate pair, which no text in UTF-8 has. An escape can write one."""
    try:
        text.encode()
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise FormatError("a text has half of a surrogate pair") from None


def write(value: object) -> str:
    """Writes JSON without blanks. A number has the text of Java, and a Float32 that of a `float`."""
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def quote(text: str) -> str:
    """Writes a string. Only quotation marks, backslashes and control characters are escaped."""
    if _ESCAPED.search(text) is None:
        return f'"{text}"'
    return f'"{_ESCAPED.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04X}"


def number(value: float) -> str:
    """Writes a fraction. JSON has no infinite numbers, so these are strings."""
    text = java_float(value) if isinstance(value, Float32) else java_double(value)
    return text if math.isfinite(value) else f'"{text}"'


def _write(value: object, pieces: list[str]) -> None:
    match value:
        case None:
            pieces.append("null")
        case bool():
            pieces.append("true" if value else "false")
        case str():
            pieces.append(quote(value))
        case int():
            pieces.append(str(value))
        case float():
            pieces.append(number(value))
        case dict():
            before = "{"
            for name, member in value.items():
                pieces.append(f"{before}{quote(name)}:")
                _write(member, pieces)
                before = ","
            pieces.append("}" if value else "{}")
        case list():
            before = "["
            for member in value:
                pieces.append(before)
                _write(member, pieces)
                before = ","
            pieces.append("]" if value else "[]")
        case _:
            raise TypeError(f"{type(value).__name__} is not a type of JSON")


def _without_comment(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " " * len(match[0])


def _end_of_blanks(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    assert match is not None, "the pattern matches an empty text"
    return match.end()


def check_length(text: str) -> None:
    """Raises FormatError for a text that is too long."""
    if len(text) > TEXT_MAX_CHARS:
        raise FormatError(f"the text has {len(text)} characters, but at most {TEXT_MAX_CHARS} are accepted")


def check_depth(value: Json) -> None:
    """Raises FormatError for JSON that is nested too deeply. Goes level by level, so that no stack limits it."""
    level: list[Json] = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [
            member
            for outer in level
            if isinstance(outer, (dict, list))
            for member in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise FormatError(f"the brackets are nested more than {DEPTH_MAX} times")


def _whole(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise ValueError(f"a number has more than {DIGITS_MAX} digits")
    return int(digits)


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not a value")


_DECODER = json.JSONDecoder(parse_int=_whole, parse_constant=_refuse_constant)
