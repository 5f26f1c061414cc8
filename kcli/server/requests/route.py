"""A route: the functions with which the dispatch serves one API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.errors import ErrorCode, KafkaError
from kcli.model.buffers import Buffer, Part
from kcli.protocol.wire.api import ApiSpec
from kcli.server.requests.apis import Api
from kcli.server.requests.context import RequestContext

Context = RequestContext[object]
"""A context whose `ports` have no known type. Each handler declares which ports it uses."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Route(Generic[RequestT, ResponseT]):
    """The functions that decode the request of one API, handle it, and encode the response."""

    api: Api
    spec: ApiSpec
    handle: Callable[[Context, RequestT | None], ResponseT | Awaitable[ResponseT | None] | None]
    decode: Callable[[int, memoryview, int], RequestT | Awaitable[RequestT]]
    encode: Callable[[ResponseT, int, int], Buffer | list[Part] | Awaitable[Buffer | list[Part]]]
    error_response: Callable[[Context, RequestT | None, KafkaError], ResponseT | Awaitable[ResponseT]]
    error_code: Callable[[ResponseT], ErrorCode] | None
    """Returns the top-level error code of a response. If the response has no such code, this field is None, and the
    handler counts the errors of the API for the metrics."""


AnyRoute = Route[Any, Any]
"""A route with messages of any type. The types are checked only in the handler module."""
