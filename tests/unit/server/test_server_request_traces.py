"""The choice of traced requests, their stages, and the trace context of the first record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.protocol.wire.api import ApiKey
from kcli.security.principal import ANONYMOUS_SESSION
from kcli.server.metrics.exemplars import Exemplars
from kcli.server.network.request_facts import RequestFacts
from kcli.server.network.waiting import Answer, Waiting
from kcli.server.requests.request_trace import (
    COMPRESSED_INSPECTED_MAX_BYTES,
    STAGES_MAX,
    RequestTrace,
    creator_of,
)
from kcli.server.requests.tracing import CLIENT_SAMPLES_PER_SECOND, NEVER, RequestTracer, Rules, traced
from kcli.tracing.span import Span
from rigs.loops import on_a_loop

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = f"00-{TRACE}-{PARENT}-01".encode()
BROKER = 7


def batch(*headers: tuple[str, bytes | None], codec: Codec = Codec.NONE, value: bytes = b"v") -> bytes:
    first = Record(0, 1000, b"k", value, headers)
    return encode_batch([first, Record(1, 1000, None, value, ())], codec=codec)


class FakeConnection:
    listener, peer_host, peer_port, session = "PLAIN", "10.0.0.1", 4711, ANONYMOUS_SESSION

    def __init__(self) -> None:
        self.is_sending = False
        self.facts = RequestFacts()
        self.waiting: list[Any] = []

    def when_sent(self, callback: Any) -> None:
        self.waiting.append(callback)


class World:
    """A tracer with a clock and a dispatch that tests control."""

    def __init__(self, rules: Rules, chance: float = 0.5) -> None:
        self.now = 100.0
        self.spans: list[Span] = []
        self.room = 1_000_000
        self.asked: list[int] = []
        self.exemplars = Exemplars()
        self.tracer = RequestTracer(
            self, rules, BROKER, lambda: self.now, self.exemplars, chance=lambda: chance
        )
        self.connection = FakeConnection()

    def add(self, span: Span) -> None:
        self.spans.append(span)

    def has_room(self, spans: int) -> bool:
        self.asked.append(spans)
        return len(self.spans) + spans <= self.room

    async def request(self, key: ApiKey, dispatch: Any) -> Any:
        frame = memoryview(int(key).to_bytes(2, "big") + b"\0\x09\0\0\0\x2a\0\x01c\0")
        answer = traced(dispatch, self.tracer)(self.connection, frame)
        await asyncio.sleep(0)
        return answer

    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def seconds(self, name: str) -> float:
        [span] = [each for each in self.spans if each.name == name]
        return round((span.end_ns - span.start_ns) / 1e9, 6)


def answering(world: World, seconds: float = 0.0, records: bytes | None = None) -> Any:
    def dispatch(connection: Any, frame: memoryview, trace: RequestTrace | None = None) -> Answer:
        world.now += seconds
        if records is not None and trace is not None:
            append = trace.appending("t", 3, records)
            world.now += 0.25
            append.end()
        return b"answer"

    return dispatch


@pytest.mark.parametrize(("chance", "count"), [(0.09, 1), (0.1, 0), (0.99, 0)])
@on_a_loop
async def test_a_part_of_the_requests_is_sampled(chance: float, count: int) -> None:
    world = World(Rules(ratio=0.1), chance)
    await world.request(ApiKey.METADATA, answering(world))
    assert world.names().count("kafka.Metadata") == count


@on_a_loop
async def test_a_slow_request_is_traced_and_a_faster_one_is_not() -> None:
    world = World(Rules(slow_seconds=0.5))
    await world.request(ApiKey.METADATA, answering(world, 0.4))
    assert world.spans == []
    await world.request(ApiKey.METADATA, answering(world, 0.6))
    assert world.names() == ["kafka.Metadata", "work", "send"]
    root = world.spans[0]
    assert (world.seconds("kafka.Metadata"), world.seconds("work"), world.seconds("send")) == (0.6, 0.6, 0.0)
    assert {span.parent_id for span in world.spans[1:]} == {root.context.span_id}
    assert root.attributes["kafka.correlation_id"] == 42
    assert root.attributes["messaging.client.id"] == "c"
    assert root.attributes["kafka.broker.id"] == BROKER
    assert root.attributes["network.peer.address"] == "10.0.0.1"
    assert world.exemplars.of("Metadata", 0.5, 1.0).trace_id == root.context.trace_id
    assert world.exemplars.of("Metadata", 0.6, 1.0) is None


def waiting_for(world: World, ready: asyncio.Future[Answer]) -> Any:
    """A dispatch whose handler suspends until `ready`, and then encodes its answer."""

    def dispatch(_connection: object, _frame: object, trace: RequestTrace | None = None) -> Waiting:
        async def rest() -> Answer:
            answer = await ready
            encoding = None if trace is None else trace.begin_answer()
            if encoding is not None:
                encoding.end()
            return answer

        return Waiting(name="Produce", task=asyncio.ensure_future(rest()))

    return dispatch


@on_a_loop
async def test_the_wait_of_a_fetch_is_not_slow_but_that_of_a_produce_is() -> None:
    for key, names in (
        (ApiKey.FETCH, []),
        (ApiKey.PRODUCE, ["kafka.Produce", "work", "wait for replicas", "answer", "send"]),
    ):
        world = World(Rules(slow_seconds=1.0))
        ready: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        answer = await world.request(key, waiting_for(world, ready))
        world.now += 2.0
        ready.set_result(b"answer")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert answer.take() == b"answer"
        await asyncio.sleep(0)
        assert world.names() == names
        if names:
            assert world.seconds("wait for replicas") == 2.0


@on_a_loop
async def test_an_answer_that_waits_for_earlier_answers_and_is_sent_slowly() -> None:
    world = World(Rules(ratio=1.0))
    ready: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    answer = await world.request(ApiKey.PRODUCE, waiting_for(world, ready))
    world.now += 1.0
    ready.set_result(b"answer")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world.now += 3.0
    world.connection.is_sending = True
    answer.take()
    await asyncio.sleep(0)
    assert world.spans == []
    world.now += 5.0
    world.connection.waiting[0]()
    assert (world.seconds("wait for replicas"), world.seconds("wait for order")) == (1.0, 3.0)
    assert (world.seconds("send"), world.seconds("kafka.Produce")) == (5.0, 9.0)


@on_a_loop
async def test_the_time_in_the_request_line_counts_once() -> None:
    world = World(Rules(slow_seconds=1.0))
    world.connection.facts.queued(1.5)
    await world.request(ApiKey.METADATA, answering(world, 0.5))
    assert (world.seconds("queue"), world.seconds("work"), world.seconds("kafka.Metadata")) == (1.5, 0.5, 2.0)
    await world.request(ApiKey.METADATA, answering(world, 0.5))
    assert world.names().count("kafka.Metadata") == 1


@on_a_loop
async def test_a_request_that_nothing_can_choose_is_not_followed() -> None:
    for rules, key, is_followed in (
        (Rules(ratio=0.1), ApiKey.PRODUCE, False),
        (Rules(reads_headers=True), ApiKey.FETCH, False),
        (Rules(reads_headers=True), ApiKey.PRODUCE, True),
        (Rules(slow_seconds=9.0), ApiKey.FETCH, True),
    ):
        world = World(rules)
        traces: list[RequestTrace | None] = []

        def dispatch(
            connection: Any, frame: memoryview, trace: RequestTrace | None = None, found: Any = traces
        ) -> Answer:
            found.append(trace)
            return b"answer"

        world.connection.facts.queued(1.0)
        await world.request(key, dispatch)
        assert [trace is not None for trace in traces] == [is_followed]
        assert world.connection.facts.queued_seconds == 0.0
        assert world.spans == []


@on_a_loop
async def test_a_large_answer_that_is_sent_slowly_is_slow() -> None:
    for answer, names in (([b"part"], ["kafka.Metadata", "work", "send"]), (b"small", [])):
        world = World(Rules(slow_seconds=1.0))
        world.connection.is_sending = True
        await world.request(ApiKey.METADATA, lambda *_, answer=answer: answer)
        world.now += 2.0
        for sent in world.connection.waiting:
            sent()
        assert world.names() == names


@on_a_loop
async def test_a_sampled_record_decides_if_the_broker_reads_headers() -> None:
    for reads_headers, names in ((True, ["kafka.Produce", "work", "append", "send"]), (False, [])):
        world = World(Rules(reads_headers=reads_headers))
        await world.request(ApiKey.PRODUCE, answering(world, records=batch(("traceparent", CONTEXT))))
        assert world.names() == names
        if names:
            root, work, append, _ = world.spans
            assert (root.context.trace_id, root.parent_id) == (TRACE, PARENT)
            assert root.links[0].span_id == PARENT
            assert append.parent_id == work.context.span_id
            assert append.attributes["messaging.destination.partition.id"] == "3"
            assert world.seconds("append") == 0.25


@on_a_loop
async def test_clients_choose_a_limited_number_of_requests_per_second() -> None:
    world = World(Rules(reads_headers=True))
    dispatch = answering(world, records=batch(("traceparent", CONTEXT)))
    for wanted in (CLIENT_SAMPLES_PER_SECOND, 2 * CLIENT_SAMPLES_PER_SECOND):
        for _ in range(CLIENT_SAMPLES_PER_SECOND + 5):
            await world.request(ApiKey.PRODUCE, dispatch)
            world.now -= 0.25
        assert world.names().count("kafka.Produce") == wanted
        world.now += 1.0


@on_a_loop
async def test_no_spans_are_made_without_room_for_them() -> None:
    world = World(Rules(ratio=1.0))
    world.room = 3
    await world.request(ApiKey.METADATA, answering(world))
    await world.request(ApiKey.METADATA, answering(world))
    assert world.asked == [3, 3]
    assert world.names() == ["kafka.Metadata", "work", "send"]


@on_a_loop
async def test_throttling_is_a_stage_after_the_answer() -> None:
    class Throttle:
        throttle_ms = 1500

    world = World(Rules(ratio=1.0))

    def dispatch(connection: Any, frame: memoryview, trace: RequestTrace) -> Answer:
        trace.throttle = Throttle()
        trace.error = "THROTTLING_QUOTA_EXCEEDED"
        return b"answer"

    await world.request(ApiKey.CREATE_TOPICS, dispatch)
    assert world.seconds("throttle") == 1.5
    assert world.spans[0].error == "THROTTLING_QUOTA_EXCEEDED"
    assert world.spans[-1].start_ns == world.spans[0].end_ns


@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_record_of_a_batch_has_the_context(codec: Codec) -> None:
    found = creator_of(batch(("x", b"1"), ("traceparent", CONTEXT), codec=codec))
    assert found is not None
    assert found.trace_id == TRACE
    assert creator_of(memoryview(batch(codec=codec))) is None


def test_invalid_and_large_batches_have_no_context() -> None:
    valid = batch(("traceparent", CONTEXT), codec=Codec.GZIP)
    for cut in range(62, len(valid)):
        assert creator_of(valid[:cut]) is None
    for at in range(61, len(valid), 3):
        creator_of(valid[:at] + b"\xff" + valid[at + 1 :])  # must not raise
    large = batch(("traceparent", CONTEXT), codec=Codec.LZ4, value=bytes(range(256)) * 4096)
    assert creator_of(large + bytes(COMPRESSED_INSPECTED_MAX_BYTES)) is None


def test_the_stages_of_a_request_are_limited() -> None:
    trace = RequestTrace(lambda: 0.0, is_sampled=True, reads_headers=False)
    for number in range(STAGES_MAX + 5):
        trace.stage("append", "t", number).end()
    assert (len(trace.stages), trace.unlisted_stages) == (STAGES_MAX, 5)


def test_rules_without_a_threshold_trace_no_slow_request() -> None:
    assert Rules().slow_seconds == NEVER


def test_exemplars_are_limited_and_the_newest_counts() -> None:
    exemplars = Exemplars()
    for number in range(10_000):
        exemplars.note("Fetch", 0.001 + number / 1000, f"{number}", number)
    assert exemplars.of("Fetch", 0.0, 100.0).trace_id == "9999"
    assert exemplars.of("Fetch", 100.0, 200.0) is None
    assert exemplars.of("Produce", 0.0, 100.0) is None
    assert sum(len(steps) for steps in exemplars._newest.values()) < 50
