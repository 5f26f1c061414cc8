"""The beans of Kafka 4.1: each exists with its attributes and is moved by an action, or does not exist for a reason."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.metadata.image import PartitionImage
from kcli.model.ids import BrokerId, LeaderEpoch
from kcli.protocol.messages import alter_client_quotas as aq
from kcli.protocol.messages import api_versions, fetch, metadata, produce
from kcli.protocol.messages import delete_records as dr
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.server.beans.bean import single_beans
from kcli.server.beans.broker_beans import broker_beans
from kcli.server.beans.purgatory_beans import purgatory_beans
from kcli.server.beans.traffic_beans import traffic_beans
from kcli.server.quorum.counts import PartitionCounts
from rigs import kafka_beans
from rigs.data_path import BrokerRig, batch, topic_image
from rigs.groups import Speaker, running
from rigs.loops import on_a_loop, until
from rigs.node import connect, create, read, send
from rigs.transactions import SETTINGS, Session
from rigs.two_roles import running_apart
from rigs.wire_client import Client

Beans = dict[str, dict[str, Any]]
BATCH = batch(b"a", b"b", b"c")
WAIT_MS = 200
METADATA = (metadata.MetadataRequest(topics=()), ApiKey.METADATA, 9)


def beans_of(node: Any) -> Beans:
    """The attributes of each bean, by its object name."""
    return {
        each.object_name: dict(each.attributes)
        for several in broker_beans(node.metrics_endpoint._sources)
        if several is not None
        for each in single_beans(several)
    }


def wanted(offset: int = 0, **fields: Any) -> fetch.FetchRequest:
    row = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    return fetch.FetchRequest(topics=(fetch.FetchTopic(topic="t", partitions=(row,)),), **fields)


def produced(topic: str, records: bytes, timeout_ms: int = 1000) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(index=0, records=records)
    topics = (produce.TopicProduceData(name=topic, partition_data=(data,)),)
    return produce.ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=topics)


class Actions:
    """The actions of the table, in their order. Each is a method."""

    def __init__(self, it: Speaker) -> None:
        self.it, self.node, self.client = it, it.node, it.client
        self.parked: Client | None = None

    async def create(self) -> None:
        await create(self.client, "t", 2)

    async def produce(self) -> None:
        assert (await send(self.client, "t", BATCH)).error_code is ErrorCode.NONE

    async def refuse(self) -> None:
        broken, old, moved = bytearray(BATCH), bytearray(BATCH), bytearray(BATCH)
        broken[-1] ^= 1
        old[16] = 1
        moved[7] = 9
        for records in (broken, old, moved, batch(bytes(1_100_000))):
            assert (await send(self.client, "t", bytes(records))).error_code is not ErrorCode.NONE
        assert (await send(self.client, "c", batch(b"a", b"b"))).error_code is ErrorCode.INVALID_RECORD

    async def several(self) -> None:
        """Produces to two partitions, and one that does not exist. Then reads two."""
        data = tuple(produce.PartitionProduceData(index=each, records=BATCH) for each in (0, 1, 9))
        topic = produce.TopicProduceData(name="t", partition_data=data)
        request = produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))
        await self.client.call(request, ApiKey.PRODUCE, 9)
        rows = tuple(
            fetch.FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=1) for each in (0, 1)
        )
        topics = (fetch.FetchTopic(topic="t", partitions=rows),)
        await self.client.call(fetch.FetchRequest(topics=topics, max_wait_ms=0), ApiKey.FETCH, 12)

    async def read(self) -> None:
        await read(self.client, "t")

    async def follow(self) -> None:
        await self.client.call(wanted(replica_id=7, max_wait_ms=0), ApiKey.FETCH, 12)

    async def session(self) -> None:
        await self.client.call(wanted(session_epoch=0, max_wait_ms=0), ApiKey.FETCH, 12)

    async def evict(self) -> None:
        self.node.broker.fetch_sessions.slots = 1
        for session in self.node.broker.fetch_sessions:
            session.last_used_ms = 0
        await self.session()

    async def park(self) -> None:
        self.parked = await connect(self.node)
        waiting = self.node.metrics.waits.fetches
        self.parked.post(wanted(3, max_wait_ms=WAIT_MS, min_bytes=1), ApiKey.FETCH, 12)
        await until(lambda: waiting.operations == 1)

    async def expire(self) -> None:
        assert self.parked is not None
        await self.parked.receive(ApiKey.FETCH, 12)

    async def pipeline(self) -> None:
        for _ in range(100):
            self.client.post(*METADATA)
        for _ in range(100):
            await self.client.receive(ApiKey.METADATA, 9)

    async def large(self) -> None:
        await send(self.client, "t", batch(bytes(400_000)))
        await read(self.client, "t")

    async def join(self) -> None:
        await self.it.find("g")
        await self.it.member("g")

    async def commit(self) -> None:
        await self.it.find("simple")
        assert await self.it.commit({("t", 0): 1, ("t", 1): 2}, 2, "simple") == ["NONE"] * 2

    async def heartbeat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="new",
            member_id="m",
            member_epoch=0,
            topic_partitions=(),
            subscribed_topic_names=("t",),
            rebalance_timeout_ms=10_000,
        )
        answer = await self.it.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
        assert answer.error_code is ErrorCode.NONE

    async def forget(self) -> None:
        partitions = (OffsetDeleteRequestPartition(partition_index=0),)
        topics = (OffsetDeleteRequestTopic(name="t", partitions=partitions),)
        await self.it.call(ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group_id="simple", topics=topics), 0)

    async def transaction(self) -> None:
        session = Session(self.node, self.client)
        await session.init()
        assert await session.send("a", version=11) is not ErrorCode.NONE  # the partition was not added
        await session.add(0)
        assert await session.send("a", version=11) is ErrorCode.NONE
        await session.end(True)

    async def throttle(self) -> None:
        entity = (aq.RequestEntityData(entity_type="client-id", entity_name="greedy"),)
        ops = tuple(
            aq.OpData(key=key, value=value, remove=False)
            for key, value in (
                ("producer_byte_rate", 1.0),
                ("request_percentage", 50.0),
                ("controller_mutation_rate", 10.0),
            )
        )
        request = aq.AlterClientQuotasRequest(entries=(aq.RequestEntryData(entity=entity, ops=ops),))
        await self.client.call(request, ApiKey.ALTER_CLIENT_QUOTAS, 1)
        await until(lambda: self.node.quotas.is_active)
        maker = await connect(self.node)
        await maker.call(_new_topic("made"), ApiKey.CREATE_TOPICS, 7, "greedy")
        client = await connect(self.node)
        await client.call(produced("t", BATCH), ApiKey.PRODUCE, 9, "greedy")

    async def flush(self) -> None:
        await asyncio.to_thread(self.node.logs.flush_all)

    async def snapshot(self) -> None:
        await self.node.quorum.snapshotting.take_snapshot()

    async def connect(self) -> None:
        request = api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
        await (await connect(self.node)).call(request, ApiKey.API_VERSIONS, 3)

    async def limit(self) -> None:
        """Opens a connection above the quota of its address, and one above the creation rate of the listener."""
        sockets = self.node.sockets
        listener = sockets.listeners["PLAINTEXT"]
        counts, settings, quotas = listener.counts, listener.settings, self.node.quotas.connections
        quotas.set("127.0.0.1", 0.5)
        opened = [await connect(self.node) for _ in range(8)]
        await until(lambda: counts.quota_delays_ms.count > 0)
        quotas.set("127.0.0.1", None)
        listener.settings = replace(settings, creation_rate_max=0.01)
        listener._created.append(asyncio.get_running_loop().time())
        opened.append(await connect(self.node))
        await until(lambda: counts.rate_delays_ms.count > 0)
        listener.settings = settings
        listener._created.clear()
        sockets.admit_held()

    async def hold(self) -> None:
        sockets = self.node.sockets
        limits = sockets.limits
        sockets.limits = replace(limits, connections_max=1)
        await connect(self.node)
        await until(lambda: sockets.listeners["PLAINTEXT"].holds)
        sockets.limits = limits
        sockets.admit_held()

    async def clean(self) -> None:
        await self.node.broker.cleaning.clean_once()
        await asyncio.sleep(0.01)


def _new_topic(name: str) -> Any:
    from kcli.protocol.messages import create_topics

    topic = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=5000)


def _moved_wrongly(before: Beans, after: Beans, name: str, attribute: str, change: str) -> str:
    """The fault of a row, or an empty text."""
    if attribute not in after.get(name, {}):
        return f"{name} has no {attribute}"
    value = after[name][attribute]
    old = before.get(name, {}).get(attribute, 0)
    old = 0 if isinstance(old, float) and math.isnan(old) else old
    grown = value - old
    if grown > 0 if change == "+" else grown == int(change):
        return ""
    return f"{name} {attribute}: {old} -> {value}, expected {change}"


@on_a_loop
async def test_each_bean_exists_and_its_action_moves_it(tmp_path: Path) -> None:
    settings = {"kcli_metrics_listener": "127.0.0.1:0", "log_cleaner_enable": "false"} | SETTINGS
    async with running(tmp_path, **settings) as it:
        actions = Actions(it)
        await create(it.client, "c", cleanup_policy="compact")
        wrong = []
        rows = kafka_beans.moved()
        for action in dict.fromkeys(row[0] for row in rows):
            before = beans_of(it.node)
            act: Callable[[], Awaitable[None]] = getattr(actions, action)
            await act()
            after = beans_of(it.node)
            wrong += [
                f"{action}: {fault}"
                for name_of_action, name, attribute, change in rows
                if name_of_action == action
                and (fault := _moved_wrongly(before, after, name, attribute, change))
            ]
        assert not wrong, "\n".join(wrong)
        missing = [
            f"{name} {attribute}"
            for name, attributes in kafka_beans.standing()
            for attribute in attributes
            if attribute not in after.get(name, {})
        ]
        assert not missing, "\n".join(missing)
        _check_absent(after)


def _check_absent(found: Beans) -> None:
    words = {part for name in found for part in name.replace(":", ",").replace("=", ",").split(",")}
    words |= {attribute for attributes in found.values() for attribute in attributes}
    absent = {
        "ProduceMessageConversionsPerSec",
        "ResponseQueueTimeMs",
        "DeprecatedRequestsPerSec",
        "ShareGroupMetrics",
        "select-rate",
        "LogAppendRetryQueueSize",
        "RemoteLogManager",
        "AlterLogDirsReplication",
        "client-metrics",
        "event-queue-size",
        "cipher",
        "commit-id",
    }
    assert not absent & words


def test_the_page_lists_each_absent_bean_with_its_reason() -> None:
    page = Path("docs/metrics.md").read_text()
    text = " ".join(page.split())
    for names, reason in kafka_beans.ABSENT.items():
        assert f"{names} | {reason} |" in text.replace("`", ""), names


def _row(found: Any, name: str, **tags: str) -> dict[str, Any]:
    (row,) = [
        dict(each.attributes)
        for each in found
        if each is not None
        and each.properties.get("name") == name
        and all(each.properties.get(key) == value for key, value in tags.items())
        and "topic" not in each.properties
    ]
    return row


@on_a_loop
async def test_a_follower_moves_the_beans_of_replication(tmp_path: Path) -> None:
    image = topic_image("t", replicas=(1, 2))
    joining = {0: replace(image.partitions[0], adding=(BrokerId(2),))}
    image = replace(image, partitions=joining)
    async with BrokerRig(tmp_path, image) as rig:
        rig_: Any = rig
        sources: Any = SimpleNamespace(broker=rig, ports=rig, now=rig.clock.monotonic())
        client, other = await rig.connect(), await rig.connect()
        client.post(produced("t", BATCH, timeout_ms=WAIT_MS), ApiKey.PRODUCE, 9)
        await until(lambda: rig.metrics.waits.produces.operations == 1)
        parked = _row(purgatory_beans(rig_), "PurgatorySize", delayedOperation="Produce")
        assert parked == {"Value": 1}
        await client.receive(ApiKey.PRODUCE, 9)
        assert _row(purgatory_beans(rig_), "PurgatorySize", delayedOperation="Produce") == {"Value": 0}
        assert _row(purgatory_beans(rig_), "ExpiresPerSec", type="DelayedProduceMetrics")["Count"] == 1
        await other.call(wanted(replica_id=2, max_wait_ms=0), ApiKey.FETCH, 12)
        for name in ("ReplicationBytesOutPerSec", "ReassignmentBytesOutPerSec"):
            assert _row(traffic_beans(sources), name)["Count"] == len(BATCH)
        part = dr.DeleteRecordsPartition(partition_index=0, offset=3)
        deletion = dr.DeleteRecordsRequest(
            topics=(dr.DeleteRecordsTopic(name="t", partitions=(part,)),), timeout_ms=WAIT_MS
        )
        rig.replicas.get("t", 0).log.set_high_watermark(rig.replicas.get("t", 0).log.log_end_offset)
        client.post(deletion, ApiKey.DELETE_RECORDS, 2)
        await until(lambda: rig.metrics.waits.deletions.operations == 1)
        parked = _row(purgatory_beans(rig_), "NumDelayedOperations", delayedOperation="DeleteRecords")
        assert parked == {"Value": 1}
        await client.receive(ApiKey.DELETE_RECORDS, 2)
        assert _row(purgatory_beans(rig_), "ExpiresPerSec", type="DelayedDeleteRecordsMetrics")["Count"] == 1


@on_a_loop
async def test_a_node_with_one_role_has_the_beans_of_its_role(tmp_path: Path) -> None:
    settings = {
        "kcli_metrics_listener": "127.0.0.1:0",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    }
    async with running_apart(tmp_path, **settings) as nodes:
        before = beans_of(nodes.broker)
        client = await connect(nodes.broker)
        await create(client, "t")
        broker, controller = beans_of(nodes.broker), beans_of(nodes.controller)
        forwarded = "kafka.server:type=forwarding-metrics,BrokerId=1"
        assert broker[forwarded]["request-total"] - before[forwarded]["request-total"] == 1
        assert broker[forwarded]["connection-count"] == 1
        assert broker["kafka.server:type=ForwardingManager"]["RemoteTimeMs.p99"] > 0
        raft = broker["kafka.server:type=raft-channel-metrics"]
        assert raft["request-total"] > 0 and raft["incoming-byte-total"] > 0
        assert broker["kafka.server:type=raft-metrics"]["current-state"] == "observer"
        assert broker["kafka.server:type=raft-metrics"]["fetch-records-rate"] > 0
        assert controller["kafka.server:type=raft-metrics"]["number-of-observers"] == 1
        assert controller["kafka.controller:type=KafkaController,name=GlobalTopicCount"]["Value"] == 1
        assert not any(name.startswith("kafka.controller:") for name in broker)
        assert not any("type=KafkaServer" in name or "BrokerTopicMetrics" in name for name in controller)
        assert "kafka.server:type=ControllerServer,name=ClusterId" in controller
        client.close()


def _partition(leader: int, isr: tuple[int, ...], elr: tuple[int, ...] = ()) -> PartitionImage:
    ids = tuple(map(BrokerId, (1, 2, 3)))
    return PartitionImage(
        replicas=ids,
        isr=tuple(map(BrokerId, isr)),
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=0,
        elr=tuple(map(BrokerId, elr)),
    )


@pytest.mark.parametrize(
    ("after", "unclean", "from_eligible"),
    [(_partition(2, (2,)), 0, 0), (_partition(3, (3,)), 1, 0), (_partition(-1, ()), 0, 0)],
)
def test_elections_are_counted_by_the_state_before_them(
    after: PartitionImage, unclean: int, from_eligible: int
) -> None:
    counts = PartitionCounts()
    before: Any = SimpleNamespace(before=None, after=_partition(1, (1, 2)))
    change: Any = SimpleNamespace(before=before.after, after=after)
    for diff in (before, change):
        counts.apply(SimpleNamespace(partitions_changed=lambda diff=diff: iter((diff,))), None)
    assert (counts.elections.unclean, counts.elections.from_eligible) == (unclean, from_eligible)
    assert counts.partitions == 1
    assert (counts.leaderless, counts.not_preferred) == (int(after.leader == -1), 1)


def test_an_eligible_leader_replica_is_no_unclean_leader() -> None:
    counts = PartitionCounts()
    diff: Any = SimpleNamespace(before=_partition(-1, (), (3,)), after=_partition(3, (3,)))
    counts.apply(SimpleNamespace(partitions_changed=lambda: iter((diff,))), None)
    assert (counts.elections.unclean, counts.elections.from_eligible) == (0, 1)
