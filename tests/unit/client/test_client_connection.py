from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kcli.client.client import Client
from kcli.client.config import ClientConfig
from kcli.client.connection import (
    FIRST_BYTES,
    MAX_BYTES_BEFORE_LOGIN,
    MAX_RESPONSE_BYTES,
    Connection,
    WrongPeer,
)
from kcli.errors import NetworkException, ProtocolError, TimeoutException, UnsupportedVersionException
from kcli.model.addresses import Address
from kcli.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.codec import encode_response
from kcli.runtime.network import SystemNetwork
from rigs.scripted_server import ScriptedServer
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[Address]:
    writers: list[asyncio.StreamWriter] = []

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)

    server = await asyncio.start_server(tracked, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def opened(address: Address) -> Connection:
    return await Connection.open(SystemNetwork(), address, "test", timeout=5)


def answers_with(raw: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(raw)
        await writer.drain()
        writer.close()

    return serve


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x16", "speaks TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
    ],
)
def test_a_peer_that_speaks_something_else_is_named(raw: bytes, words: str) -> None:
    async def scenario() -> None:
        async with listening(answers_with(raw)) as address:
            with pytest.raises(WrongPeer, match=words):
                await opened(address)

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_BYTES_BEFORE_LOGIN + 1])
def test_a_frame_of_impossible_size_closes_the_connection(size: int) -> None:
    async def scenario() -> None:
        raw = size.to_bytes(4, "big", signed=True) + bytes(8)
        async with listening(answers_with(raw)) as address:
            with pytest.raises(ProtocolError, match="announced a response"):
                await opened(address)

    asyncio.run(scenario())


def test_the_memory_of_an_answer_follows_the_bytes_that_arrive() -> None:
    connection = Connection(Address("h", 1), None)
    connection._max_response_bytes = MAX_RESPONSE_BYTES

    def feed(content: bytes) -> None:
        while content:
            buffer = connection.get_buffer(-1)
            taken = min(len(buffer), len(content))
            buffer[:taken] = content[:taken]
            buffer.release()
            connection.buffer_updated(taken)
            content = content[taken:]

    feed(MAX_RESPONSE_BYTES.to_bytes(4, "big"))
    assert len(connection._buffer) == FIRST_BYTES
    arrived = 3 * FIRST_BYTES
    feed(bytes(arrived))
    assert len(connection._buffer) <= 2 * arrived
    frames: list[bytes] = []
    connection._frame = frames.append  # type: ignore[assignment]
    connection._expect(4, in_body=False)
    content = bytes(range(256)) * (5 * FIRST_BYTES // 256) + b"end"
    feed(len(content).to_bytes(4, "big") + content + (3).to_bytes(4, "big"))
    assert frames == [content]


def test_a_response_without_a_request_closes_the_connection() -> None:
    async def scenario() -> None:
        raw = encode_response(ApiVersionsResponse(), ApiKey.API_VERSIONS, 4, correlation_id=99)
        async with listening(answers_with(raw)) as address:
            with pytest.raises(ProtocolError, match="never sent"):
                await opened(address)

    asyncio.run(scenario())


def test_a_peer_that_hangs_up_is_a_network_exception() -> None:
    async def scenario() -> None:
        async with listening(answers_with(b"")) as address:
            with pytest.raises(NetworkException, match="as listeners with TLS or SASL do"):
                await opened(address)

    asyncio.run(scenario())


def test_a_response_may_come_in_single_bytes() -> None:
    offer = ApiVersionsResponse(api_keys=(ApiVersion(api_key=3, min_version=2, max_version=5),))
    raw = encode_response(offer, ApiKey.API_VERSIONS, 4, correlation_id=1)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        for byte in raw:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with listening(drip) as address:
            connection = await opened(address)
            assert connection.version_for(ApiKey.METADATA) == 5
            connection.close()

    asyncio.run(scenario())


def test_versions_are_the_newest_both_sides_speak() -> None:
    connection = Connection(Address("h", 1), None)
    connection.versions = {ApiKey.METADATA: (0, 9), ApiKey.PRODUCE: (90, 99)}
    assert connection.version_for(ApiKey.METADATA) == 9
    with pytest.raises(UnsupportedVersionException, match="does not support METADATA with version in range"):
        connection.version_for(ApiKey.METADATA, at_least=10)
    assert connection.version_for(ApiKey.METADATA, at_least=3, at_most=4) == 4
    with pytest.raises(
        UnsupportedVersionException, match=r"in range \[[0-9]+,8\]\. The supported range is \[90"
    ):
        connection.version_for(ApiKey.PRODUCE, at_most=8)
    with pytest.raises(UnsupportedVersionException, match=r"The supported range is \[90,99\]"):
        connection.version_for(ApiKey.PRODUCE)
    with pytest.raises(UnsupportedVersionException, match="The node does not support FETCH"):
        connection.version_for(ApiKey.FETCH)


def test_an_old_broker_is_asked_again_in_the_version_it_knows() -> None:
    asked: list[int] = []

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while header := await reader.read(4):
            frame = await reader.readexactly(int.from_bytes(header, "big"))
            version, correlation = int.from_bytes(frame[2:4], "big"), int.from_bytes(frame[4:8], "big")
            asked.append(version)
            code = 0 if version == 0 else 35
            # v0: error code, then (key, min, max); sent for every version, as KIP-511 has it
            body = code.to_bytes(2, "big") + (1).to_bytes(4, "big") + bytes([0, 18, 0, 0, 0, 0])
            writer.write((len(body) + 4).to_bytes(4, "big") + correlation.to_bytes(4, "big") + body)
            await writer.drain()
        writer.close()

    async def scenario() -> None:
        async with listening(old) as address:
            connection = await opened(address)
            assert connection.versions == {18: (0, 0)}
            connection.close()

    asyncio.run(scenario())
    assert asked == [API[ApiKey.API_VERSIONS].max_version, 0]


def test_requests_overlap_and_find_their_answers() -> None:
    async def scenario(server: ScriptedServer) -> None:
        connection = await opened(Address("127.0.0.1", server.port))
        requests = [
            connection.request(MetadataRequest(), ApiKey.METADATA, version=version, timeout=5)
            for version in range(1, 13)
        ]
        responses = await asyncio.gather(*requests)
        assert [response.controller_id for response in responses] == list(range(1, 13))
        connection.close()

    with ScriptedServer(
        {ApiKey.METADATA: lambda _, version: MetadataResponse(controller_id=version)}
    ) as server:
        asyncio.run(scenario(server))


def test_a_silent_server_and_a_missing_server_are_different_errors() -> None:
    async def scenario(server: ScriptedServer) -> None:
        config = ClientConfig(servers=(Address("127.0.0.1", server.port),), default_api_timeout_ms=1000)
        async with Client(config) as client:
            with pytest.raises(
                TimeoutException, match=r"callName=listNodes, tries=1\) timed out after 1 attempt"
            ):
                await client.call("listNodes", client.nodes)

    given_up = threading.Event()

    def late(*_: object) -> MetadataResponse:
        given_up.wait(60)
        return MetadataResponse()

    with ScriptedServer({ApiKey.METADATA: late}) as server:
        asyncio.run(scenario(server))
        given_up.set()


def test_a_connection_that_was_lost_is_opened_again() -> None:
    answers = iter([None, MetadataResponse(controller_id=7)])

    async def scenario(server: ScriptedServer) -> None:
        config = ClientConfig(
            servers=(Address("127.0.0.1", server.port),), default_api_timeout_ms=5000, retry_backoff_ms=1
        )
        async with Client(config) as client:
            found = await client.call("metadata", client.metadata)
            assert found.controller_id == 7

    with ScriptedServer({ApiKey.METADATA: lambda *_: next(answers)}) as server:
        asyncio.run(scenario(server))
        # The client also looked once at what the port speaks, because the first connection was lost so early.
        assert len(server.sent(ApiKey.API_VERSIONS)) == 3


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x16", b"SSH-2.0-x\r\n"]
)
def test_the_next_server_is_tried_after_a_port_that_is_not_kafka(
    raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: ScriptedServer) -> None:
        async with listening(answers_with(raw)) as other:
            config = ClientConfig(servers=(other, Address("127.0.0.1", server.port)), retry_backoff_ms=1)
            async with Client(config) as client:
                assert (await client.call("metadata", client.metadata)).controller_id == 7

    with ScriptedServer({ApiKey.METADATA: lambda *_: MetadataResponse(controller_id=7)}) as server:
        asyncio.run(scenario(server))


def test_the_protocol_is_named_if_no_server_is_a_kafka_listener() -> None:
    async def scenario() -> None:
        answer = answers_with(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        async with (
            listening(answer) as first,
            listening(answer) as second,
            Client(ClientConfig(servers=(first, second))) as client,
        ):
            with pytest.raises(WrongPeer, match="speaks HTTP"):
                await client.call("metadata", client.metadata)

    asyncio.run(scenario())


def test_a_server_that_never_answers_times_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(100):
            pass
        writer.close()

    async def scenario() -> None:
        async with listening(silent) as address:
            config = ClientConfig(
                servers=(address,), connection_setup_timeout_ms=30, default_api_timeout_ms=120
            )
            async with Client(config) as client:
                with pytest.raises(TimeoutException) as error:
                    await client.call("listNodes", client.nodes)
                assert error.value.message == "Timed out waiting for a node assignment. Call: listNodes"

    asyncio.run(scenario())


def test_a_large_answer_is_decoded_in_turns() -> None:
    def topic(number: int) -> MetadataResponseTopic:
        epochs = range(20 * number, 20 * number + 20)
        return MetadataResponseTopic(
            name=f"topic-{number}",
            partitions=tuple(MetadataResponsePartition(leader_epoch=epoch) for epoch in epochs),
        )

    topics = tuple(map(topic, range(1000)))
    large = MetadataResponse(cluster_id="large", topics=topics)

    async def scenario(server: ScriptedServer) -> None:
        connection = await opened(Address("127.0.0.1", server.port))
        with TurnCounter() as counter:
            found = await connection.request(MetadataRequest(), ApiKey.METADATA, version=12, timeout=60)
        connection.close()
        assert found == large
        assert counter.calls_in_one_turn < CALLS_PER_TURN_MAX

    with ScriptedServer({ApiKey.METADATA: lambda *_: large}) as server:
        asyncio.run(scenario(server))
