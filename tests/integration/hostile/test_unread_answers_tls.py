"""Clients with TLS that do not read their answers, or send bytes that are not TLS: the same limits hold as without TLS,
although the broker cannot send encrypted records straight from a file."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import socket
import ssl
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest
import uvloop

from kcli.protocol.messages import api_versions, fetch
from kcli.protocol.wire.api import ApiKey
from kcli.server.network.answer_sender import PIECE_SIZE_BYTES
from kcli.server.network.connection import Connection
from kcli.server.network.tls_transport import READ_SIZE_BYTES, RECORD_SIZE_BYTES, ServerTls
from rigs.certificates import Certificates
from rigs.data_path import BrokerRig, batch, topic_image
from rigs.leader_appends import append_batch
from rigs.loops import PATIENCE_S, until
from rigs.tls import context_of, server_context_of
from rigs.wire_client import Client

PARTITIONS = 7
RECORDS_BYTES = 2_000_000
READERS = 20
TOPIC = topic_image("t", PARTITIONS)
OPENSSL_BYTES_MAX = 200_000
"""What OpenSSL holds for a connection: two buffers, the certificates and the keys. Measured: 60 to 120 kB."""


def write_records(rig: BrokerRig) -> None:
    records = batch(os.urandom(RECORDS_BYTES // 2))
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
    return cast(asyncio.Transport, client.writer.transport)


def senders_of(rig: BrokerRig) -> list[Connection]:
    return [each for each in rig.sockets.connections if each.is_sending]


def run(
    directory: Path, certificates: Certificates, scenario: Callable[[BrokerRig], Awaitable[None]]
) -> None:
    async def main() -> None:
        rig = BrokerRig(directory, TOPIC)
        rig.tls, rig.client_tls = ServerTls(server_context_of(certificates)), context_of(certificates)
        async with rig:
            write_records(rig)
            await asyncio.wait_for(scenario(rig), 2 * PATIENCE_S)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_an_unread_answer_of_13_mb_stays_in_its_files(tmp_path: Path, certificates: Certificates) -> None:
    async def scenario(rig: BrokerRig) -> None:
        await ping(await rig.connect())
        clients = [await rig.connect() for _ in range(READERS)]
        for client in clients:
            await ping(client)
            reading(client).pause_reading()
        before = resident_bytes()
        tracemalloc.start()
        for client in clients:
            client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == READERS)
        held, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rig.sockets.shared.sending.unsent_bytes < READERS * 10_000
        assert held < READERS * 2 * PIECE_SIZE_BYTES + 2_000_000
        # The memory of OpenSSL, of the client and of the event loop too: 280 MB of answers are unread.
        assert resident_bytes() - before < READERS * (OPENSSL_BYTES_MAX + 6 * PIECE_SIZE_BYTES) + 20_000_000
        await ping(await rig.connect())

    run(tmp_path, certificates, scenario)


def test_a_client_that_reads_late_gets_every_byte(tmp_path: Path, certificates: Certificates) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        reading(client).pause_reading()
        client.post(fetch_all(), ApiKey.FETCH, 12)
        await until(lambda: len(senders_of(rig)) == 1)
        reading(client).resume_reading()
        _, response = await client.receive(ApiKey.FETCH, 12)
        rows = response.responses[0].partitions
        for row in rows:
            log = rig.replicas.get("t", row.partition_index).log
            assert bytes(row.records) == log.read(0, 2**31, end_offset=2).read()
        assert len(rows) == PARTITIONS
        await ping(client)

    run(tmp_path, certificates, scenario)


def test_pipelined_requests_of_any_size_are_answered_in_order(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        rng = random.Random(7)
        sent = []
        for _ in range(300):
            # A long client id makes requests that need several records of TLS and several reads.
            name = "c" * rng.choice((1, 100, 3_000, RECORD_SIZE_BYTES, READ_SIZE_BYTES - 1))
            request = api_versions.ApiVersionsRequest(client_software_name="n", client_software_version="1")
            sent.append(client.post(request, ApiKey.API_VERSIONS, 3, name))
        received = [(await client.receive(ApiKey.API_VERSIONS, 3))[0] for _ in sent]
        assert received == sent

    run(tmp_path, certificates, scenario)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_tls_closes_the_connection_and_nothing_else(
    tmp_path: Path, certificates: Certificates, seed: int
) -> None:
    """Sends a handshake whose bytes are cut, repeated or changed, and records that no key has encrypted."""
    rng = random.Random(seed)

    def attack(port: int) -> None:
        context = context_of(certificates)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", port)) as opened:
            opened.settimeout(PATIENCE_S)
            steps = rng.randrange(2)  # the broker answers only the first message
            for step in range(2):
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                hello = bytearray(outgoing.read())
                if step >= steps:
                    break
                opened.sendall(hello)
                incoming.write(opened.recv(65536))
            for _ in range(rng.randrange(1, 5)):
                if hello:
                    hello[rng.randrange(len(hello))] ^= 1 << rng.randrange(8)
            noise = struct.pack(">BHH", 0x17, 0x0303, 1000) + rng.randbytes(1000)
            try:
                opened.sendall(bytes(hello[: rng.randrange(len(hello) + 1)]) + noise)
                opened.shutdown(socket.SHUT_WR)
                while opened.recv(65536):
                    pass
            except OSError:
                return  # the broker has closed the connection first

    async def scenario(rig: BrokerRig) -> None:
        for _ in range(15):
            await asyncio.to_thread(attack, rig.listener.port)
        await until(lambda: not rig.sockets.connections)
        client = await rig.connect()
        await ping(client)

    run(tmp_path, certificates, scenario)
