"""Serves a frame: reads the header, finds the handler in the API table, calls it, and encodes the answer or error.

A handler module is imported when its API is first called, or by `load_routes` after the start. A handler module has

    async handle(context, request) -> response | None

If the response has no top-level error_code, the module also has `async error_response(context, request, error) ->
response`. Expected failures are KafkaErrors. Every other exception is logged and becomes UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from kcli.errors import (
    ErrorCode,
    InvalidRequestException,
    KafkaError,
    NotControllerException,
    ProtocolError,
    UnsupportedVersionException,
)
from kcli.model.buffers import Buffer
from kcli.model.pace import Pace, at_once, no_pause
from kcli.protocol.messages.fetch import FetchRequest
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.fetch_codec import decode_fetch_request, encode_fetch_response
from kcli.protocol.wire.packing import INT32, read_header_tags, read_request_header
from kcli.protocol.wire.produce_codec import decode_produce_request, encode_produce_response
from kcli.protocol.wire_struct import compile_structs
from kcli.runtime.turns import Timer, continued
from kcli.security.acls.audit import report_left_out
from kcli.security.authorizer import ALLOW_ALL, Authorizer
from kcli.server.metrics.metrics import Metrics
from kcli.server.network.waiting import Answer, Waiting, answered
from kcli.server.requests.apis import Api, Forwarding
from kcli.server.requests.context import RequestContext
from kcli.server.requests.defects import Defects
from kcli.server.requests.forwarding import (
    Caller,
    ForwardedCaller,
    Forwarder,
)
from kcli.server.requests.freeing import free_later
from kcli.server.requests.guard import guarded
from kcli.server.requests.offers import Offers, filled
from kcli.server.requests.quotas import ClientQuotas
from kcli.server.requests.request_log import REQUEST_LOG, logged
from kcli.server.requests.route import AnyRoute, Context, Decode, Encode, RequestT, ResponseT, Route

if TYPE_CHECKING:
    from kcli.server.requests.request_trace import RequestTrace

_log = logging.getLogger("kcli.server.KafkaApis")

# This module is imported by its name after the start, because its import is the slowest of all.
CODEC = "kcli.protocol.wire.codec"

DECODED_AT_ONCE_BYTES = 1000
"""The largest frame that needs no preparation. Such a frame has at most this number of elements, because each element
takes at least a byte."""


class Dispatch:
    """Serves the frames of one listener's connections."""

    __slots__ = (
        "_authorizer",
        "_defects",
        "_forwarder",
        "_metrics",
        "_offers",
        "_quotas",
        "_routes",
        "_served",
    )

    def __init__(
        self,
        offers: Offers,
        served: Mapping[ApiKey, Api],
        *,
        quotas: ClientQuotas,
        metrics: Metrics,
        authorizer: Authorizer = ALLOW_ALL,
        forwarder: Forwarder | None = None,
    ) -> None:
        """Makes the dispatch of a listener. `served` has the APIs of this listener. `offers` are the
        parts of the node from which handlers take their ports. Only brokers have a `forwarder`."""
        self._offers = offers
        self._served = served
        self._quotas = quotas
        self._metrics = metrics
        self._authorizer = authorizer
        self._forwarder = forwarder
        self._routes: dict[int, AnyRoute] = {}
        self._defects = Defects()

    def __call__(
        self, caller: Caller, frame: memoryview, trace: RequestTrace | None = None
    ) -> Answer | Waiting:
        """Serves a request. If its handler does not suspend, returns the answer without making a task."""
        route, context, at = self._begin(caller, frame, trace)
        return self._driven(route, context, self._serve(route, context, caller, frame, at))

    def _begin(
        self, caller: Caller, frame: memoryview, trace: RequestTrace | None = None
    ) -> tuple[AnyRoute, Context, int]:
        """Reads the header of a request. Returns its route, its context and the position of its body."""
        api_key, version, correlation_id, client_id, at = read_request_header(frame)
        route = self._routes.get(api_key) or self._route(api_key)
        if route.spec.is_flexible(version):
            at = read_header_tags(frame, at)
        context = RequestContext(
            route.ports,
            route.spec.key,
            version,
            correlation_id,
            client_id,
            caller.listener,
            caller.peer_host,
            caller.session,
            is_forwarded=caller.is_forwarded,
            authorizer=self._authorizer,
            trace=trace,
            facts=caller.facts,
        )
        # The attribute `level` is read first, because this is faster than `isEnabledFor`.
        if REQUEST_LOG.level <= logging.DEBUG and REQUEST_LOG.isEnabledFor(logging.DEBUG):
            route = logged(route, caller)
        return route, context, at

    def _driven(
        self, route: AnyRoute, context: Context, serving: Coroutine[Any, Any, Answer]
    ) -> Answer | Waiting:
        """Drives a coroutine by hand until it suspends, because most requests never suspend and a task costs several
        microseconds. If the coroutine suspends, a task runs the rest of it."""
        try:
            awaited = serving.send(None)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        timers: list[Timer] = []
        if context.throttle is not None:
            context.throttle.pause()
            timers.append(context.throttle)
        waiting = Waiting(
            name=route.spec.name,
            task=asyncio.get_running_loop().create_task(
                continued(serving, awaited, timers), name=route.spec.name
            ),
            timers=timers,
            only_waits=context.only_waits,
            may_be_dropped=context.only_waits or route.api.only_reads,
            reads_frame=route.reads_frame and not context.only_waits,
        )
        if not waiting.may_be_dropped:
            context.on_wait = waiting.begin_to_wait
        return waiting

    async def _serve(
        self, route: Route[RequestT, ResponseT], context: Context, caller: Caller, frame: memoryview, at: int
    ) -> Answer:
        """Decodes a request, calls its handler and encodes the answer."""
        spec, version = route.spec, context.api_version
        request: RequestT | None = None  # the answer has version 0, whatever the body is (KIP-511)
        try:
            if spec.min_version <= version <= spec.max_version:
                forwarder = self._forwarder if route.api.forwarding is Forwarding.WHOLE else None
                if forwarder is not None and not forwarder.is_local:
                    return await self._forward(forwarder, route, context, caller, bytes(frame), at)
                if self._quotas.is_active:
                    self._throttle(context, caller, len(frame) - at)
                request = await route.decode(version, frame, at, context.pace)
            elif spec.key is not ApiKey.API_VERSIONS:
                raise ProtocolError(
                    f"{spec.name} version {version} is not supported; "
                    f"supported are {spec.min_version} to {spec.max_version}"
                )
            elif self._quotas.is_active:
                self._throttle(context, caller, len(frame) - at)
            return await self._handle(route, context, request)
        finally:
            context.on_wait = None  # the error of a task refers to this context, and `on_wait` to the task
            if len(frame) > DECODED_AT_ONCE_BYTES and context.pace.has_paused:
                free_later(request)

    def load_routes(self) -> Iterator[None]:
        """Imports the handlers of all served APIs, so that the first request for an API does not wait for an import.
        Each step imports one handler."""
        for key in self._served:
            if key not in self._routes:
                self._route(key)
                yield

    def versions_only(self, quotas: ClientQuotas) -> Dispatch:
        """Returns a dispatch that serves only ApiVersions, for clients that are not logged in."""
        served = {ApiKey.API_VERSIONS: self._served[ApiKey.API_VERSIONS]}
        return Dispatch(self._offers, served, quotas=quotas, metrics=self._metrics)

    def refuse(self, caller: Caller, frame: bytes, error: KafkaError) -> Answer | Waiting:
        """Returns the error response to a request that is not allowed now, for example before a login. Does not call
        the handler.

        Raises ProtocolError if the request is invalid. A large request is also invalid, because its client is not
        logged in yet.
        """
        route, context, at = self._begin(caller, memoryview(frame))
        spec, version = route.spec, context.api_version
        if len(frame) > DECODED_AT_ONCE_BYTES or not spec.min_version <= version <= spec.max_version:
            raise ProtocolError(f"{spec.name}: {error.message}")
        request: Any = at_once(route.decode(version, memoryview(frame), at, no_pause))
        return self._driven(route, context, self._answer_error(route, context, request, error))

    async def serve_forwarded(self, frame: bytes, caller: ForwardedCaller) -> bytes:
        """Serves the frame of a client that a broker has forwarded. Returns the response frame, without size prefix.

        Raises InvalidRequestException if the API cannot be forwarded, UnsupportedVersionException if the request
        cannot be read, and NotControllerException if this node is not the active controller.
        """
        try:
            api_key, *_ = read_request_header(frame)
            if api_key not in self._served or self._served[ApiKey(api_key)].forwarding is Forwarding.NONE:
                name = API[ApiKey(api_key)].key.name if api_key in API else str(api_key)
                raise InvalidRequestException(f"API {name} is not enabled or is not eligible for forwarding")
            answer = await answered(self(caller, memoryview(frame)))
        except ProtocolError as error:
            raise UnsupportedVersionException(str(error)) from error
        assert answer is not None, "every API that can be forwarded has a response"
        parts = answer if isinstance(answer, list) else [answer]
        return b"".join(cast("Sequence[Buffer]", parts))[INT32.size :]

    async def _forward(
        self,
        forwarder: Forwarder,
        route: Route[RequestT, ResponseT],
        context: Context,
        caller: Caller,
        frame: bytes,
        at: int,
    ) -> Answer:
        """Returns the controller's answer. The controller checks the client's permissions and charges the client's
        quotas.
        """
        try:
            answer = await forwarder.forward(frame, context.session.principal, context.peer_host)
        except UnsupportedVersionException as error:
            # The controller does not support this version of the API. Kafka closes the client's connection too.
            raise ProtocolError(f"{route.spec.name}: {error.message}") from error
        except KafkaError as error:
            request = await route.decode(context.api_version, memoryview(frame), at, context.pace)
            return await self._answer_error(route, context, request, error)
        if route.api.mutation_errors_since is not None:
            # The correlation id comes first, and in a flexible version an empty section of tags.
            at = INT32.size + route.spec.is_flexible(context.api_version)
            (throttle_ms,) = INT32.unpack_from(answer, at)
            if throttle_ms > 0:
                caller.mute(throttle_ms / 1000)
        return INT32.pack(len(answer)) + answer

    def _throttle(self, context: Context, caller: Caller, size_bytes: int) -> None:
        """Begins to measure the request, because some client has a quota."""
        context.throttle = self._quotas.throttle(
            context.session.principal, context.client_id, size_bytes, caller.mute
        )
        if context.trace is not None:
            context.trace.throttle = context.throttle

    async def _handle(
        self, route: Route[RequestT, ResponseT], context: Context, request: RequestT | None
    ) -> Answer:
        try:
            response = await route.handle(context, request)
        except ProtocolError:
            raise
        except Exception as error:
            return await self._answer_error(route, context, request, error)
        if response is None:
            _end_unanswered(route, context)
            return None
        if route.error_code is not None and (code := route.error_code(response)):
            self._failed(context, code)
        try:
            return await self._encode(route, context, response)
        except Exception as error:
            return await self._answer_error(route, context, request, error)

    def _route(self, key: int) -> AnyRoute:
        if key not in self._served:
            raise ProtocolError(f"API key {key} is not served here")
        try:
            route = self._routes[key] = _load(self._served[ApiKey(key)], self._offers)
        except Exception as error:
            # The module cannot be read now, for example because no descriptor is free. No answer can be encoded
            # without it. The next request of this API tries again.
            spec = API[ApiKey(key)]
            self._defects.log(f"The code for {spec.name} could not be loaded", spec, error)
            raise ProtocolError(f"{spec.name} cannot be served now: {error}") from error
        return route

    async def _answer_error(
        self,
        route: Route[RequestT, ResponseT],
        context: Context,
        request: RequestT | None,
        error: BaseException,
    ) -> Answer:
        known = self._defects.as_kafka_error(route.spec, context, error)
        if context.is_forwarded and isinstance(known, NotControllerException):
            raise known  # the broker must find the new controller, so the Envelope gets the error (KIP-590)
        self._failed(context, known.code)
        if context.throttle is not None and known.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            context.throttle.refuse()
        try:
            return await self._encode(route, context, await route.error_response(context, request, known))
        except ProtocolError:
            raise  # the API has no error response, and the connection logs the error
        except Exception as second:
            self._defects.log(f"Error response of {route.spec.name} could not be written", route.spec, second)
            raise ProtocolError(f"{route.spec.name} failed: {known.message}") from second

    def _failed(self, context: Context, code: ErrorCode) -> None:
        self._metrics.request_failed(context.api_key, code)
        if context.trace is not None:
            context.trace.error = code.name

    async def _encode(
        self, route: Route[RequestT, ResponseT], context: Context, response: ResponseT
    ) -> Answer:
        throttle, trace = context.throttle, context.trace
        if throttle is not None:
            response = throttle.charge(route.api, response)
        if context.asker is not None:
            report_left_out(context.asker)
        encoding = None if trace is None else trace.begin_answer()
        try:
            answer = await route.encode(response, context.api_version, context.correlation_id, context.pace)
        finally:
            if context.pace.has_paused:
                free_later(response)
        if encoding is not None:
            encoding.end()
        if throttle is not None:
            throttle.finish()
        return answer


def _end_unanswered(route: Route[RequestT, ResponseT], context: Context) -> None:
    """Ends a request that gets no answer, such as a Produce with acks=0."""
    if context.throttle is not None:
        context.throttle.charge(route.api, None)
    if context.asker is not None:
        report_left_out(context.asker)


def warm_up() -> None:
    """Imports the general codec. This import takes longer than the rest of a start, and may run in a thread."""
    importlib.import_module(CODEC)


def _load(api: Api, offers: Offers) -> AnyRoute:
    """Makes the route of an API. Its handler takes its ports from the offers."""
    key, module = api.key, importlib.import_module(api.handler)
    decode: Decode[Any]
    encode: Encode[Any]
    match key:
        case ApiKey.PRODUCE:
            decode, encode = decode_produce_request, encode_produce_response
        case ApiKey.FETCH:
            decode, encode = _decode_fetch, encode_fetch_response
        case _:
            decode, encode = _general(key)
    # Produce and Fetch are not looked up, because the general codec may not be imported yet.
    has_error_code = key is ApiKey.FETCH or (
        key is not ApiKey.PRODUCE and "error_code" in _response_fields(key)
    )
    return Route(
        api,
        API[key],
        filled(module.Ports, offers) if hasattr(module, "Ports") else None,
        guarded(module.handle, api.access),
        decode,
        encode,
        getattr(module, "error_response", None) or partial(_top_level_error, key),
        attrgetter("error_code") if has_error_code else None,
        reads_frame=key is ApiKey.PRODUCE,
    )


async def _decode_fetch(version: int, frame: memoryview, at: int, pace: Pace) -> FetchRequest:
    if len(frame) > DECODED_AT_ONCE_BYTES:
        # The frame's buffer is used again while the handler waits for records.
        frame = memoryview(bytes(frame))
        _compile_structs(FetchRequest)
    return await decode_fetch_request(version, frame, at, pace)


@cache
def _compile_structs(message_class: type) -> None:
    """Compiles all structs of an API before the first large request. See `codec.prepare`."""
    compile_structs(sys.modules[message_class.__module__])


def _general(key: ApiKey) -> tuple[Decode[Any], Encode[Any]]:
    """The functions of the general codec that decode requests and encode responses of an API."""
    codec = importlib.import_module(CODEC)
    spec = API[key]

    def decode(version: int, frame: memoryview, at: int, pace: Pace) -> Coroutine[Any, Any, Any]:
        if len(frame) > DECODED_AT_ONCE_BYTES:
            codec.prepare(key, version)
        decoding: Coroutine[Any, Any, Any] = codec.decoded_request(key, version, bytes(frame), at, pace)
        return decoding

    def encode(
        response: object, version: int, correlation_id: int, pace: Pace
    ) -> Coroutine[Any, Any, Answer]:
        # ApiVersions is the only API that is answered even if the version is unsupported (KIP-511).
        known = version if spec.min_version <= version <= spec.max_version else 0
        encoding: Coroutine[Any, Any, Answer] = codec.encoded_response(
            response, key, known, correlation_id, pace
        )
        return encoding

    return decode, encode


def _response_fields(key: ApiKey) -> set[str]:
    message = importlib.import_module(CODEC).message_class(key, "response")
    return {field.name for field in dataclasses.fields(message)}


async def _top_level_error(key: ApiKey, _context: Context, _request: object, error: KafkaError) -> object:
    """A response that contains only the error. Raises KafkaError if the response has no field for an error."""
    response = importlib.import_module(CODEC).message_class(key, "response")
    names = _response_fields(key)
    if "error_code" not in names:
        raise error
    if "error_message" in names:
        return response(error_code=error.code, error_message=error.message)
    return response(error_code=error.code)
