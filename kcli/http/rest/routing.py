"""Routes of a REST API: a template of a path, a method, and a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from kcli.model.java_text import parse_int

ALLOW_ORDER = ("HEAD", "DELETE", "POST", "GET", "OPTIONS", "PUT", "PATCH")
"""The order of methods in Jersey's Allow header."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `parameters` are the values in the path. `query` has the first value of each parameter."""

    parameters: Mapping[str, str]
    query: Mapping[str, str]
    queries: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    body: bytes
    method: str
    path: str
    """The raw path, without the query."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response. `body` becomes JSON, except None, which means an empty body."""

    body: object = None
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Route:
    """`template` is a path such as `/connectors/{connector}`. A parameter that ends with `:int` must be a number."""

    method: str
    template: str
    handler: Handler


@dataclass(frozen=True, slots=True)
class Match:
    """The routes of a path by method, and the values of its parameters."""

    routes: Mapping[str, Route]
    parameters: Mapping[str, str]
    has_invalid_parameter: bool = False
    """Whether a parameter that must be a number is another text, so that nothing is there."""

    @property
    def allowed(self) -> Sequence[str]:
        methods = {*self.routes, "OPTIONS", *(("HEAD",) if "GET" in self.routes else ())}
        return [method for method in ALLOW_ORDER if method in methods]


class Router:
    """Looks up routes by the segments of a path. A fixed segment takes precedence over a parameter."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._resources: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            key = tuple(route.template.strip("/").split("/")) if route.template != "/" else ()
            self._resources.setdefault(key, {})[route.method] = route

    def match(self, segments: Sequence[str]) -> Match | None:
        """Returns None if no template fits the path."""
        best: tuple[tuple[bool, ...], Match] | None = None
        for template, routes in self._resources.items():
            parameters = _parameters(template, segments)
            if parameters is not None:
                fixed = tuple(not part.startswith("{") for part in template)
                if best is None or fixed > best[0]:
                    best = fixed, Match(routes, parameters, _is_invalid(template, segments))
        return None if best is None else best[1]


def _parameters(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    parameters = {}
    for part, segment in zip(template, segments, strict=True):
        if not part.startswith("{"):
            if part != segment:
                return None
            continue
        parameters[part[1:-1].partition(":")[0]] = segment
    return parameters


def _is_invalid(template: Sequence[str], segments: Sequence[str]) -> bool:
    return any(
        part.endswith(":int}") and not _is_int(segment)
        for part, segment in zip(template, segments, strict=True)
    )


def _is_int(text: str) -> bool:
    try:
        parse_int(text)
    except ValueError:
        return False
    return True
