"""A result as JSON and as tab-separated values: the formats of `--output` beside text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any


def plain(value: Any) -> Any:
    """Dataclasses, tuples and enums as what json can say; enums by name; bytes as UTF-8 with escapes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, BaseException):
        return str(value)
    return value


def json_line(row: Mapping[str, Any]) -> str:
    """A plain row as one JSON object."""
    return json.dumps(row, ensure_ascii=False)


def tsv_line(values: Iterable[Any]) -> str:
    """The values of a plain row, or the names of its fields, with tabs between them."""
    return "\t".join(_cell(value) for value in values)


def _cell(value: Any) -> str:
    """One tsv field: nested values as json; tab, newline and backslash escaped so that a row stays a line."""
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
