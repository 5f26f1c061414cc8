"""Formats results as JSON and as tab-separated values, for `--output json` and `--output tsv`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TYPE_CHECKING, Union, cast, overload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
RowValue = Union[
    bool,
    int,
    float,
    str,
    bytes,
    Enum,
    BaseException,
    None,
    "DataclassInstance",
    Sequence["RowValue"],
    AbstractSet["RowValue"],
    Mapping[str, "RowValue"],
]
"""A result, or a part of a result."""


@overload
def plain(value: Mapping[str, RowValue] | DataclassInstance) -> dict[str, Json]: ...
@overload
def plain(value: RowValue) -> Json: ...
def plain(value: RowValue) -> Json:
    """Returns the value as JSON: dataclasses by field, enums by name, bytes as UTF-8 with escapes."""
    if dataclasses.is_dataclass(value):
        assert not isinstance(value, type), "a result is an instance"
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return value
    if isinstance(value, (Sequence, AbstractSet)):
        return [plain(item) for item in value]
    if isinstance(value, BaseException):
        return str(value)
    return value


def plain_row(row: object) -> dict[str, Json]:
    """Returns a result (a dataclass or a mapping) as a JSON object."""
    fields = plain(cast(RowValue, row))
    assert isinstance(fields, dict), f"a result has fields: {row!r}"
    return fields


def json_line(row: Json) -> str:
    """Returns a plain row as one line of JSON."""
    return json.dumps(row, ensure_ascii=False)


def tsv_line(values: Iterable[Json]) -> str:
    """Returns the values of a plain row, or the names of its fields, separated by tabs."""
    return "\t".join(_cell(value) for value in values)


def _cell(value: Json) -> str:
    """Returns the text of one field. Tab, newline and backslash are escaped, so that a row stays one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, (list, dict)):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
