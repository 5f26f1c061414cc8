"""A route: the functions with which the dispatch serves one API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.errors import ErrorCode, KafkaError
from kcli.model.pace import Pace
from kcli.protocol.wire.api import ApiSpec
from kcli.server.network.waiting import Answer
from kcli.server.requests.apis import Api
from kcli.server.requests.context import RequestContext

Context = RequestContext[object]
"""A context whose `ports` have no known type. Each handler declares which ports it uses."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


Decode = Callable[[int, memoryview, int, Pace], Coroutine[Any, Any, RequestT]]
"""Decodes a request. The arguments are the version, the frame, the position of the body, and the pace."""

Encode = Callable[[ResponseT, int, int, Pace], Coroutine[Any, Any, Answer]]
"""Encodes a response as a whole frame. The arguments are the response, the version, the correlation id, and the
pace."""


@dataclass(frozen=True, slots=True)
class Route(Generic[RequestT, ResponseT]):
    """The functions that decode the request of one API, handle it, and encode the response. `ports` are the parts of
    the node that the handler takes."""

    api: Api
    spec: ApiSpec
    ports: object
    handle: Callable[[Context, RequestT | None], Coroutine[Any, Any, ResponseT | None]]
    decode: Decode[RequestT]
    encode: Encode[ResponseT]
    error_response: Callable[[Context, RequestT | None, KafkaError], Awaitable[ResponseT]]
    error_code: Callable[[ResponseT], ErrorCode] | None
    """Returns the top-level error code of a response. If the response has no such code, this field is None, and the
    handler counts the errors of the API for the metrics."""
    reads_frame: bool = False
    """Whether a decoded request refers to the bytes of its frame, so that their buffer must stay."""


AnyRoute = Route[Any, Any]
"""A route with messages of any type. The types are checked only in the handler module."""
