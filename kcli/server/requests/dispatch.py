"""Serves a frame: reads the header, finds the handler in the API table, calls it, and encodes the answer or error.

A handler module is imported when its API is first called, or by `load_routes` after the start. A handler module has

    handle(context, request) -> response | Awaitable[response] | None

If the response has no top-level error_code, the module also has `error_response(context, request, error) -> response |
Awaitable[response]`. Expected failures are KafkaErrors. Every other exception is logged and becomes
UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kcli.errors import (
    ErrorCode,
    InvalidRequestException,
    KafkaError,
    NotControllerException,
    ProtocolError,
    UnsupportedVersionException,
)
from kcli.model.buffers import Buffer, Part
from kcli.protocol.messages.fetch import FetchRequest, FetchResponse
from kcli.protocol.messages.produce import ProduceRequest, ProduceResponse
from kcli.protocol.wire.api import API, ApiKey, ApiSpec
from kcli.protocol.wire.fetch_codec import decode_fetch_request_steps, encode_fetch_response_steps
from kcli.protocol.wire.packing import INT32, read_header_tags, read_request_header
from kcli.protocol.wire.produce_codec import (
    answers_few_partitions,
    decode_few_topics,
    decode_produce_request_steps,
    encode_produce_response,
    encode_produce_response_steps,
)
from kcli.protocol.wire_struct import compile_structs
from kcli.security.acls.audit import report_left_out
from kcli.security.authorizer import ALLOW_ALL, Authorizer
from kcli.server.metrics.metrics import Metrics
from kcli.server.network.waiting import Answer, Waiting
from kcli.server.requests.answers import finished, is_unfinished
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
from kcli.server.requests.quotas import ClientQuotas
from kcli.server.requests.request_log import REQUEST_LOG, logged
from kcli.server.requests.route import AnyRoute, Context, RequestT, ResponseT, Route
from kcli.server.requests.turns import Steps, run_in_turns

if TYPE_CHECKING:
    from kcli.server.requests.request_trace import RequestTrace

_log = logging.getLogger("kcli.server.KafkaApis")

T = TypeVar("T")

# This module is imported by its name after the start, because its import is the slowest of all.
CODEC = "kcli.protocol.wire.codec"

DECODED_AT_ONCE_BYTES = 1000
"""The largest frame that is decoded in one step. Such a frame has at most this number of elements, because each element
takes at least a byte. Larger frames are decoded in several iterations of the event loop."""
FETCHED_PARTITIONS_PER_TURN = 200
"""Partitions of a Fetch response that are encoded in one iteration of the event loop. A partition takes 5 to 10 µs."""
TOPICS_PER_TURN = 100
"""Topics, or groups of a few partitions, of a Produce request or response that are decoded or encoded in one turn. A
topic takes 3 to 5 µs."""
ELEMENTS_PER_TURN = 500
"""Elements of arrays that are encoded or decoded in one iteration of the event loop. An element takes 1 to 3 µs, so a
turn takes about a millisecond.

The codec works in slices and not in a thread. A thread would compete with the loop for Python's lock. Each time the
loop wakes up, the loop would have to wait until the thread releases the lock.
"""


class Dispatch:
    """Serves the frames of one listener's connections."""

    __slots__ = (
        "_authorizer",
        "_defects",
        "_forwarder",
        "_metrics",
        "_ports",
        "_quotas",
        "_routes",
        "_served",
    )

    def __init__(
        self,
        ports: object,
        served: Mapping[ApiKey, Api],
        *,
        quotas: ClientQuotas,
        metrics: Metrics,
        authorizer: Authorizer = ALLOW_ALL,
        forwarder: Forwarder | None = None,
    ) -> None:
        """Makes the dispatch of a listener. `served` has the APIs of this listener. `ports` are the
        parts of the node that handlers may use. Only brokers have a `forwarder`."""
        self._ports = ports
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
        api_key, version, correlation_id, client_id, at = read_request_header(frame)
        route = self._routes.get(api_key) or self._route(api_key)
        spec = route.spec
        if spec.is_flexible(version):
            at = read_header_tags(frame, at)
        context = RequestContext(
            self._ports,
            spec.key,
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
        request = None  # the answer has version 0, whatever the body is (KIP-511)
        if spec.min_version <= version <= spec.max_version:
            forwarder = self._forwarder if route.api.forwarding is Forwarding.WHOLE else None
            if forwarder is not None and not forwarder.is_local:
                forwarding = self._forward(forwarder, route, context, caller, bytes(frame), at)
                return self._later(spec, forwarding)
            request = route.decode(version, frame, at)
        elif spec.key is not ApiKey.API_VERSIONS:
            raise ProtocolError(
                f"{spec.name} version {version} is not supported; "
                f"supported are {spec.min_version} to {spec.max_version}"
            )
        if self._quotas.is_active:
            context.throttle = self._quotas.throttle(
                context.session.principal, client_id, len(frame) - at, caller.mute
            )
            if trace is not None:
                trace.throttle = context.throttle
        if is_unfinished(request):
            decoding = self._serve_decoded(route, context, _timed(context, request))
            return self._later(spec, decoding, may_be_dropped=route.api.only_reads)
        return self._serve(route, context, request)

    def load_routes(self) -> Steps[None]:
        """Imports the handlers of all served APIs, so that the first request for an API does not wait for an import.
        Each step imports one handler."""
        for key in self._served:
            if key not in self._routes:
                self._route(key)
                yield

    def versions_only(self, quotas: ClientQuotas) -> Dispatch:
        """Returns a dispatch that serves only ApiVersions, for clients that are not logged in."""
        served = {ApiKey.API_VERSIONS: self._served[ApiKey.API_VERSIONS]}
        return Dispatch(self._ports, served, quotas=quotas, metrics=self._metrics)

    def refuse(self, caller: Caller, frame: bytes, error: KafkaError) -> Answer | Waiting:
        """Returns the error response to a request that is not allowed now, for example before a login. Does not call
        the handler.

        Raises ProtocolError if the request is invalid. A large request is also invalid, because its client is not
        logged in yet.
        """
        api_key, version, correlation_id, client_id, at = read_request_header(frame)
        route = self._routes.get(api_key) or self._route(api_key)
        spec = route.spec
        if len(frame) > DECODED_AT_ONCE_BYTES or not spec.min_version <= version <= spec.max_version:
            raise ProtocolError(f"{spec.name}: {error.message}")
        if spec.is_flexible(version):
            at = read_header_tags(frame, at)
        context = RequestContext(
            self._ports, spec.key, version, correlation_id, client_id, caller.listener, caller.peer_host
        )
        request = route.decode(version, memoryview(frame), at)
        assert not is_unfinished(request), "a small frame is decoded at once"
        return self._answer_error(route, context, request, error)

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
            answer = await awaited(self(caller, memoryview(frame)))
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
            request = await finished(route.decode(context.api_version, memoryview(frame), at))
            return await awaited(self._answer_error(route, context, request, error))
        if route.api.mutation_errors_since is not None:
            at = INT32.size + route.spec.is_flexible(
                context.api_version
            )  # correlation id, and an empty tag section
            (throttle_ms,) = INT32.unpack_from(answer, at)
            if throttle_ms > 0:
                caller.mute(throttle_ms / 1000)
        return INT32.pack(len(answer)) + answer

    def _serve(
        self, route: Route[RequestT, ResponseT], context: Context, request: RequestT | None
    ) -> Answer | Waiting:
        try:
            response = route.handle(context, request)
        except ProtocolError:
            raise
        except Exception as error:
            return self._answer_error(route, context, request, error)
        if is_unfinished(response):
            # Only a future may overlap, because its work is done except for the commit. A coroutine still has work to
            # do, for example a batch to decompress, and may need its copy of the request.
            may_overlap = isinstance(response, asyncio.Future)
            return self._wait(route, context, request, _timed(context, response), may_overlap=may_overlap)
        if response is None:
            _end_unanswered(route, context)
            return None
        return self._encode(route, context, request, response)

    async def _serve_decoded(
        self, route: Route[RequestT, ResponseT], context: Context, decoding: Awaitable[RequestT]
    ) -> Answer:
        """Serves a large request. The caller keeps the requests of one connection in order."""
        request = await decoding
        try:
            return await awaited(self._serve(route, context, request))
        finally:
            free_later(request)

    def _route(self, key: int) -> AnyRoute:
        if key not in self._served:
            raise ProtocolError(f"API key {key} is not served here")
        try:
            route = self._routes[key] = _load(self._served[ApiKey(key)])
        except Exception as error:
            # The module cannot be read now, for example because no descriptor is free. No answer can be encoded
            # without it. The next request of this API tries again.
            spec = API[ApiKey(key)]
            self._defects.log(f"The code for {spec.name} could not be loaded", spec, error)
            raise ProtocolError(f"{spec.name} cannot be served now: {error}") from error
        return route

    def _wait(
        self,
        route: Route[RequestT, ResponseT],
        context: Context,
        request: RequestT | None,
        response: Awaitable[ResponseT | None],
        *,
        may_overlap: bool,
    ) -> Waiting:
        future = asyncio.ensure_future(response)

        def finish(_future: asyncio.Future[object]) -> Answer | Waiting:
            if future.cancelled():
                raise ProtocolError(f"{route.spec.name} was cancelled because the broker is stopping")
            error = future.exception()
            if isinstance(error, ProtocolError):
                raise error
            if error is not None:
                return self._answer_error(route, context, request, error)
            value = future.result()
            if value is None:
                _end_unanswered(route, context)
                return None
            return self._encode(route, context, request, value)

        return Waiting(
            cast("asyncio.Future[object]", future),
            finish,
            may_overlap=may_overlap,
            may_be_dropped=route.api.only_reads,
        )

    def _encode(
        self,
        route: Route[RequestT, ResponseT],
        context: Context,
        request: RequestT | None,
        response: ResponseT,
    ) -> Answer | Waiting:
        if route.error_code is not None and (code := route.error_code(response)):
            self._metrics.request_failed(context.api_key, code)
            if context.trace is not None:
                context.trace.error = code.name
        try:
            return self._encoded(route, context, response)
        except Exception as error:
            return self._answer_error(route, context, request, error)

    def _answer_error(
        self,
        route: Route[RequestT, ResponseT],
        context: Context,
        request: RequestT | None,
        error: BaseException,
    ) -> Answer | Waiting:
        known = self._defects.as_kafka_error(route.spec, context, error)
        if context.is_forwarded and isinstance(known, NotControllerException):
            raise known  # the broker must find the new controller, so the Envelope gets the error (KIP-590)
        self._metrics.request_failed(context.api_key, known.code)
        if context.trace is not None:
            context.trace.error = known.code.name
        if context.throttle is not None and known.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            context.throttle.refuse()
        try:
            response = route.error_response(context, request, known)
            if is_unfinished(response):
                later = self._error_in_turns(route, context, _timed(context, response))
                return self._later(route.spec, later)
            return self._encoded(route, context, response)
        except ProtocolError:
            raise  # the API has no error response, and the connection logs the error
        except Exception as second:
            self._defects.log(f"Error response of {route.spec.name} could not be written", route.spec, second)
            raise ProtocolError(f"{route.spec.name} failed: {known.message}") from second

    def _later(self, spec: ApiSpec, answer: Awaitable[Answer], *, may_be_dropped: bool = True) -> Waiting:
        """The wait for an answer that is made in several parts. If the work fails with an unexpected error, the
        connection is closed. If the client disconnects, the answer is not encoded.
        """
        future = asyncio.ensure_future(answer)

        def finish(_future: asyncio.Future[object]) -> Answer:
            if future.cancelled():
                raise ProtocolError("the answer was cancelled because the broker is stopping")
            error = future.exception()
            if error is not None and not isinstance(error, ProtocolError | NotControllerException):
                self._defects.log("Unexpected error while a large answer was encoded", spec, error)
                raise ProtocolError("the answer could not be encoded") from error
            return future.result()

        return Waiting(cast("asyncio.Future[object]", future), finish, may_be_dropped=may_be_dropped)

    def _encoded(
        self, route: Route[RequestT, ResponseT], context: Context, response: ResponseT
    ) -> Answer | Waiting:
        throttle = context.throttle
        if throttle is not None:
            response = throttle.charge(route.api, response)
        if context.asker is not None:
            report_left_out(context.asker)
        answer = route.encode(response, context.api_version, context.correlation_id)
        if is_unfinished(answer):
            return self._later(route.spec, _encoded_later(context, response, _timed(context, answer)))
        if throttle is not None:
            throttle.finish()
        return answer

    async def _error_in_turns(
        self, route: Route[RequestT, ResponseT], context: Context, response: Awaitable[ResponseT]
    ) -> Answer:
        """Encodes the error response to a large request."""
        return await awaited(self._encoded(route, context, await response))


def _end_unanswered(route: Route[RequestT, ResponseT], context: Context) -> None:
    """Ends a request that gets no answer, such as a Produce with acks=0."""
    if context.throttle is not None:
        context.throttle.charge(route.api, None)
    if context.asker is not None:
        report_left_out(context.asker)


async def awaited(answer: Answer | Waiting) -> Answer:
    """Returns the answer when it is ready. If the caller is cancelled, ends the wait."""
    while isinstance(answer, Waiting):
        try:
            await asyncio.wait([answer.future])
        except asyncio.CancelledError:
            answer.drop()
            raise
        answer = answer.finish(answer.future)
    return answer


async def _encoded_later(
    context: Context, response: object, encoding: Awaitable[Buffer | list[Part]]
) -> Answer:
    try:
        answer = await encoding
    finally:
        free_later(response)
    if context.throttle is not None:
        context.throttle.finish()
    return answer


def _timed(context: Context, work: Awaitable[T]) -> Awaitable[T]:
    """Returns an awaitable with the result of `work`. If any client has a quota, the time of this work is charged to
    the client of the request."""
    return work if context.throttle is None else context.throttle.waits_for(work)


def warm_up() -> None:
    """Imports the general codec. This import takes longer than the rest of a start, and may run in a thread."""
    importlib.import_module(CODEC)


def _load(api: Api) -> AnyRoute:
    key, module = api.key, importlib.import_module(api.handler)
    decode: Callable[[int, memoryview, int], Any]
    encode: Callable[[Any, int, int], Buffer | list[Part] | Awaitable[Buffer | list[Part]]]
    match key:
        case ApiKey.PRODUCE:
            decode, encode = _decode_produce, _encode_produce
        case ApiKey.FETCH:
            decode, encode = _decode_fetch, _encode_fetch
        case _:
            decode, encode = _general(key)
    error_response = getattr(module, "error_response", None) or partial(_top_level_error, key)
    # Produce and Fetch are not looked up, because the general codec may not be imported yet.
    has_error_code = key is ApiKey.FETCH or (
        key is not ApiKey.PRODUCE and "error_code" in _response_fields(key)
    )
    handle = guarded(module.handle, api.access)
    error_code = attrgetter("error_code") if has_error_code else None
    return Route(api, API[key], handle, decode, encode, error_response, error_code)


def _decode_produce(version: int, frame: memoryview, at: int) -> ProduceRequest | Awaitable[ProduceRequest]:
    request = decode_few_topics(version, frame, at)
    if request is not None:
        return request
    # The records are slices of this copy, so the handler may keep them too. The log writes its offsets into the copy.
    kept = memoryview(bytearray(frame))
    return run_in_turns(decode_produce_request_steps(version, kept, at), TOPICS_PER_TURN)


def _encode_produce(response: ProduceResponse, version: int, correlation_id: int) -> bytes | Awaitable[bytes]:
    if answers_few_partitions(response):
        return encode_produce_response(response, version, correlation_id)
    return run_in_turns(encode_produce_response_steps(response, version, correlation_id), TOPICS_PER_TURN)


def _decode_fetch(version: int, frame: memoryview, at: int) -> FetchRequest | Awaitable[FetchRequest]:
    if len(frame) > DECODED_AT_ONCE_BYTES:
        frame = memoryview(bytes(frame))  # the next bytes overwrite the frame
        _compile_structs(FetchRequest)
    return run_in_turns(decode_fetch_request_steps(version, frame, at), ELEMENTS_PER_TURN)


@cache
def _compile_structs(message_class: type) -> None:
    """Compiles all structs of an API before the first large request. See `codec.prepare`."""
    compile_structs(sys.modules[message_class.__module__])


def _encode_fetch(
    response: FetchResponse, version: int, correlation_id: int
) -> list[Part] | Awaitable[list[Part]]:
    return run_in_turns(
        encode_fetch_response_steps(response, version, correlation_id), FETCHED_PARTITIONS_PER_TURN
    )


def _general(
    key: ApiKey,
) -> tuple[
    Callable[[int, memoryview, int], Any | Awaitable[Any]],
    Callable[[Any, int, int], Buffer | Awaitable[Buffer]],
]:
    """The functions of the general codec that decode requests and encode responses of an API. Large messages are
    decoded and encoded in several parts.
    """
    codec = importlib.import_module(CODEC)
    spec = API[key]

    @cache
    def has_arrays(version: int) -> bool:
        found: bool = codec.has_arrays(key, version, "response")
        return found

    def decode(version: int, frame: memoryview, at: int) -> Any | Awaitable[Any]:
        if len(frame) <= DECODED_AT_ONCE_BYTES:
            return codec.decode_request(key, version, bytes(frame), at)
        codec.prepare(key, version)
        return run_in_turns(codec.decode_request_steps(key, version, bytes(frame), at), ELEMENTS_PER_TURN)

    def encode(response: object, version: int, correlation_id: int) -> Buffer | Awaitable[Buffer]:
        # ApiVersions is the only API that is answered even if the version is unsupported (KIP-511).
        known = version if spec.min_version <= version <= spec.max_version else 0
        if not has_arrays(known):
            encoded: bytes = codec.encode_response(response, key, known, correlation_id)
            return encoded
        return run_in_turns(
            codec.encode_response_steps(response, key, known, correlation_id), ELEMENTS_PER_TURN
        )

    return decode, encode


def _response_fields(key: ApiKey) -> set[str]:
    message = importlib.import_module(CODEC).message_class(key, "response")
    return {field.name for field in dataclasses.fields(message)}


def _top_level_error(key: ApiKey, _context: Context, _request: object, error: KafkaError) -> object:
    """A response that contains only the error. Raises KafkaError if the response has no field for an error."""
    response = importlib.import_module(CODEC).message_class(key, "response")
    names = _response_fields(key)
    if "error_code" not in names:
        raise error
    if "error_message" in names:
        return response(error_code=error.code, error_message=error.message)
    return response(error_code=error.code)
