"""Clients that do not read their answers: the broker holds a small constant for each of them, and serves the others."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import uvloop

from kcli.model.buffers import Part
from kcli.protocol.messages import api_versions, fetch
from kcli.protocol.wire.api import ApiKey
from kcli.server.network.answer_sender import PIECE_SIZE_BYTES
from kcli.server.network.connection import Connection
from kcli.server.network.listener_settings import ListenerSettings
from rigs.data_path import BrokerRig, batch, topic_image
from rigs.leader_appends import append_batch
from rigs.loops import until
from rigs.wire_client import Client, connect

PARTITIONS = 10
RECORDS_BYTES = 2_000_000
READERS = 20
TOPIC = topic_image("t", PARTITIONS)


def write_records(rig: BrokerRig) -> None:
    records = batch(bytes(RECORDS_BYTES // 2))
    for partition in range(PARTITIONS):
        leader = rig.replicas.get("t", partition)
        for _ in range(2):
            append_batch(leader, bytearray(records), acks=1, now_ms=1_700_000_000_000)


def fetch_all() -> fetch.FetchRequest:
    wants = tuple(
        fetch.FetchPartition(partition=index, partition_max_bytes=2**31 - 1) for index in range(PARTITIONS)
    )
    topics = (fetch.FetchTopic(topic="t", topic_id=TOPIC.topic_id, partitions=wants),)
    return fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=2**31 - 1, session_epoch=-1, topics=topics
    )


async def ping(client: Client) -> None:
    request = api_versions.ApiVersionsRequest(client_software_name="n", client_software_version="1")
    await client.call(request, ApiKey.API_VERSIONS, 3)


def reading(client: Client) -> asyncio.Transport:
    """The transport of a client, which can stop reading."""
    return cast(asyncio.Transport, client.writer.transport)


def senders_of(rig: BrokerRig) -> list[Connection]:
    return [each for each in rig.sockets.connections if each.is_sending]


def remove_segments(directory: Path) -> None:
    for path in directory.rglob("*.log"):
        path.unlink()


def run(directory: Path, scenario: Callable[[BrokerRig], Awaitable[None]]) -> None:
    async def main() -> None:
        async with BrokerRig(directory, TOPIC) as rig:
            write_records(rig)
            await scenario(rig)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_unread_fetches_stay_in_their_files(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        await ping(await rig.connect())
        tracemalloc.start()
        for _ in range(READERS):
            client = await rig.connect()
            reading(client).pause_reading()
            client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == READERS)
        held, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rig.sockets.shared.sending.unsent_bytes < READERS * 10_000
        assert held < READERS * 2 * PIECE_SIZE_BYTES + 2_000_000
        await ping(await rig.connect())

    run(tmp_path, scenario)


def test_a_client_that_reads_late_gets_every_byte(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        reading(client).pause_reading()
        client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == 1)
        reading(client).resume_reading()
        _, response = await client.receive(ApiKey.FETCH, 12)
        expected = rig.replicas.get("t", 0).log.read(0, 2**31, end_offset=2).read()
        rows = response.responses[0].partitions
        assert [bytes(row.records) for row in rows] == [expected] * PARTITIONS
        await ping(client)

    run(tmp_path, scenario)


def test_a_client_that_closes_its_sending_side_gets_its_answer(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        reading(client).pause_reading()
        client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == 1)
        client.writer.write_eof()
        await asyncio.sleep(0.05)
        reading(client).resume_reading()
        _, response = await client.receive(ApiKey.FETCH, 12)
        assert sum(len(row.records) for row in response.responses[0].partitions) > PARTITIONS * RECORDS_BYTES
        assert await client.at_end()

    run(tmp_path, scenario)


def test_records_deleted_while_they_are_sent_still_arrive(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        reading(client).pause_reading()
        client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == 1)
        remove_segments(tmp_path)
        reading(client).resume_reading()
        _, response = await client.receive(ApiKey.FETCH, 12)
        assert sum(len(row.records) for row in response.responses[0].partitions) > PARTITIONS * RECORDS_BYTES

    run(tmp_path, scenario)


def test_a_lost_connection_releases_its_answers(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        reading(client).pause_reading()
        client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == 1)
        (connection,) = senders_of(rig)
        client.writer.transport.abort()
        await until(lambda: connection not in rig.sockets.connections)
        assert not connection.is_sending
        assert rig.sockets.shared.sending.unsent_bytes == 0
        assert not rig.sockets.shared.sending.senders

    run(tmp_path, scenario)


def test_the_slowest_reader_is_closed_when_unsent_answers_fill_their_limit(tmp_path: Path) -> None:
    served_count = [0]

    def serve(_connection: Connection, _frame: memoryview) -> list[Part]:
        served_count[0] += 1
        return [(20_000_000).to_bytes(4, "big"), bytes(20_000_000)]

    async def scenario(rig: BrokerRig) -> None:
        large = await rig.sockets.listen(ListenerSettings("LARGE", "127.0.0.1", 0), serve)
        sending = rig.sockets.shared.sending
        sending.unsent_max_bytes = 50_000_000
        clients = []
        for _ in range(4):
            client = await connect(large.port)
            clients.append(client)
            reading(client).pause_reading()
            client.writer.write(b"\x00\x00\x00\x01x")
            await until(lambda: served_count[0] == len(clients))
            await asyncio.sleep(0.05)
            assert sending.unsent_bytes <= 50_000_000
        # The first clients made no progress for the longest time.
        await until(lambda: len(large.served) == 2)
        reading(clients[3]).resume_reading()
        assert len(await clients[3].reader.readexactly(20_000_004)) == 20_000_004
        for client in clients:
            client.writer.transport.abort()

    run(tmp_path, scenario)


def test_a_disk_error_in_the_middle_of_an_answer_closes_the_connection(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        reading(client).pause_reading()
        client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == 1)
        log = rig.replicas.get("t", 9).log
        log.segments[0].files.log.file().close()  # each read of it fails from now on
        reading(client).resume_reading()
        assert len(await client.reader.read(-1)) < PARTITIONS * RECORDS_BYTES
        assert rig.logs.directories[0].error is not None

    run(tmp_path, scenario)
