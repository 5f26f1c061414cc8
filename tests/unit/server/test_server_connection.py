"""Connections over real sockets: framing, order of answers, holding back, refusals, limits."""

from __future__ import annotations

import asyncio
import gc
import struct
from asyncio.streams import StreamReader, StreamWriter
from collections.abc import Callable
from typing import Any, Self

import pytest

from kcli.errors import ProtocolError
from kcli.runtime.network import SystemNetwork
from kcli.server.network.connection import Connection
from kcli.server.network.frame_buffers import SCRATCH_SIZE_BYTES, FrameBuffers
from kcli.server.network.listener import CREATION_RATE_WINDOW_SECONDS, SCARCE_SECONDS, Acceptor, SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.waiting import Waiting
from rigs.loops import PATIENCE_S, until

PRODUCE = b"\x00\x00"
OTHER = b"\x00\x12"


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def echo(_connection: Connection, request: memoryview) -> bytes:
    return frame(bytes(request))


class Rig:
    """A socket server with one listener and a few ways to talk to it."""

    def __init__(
        self,
        serve: Callable[..., Any] = echo,
        *,
        size_max: int = 1_000_000,
        limits: ConnectionLimits | None = None,
        **settings: Any,
    ) -> None:
        self.serve = serve
        self.limits = limits or ConnectionLimits()
        self.settings = settings
        self.size_max = size_max
        self.idle_max = settings.pop("idle_max_seconds", None)
        self.protected = settings.pop("protected", None)
        self.time = 0.0

    async def __aenter__(self) -> Self:
        self.sockets = SocketServer(
            SystemNetwork(),
            limits=self.limits,
            request_size_max_bytes=self.size_max,
            idle_max_seconds=self.idle_max,
            protected_listener=self.protected,
            now=lambda: self.time,
        )
        self.listener = await self.listen("PLAINTEXT", **self.settings)
        return self

    async def listen(self, name: str, **settings: Any) -> Acceptor:
        return await self.sockets.listen(ListenerSettings(name, "127.0.0.1", 0, **settings), self.serve)

    async def __aexit__(self, *_exc: object) -> None:
        await self.sockets.close()
        await asyncio.sleep(0)

    async def connect(self, listener: Acceptor | None = None) -> tuple[StreamReader, StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", (listener or self.listener).port)


async def read_frame(reader: StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
    return await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)


async def at_end(reader: StreamReader) -> bool:
    return await asyncio.wait_for(reader.read(), PATIENCE_S) == b""


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop
    else:
        factory = asyncio.new_event_loop

    def run_on(coroutine: Any) -> Any:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(coroutine)

    return run_on


@pytest.mark.parametrize(
    "size", [1, 3, 100, SCRATCH_SIZE_BYTES - 4, SCRATCH_SIZE_BYTES - 3, SCRATCH_SIZE_BYTES, 900_000]
)
def test_frames_of_any_size_come_whole(size: int, run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with Rig() as rig:
            reader, writer = await rig.connect()
            body = bytes(i % 251 for i in range(size))
            for _ in range(3):
                writer.write(frame(body))
                assert await read_frame(reader) == body
            writer.close()

    run(main())


def test_frames_cut_at_every_byte_come_whole(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with Rig() as rig:
            reader, writer = await rig.connect()
            stream = frame(b"first request") + frame(b"x") + frame(b"third")
            for byte in stream:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.0005)
            assert [await read_frame(reader) for _ in range(3)] == [b"first request", b"x", b"third"]
            writer.close()

    run(main())


def test_many_frames_in_one_write_are_answered_in_order(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with Rig() as rig:
            reader, writer = await rig.connect()
            bodies = [b"%06d" % i * (i % 700 + 1) for i in range(500)]

            async def send() -> None:
                for body in bodies:
                    writer.write(frame(body))
                await writer.drain()

            sending = asyncio.ensure_future(send())
            for body in bodies:
                assert await read_frame(reader) == body
            await sending
            writer.close()

    run(main())


def waiting(future: Any, answer: bytes) -> Waiting:
    async def rest() -> bytes:
        await future
        return answer

    # The work of a task has an effect, and a future is only an event.
    only_waits = not isinstance(future, asyncio.Task)
    return Waiting(
        name="Produce", task=asyncio.ensure_future(rest()), only_waits=True, may_be_dropped=only_waits
    )


def test_a_waiting_request_holds_back_the_next_ones(run: Callable[..., Any]) -> None:
    async def main() -> None:
        seen = []
        gate = asyncio.get_running_loop().create_future()

        def serve(_connection: Connection, request: memoryview) -> Waiting | bytes:
            body = bytes(request)
            seen.append(body)
            return waiting(gate, frame(body)) if body.endswith(b"park") else frame(body)

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(frame(OTHER + b"park") + frame(OTHER + b"second") + frame(PRODUCE + b"third"))
            await until(lambda: seen)
            await asyncio.sleep(0.05)
            assert seen == [OTHER + b"park"]
            gate.set_result(None)
            assert [await read_frame(reader) for _ in range(3)] == [
                OTHER + b"park",
                OTHER + b"second",
                PRODUCE + b"third",
            ]
            assert seen == [OTHER + b"park", OTHER + b"second", PRODUCE + b"third"]
            writer.close()

    run(main())


def test_produces_overlap_and_are_answered_in_order(run: Callable[..., Any]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        gates = {b"1": loop.create_future(), b"2": loop.create_future()}
        seen = []

        def serve(_connection: Connection, request: memoryview) -> Waiting | bytes:
            body = bytes(request)
            seen.append(body)
            gate = gates.get(body[2:])
            return frame(body) if gate is None else waiting(gate, frame(body))

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(b"".join(frame(PRODUCE + name) for name in (b"1", b"2", b"3")) + frame(OTHER + b"4"))
            await until(lambda: len(seen) == 3)  # a Produce need not wait for another
            assert seen == [PRODUCE + b"1", PRODUCE + b"2", PRODUCE + b"3"]
            gates[b"2"].set_result(None)
            await asyncio.sleep(0.02)
            assert len(seen) == 3, "what is not a Produce waits for all of them"
            gates[b"1"].set_result(None)
            answers = [await read_frame(reader) for _ in range(4)]
            assert answers == [PRODUCE + b"1", PRODUCE + b"2", PRODUCE + b"3", OTHER + b"4"]
            writer.close()

    run(main())


def test_the_next_produce_is_served_when_a_paused_one_begins_to_wait(run: Callable[..., Any]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate, seen, paused = loop.create_future(), [], []

        def serve(_connection: Connection, request: memoryview) -> Waiting | bytes:
            body = bytes(request)
            seen.append(body)
            if body != PRODUCE + b"1":
                return frame(body)

            async def rest() -> bytes:
                await gate
                return frame(body)

            paused.append(Waiting(name="Produce", task=asyncio.ensure_future(rest()), reads_frame=True))
            return paused[0]

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(frame(PRODUCE + b"1") + frame(PRODUCE + b"2") + frame(OTHER + b"3"))
            await until(lambda: seen)
            await asyncio.sleep(0.02)
            assert seen == [PRODUCE + b"1"], "the order of the appends"
            paused[0].begin_to_wait()
            await until(lambda: len(seen) == 2)
            await asyncio.sleep(0.02)
            assert seen == [PRODUCE + b"1", PRODUCE + b"2"]
            gate.set_result(None)
            assert [await read_frame(reader) for _ in range(3)] == [
                PRODUCE + b"1",
                PRODUCE + b"2",
                OTHER + b"3",
            ]
            writer.close()

    run(main())


@pytest.mark.parametrize("waits_first", [True, False])
def test_a_wait_ends_with_its_connection_whichever_comes_first(
    waits_first: bool, run: Callable[..., Any]
) -> None:
    async def main() -> None:
        gate, served = asyncio.get_running_loop().create_future(), []

        def serve(_connection: Connection, request: memoryview) -> Waiting:
            async def rest() -> bytes:
                await gate
                return b""

            served.append(Waiting(name="Produce", task=asyncio.ensure_future(rest())))
            return served[0]

        async with Rig(serve) as rig:
            _reader, writer = await rig.connect()
            writer.write(frame(PRODUCE))
            await until(lambda: served)
            if waits_first:
                served[0].begin_to_wait()
            assert not gate.cancelled()
            writer.close()
            await until(lambda: not rig.sockets.connections)
            if not waits_first:
                assert not gate.cancelled(), "its work still has an effect"
                served[0].begin_to_wait()
            await until(gate.cancelled)

    run(main())


def test_only_as_many_produces_overlap_as_limits_md_promises(run: Callable[..., Any]) -> None:
    async def main() -> None:
        gates: list[Any] = []

        def serve(_connection: Connection, request: memoryview) -> Waiting:
            gates.append(asyncio.get_running_loop().create_future())
            return waiting(gates[-1], frame(bytes(request)))

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(frame(PRODUCE) * 66)
            await until(lambda: len(gates) >= 64)
            await asyncio.sleep(0.02)
            assert len(gates) == 64
            gates[0].set_result(None)
            await read_frame(reader)
            await until(lambda: len(gates) > 64)
            await asyncio.sleep(0.02)
            assert len(gates) == 65
            for gate in gates[1:]:
                gate.set_result(None)
            await until(lambda: len(gates) == 66)
            gates[-1].set_result(None)
            for _ in range(65):
                await read_frame(reader)
            writer.close()

    run(main())


def test_no_answer_leaves_no_gap(run: Callable[..., Any]) -> None:
    async def main() -> None:
        def serve(_connection: Connection, request: memoryview) -> bytes:
            return None if bytes(request) == b"acks=0" else frame(bytes(request))

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(frame(b"acks=0") + frame(b"next"))
            assert await read_frame(reader) == b"next"
            writer.close()

    run(main())


def test_a_lost_connection_cancels_what_was_parked_but_not_a_task(run: Callable[..., Any]) -> None:
    async def main() -> None:
        parked = asyncio.get_running_loop().create_future()
        done = asyncio.Event()

        async def work() -> None:
            await asyncio.sleep(0.05)
            done.set()

        def serve(_connection: Connection, request: memoryview) -> Waiting:
            if bytes(request) == b"park":
                return waiting(parked, b"")
            return waiting(asyncio.ensure_future(work()), b"")

        async with Rig(serve) as rig:
            for body in (b"park", b"work"):
                _reader, writer = await rig.connect()
                writer.write(frame(body))
                await asyncio.sleep(0.02)
                writer.close()
            await asyncio.wait_for(done.wait(), PATIENCE_S)
            await until(parked.cancelled)

    run(main())


@pytest.mark.parametrize(
    ("bytes_sent", "hint"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "speaks HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), "speaks TLS"),
        (struct.pack(">i", 2**31 - 1) + b"x", "size = 2147483647"),
        (struct.pack(">i", -5) + b"xxxx", "size = -5"),
        (b"\xff" * 64, "size = -1"),
    ],
)
def test_a_connection_of_another_protocol_is_closed_with_one_log_line(
    bytes_sent: bytes, hint: str, caplog: pytest.LogCaptureFixture, run: Callable[..., Any]
) -> None:
    async def main() -> None:
        async with Rig(size_max=100_000_000) as rig:
            reader, writer = await rig.connect()
            writer.write(bytes_sent)
            assert await at_end(reader)
            writer.close()
            reader, writer = await rig.connect()
            writer.write(frame(b"still there"))
            assert await read_frame(reader) == b"still there"
            writer.close()

    run(main())
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("kcli")]
    assert len(lines) == 1
    assert hint in lines[0]


def test_a_protocol_error_closes_after_the_answers_before_it(
    caplog: pytest.LogCaptureFixture, run: Callable[..., Any]
) -> None:
    async def main() -> None:
        def serve(_connection: Connection, request: memoryview) -> bytes:
            if bytes(request) == b"bad":
                raise ProtocolError("cannot be read")
            return frame(bytes(request))

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(frame(b"good") + frame(b"bad") + frame(b"never"))
            assert await read_frame(reader) == b"good"
            assert await at_end(reader)
            writer.close()

    run(main())
    assert "cannot be read" in caplog.text


def test_a_client_that_does_not_read_is_not_read_from(run: Callable[..., Any]) -> None:
    async def main() -> None:
        served = []

        def serve(_connection: Connection, request: memoryview) -> bytes:
            served.append(1)
            return frame(bytes(1_000_000))

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            for _ in range(200):
                writer.write(frame(b"more"))
            await until(lambda: served)
            await asyncio.sleep(0.2)
            assert 0 < len(served) < 30, "200 MB must not be buffered"
            for _ in range(200):
                await read_frame(reader)
            assert len(served) == 200
            writer.close()

    run(main())


@pytest.mark.parametrize("behind_another", [False, True])
def test_an_error_of_a_client_that_has_gone_is_nobodys(run: Callable[..., Any], behind_another: bool) -> None:
    """It comes when the client has gone, or came before and waited for an answer that was due before it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        complaints = []
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        gates = {b"1": loop.create_future(), b"2": loop.create_future()}
        tasks = []

        async def fail(gate: Any) -> None:
            await gate
            raise ZeroDivisionError

        def serve(_connection: Connection, request: memoryview) -> Waiting:
            tasks.append(asyncio.ensure_future(fail(gates[bytes(request)[2:]])))
            return waiting(tasks[-1], b"")

        async with Rig(serve) as rig:
            _reader, writer = await rig.connect()
            writer.write(frame(PRODUCE + b"1") + frame(PRODUCE + b"2"))
            await until(lambda: len(tasks) == 2)
            if behind_another:
                gates[b"2"].set_result(None)
                await until(tasks[1].done)
            writer.close()
            await until(lambda: not rig.sockets.connections)
            for gate in gates.values():
                if not gate.done():
                    gate.set_result(None)
            await until(lambda: all(task.done() for task in tasks))
        tasks.clear()
        gc.collect()
        assert complaints == []

    run(main())


def test_closing_sends_what_was_answered(run: Callable[..., Any]) -> None:
    async def main() -> None:
        served = []

        def serve(_connection: Connection, _request: memoryview) -> bytes:
            served.append(1)
            return frame(bytes(700_000))

        async with Rig(serve) as rig:
            reader, writer = await rig.connect()
            writer.write(frame(b"x"))
            await until(lambda: served)
            reading = asyncio.ensure_future(read_frame(reader))
        assert len(await reading) == 700_000
        writer.close()

    run(main())


def test_a_client_that_never_reads_does_not_hold_up_the_stop(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.server.network.listener.CLOSING_SECONDS", 0.05)

    async def main() -> None:
        rig = Rig(lambda _connection, _request: frame(bytes(900_000)), size_max=10)
        async with rig:
            reader, writer = await rig.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(30):
                writer.write(frame(b"x"))
            await asyncio.sleep(0.1)
            started = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - started < 20
        assert not rig.sockets.connections
        writer.transport.abort()

    run(main())


def test_idle_connections_are_closed_and_waiting_ones_are_not(run: Callable[..., Any]) -> None:
    async def main() -> None:
        parked = asyncio.get_running_loop().create_future()

        asked = []

        def serve(_connection: Connection, _request: memoryview) -> Waiting:
            asked.append(1)
            return waiting(parked, frame(b"late"))

        async with Rig(serve, idle_max_seconds=600.0) as rig:
            idle, idle_writer = await rig.connect()
            busy, busy_writer = await rig.connect()
            busy_writer.write(frame(b"park"))
            await until(lambda: asked and len(rig.sockets.connections) == 2)
            rig.time = 601.0
            assert rig.sockets.close_idle() == 1
            assert await at_end(idle)
            parked.set_result(None)
            assert await read_frame(busy) == b"late"
            idle_writer.close()
            busy_writer.close()

    run(main())


def test_max_connections_per_ip_closes_the_one_too_many(run: Callable[..., Any]) -> None:
    async def main() -> None:
        limits = ConnectionLimits(per_ip_max=1, per_ip_overrides={"127.0.0.1": 2})
        async with Rig(limits=limits) as rig:
            pairs = [await rig.connect() for _ in range(3)]
            assert await at_end(pairs[2][0])
            for reader, writer in pairs[:2]:
                writer.write(frame(b"here"))
                assert await read_frame(reader) == b"here"
            pairs[0][1].close()
            await until(lambda: len(rig.sockets.connections) == 1)
            reader, writer = await rig.connect()
            writer.write(frame(b"room again"))
            assert await read_frame(reader) == b"room again"
            writer.close()
            for _reader, each in pairs:
                each.close()

    run(main())


def test_max_connections_holds_the_next_until_there_is_room(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with Rig(connections_max=1) as rig:
            _first, first_writer = await rig.connect()
            await until(lambda: rig.listener.served)
            second, second_writer = await rig.connect()
            second_writer.write(frame(b"patience"))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(second.readexactly(4), 0.1)
            first_writer.close()

            async def rest() -> bytes:
                return await second.readexactly(12)

            assert await asyncio.wait_for(rest(), PATIENCE_S) == frame(b"patience")
            second_writer.close()

    run(main())


def test_a_lack_of_descriptors_limits_connections_only_for_a_moment(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptors may have gone to other work, such as files, which gives them back."""
    monkeypatch.setattr("kcli.server.network.listener.is_reserved", lambda descriptor: descriptor >= 900)

    async def main() -> None:
        async with Rig(lambda _connection, request: frame(bytes(request))) as rig:
            assert not rig.sockets.lacks_descriptors(899)
            assert rig.sockets.lacks_descriptors(900)
            assert rig.sockets.lacks_descriptors(400), "a connection that was closed just now had this number"
            rig.time += SCARCE_SECONDS
            assert not rig.sockets.lacks_descriptors(400)

    run(main())


def test_connections_that_come_too_fast_are_held(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with Rig(creation_rate_max=1) as rig:
            burst = int(CREATION_RATE_WINDOW_SECONDS)
            pairs = [await rig.connect() for _ in range(burst + 1)]
            for reader, writer in pairs[:burst]:
                writer.write(frame(b"in time"))
                assert await read_frame(reader) == b"in time"
            reader, writer = pairs[burst]
            writer.write(frame(b"too fast"))
            await asyncio.sleep(0.05)
            assert not reader._buffer  # type: ignore[attr-defined]
            rig.listener._created.clear()  # as if the window had passed
            rig.sockets.admit_held()
            assert await read_frame(reader) == b"too fast"
            for _reader, each in pairs:
                each.close()

    run(main())


def test_the_protected_listener_makes_room_for_itself(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with Rig(limits=ConnectionLimits(connections_max=1), protected="INTERNAL") as rig:
            internal = await rig.listen("INTERNAL")
            client, client_writer = await rig.connect()
            await until(lambda: rig.listener.served)
            node, broker_writer = await rig.connect(internal)
            broker_writer.write(frame(b"replicate"))
            assert await read_frame(node) == b"replicate"
            assert await at_end(client)
            client_writer.close()
            broker_writer.close()

    run(main())


def test_frame_buffers_are_recycled_within_bounds() -> None:
    buffers = FrameBuffers()
    first = buffers.take(100_000)
    assert len(first) == 131_072
    buffers.give_back(first)
    assert buffers.take(70_000) is first
    huge = buffers.take(5_000_000)
    assert len(huge) == 5_000_000
    buffers.give_back(huge)
    assert buffers.take(5_000_000) is not huge
    for _ in range(10):
        buffers.give_back(memoryview(bytearray(4 * 1024 * 1024)))
    assert buffers._free_bytes <= 16 * 1024 * 1024
