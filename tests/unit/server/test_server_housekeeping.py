"""The work of the active controller over time: fencing, elections without a request, and decisions in steps."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from kcli.config.features import supported_ranges
from kcli.controller.api import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CREATE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
)
from kcli.errors import ErrorCode
from kcli.metadata.image import PartitionImage
from kcli.protocol.messages import alter_partition as ap
from kcli.protocol.messages import broker_heartbeat as hb
from kcli.protocol.messages import broker_registration as br
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.records.metadata import PartitionChangeRecord, RegisterBrokerRecord, TopicRecord
from rigs.loops import PATIENCE_S, until
from rigs.quorum import QuorumRig, batches

OTHER = 2
"""A broker of the same cluster, of which only the requests exist."""


def run(story: Callable[[QuorumRig], Awaitable[None]], **overrides: str) -> None:
    async def main() -> None:
        async with QuorumRig(**overrides) as rig:
            await story(rig)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def registration(rig: QuorumRig, broker_id: int) -> br.BrokerRegistrationRequest:
    return br.BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=rig.loader.image.cluster_id,
        incarnation_id=uuid.UUID(int=broker_id * 1000),
        listeners=(br.Listener(name="PLAINTEXT", host="host", port=9092),),
        features=tuple(
            br.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_ranges().items()
        ),
        log_dirs=(uuid.UUID(int=broker_id * 10_000),),
    )


async def beat(rig: QuorumRig, **wants: bool) -> hb.BrokerHeartbeatResponse:
    request = hb.BrokerHeartbeatRequest(
        broker_id=OTHER,
        broker_epoch=rig.loader.image.brokers[OTHER].epoch,
        current_metadata_offset=rig.loader.image.offset,
        **wants,
    )
    return await rig.controller.send(BROKER_HEARTBEAT, request)


async def join(rig: QuorumRig) -> None:
    await rig.controller.send(BROKER_REGISTRATION, registration(rig, OTHER))
    assert not (await beat(rig)).is_fenced


async def create(rig: QuorumRig, name: str, *replicas: list[int]) -> None:
    assignments = tuple(
        ct.CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(each))
        for number, each in enumerate(replicas)
    )
    topic = ct.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    response = await rig.controller.send(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))
    assert response.topics[0].error_code is ErrorCode.NONE


def partition(rig: QuorumRig, topic: str) -> PartitionImage:
    found = rig.loader.image.partition(topic, 0)
    assert found is not None
    return found


async def alter_isr(rig: QuorumRig, topic: str, *isr: int) -> None:
    present = partition(rig, topic)
    asked = ap.RequestPartitionData(
        partition_index=0,
        leader_epoch=present.leader_epoch,
        partition_epoch=present.partition_epoch,
        new_isr_with_epochs=tuple(ap.BrokerState(broker_id=each) for each in isr),
    )
    request = ap.AlterPartitionRequest(
        broker_id=present.leader,
        broker_epoch=rig.loader.image.brokers[present.leader].epoch,
        topics=(ap.RequestTopicData(topic_id=rig.loader.image.topics.ids[topic], partitions=(asked,)),),
    )
    response = await rig.controller.send(ALTER_PARTITION, request)
    assert response.topics[0].partitions[0].error_code is ErrorCode.NONE


def test_a_silent_broker_is_fenced() -> None:
    async def story(rig: QuorumRig) -> None:
        await join(rig)
        rig.clock.ms += 90
        await asyncio.sleep(0.05)
        assert not rig.loader.image.brokers[OTHER].fenced
        rig.clock.ms += 20
        await until(lambda: rig.loader.image.brokers[OTHER].fenced)

    run(story, **{"broker.session.timeout.ms": "100"})


def test_an_unclean_election_comes_as_soon_as_it_is_allowed() -> None:
    async def story(rig: QuorumRig) -> None:
        await join(rig)
        await create(rig, "t", [OTHER, 1])
        await alter_isr(rig, "t", OTHER)
        await beat(rig, want_fence=True)
        assert partition(rig, "t").leader == -1
        config = ic.AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
        resource = ic.AlterConfigsResource(resource_type=2, resource_name="t", configs=(config,))
        request = ic.IncrementalAlterConfigsRequest(resources=(resource,))
        await rig.controller.send(INCREMENTAL_ALTER_CONFIGS, request)
        await until(lambda: partition(rig, "t").leader == 1)

    run(story)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_preferred_replica_leads_again_after_the_interval(enabled: bool) -> None:
    async def story(rig: QuorumRig) -> None:
        await join(rig)
        await create(rig, "t", [OTHER, 1])
        await beat(rig, want_fence=True)
        await beat(rig)
        await alter_isr(rig, "t", 1, OTHER)
        assert partition(rig, "t").leader == 1
        if enabled:
            await until(lambda: partition(rig, "t").leader == OTHER)
        else:
            await asyncio.sleep(1.2)
            assert partition(rig, "t").leader == 1
            await beat(rig, want_fence=True)  # the stop of the other broker would wait for its heartbeats

    run(
        story,
        **{
            "auto.leader.rebalance.enable": str(enabled).lower(),
            "leader.imbalance.check.interval.seconds": "1",
        },
    )


# Steps.


def test_other_requests_are_decided_between_two_steps_but_no_other_broker_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kcli.controller.decision.PARTITIONS_PER_STEP", 1)

    async def story(rig: QuorumRig) -> None:
        await join(rig)
        await create(rig, "t", *[[OTHER, 1]] * 10)
        order: list[str] = []

        async def noted(name: str, request: Awaitable[object]) -> None:
            await request
            order.append(name)

        await asyncio.gather(
            noted("leave", beat(rig, want_shut_down=True)),
            noted("register", rig.controller.send(BROKER_REGISTRATION, registration(rig, 3))),
            noted("create", create(rig, "u", [1])),
        )
        kinds = [
            type(record)
            for _, records in batches(rig.disk)
            for record in records
            if isinstance(record, PartitionChangeRecord | RegisterBrokerRecord | TopicRecord)
        ]
        changes = [place for place, kind in enumerate(kinds) if kind is PartitionChangeRecord][-10:]
        topic = max(place for place, kind in enumerate(kinds) if kind is TopicRecord)
        broker = max(place for place, kind in enumerate(kinds) if kind is RegisterBrokerRecord)
        assert changes[0] < topic < changes[-1] < broker
        assert order.index("leave") < order.index("register")

    run(story)


def test_the_steps_continue_without_their_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.controller.decision.PARTITIONS_PER_STEP", 1)

    async def story(rig: QuorumRig) -> None:
        await join(rig)
        await create(rig, "t", *[[OTHER, 1]] * 10)
        leaving = asyncio.create_task(beat(rig, want_shut_down=True))
        await until(lambda: rig.loader.image.brokers[OTHER].in_controlled_shutdown)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await rig.controller.send(BROKER_REGISTRATION, registration(rig, 3))
        topic = rig.loader.image.topics.topic("t")
        assert topic is not None
        assert {each.leader for each in topic.partitions.values()} == {1}

    run(story)
