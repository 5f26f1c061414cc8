"""Produce requests that arrive before the broker knows that it leads the partition."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.errors import ErrorCode
from kcli.metadata.image import Topics
from kcli.model.pace import no_pause
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import produce
from kcli.protocol.wire.api import ApiKey
from kcli.replica import early_requests
from kcli.server.partitions.followed_partition import FollowedPartition
from rigs.data_path import NODE, BrokerRig, batch, topic_image
from rigs.loops import PATIENCE_S, until
from rigs.wire_client import Client

OTHER = 2
FOLLOWED = topic_image("t", leader=OTHER, replicas=(OTHER, NODE), isr=(OTHER, NODE), leader_epoch=7)
LONG_MS = 600_000


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the window longer than every test."""
    monkeypatch.setattr(early_requests, "WINDOW_MS", LONG_MS)


def run(directory: Path, scenario: Callable[[BrokerRig], Awaitable[None]]) -> None:
    async def main() -> None:
        async with BrokerRig(directory, FOLLOWED) as rig:
            await asyncio.wait_for(scenario(rig), 2 * PATIENCE_S)

    asyncio.run(main())


def hand_over(rig: BrokerRig, leader: int, epoch: int) -> None:
    partition = replace(
        FOLLOWED.partitions[0], leader=leader, leader_epoch=epoch, partition_epoch=epoch, isr=(leader,)
    )
    topic = replace(FOLLOWED, partitions={0: partition})
    rig.publish(replace(rig.metadata, topics=Topics({topic.topic_id: topic}, {topic.name: topic.topic_id})))


def request(sequence: int) -> produce.ProduceRequest:
    records = batch(b"a", producer_id=9, producer_epoch=0, base_sequence=sequence)
    data = produce.PartitionProduceData(index=0, records=records)
    topic = produce.TopicProduceData(name=FOLLOWED.name, topic_id=FOLLOWED.topic_id, partition_data=(data,))
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))


def row_of(response: produce.ProduceResponse) -> produce.PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


async def send(client: Client, sequence: int, version: int = 13) -> produce.PartitionProduceResponse:
    return row_of(await client.call(request(sequence), ApiKey.PRODUCE, version))


def held(rig: BrokerRig) -> bool:
    followed = rig.replicas.hosted(FOLLOWED.name, 0)
    return isinstance(followed, FollowedPartition) and followed.early is not early_requests.LONG_OVER


@pytest.mark.parametrize("version", [9, 13])
def test_an_early_request_is_held_until_the_broker_leads(tmp_path: Path, version: int) -> None:
    async def scenario(rig: BrokerRig) -> None:
        answer = asyncio.create_task(send(await rig.connect(), 0, version))
        await until(lambda: held(rig))
        hand_over(rig, NODE, 8)
        assert ((await answer).error_code, (await answer).base_offset) == (ErrorCode.NONE, 0)

    run(tmp_path, scenario)


def test_requests_of_a_connection_are_appended_in_order_after_the_hold(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        for sequence in range(3):
            client.post(request(sequence), ApiKey.PRODUCE, 13)
        await until(lambda: held(rig))
        hand_over(rig, NODE, 8)
        rows = [row_of((await client.receive(ApiKey.PRODUCE, 13))[1]) for _ in range(3)]
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 1),
            (ErrorCode.NONE, 2),
        ]

    run(tmp_path, scenario)


def test_a_held_request_is_refused_if_a_third_broker_leads(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        answer = asyncio.create_task(send(await rig.connect(), 0))
        await until(lambda: held(rig))
        hand_over(rig, 3, 8)
        row = await answer
        assert row.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (3, 8)

    run(tmp_path, scenario)


def test_a_broker_that_has_lost_the_leadership_refuses_at_once(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        client = await rig.connect()
        hand_over(rig, NODE, 8)
        assert (await send(client, 0)).error_code is ErrorCode.NONE
        hand_over(rig, OTHER, 9)
        assert (await send(client, 1)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, scenario)


def test_a_client_with_old_metadata_is_refused_at_the_end_of_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(rig: BrokerRig) -> None:
        assert (await send(await rig.connect(), 0)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER

    monkeypatch.setattr(early_requests, "WINDOW_MS", 1)
    run(tmp_path, scenario)


def test_requests_for_partitions_without_a_replica_here_are_not_held(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        assert not await rig.replicas.hold([TopicPartition("t", 5), TopicPartition("unknown", 0)], no_pause)

    run(tmp_path, scenario)
