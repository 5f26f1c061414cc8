"""A Fetch of very many partitions: it is answered in full, and the others are served meanwhile."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kcli.errors import ErrorCode
from kcli.protocol.messages import api_versions, fetch
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.turns import TURN_COST_MAX
from kcli.server.handlers.shared import partition_reads
from rigs.data_path import BrokerRig, batch, image_of, topic_image
from rigs.leader_appends import append_batch
from rigs.loops import PATIENCE_S, until
from rigs.wire_client import Client

PARTITIONS = 20_000
READS_PER_TURN = TURN_COST_MAX // partition_reads.READ_COST
TOPIC = topic_image("t", 1)


def run(directory: Path, scenario: Callable[[BrokerRig], Awaitable[None]]) -> None:
    async def main() -> None:
        async with BrokerRig(directory, TOPIC) as rig:
            await scenario(rig)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def large_fetch(**fields: Any) -> fetch.FetchRequest:
    """A fetch of unknown partitions, and of one with records, which is the last."""
    unknown = tuple(
        fetch.FetchTopic(topic=f"u{number}", partitions=(fetch.FetchPartition(partition=number),))
        for number in range(PARTITIONS - 1)
    )
    known = fetch.FetchTopic(
        topic="t", partitions=(fetch.FetchPartition(partition=0, partition_max_bytes=1_000_000),)
    )
    limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 10_000_000, "session_epoch": -1}
    return fetch.FetchRequest(**{**limits, **fields}, topics=(*unknown, known))


async def ping(client: Client) -> None:
    request = api_versions.ApiVersionsRequest(client_software_name="n", client_software_version="1")
    await client.call(request, ApiKey.API_VERSIONS, 3)


def test_it_is_answered_in_full_and_in_order(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        records = batch(b"here")
        append(rig, records)
        client = await rig.connect()
        response = await client.call(large_fetch(), ApiKey.FETCH, 12)
        assert [topic.topic for topic in response.responses] == [
            *(f"u{number}" for number in range(PARTITIONS - 1)),
            "t",
        ]
        codes = {topic.partitions[0].error_code for topic in response.responses[:-1]}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(response.responses[-1].partitions[0].records) == len(records)

    run(tmp_path, scenario)


def append(rig: BrokerRig, records: bytes, topic: str = "t") -> None:
    leader = rig.replicas.get(topic, 0)
    append_batch(leader, bytearray(records), acks=1, now_ms=1_700_000_000_000)


def test_neighbours_are_served_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = 0
    read_one = partition_reads.read_partition

    def counting(*arguments: Any, **options: Any) -> partition_reads.PartitionRead:
        nonlocal reads
        reads += 1
        return read_one(*arguments, **options)

    monkeypatch.setattr(partition_reads, "read_partition", counting)

    async def scenario(rig: BrokerRig) -> None:
        client, neighbour = await rig.connect(), await rig.connect()
        await ping(neighbour)
        answer = asyncio.ensure_future(client.call(large_fetch(), ApiKey.FETCH, 12))
        await until(lambda: reads)
        worst = 0
        while reads < PARTITIONS:
            before = reads
            await ping(neighbour)
            worst = max(worst, reads - before)
        # A ping takes a few iterations of the event loop, because the neighbour runs on it too.
        assert worst <= 10 * READS_PER_TURN
        await asyncio.wait_for(answer, PATIENCE_S)

    run(tmp_path, scenario)


def test_full_collections_are_as_frequent_as_before_it(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        usual = gc.get_threshold()
        client = await rig.connect()
        await client.call(large_fetch(), ApiKey.FETCH, 12)
        assert gc.get_threshold() == usual

    run(tmp_path, scenario)


def test_a_session_of_many_partitions_is_read_in_turns_too(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        opened = await client.call(large_fetch(session_epoch=0), ApiKey.FETCH, 12)
        assert opened.session_id > 0
        append(rig, batch(b"news"))
        again = fetch.FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, session_id=opened.session_id, session_epoch=1
        )
        response = await client.call(again, ApiKey.FETCH, 12)
        assert len(response.responses) == PARTITIONS, "partitions in error are repeated"
        assert response.responses[-1].partitions[0].records

    run(tmp_path, scenario)


def test_records_that_come_while_it_is_read_end_its_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_one, reads = partition_reads.read_partition, 0
    wide = topic_image("wide", 300)

    async def scenario(rig: BrokerRig) -> None:
        def reading(*arguments: Any, **options: Any) -> partition_reads.PartitionRead:
            nonlocal reads
            reads += 1
            found = read_one(*arguments, **options)
            if reads == READS_PER_TURN:
                append(rig, batch(b"while it is read"), "wide")
            return found

        monkeypatch.setattr(partition_reads, "read_partition", reading)
        rig.set_metadata(image_of(TOPIC, wide))
        client = await rig.connect()
        wants = tuple(fetch.FetchPartition(partition=index, partition_max_bytes=1000) for index in range(300))
        request = fetch.FetchRequest(
            max_wait_ms=600_000, min_bytes=1, max_bytes=1_000_000, session_epoch=-1,
            topics=(fetch.FetchTopic(topic="wide", topic_id=wide.topic_id, partitions=wants),),
        )  # fmt: skip
        response = await asyncio.wait_for(client.call(request, ApiKey.FETCH, 12), PATIENCE_S)
        assert response.responses[0].partitions[0].records

    run(tmp_path, scenario)
