"""Many partitions in one request: others are served in between, and what is not taken up yet is not led yet."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import NotLeaderOrFollowerException, UnknownTopicOrPartitionException
from kcli.metadata.delta import MetadataDelta
from kcli.protocol.records.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from kcli.server.partitions.replicas import AT_ONCE_PARTITIONS, SLICE_PARTITIONS
from rigs.data_path import NODE, BrokerRig
from rigs.loops import until

COUNT = 4 * SLICE_PARTITIONS + 7
TOPIC_ID = uuid.uuid5(uuid.NAMESPACE_DNS, "big")


def topic_records(name: str, topic_id: uuid.UUID, count: int) -> list[PartitionRecord | TopicRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=(NODE,),
                isr=(NODE,),
                leader=NODE,
                leader_epoch=0,
                partition_epoch=0,
            )
            for number in range(count)
        ),
    ]


def commit(rig: BrokerRig, *records: PartitionRecord | RemoveTopicRecord | TopicRecord) -> None:
    """As the quorum does: one delta, then the replicas hear of it."""
    delta = MetadataDelta(rig.metadata)
    for record in records:
        delta.replay(record)
    rig.metadata = delta.apply(rig.metadata.offset + 1, 1, 0)
    rig.replicas.apply(delta, rig.metadata)


def run(directory: Path, scenario: Callable[..., Any]) -> None:
    async def main() -> None:
        async with BrokerRig(directory) as rig:
            # In a thread, as a broker has it.
            loop = asyncio.get_running_loop()
            rig.replicas = rig.make_replicas(lambda work: loop.run_in_executor(None, work))
            await scenario(rig)

    asyncio.run(main())


def test_few_are_led_at_once(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        commit(rig, *topic_records("big", TOPIC_ID, AT_ONCE_PARTITIONS))
        assert len(rig.replicas) == AT_ONCE_PARTITIONS

    run(tmp_path, scenario)


def test_many_are_led_in_slices(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        sizes = []
        commit(rig, *topic_records("big", TOPIC_ID, COUNT))
        assert len(rig.replicas) == 0
        with pytest.raises(NotLeaderOrFollowerException):
            rig.replicas.get("big", COUNT - 1)  # retriable, and no word of a broken disk
        with pytest.raises(UnknownTopicOrPartitionException):
            rig.replicas.get("big", COUNT)

        def all_led() -> bool:
            if not sizes or sizes[-1] != len(rig.replicas):
                sizes.append(len(rig.replicas))
            return len(rig.replicas) == COUNT

        await until(all_led)
        assert set(sizes) <= {*range(0, COUNT, SLICE_PARTITIONS), COUNT}
        assert len(sizes) > 2
        assert rig.replicas.get("big", COUNT - 1).log.topic_id == TOPIC_ID
        await until(lambda: all(leader.log.durability.is_settled for leader in rig.replicas))

    run(tmp_path, scenario)


def test_changes_keep_their_order(tmp_path: Path) -> None:
    other_id = uuid.uuid5(uuid.NAMESPACE_DNS, "other")

    async def scenario(rig: BrokerRig) -> None:
        commit(rig, *topic_records("big", TOPIC_ID, COUNT))
        commit(rig, RemoveTopicRecord(topic_id=TOPIC_ID))
        commit(rig, *topic_records("big", other_id, 3))
        await until(lambda: len(rig.replicas) == 3 and rig.replicas.get("big", 2).log.topic_id == other_id)
        await asyncio.sleep(0.05)
        assert sorted(rig.logs.logs) == [("big", number) for number in range(3)]
        commit(rig, RemoveTopicRecord(topic_id=other_id))
        assert len(rig.replicas) == 0 and rig.logs.logs == {}

    run(tmp_path, scenario)


def test_a_store_that_is_closed_meanwhile_gets_no_more_logs(tmp_path: Path) -> None:
    async def scenario(rig: BrokerRig) -> None:
        commit(rig, *topic_records("big", TOPIC_ID, COUNT))
        await until(lambda: len(rig.replicas) > 0)
        await asyncio.to_thread(rig.logs.close)
        led = len(rig.replicas)
        await asyncio.sleep(0.1)
        assert len(rig.replicas) == led

    run(tmp_path, scenario)
