"""The results of handlers, and their JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from http import HTTPStatus
from uuid import UUID

from kcli.errors import KafkaError
from kcli.http.server import JSON, Response, respond


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answer of an action, and of its preview.

    `command` is the command line with the same effect. `summary` is a sentence for the user. `details` has
    values that the page shows, for example as a table.
    """

    command: str
    summary: str
    details: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A part of a list: the number of all rows that match, and the rows of this part."""

    total: int
    rows: list[object] = field(default_factory=list)
    is_partial: bool = False
    """Whether some values are missing, because their request is still in progress. The page then soon requests the rows
    again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that the browser saves."""

    name: str
    content_type: str
    parts: AsyncIterator[bytes]


def json_response(content: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Makes a response of JSON."""
    return respond(json.dumps(content, default=as_json, separators=(",", ":")).encode(), JSON, status)


def as_json(value: object) -> object:
    """Converts a value for JSON: a dataclass becomes an object with the names of its fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {attribute.name: getattr(value, attribute.name) for attribute in dataclasses.fields(value)}
    match value:
        case KafkaError():
            return {"error": value.code.name, "message": value.message}
        case Enum():
            return value.name
        case UUID():
            return str(value)
        case datetime():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return bytes(value).decode("utf-8", "replace")
    if isinstance(value, AbstractSet):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON")


def whole_sum(values: Sequence[int | None]) -> int | None:
    """The sum of values, or None if one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def finite(value: float) -> float | None:
    """Returns a number that JSON has, or None for NaN and the infinities."""
    return value if math.isfinite(value) else None
