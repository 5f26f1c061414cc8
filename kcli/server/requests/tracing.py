"""Makes spans of sampled requests and of slow requests (kcli.trace.*).

    kafka.Produce (SERVER)      from the whole frame to the last byte of the answer
      queue                     until it is the turn of the connection, if several requests came together
      work                      decoding, checks and the handler
        append                  the write of one batch
      wait for replicas         until the in-sync replicas have the records; of a Fetch, `wait for records`
      wait for order            until the answers to earlier requests of the connection are ready
      answer                    encoding
      send                      until the socket has accepted the answer
      throttle                  the time in which the client is muted, because its quota is exceeded

`traced` wraps the dispatch of requests. Without traces there is no wrapper. A random part of the requests is sampled.
The broker can also read the headers of the first record of a Produce request. If the client has sampled this record,
the request is sampled too. Clients can choose at most CLIENT_SAMPLES_PER_SECOND requests in this way.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.packing import read_request_header
from kcli.server.metrics.exemplars import Exemplars
from kcli.server.network.connection import Connection, Serve
from kcli.server.network.waiting import Answer, Waiting
from kcli.server.requests.apis import APIS
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.request_trace import RequestTrace, Stage
from kcli.tracing.record_spans import CLIENT_ID, DESTINATION, PARTITION, SYSTEM, Attributes
from kcli.tracing.span import Kind, Span
from kcli.tracing.trace_context import TraceContext, new_span_id, new_trace_id
from kcli.tracing.tracer import BoundedSink

SHORTEST_STAGE_SECONDS = 0.000_05
"""The shortest wait that is shown as a stage. Shorter waits are single iterations of the event loop."""

CLIENT_SAMPLES_PER_SECOND = 100
"""The most requests that clients can choose in one second by a sampled record. The spans of such a request take about
30 µs, and more with many stages."""

NEVER = float("inf")

_WORK = "work"
_PRODUCE = b"\x00\x00"


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that decide which requests get spans. `ratio` is the share of requests that are sampled, from 0 to 1. A
    request that takes longer than `slow_seconds` always gets spans."""

    ratio: float = 0.0
    slow_seconds: float = NEVER
    reads_headers: bool = False


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, its connection and its trace."""

    key: ApiKey
    version: int
    correlation_id: int
    client_id: str
    size_bytes: int
    connection: Connection
    trace: RequestTrace


class RequestTracer:
    """Makes the spans of the requests of one node."""

    def __init__(
        self,
        sink: BoundedSink,
        rules: Rules,
        node_id: int,
        now: Callable[[], float],
        exemplars: Exemplars,
        chance: Callable[[], float] = random.random,
        *,
        clears_facts: bool = True,
    ) -> None:
        """Makes a tracer. `clears_facts` is True if no metrics read the facts of connections, so that the tracer must
        clear them.
        """
        self._sink = sink
        self._rules = rules
        self._node_id = node_id
        self._exemplars = exemplars
        self._chance = chance
        self._clears_facts = clears_facts
        self._client_samples = _PerSecond(CLIENT_SAMPLES_PER_SECOND, now)
        self.now = now

    def begin(self, connection: Connection, key: bytes) -> RequestTrace | None:
        """Begins the trace of a request. Returns None if the request is not sampled and cannot become sampled or slow
        later. `key` has the first two bytes of the request.
        """
        rules, facts = self._rules, connection.facts
        queued = facts.queued_seconds
        if queued and self._clears_facts:
            facts.queued_seconds = 0.0
        is_sampled = self._chance() < rules.ratio
        reads_headers = rules.reads_headers and key == _PRODUCE
        if not (is_sampled or reads_headers or rules.slow_seconds < NEVER):
            return None
        trace = RequestTrace(
            self.now,
            is_sampled=is_sampled,
            reads_headers=reads_headers,
            may_choose=self._client_samples.count,
        )
        if queued:
            stage = trace.stage("queue")
            stage.ended = trace.began
            trace.began = stage.started = trace.began - queued
        return trace

    def may_choose(self, trace: RequestTrace, answer: Answer) -> bool:
        """Whether the request may still get spans after its answer was given to the connection. An answer of several
        parts may take long to send, so its request may still become slow. A small answer is sent immediately."""
        if trace.is_sampled or isinstance(answer, list):
            return True
        return self.now() - trace.began >= self._rules.slow_seconds

    def finished(self, request: _Request) -> None:
        """Exports the spans of a request whose answer is sent, if the request is sampled or slow."""
        trace, ended = request.trace, self.now()
        seconds = ended - trace.began
        counted = seconds - _waited(trace) if APIS[request.key].waits_by_design else seconds
        if not trace.is_sampled and counted < self._rules.slow_seconds:
            return
        if not self._sink.has_room(_span_count(trace)):
            return
        parent = trace.creator
        trace_id = new_trace_id() if parent is None else parent.trace_id
        context = TraceContext(trace_id, new_span_id(), True, "" if parent is None else parent.tracestate)
        # Both clocks are read now, because the wall clock may have jumped since the request began.
        to_wall = _WallClock(time.time_ns(), ended)
        name = f"kafka.{API[request.key].name}"
        self._sink.add(
            Span(
                name,
                Kind.SERVER,
                context,
                to_wall(trace.began),
                to_wall(ended),
                None if parent is None else parent.span_id,
                self._attributes(request),
                () if parent is None else (parent,),
                trace.error,
            )
        )
        self._add_stages(trace, context, to_wall, ended)
        self._exemplars.note(API[request.key].name, seconds, trace_id, to_wall(ended) // 1_000_000)

    def _add_stages(self, trace: RequestTrace, root: TraceContext, to_wall: _WallClock, ended: float) -> None:
        work = new_span_id()
        for stage in trace.stages:
            context = TraceContext(root.trace_id, work if stage.name == _WORK else new_span_id())
            attributes: Attributes = {}
            if stage.topic is not None and stage.partition is not None:
                attributes = {DESTINATION: stage.topic, PARTITION: str(stage.partition)}
            parent_id = work if stage.name == "append" else root.span_id
            self._sink.add(
                Span(
                    stage.name,
                    Kind.INTERNAL,
                    context,
                    to_wall(stage.started),
                    to_wall(stage.ended),
                    parent_id,
                    attributes,
                )
            )
        throttle_ms = _throttle_ms(trace)
        if throttle_ms:
            begin = to_wall(ended)
            context = TraceContext(root.trace_id, new_span_id())
            self._sink.add(
                Span("throttle", Kind.INTERNAL, context, begin, begin + throttle_ms * 1_000_000, root.span_id)
            )

    def _attributes(self, request: _Request) -> Attributes:
        trace, connection = request.trace, request.connection
        attributes: Attributes = {
            SYSTEM: "kafka",
            CLIENT_ID: request.client_id,
            "kafka.api.key": int(request.key),
            "kafka.api.version": request.version,
            "kafka.correlation_id": request.correlation_id,
            "kafka.listener": connection.listener,
            "kafka.principal": str(connection.session.principal),
            "kafka.request.size": request.size_bytes,
            "kafka.broker.id": self._node_id,
            "network.peer.address": connection.peer_host,
            "network.peer.port": connection.peer_port,
        }
        if len(trace.topics) == 1:
            attributes[DESTINATION] = next(iter(trace.topics))
        if trace.unlisted_stages:
            attributes["kafka.unlisted_stages"] = trace.unlisted_stages
        return attributes


def traced(dispatch: Dispatch, tracer: RequestTracer) -> Serve:
    """Wraps the dispatch of a listener, and records the times of each request until its answer is sent."""

    def serve_traced(connection: Connection, frame: memoryview) -> Answer | Waiting:
        trace = tracer.begin(connection, bytes(frame[:2]))
        if trace is None:
            return dispatch(connection, frame)
        work = trace.stage(_WORK)
        answer = dispatch(connection, frame, trace)
        work.end()
        if isinstance(answer, Waiting):
            _follow(answer, _request(connection, frame, trace), tracer)
            return answer
        if tracer.may_choose(trace, answer):
            _answered(_request(connection, frame, trace), tracer)
        return answer

    return serve_traced


def _request(connection: Connection, frame: memoryview, trace: RequestTrace) -> _Request:
    """Reads the header. Call this function while the frame is still in memory."""
    key, version, correlation_id, client_id, _ = read_request_header(frame)
    return _Request(ApiKey(key), version, correlation_id, client_id or "", len(frame), connection, trace)


def _wait_name(key: ApiKey) -> str:
    waits_for = APIS[key].waits_for
    return f"wait for {waits_for}" if waits_for else "wait"


def _follow(waiting: Waiting, request: _Request, tracer: RequestTracer) -> None:
    """Records the times of a request that waits: the end of its wait, the work on its answer, and the wait for the
    answers of earlier requests."""
    trace = request.trace
    trace.wait = trace.stage(_wait_name(request.key))
    ended = tracer.now()

    def ends(_task: asyncio.Future[Answer]) -> None:
        nonlocal ended
        trace.end_wait()
        ended = tracer.now()

    def taken(task: asyncio.Future[Answer]) -> None:
        order = Stage("wait for order", tracer.now)
        order.started = ended
        if order.ended - order.started >= SHORTEST_STAGE_SECONDS:
            trace.stages.append(order)
        if not task.cancelled() and task.exception() is None and tracer.may_choose(trace, task.result()):
            _answered(request, tracer)

    waiting.task.add_done_callback(ends)
    waiting.on_taken.append(taken)


def _answered(request: _Request, tracer: RequestTracer) -> None:
    """Called when the answer is ready. The connection writes the answer after this call, so the state of the send is
    checked in the next iteration of the loop.
    """
    send = request.trace.stage("send")

    def sent() -> None:
        send.end()
        tracer.finished(request)

    def written() -> None:
        if request.connection.is_sending:
            request.connection.when_sent(sent)
        else:
            sent()

    asyncio.get_running_loop().call_soon(written)


def _throttle_ms(trace: RequestTrace) -> int:
    return 0 if trace.throttle is None else trace.throttle.throttle_ms


def _span_count(trace: RequestTrace) -> int:
    return 1 + len(trace.stages) + (1 if _throttle_ms(trace) else 0)


class _PerSecond:
    """Limits the number of events in each second."""

    def __init__(self, limit: int, now: Callable[[], float]) -> None:
        self._limit = limit
        self._now = now
        self._second = 0
        self._counted = 0

    def count(self) -> bool:
        """Counts an event. Returns True if the event is within the limit."""
        second = int(self._now())
        if second != self._second:
            self._second, self._counted = second, 0
        self._counted += 1
        return self._counted <= self._limit


def _waited(trace: RequestTrace) -> float:
    return sum(stage.ended - stage.started for stage in trace.stages if stage.name.startswith("wait"))


@dataclass(frozen=True, slots=True)
class _WallClock:
    """Converts times of the broker's clock to nanoseconds since 1970. The two fields have the same moment on both
    clocks."""

    wall_ns: int
    seconds: float

    def __call__(self, seconds: float) -> int:
        return self.wall_ns - int((self.seconds - seconds) * 1_000_000_000)
