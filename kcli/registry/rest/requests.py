"""The parts of requests: parameters of queries, bodies, pages of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kcli.formats.registry.members import InvalidDocument
from kcli.http.rest.json_bodies import InvalidBody, json_bytes
from kcli.http.rest.json_slices import read_json
from kcli.http.rest.routing import Call, Reply
from kcli.model.java_text import parse_int
from kcli.registry.config.settings import SearchLimits
from kcli.registry.decisions.errors import RegistryError
from kcli.runtime.turns import Turn

T = TypeVar("T")

ITEM_COST = 20
"""The cost of a listed schema with a usual length, from its record to its JSON."""

CHARACTERS_PER_COST = 1000
"""The characters of a listed schema that cost as much as one unit of a turn."""


def flag(call: Call, name: str) -> bool:
    """A parameter that is true or false. JAX-RS reads any text except `true` as false."""
    return call.query.get(name, "").lower() == "true"


def number(call: Call, name: str, default: int) -> int:
    """A whole number. As in JAX-RS, nothing is there if the text is no number."""
    text = call.query.get(name, "")
    if not text:
        return default
    return path_number(text)


def path_number(text: str) -> int:
    """A number of a path. As in JAX-RS, nothing is there if the text is no number."""
    try:
        return parse_int(text)
    except ValueError:
        raise RegistryError(404, "HTTP 404 Not Found") from None


def page(call: Call, items: Sequence[T], limits: SearchLimits) -> Sequence[T]:
    """The items from `offset` on, at most `limit` of them. A limit that is not permitted becomes the default."""
    offset, limit = number(call, "offset", 0), number(call, "limit", -1)
    if offset < 0:
        raise RegistryError(500, f"the offset is {offset}: expected a number of at least 0")
    if not 0 < limit <= limits.maximum:
        limit = limits.default
    return items[offset : offset + limit]


async def document(call: Call, read: Callable[[object], T]) -> T:
    """The body of a request as a document. Raises RegistryError."""
    try:
        body = await read_json(call.body)
        if body is None:
            raise RegistryError(422, "the body of the request is empty: expected a JSON object")
        return read(body)
    except (InvalidBody, InvalidDocument) as error:
        raise RegistryError(400, str(error)) from None


async def listed(items: Sequence[T], render: Callable[[T], object]) -> Reply:
    """A long list, whose JSON is made in slices, because a thousand schemas may have many megabytes."""
    pace, parts = Turn(), []
    for item in items:
        part = json_bytes(render(item))
        parts.append(part)
        await pace(ITEM_COST + len(part) // CHARACTERS_PER_COST)
    return Reply(b"[" + b",".join(parts) + b"]")
