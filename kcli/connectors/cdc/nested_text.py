"""Arrays and hstore values in the texts of PostgreSQL."""

from __future__ import annotations

import json
import re

from kcli.connectors.cdc.text_errors import invalid_text
from kcli.formats.connect.errors import DataException

_ITEM = re.compile(r'(?:"((?:[^"\\]|\\.)*+)"|([^{},"\\]++))([,}])', re.DOTALL)
_BOUNDS = re.compile(r"(?:\[-?[0-9]+:-?[0-9]+\])+=")
_PAIR = re.compile(
    r'"((?:[^"\\]|\\.)*+)"=>(?:NULL|"((?:[^"\\]|\\.)*+)")(?:, |$)',
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def array_items(text: str) -> list[str | None]:
    """The texts of the items of an array such as `{1,NULL,"a b"}`.

    Raises DataException for an array of several dimensions, because a field has one type of items.
    """
    text = _BOUNDS.sub("", text, count=1)
    if text == "{}":
        return []
    if text.startswith("{{"):
        raise DataException(
            "An array of several dimensions has no field type. Leave out its column with column.exclude.list"
        )
    items: list[str | None] = []
    position, last = 1, ","
    while last == ",":
        match = _ITEM.match(text, position)
        if match is None:
            raise invalid_text("array", text)
        quoted, plain, last = match.groups()
        items.append(_unescaped(quoted) if quoted is not None else None if plain == "NULL" else plain)
        position = match.end()
    if position != len(text) or text[0] != "{":
        raise invalid_text("array", text)
    return items


def hstore_pairs(text: str) -> dict[str, str | None]:
    """The pairs of an hstore, such as `"a"=>"1", "b"=>NULL`."""
    pairs: dict[str, str | None] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            raise invalid_text("hstore", text)
        pairs[_unescaped(match[1])] = None if match[2] is None else _unescaped(match[2])
        position = match.end()
    return pairs


def hstore_json(text: str) -> str:
    """The text of an hstore as a JSON object."""
    return json.dumps(hstore_pairs(text), ensure_ascii=False, separators=(",", ":"))


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(r"\1", text)
