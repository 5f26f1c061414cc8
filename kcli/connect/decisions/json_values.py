"""The values of Connect's internal topics: compact JSON without a schema, as Java's JsonConverter writes it."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.connect.model import TaskId
from kcli.model.java_json import parse_json
from kcli.model.java_text import parse_int
from kcli.model.java_utf8 import decode_utf8
from kcli.protocol.records.json_text import dumps
from kcli.protocol.records.schema import Json

Entry = tuple[bytes, bytes | None]
"""The key and the value of a record. A value of None deletes the key."""


class InvalidValue(ValueError):
    """A value is JSON, but does not have the form that its key requires."""


def json_entry(key: str, value: dict[str, Json] | None) -> Entry:
    return text_bytes(key), None if value is None else json_bytes(value)


def json_bytes(value: Json) -> bytes:
    return text_bytes(dumps(value))


def text_bytes(text: str) -> bytes:
    """The text in UTF-8. As in Java, a surrogate without its partner becomes a question mark."""
    return text.encode("utf-8", "replace")


def parsed(value: bytes | None) -> object:
    """The JSON of a value. A missing and an empty value are None. Raises ValueError for anything but JSON."""
    text = "" if value is None else decode_utf8(value)
    return parse_json(text) if text else None


def fields_of(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise InvalidValue(f"the value should be a map but is {type_name(value)}")
    return value


def text_of(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidValue(f"the field '{name}' should be a string but is {type_name(value)}")
    return value


def number_of(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue(f"the field '{name}' should be a whole number but is {type_name(value)}")
    return value


def type_name(value: object) -> str:
    """The name of a type of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case dict():
            return "a map"
        case list():
            return "a list"
        case _:
            return "a number"


def task_of(key: str, prefix: str) -> TaskId | None:
    """The task in a key of the form `<prefix><connector>-<number>`. Returns None for any other key.

    As in Java, hyphens at the end of the key are ignored.
    """
    connector, hyphen, number = key.rstrip("-").removeprefix(prefix).rpartition("-")
    try:
        return TaskId(connector, parse_int(number)) if hyphen else None
    except ValueError:
        return None
