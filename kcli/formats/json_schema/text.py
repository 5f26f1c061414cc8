"""The text of a JSON document as Jackson reads and writes it in Confluent's registry.

A registry stores this text and computes ids from it, so it must be equal byte for byte. Members keep their order, and
a number keeps its digits: `1.0` stays `1.0`, and `1e5` becomes `1E+5`, as BigDecimal writes it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from json.encoder import encode_basestring as quoted

from kcli.formats.codec import FormatError
from kcli.formats.connect.errors import JavaException
from kcli.formats.connect.java_strings import java_decimal
from kcli.formats.connect.json_tree import MISSING, read_tree

Json = bool | int | Decimal | str | None | list["Json"] | dict[str, "Json"]
"""A value of JSON. A number with a fraction or an exponent is a Decimal."""

TEXT_BYTES_MAX = 4 * 1024 * 1024
"""The most bytes of a schema. The largest published schema that is known, of HL7 FHIR, has 3.5 MB."""
DEPTH_MAX = 100
"""The most brackets within each other, because schemas are read by recursion, and Python allows 1000 frames."""

_LOWER_ESCAPE = re.compile(r"\\(?:u00[01][0-9a-f]|.)")


def read_json(text: str) -> Json:
    """Parses a document. Text after the first value is ignored. Raises FormatError."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise FormatError("Invalid JSON schema: the text has half of a surrogate pair") from None
    if len(data) > TEXT_BYTES_MAX:
        raise FormatError(f"Invalid JSON schema: {len(data)} bytes, expected at most {TEXT_BYTES_MAX}")
    try:
        tree = read_tree(data)
    except JavaException as error:
        raise FormatError(f"Invalid JSON schema: {error}") from None
    value = None if tree is MISSING else _checked(tree, 0)
    if not isinstance(value, dict | bool):
        raise FormatError(
            f"Invalid JSON schema: expected an object or boolean at the root, found {_node_type(tree)}"
        )
    return value


def write_json(value: Json, *, is_sorted: bool = False) -> str:
    """Returns the compact text of a value. If `is_sorted` is True, members are in the order of Java's strings."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case str():
            return _escaped(value)
        case int():
            return str(value)
        case Decimal():
            return java_decimal(value)
        case list():
            return f"[{','.join([write_json(item, is_sorted=is_sorted) for item in value])}]"
        case dict():
            names = sorted(value, key=_utf_16) if is_sorted else value
            members = [f"{_escaped(name)}:{write_json(value[name], is_sorted=is_sorted)}" for name in names]
            return f"{{{','.join(members)}}}"


def sorted_members(value: Json) -> Json:
    """Returns a value whose members are in the order of Java's strings."""
    match value:
        case list():
            return [sorted_members(item) for item in value]
        case dict():
            return {name: sorted_members(value[name]) for name in sorted(value, key=_utf_16)}
        case _:
            return value


def _checked(value: object, depth: int) -> Json:
    """Returns a tree of the reader as it is. Raises FormatError if its brackets are nested too deeply."""
    if depth > DEPTH_MAX:
        raise FormatError(f"Invalid JSON schema: more than {DEPTH_MAX} brackets within each other")
    match value:
        case list():
            for item in value:
                _checked(item, depth + 1)
        case dict():
            for name, item in value.items():
                _refuse_surrogates(name)
                _checked(item, depth + 1)
        case str():
            _refuse_surrogates(value)
    assert value is None or isinstance(value, bool | int | Decimal | str | list | dict), (
        "a value of the reader"
    )
    return value


def _refuse_surrogates(text: str) -> None:
    """Raises FormatError for half of a surrogate pair, which has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FormatError("Invalid JSON schema: a text has half of a surrogate pair") from None


def _node_type(tree: object) -> str:
    if tree is MISSING:
        return "MISSING"
    match tree:
        case None:
            return "NULL"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
        case _:
            return "NUMBER"


def _escaped(text: str) -> str:
    """Returns a text in quotation marks. Jackson writes the digits of an escape in capital letters."""
    written = quoted(text)
    if "\\u00" not in written:
        return written
    return _LOWER_ESCAPE.sub(
        lambda match: f"\\u{match[0][2:].upper()}" if match[0][1] == "u" else match[0], written
    )


def _utf_16(name: str) -> bytes:
    return name.encode("utf-16-be")
