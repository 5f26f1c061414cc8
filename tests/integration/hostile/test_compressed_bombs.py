"""Batches of few bytes that are much work: other clients are served meanwhile, and the answers are those of Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from kcli.config.topic import LogConfig
from kcli.errors import ErrorCode
from kcli.model.buffers import Buffer
from kcli.model.request_values import OffsetSpec
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch
from kcli.protocol.batches.compression import Codec, compress
from kcli.protocol.messages import api_versions, list_offsets, produce
from kcli.protocol.wire.api import ApiKey
from kcli.server.network.waiting import Waiting
from kcli.server.partitions import openings
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.record_validation import InlineBytes
from kcli.storage.log.validation import CheckedBatch, Opening
from rigs.data_path import BrokerRig, topic_image
from rigs.hostile_batches import batch_of, equal_deltas, large_values, zeros
from rigs.loops import PATIENCE_S
from rigs.wire_client import Client

TOPIC = topic_image("t", 2)
VERSION = 12
PING_VERSION = 3
COMPACTED = dataclasses.replace(LogConfig(), cleanup_policy=("compact",))
NOW_MS = int(time.time() * 1000)

TURNS_FOR_A_PING = 30
"""Turns of the loop until a ping is answered: accepting, reading, serving and the client's own reads."""


class Gate:
    """Holds every opening in its thread until `open`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._is_open = threading.Event()
        self._reached = threading.Event()
        take_turn = openings._run_turn

        def held(steps: Opening) -> tuple[CheckedBatch, ...]:
            self._reached.set()
            assert self._is_open.wait(PATIENCE_S)
            return take_turn(steps)

        patch.setattr(openings, "_run_turn", held)

    def open(self) -> None:
        self._is_open.set()

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_S)


@contextlib.asynccontextmanager
async def broker(directory: Path, config: LogConfig = COMPACTED) -> AsyncIterator[BrokerRig]:
    async with BrokerRig(directory, TOPIC, config=config) as rig:
        yield rig


def request(*batches: bytes | tuple[int, bytes], acks: int = -1) -> produce.ProduceRequest:
    parts = [batch if isinstance(batch, tuple) else (0, batch) for batch in batches]
    data = tuple(produce.PartitionProduceData(index=index, records=records) for index, records in parts)
    topic = produce.TopicProduceData(name=TOPIC.name, topic_id=TOPIC.topic_id, partition_data=data)
    return produce.ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(topic,))


def post(client: Client, *batches: bytes | tuple[int, bytes], acks: int = -1) -> None:
    client.post(request(*batches, acks=acks), ApiKey.PRODUCE, VERSION)


async def answer(client: Client) -> list[produce.PartitionProduceResponse]:
    _, response = await client.receive(ApiKey.PRODUCE, VERSION)
    return list(response.responses[0].partition_responses)


async def produced(
    client: Client, *batches: bytes | tuple[int, bytes]
) -> list[produce.PartitionProduceResponse]:
    post(client, *batches)
    return await answer(client)


async def ping(client: Client) -> int:
    """Turns of the loop until a neighbour's request is answered."""
    turns, done = 0, asyncio.Event()

    async def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await client.call(api_versions.ApiVersionsRequest(), ApiKey.API_VERSIONS, PING_VERSION)
    done.set()
    await counting
    return turns


def small(*values: bytes) -> bytes:
    return encode_batch([Record(-1, NOW_MS, b"key", value) for value in values])


def test_a_request_that_fails_keeps_its_bytes_while_a_thread_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    check = PartitionLog.check_client_batch

    def broken(log: PartitionLog, records: Buffer, now_ms: int, inline: InlineBytes | None = None) -> Any:
        if log.partition == 1:
            raise RuntimeError("a defect")
        return check(log, records, now_ms, inline)

    async def main() -> None:
        async with broker(tmp_path) as rig:
            client, neighbour = await rig.connect(), await rig.connect()
            monkeypatch.setattr(PartitionLog, "check_client_batch", broken)
            post(client, (0, equal_deltas(40_000, NOW_MS)), (1, small(b"x")))
            await gate.reached()
            await ping(neighbour)
            (pending,) = [each for connection in rig.sockets.connections for each in connection._pending]
            assert isinstance(pending, Waiting) and pending.reads_frame
            gate.open()
            assert {row.error_code for row in await answer(client)} == {ErrorCode.UNKNOWN_SERVER_ERROR}
            assert rig.replicas.get(TOPIC.name, 0).log.log_end_offset == 40_000

    asyncio.run(main())


def test_neighbours_are_answered_while_a_batch_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def main() -> None:
        async with broker(tmp_path) as rig:
            hostile, neighbour = await rig.connect(), await rig.connect()
            await ping(neighbour)
            post(hostile, equal_deltas(40_000, NOW_MS))
            await gate.reached()
            assert await ping(neighbour) <= TURNS_FOR_A_PING
            (other,) = await produced(neighbour, (1, small(b"x")))
            assert (other.error_code, other.base_offset) == (ErrorCode.NONE, 0)
            gate.open()
            (row,) = await answer(hostile)
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)
            assert rig.replicas.get("t", 0).log.log_end_offset == 40_000

    asyncio.run(main())


def test_a_million_equal_deltas_keep_turns_short(tmp_path: Path) -> None:
    """Without a gate: pings continue while the threads work on 900 bytes that are a million records."""

    async def main() -> tuple[int, int]:
        async with broker(tmp_path) as rig:
            hostile, neighbour = await rig.connect(), await rig.connect()
            post(hostile, equal_deltas(1_000_000, NOW_MS))
            opened = asyncio.create_task(answer(hostile))
            pings = 0
            while not opened.done():
                await ping(neighbour)
                pings += 1
            (row,) = opened.result()
            assert row.error_code is ErrorCode.NONE
            return pings, rig.replicas.get("t", 0).log.log_end_offset

    pings, end_offset = asyncio.run(main())
    assert end_offset == 1_000_000
    assert pings > 10


def test_later_appends_wait_for_the_batch_and_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def main() -> None:
        async with broker(tmp_path) as rig:
            clients = [await rig.connect() for _ in range(4)]
            post(clients[0], equal_deltas(40_000, NOW_MS))
            await gate.reached()
            for client in clients[1:]:
                post(client, small(b"later"))
                await ping(await rig.connect())  # so the broker has seen this one before the next
            log = rig.replicas.get("t", 0).log
            assert log.log_end_offset == 0
            gate.open()
            offsets = [(await answer(client))[0].base_offset for client in clients]
            assert offsets == [0, 40_000, 40_001, 40_002]
            (row,) = await produced(clients[0], small(b"at once"))
            assert row.base_offset == 40_003

    asyncio.run(main())


def test_the_requests_of_a_connection_wait_and_are_answered_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def main() -> None:
        async with broker(tmp_path) as rig:
            client, neighbour = await rig.connect(), await rig.connect()
            post(client, equal_deltas(40_000, NOW_MS), (1, small(b"a")))
            await gate.reached()
            for _ in range(3):
                post(client, (1, small(b"b")))
            await ping(neighbour)
            # The second partition of the first request is written, and no later request is served or copied.
            assert rig.replicas.get("t", 1).log.log_end_offset == 1
            gate.open()
            rows = await answer(client)
            assert [(row.index, row.base_offset) for row in rows] == [(0, 0), (1, 0)]
            assert [(await answer(client))[0].base_offset for _ in range(3)] == [1, 2, 3]

    asyncio.run(main())


def test_a_retry_while_the_batch_is_opened_is_a_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def main() -> None:
        async with broker(tmp_path) as rig:
            first, second = await rig.connect(), await rig.connect()
            batch = equal_deltas(40_000, NOW_MS, producer_id=7)
            post(first, batch)
            await gate.reached()
            post(second, batch)
            await ping(await rig.connect())
            gate.open()
            rows = [*await answer(first), *await answer(second)]
            assert [(row.error_code, row.base_offset) for row in rows] == [(ErrorCode.NONE, 0)] * 2
            assert rig.replicas.get("t", 0).log.log_end_offset == 40_000

    asyncio.run(main())


def test_a_leader_that_resigns_meanwhile_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    async def main() -> None:
        async with broker(tmp_path) as rig:
            client = await rig.connect()
            leader: LeaderPartition = rig.replicas.get("t", 0)
            post(client, equal_deltas(40_000, NOW_MS))
            await gate.reached()
            leader.resign()
            gate.open()
            (row,) = await answer(client)
            assert row.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert leader.log.log_end_offset == 0

    asyncio.run(main())


def test_without_acks_an_error_closes_and_success_says_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker(tmp_path) as rig:
            client, wrong = await rig.connect(), await rig.connect()
            post(client, equal_deltas(40_000, NOW_MS), acks=0)
            (row,) = await produced(client, small(b"after"))
            assert row.base_offset == 40_000
            post(wrong, zeros(4_000_000, NOW_MS, codec=Codec.ZSTD), acks=0)
            assert await wrong.at_end()

    asyncio.run(main())


WRONG = {
    "zeros": (zeros(300 << 20, NOW_MS, codec=Codec.ZSTD), ErrorCode.INVALID_RECORD),
    "zeros in lz4": (zeros(4 << 20, NOW_MS, codec=Codec.LZ4), ErrorCode.INVALID_RECORD),
    "compressed bytes that claim to be plain": (
        batch_of([compress(Codec.LZ4, bytes(1_000))], 1, NOW_MS, Codec.NONE),
        ErrorCode.INVALID_RECORD,
    ),
    "more records than counted": (
        batch_of(
            [encode_batch([Record(0, NOW_MS, b"k", b"v")])[HEADER_SIZE:] * 300_000],
            299_999,
            NOW_MS,
            Codec.ZSTD,
        ),
        ErrorCode.INVALID_RECORD,
    ),
    "fewer records than counted": (
        batch_of(
            [encode_batch([Record(0, NOW_MS, b"k", b"v")])[HEADER_SIZE:] * 300_000],
            300_001,
            NOW_MS,
            Codec.ZSTD,
        ),
        ErrorCode.INVALID_RECORD,
    ),
    "a large record with a wrong field": (
        batch_of([b"\x80\x80\x80\x10\x00\x00\x00\x02k\x7f", bytes(16 << 20)], 1, NOW_MS, Codec.ZSTD),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_bytes_are_refused_with_kafkas_code_and_one_line(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    batch, code = WRONG[name]

    async def main() -> None:
        async with broker(tmp_path) as rig:
            client = await rig.connect()
            (row,) = await produced(client, batch)
            assert (row.error_code, row.base_offset) == (code, -1)
            (row,) = await produced(client, small(b"good"))
            assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 0)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    (line,) = caplog.messages
    assert line.startswith(
        "Refusing a batch for partition t-0 from 127.0.0.1 (client id test) with " + code.name
    )


def test_a_stream_that_ends_too_early(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = large_values(3, 1_000_000, NOW_MS)
    cut = bytearray(whole[:-6])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    cut[17:21] = crc32c(bytes(cut[21:])).to_bytes(4, "big")

    async def main() -> None:
        async with broker(tmp_path) as rig:
            (row,) = await produced(await rig.connect(), bytes(cut))
            assert row.error_code is ErrorCode.UNKNOWN_SERVER_ERROR

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "A zstd batch cannot be decompressed: the stream ends too early" in caplog.messages[0]


def test_large_sound_batches_are_accepted(tmp_path: Path) -> None:
    """300 MB of sound records in 12 kB, and one record of 200 MB."""

    async def main() -> None:
        async with broker(tmp_path) as rig:
            client = await rig.connect()
            for batch, offset in (
                (large_values(300, 1_000_000, NOW_MS), 0),
                (large_values(1, 200_000_000, NOW_MS), 300),
            ):
                (row,) = await produced(client, batch)
                assert (row.error_code, row.base_offset) == (ErrorCode.NONE, offset)
            assert rig.replicas.get("t", 0).log.size_bytes < 100_000

    asyncio.run(main())


def test_a_rebuilt_batch_ends_at_its_limit(tmp_path: Path) -> None:
    plain = dataclasses.replace(COMPACTED, compression_type="uncompressed")

    async def main() -> None:
        async with broker(tmp_path, plain) as rig:
            (row,) = await produced(await rig.connect(), large_values(300, 1_000_000, NOW_MS))
            assert row.error_code is ErrorCode.MESSAGE_TOO_LARGE

    asyncio.run(main())


def test_an_answer_names_a_thousand_records_at_most(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker(tmp_path) as rig:
            (row,) = await produced(await rig.connect(), equal_deltas(100_000, NOW_MS, key=None))
            assert row.error_code is ErrorCode.INVALID_RECORD
            assert [each.batch_index for each in row.record_errors] == list(range(1000))
            assert row.error_message.startswith(
                "One or more records have been rejected due to 100000 record errors in total"
            )

    asyncio.run(main())


def test_a_time_inside_a_stored_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ListOffsets by time reads 200 MB of records in a thread, and finds the right one."""

    async def main() -> None:
        async with broker(tmp_path) as rig:
            client, neighbour = await rig.connect(), await rig.connect()
            await produced(client, large_values(200, 1_000_000, NOW_MS, step_ms=10))
            gate = Gate(monkeypatch)
            times = (NOW_MS + 1_495, OffsetSpec.MAX_TIMESTAMP, NOW_MS + 2_000, OffsetSpec.EARLIEST)
            for time_ms in times:
                part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=time_ms)
                topic = list_offsets.ListOffsetsTopic(name="t", partitions=(part,))
                asked = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))
                client.post(asked, ApiKey.LIST_OFFSETS, 7)
            await gate.reached()
            assert await ping(neighbour) <= TURNS_FOR_A_PING
            gate.open()
            found = []
            for _ in times:
                _, response = await client.receive(ApiKey.LIST_OFFSETS, 7)
                row = response.topics[0].partitions[0]
                found.append((row.error_code, row.offset, row.timestamp))
            assert found == [
                (ErrorCode.NONE, 150, NOW_MS + 1_500),
                (ErrorCode.NONE, 199, NOW_MS + 1_990),
                (ErrorCode.NONE, -1, -1),
                (ErrorCode.NONE, 0, -1),
            ]

    asyncio.run(main())


def test_many_partitions_are_looked_up_in_slices(tmp_path: Path) -> None:
    async def main() -> None:
        async with broker(tmp_path) as rig:
            client, neighbour = await rig.connect(), await rig.connect()
            await ping(neighbour)
            parts = tuple(
                list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
                for index in range(30_000)
            )
            topic = list_offsets.ListOffsetsTopic(name="t", partitions=parts)
            client.post(
                list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,)), ApiKey.LIST_OFFSETS, 7
            )
            assert await ping(neighbour) <= TURNS_FOR_A_PING
            _, response = await client.receive(ApiKey.LIST_OFFSETS, 7)
            codes = [row.error_code for row in response.topics[0].partitions]
            assert codes[:2] == [ErrorCode.NONE] * 2
            assert set(codes[2:]) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} and len(codes) == 30_000

    asyncio.run(main())
