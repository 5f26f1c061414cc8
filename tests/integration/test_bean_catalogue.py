"""The beans of Kafka 4.1: each exists with its attributes and is moved by an action, or does not exist for a reason."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.metadata.image import PartitionImage
from kcli.model.ids import BrokerId, LeaderEpoch
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.messages import alter_client_quotas as aq
from kcli.protocol.messages import alter_replica_log_dirs as al
from kcli.protocol.messages import api_versions, fetch, metadata, produce
from kcli.protocol.messages import delete_records as dr
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.messages import leave_group as lg
from kcli.protocol.messages import list_config_resources as lr
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.security.mechanisms.client import Credentials
from kcli.server.beans.purgatory_beans import purgatory_beans
from kcli.server.beans.traffic_beans import traffic_beans
from kcli.server.partitions.log_dir_moves import RATE_KEY
from kcli.server.quorum.counts import PartitionCounts
from rigs import kafka_beans
from rigs.data_path import BrokerRig, batch, topic_image
from rigs.groups import Speaker, running
from rigs.kafka_beans import Beans, beans_of
from rigs.logs import flush_logs
from rigs.loops import on_a_loop, until
from rigs.node import RunningNode, connect, create, read, send
from rigs.node import running as running_node
from rigs.sasl import ALICE, BOB, SASL_LISTENER, handshake, log_in, send_token
from rigs.transactions import ID as TRANSACTION
from rigs.transactions import SETTINGS, Session
from rigs.two_roles import running_apart
from rigs.wire_client import Client

BATCH = batch(b"a", b"b", b"c")
WAIT_MS = 200
HALF_REQUEST_BYTES = 1_000_000
METADATA = (metadata.MetadataRequest(topics=()), ApiKey.METADATA, 9)


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
        await create(self.client, "c", cleanup_policy="compact")
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
        """Fetches as a broker that is no replica."""
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
        waiting = self.node.listeners.metrics.waits.fetches
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
        self.joined = await self.it.member("g")

    async def commit(self) -> None:
        await self.it.find("simple")
        assert await self.it.commit({("t", 0): 1, ("t", 1): 2}, 2, "simple") == ["NONE"] * 2

    async def heartbeat(self) -> None:
        """A member joins a group of the new protocol and gets all partitions."""
        await self._beat("m", 0)

    async def share(self) -> None:
        """A second member joins, so that the first one must give partitions away."""
        await self._beat("n", 0)

    async def depart(self) -> None:
        for member in "mn":
            await self._beat(member, -1)

    async def _beat(self, member: str, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="new",
            member_id=member,
            member_epoch=epoch,
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
        await self._quota(
            "greedy", producer_byte_rate=1.0, request_percentage=50.0, controller_mutation_rate=10.0
        )
        await until(lambda: self.node.listeners.quotas.is_active)
        maker = await connect(self.node)
        await maker.call(_new_topic("made"), ApiKey.CREATE_TOPICS, 7, "greedy")
        client = await connect(self.node)
        await client.call(produced("t", BATCH), ApiKey.PRODUCE, 9, "greedy")

    async def flush(self) -> None:
        await asyncio.to_thread(flush_logs, self.node.logs)

    async def snapshot(self) -> None:
        await self.node.quorum.snapshotting.write_snapshot()

    async def connect(self) -> None:
        request = api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
        await (await connect(self.node)).call(request, ApiKey.API_VERSIONS, 3)

    async def limit(self) -> None:
        """Opens a connection above the quota of its address, and one above the creation rate of the listener."""
        sockets = self.node.sockets
        listener = sockets.listeners["PLAINTEXT"]
        counts, settings, quotas = listener.counts, listener.settings, self.node.listeners.quotas.connections
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

    async def half(self) -> None:
        """Sends a part of a large request."""
        self.parked = await connect(self.node)
        self.parked.writer.write(struct.pack(">i", HALF_REQUEST_BYTES) + bytes(HALF_REQUEST_BYTES // 2))
        await until(lambda: self.node.sockets.shared.frames.held_bytes == HALF_REQUEST_BYTES)

    async def close(self) -> None:
        """Closes the connection that has sent a part of a request."""
        assert self.parked is not None
        counts = self.node.sockets.listeners["PLAINTEXT"].counts
        closed = counts.closed
        self.parked.close()
        await until(lambda: counts.closed == closed + 1)

    async def verify(self) -> None:
        """Asks whether a partition belongs to a transaction, and for the client metrics."""
        topics = (ap.AddPartitionsToTxnTopic(name="t", partitions=(0,)),)
        transaction = ap.AddPartitionsToTxnTransaction(
            transactional_id=TRANSACTION, producer_id=9, producer_epoch=0, verify_only=True, topics=topics
        )
        request = ap.AddPartitionsToTxnRequest(transactions=(transaction,))
        await self.client.call(request, ApiKey.ADD_PARTITIONS_TO_TXN, 5)
        await self.client.call(
            lr.ListConfigResourcesRequest(resource_types=()), ApiKey.LIST_CONFIG_RESOURCES, 0
        )

    async def open_transaction(self) -> None:
        self.producer = Session(self.node, self.client)
        await self.producer.init()
        await self.producer.add(0)
        assert await self.producer.send("a", "b", version=11) is ErrorCode.NONE

    async def prepare(self) -> None:
        """A second member joins, so that the group waits for the first member."""
        self.parked = await connect(self.node)
        speaker = Speaker(self.node, self.parked, 0)
        self.second = (await speaker.join()).member_id
        self.joining = asyncio.ensure_future(speaker.join(member=self.second))
        await until(lambda: _groups(self.node, "NumGroupsPreparingRebalance") == 1)

    async def complete(self) -> None:
        """The first member joins again, and has not assigned the partitions yet."""
        self.joined = await self.it.join(member=self.joined.member_id)
        await self.joining

    async def leave(self) -> None:
        for member in (self.joined.member_id, self.second):
            request = lg.LeaveGroupRequest(group_id="g", members=(lg.MemberIdentity(member_id=member),))
            await self.it.call(ApiKey.LEAVE_GROUP, request, 4)

    async def start(self) -> None:
        """Deletes the first two records of a partition."""
        part = dr.DeleteRecordsPartition(partition_index=0, offset=2)
        topics = (dr.DeleteRecordsTopic(name="t", partitions=(part,)),)
        await self.client.call(
            dr.DeleteRecordsRequest(topics=topics, timeout_ms=WAIT_MS), ApiKey.DELETE_RECORDS, 2
        )

    async def roll(self) -> None:
        """Fills a segment of a compacted topic with two keys, and begins another one."""
        await create(self.client, "keys", cleanup_policy="compact", segment_bytes="1048576")
        for number in range(4):
            records = keyed_batch(f"key {number % 2}", bytes(400_000))
            assert (await send(self.client, "keys", records)).error_code is ErrorCode.NONE

    async def clean(self) -> None:
        await self.node.broker.cleaning.clean_once()

    async def idle(self) -> None:
        """Lets the event loop wait."""
        for _ in range(2):
            await asyncio.sleep(0.05)
            for _ in self.node.listeners.metrics.tick():
                pass

    async def throttle_all(self) -> None:
        """Exceeds the quotas of Fetch, of requests and of changes of topics."""
        await self._quota("hungry", consumer_byte_rate=1.0)
        await self._quota("busy", request_percentage=0.0001)
        await self._quota("maker", controller_mutation_rate=0.01)
        await self._quota("fed", consumer_byte_rate=1e9)
        hungry, fed, busy, maker = [await connect(self.node) for _ in range(4)]
        await fed.call(wanted(2, max_wait_ms=0), ApiKey.FETCH, 12, "fed")
        await hungry.call(wanted(2, max_wait_ms=0), ApiKey.FETCH, 12, "hungry")
        for number in range(2):
            await maker.call(_new_topic(f"made-{number}"), ApiKey.CREATE_TOPICS, 7, "maker")
        await busy.call(*METADATA, "busy")  # the last one, because this throttle ends after a second

    async def move(self) -> None:
        """Begins to move a partition to the other log directory, so slowly that the move does not end."""
        log = self.node.logs.get("keys", 0)
        target = next(each for each in self.node.logs.directories if each is not log.directory)
        rate = ic.AlterableConfig(name=RATE_KEY, config_operation=0, value="1")
        change = ic.AlterConfigsResource(resource_type=4, resource_name="1", configs=(rate,))
        await self.client.call(
            ic.IncrementalAlterConfigsRequest(resources=(change,)), ApiKey.INCREMENTAL_ALTER_CONFIGS, 1
        )
        topic = al.AlterReplicaLogDirTopic(name="keys", partitions=(0,))
        dirs = (al.AlterReplicaLogDir(path=target.path, topics=(topic,)),)
        await self.client.call(al.AlterReplicaLogDirsRequest(dirs=dirs), ApiKey.ALTER_REPLICA_LOG_DIRS, 2)

    async def lose(self) -> None:
        """Loses a log directory."""
        self.node.logs.directories[1].failed(OSError("the disk is gone"))
        await until(lambda: self.node.broker.replicas.offline_count > 0)

    async def _quota(self, client_id: str, **limits: float) -> None:
        entity = (aq.RequestEntityData(entity_type="client-id", entity_name=client_id),)
        ops = tuple(aq.OpData(key=key, value=value, remove=False) for key, value in limits.items())
        request = aq.AlterClientQuotasRequest(entries=(aq.RequestEntryData(entity=entity, ops=ops),))
        await self.client.call(request, ApiKey.ALTER_CLIENT_QUOTAS, 1)
        await until(lambda: self.node.metadata.offset >= self.node.quorum.view.high_watermark - 1)


def keyed_batch(key: str, value: bytes) -> bytes:
    return bytes(encode_batch([Record(0, 1_700_000_000_000, key.encode(), value)]))


def _groups(node: Any, name: str) -> Any:
    return beans_of(node)[f"kafka.coordinator.group:type=GroupMetadataManager,name={name}"]["Value"]


def _new_topic(name: str) -> Any:
    from kcli.protocol.messages import create_topics

    topic = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=5000)


@on_a_loop
async def test_each_bean_exists_and_its_action_moves_it(tmp_path: Path) -> None:
    settings = {
        "kcli_metrics_listener": "127.0.0.1:0",
        "log_cleaner_enable": "false",
        "log_dirs": f"{tmp_path}/a,{tmp_path}/b",
    }
    settings |= SETTINGS
    async with running(tmp_path, **settings) as it:
        actions = Actions(it)
        wrong = []
        rows = kafka_beans.moved()
        for action in dict.fromkeys(row.action for row in rows):
            before = _without_path(tmp_path, beans_of(it.node))
            act: Callable[[], Awaitable[None]] = getattr(actions, action)
            await act()
            after = _without_path(tmp_path, beans_of(it.node))
            wrong += [
                f"{action}: {fault}"
                for row in rows
                if row.action == action and (fault := row.fault(before, after))
            ]
        wrong += [
            f"{name} has no {attribute}"
            for name, attribute in standing_pairs()
            if attribute not in after.get(name, {})
        ]
        wrong += _without_row(after)
        wrong += [f"{names}: exists" for names in kafka_beans.ABSENT if kafka_beans.is_present(names, after)]
        assert not wrong, "\n".join(wrong)


def _without_path(path: Path, beans: Beans) -> Beans:
    return {name.replace(str(path), "/tmp"): attributes for name, attributes in beans.items()}


def standing_pairs() -> list[tuple[str, str]]:
    return [(name, each) for name, attributes in kafka_beans.standing() for each in attributes]


def _without_row(found: Beans) -> list[str]:
    """The beans of Kafka's domains that no table names. The values of some tags differ, so they are left out."""
    rows = (
        *kafka_beans.moved(),
        *kafka_beans.at_a_login(),
        *kafka_beans.forwarded(),
        *kafka_beans.in_a_cluster(),
    )
    named = {(kafka_beans.family(row.name), _figure(row.attribute)) for row in rows}
    named |= {(kafka_beans.family(name), _figure(attribute)) for name, attribute in standing_pairs()}
    return sorted(
        {
            f"{kafka_beans.family(name)} {_figure(attribute)} has no row"
            for name, attributes in found.items()
            if not name.startswith(("kcli:", "kcli.lag:"))
            for attribute in attributes
            if (kafka_beans.family(name), _figure(attribute)) not in named
        }
    )


def _figure(attribute: str) -> str:
    """The attribute, or one name for all attributes of a meter or of a histogram."""
    return "statistics" if attribute in kafka_beans.STATISTICS else attribute


def test_the_page_lists_each_absent_bean_with_its_reason() -> None:
    page = Path("docs/metrics.md").read_text()
    text = " ".join(page.split())
    for names, reason in kafka_beans.ABSENT.items():
        assert f"{names} | {reason} |" in text.replace("`", ""), names


def test_the_page_lists_each_bean_that_no_action_moves() -> None:
    page = Path("docs/metrics.md").read_text()
    table = page.split("## Beans that no test moves")[1].split("\n## ")[0].replace("`", "")
    reasons = dict(row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| kafka"))
    assert reasons == kafka_beans.reasons()


@on_a_loop
async def test_logins_move_the_beans_of_their_listener(tmp_path: Path) -> None:
    settings = SASL_LISTENER | {
        "kcli_metrics_listener": "127.0.0.1:0",
        "connections_max_reauth_ms": "1000",
        "connection_failed_authentication_delay_ms": "1",
    }
    async with running_node(tmp_path, **settings) as node:
        wrong = []
        logins = Logins(node)
        rows = kafka_beans.at_a_login()
        for action in dict.fromkeys(row.action for row in rows):
            before = beans_of(node)
            act: Callable[[], Awaitable[None]] = getattr(logins, action)
            await act()
            after = beans_of(node)
            wrong += [
                f"{action}: {fault}"
                for row in rows
                if row.action == action and (fault := row.fault(before, after))
            ]
        assert not wrong, "\n".join(wrong)


class Logins:
    """The actions of the table of logins, in their order."""

    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self.clients: list[Client] = []

    async def succeed(self) -> None:
        for _ in range(3):
            self.clients.append(await connect(self.node, "SASL"))
            assert (await log_in(self.clients[-1], ALICE)).error_code is ErrorCode.NONE

    async def fail(self) -> None:
        wrong = Credentials("PLAIN", "alice", "wrong")
        client = await connect(self.node, "SASL")
        assert (await log_in(client, wrong)).error_code is not ErrorCode.NONE
        assert await client.at_end()

    async def again(self) -> None:
        """Waits for the ends of the sessions. Then one client logs in again, and another one fails to do so."""
        loop = asyncio.get_running_loop()
        ends = max(each.session.expires_at or 0 for each in self.node.sockets.connections)
        await until(lambda: loop.time() > ends)
        assert (await log_in(self.clients[0], ALICE)).error_code is ErrorCode.NONE
        assert (await log_in(self.clients[1], BOB)).error_code is not ErrorCode.NONE
        assert await self.clients[1].at_end()

    async def expire(self) -> None:
        self.clients[2].post(*METADATA)
        assert await self.clients[2].at_end()

    async def old(self) -> None:
        """A client that cannot log in again logs in."""
        client = await connect(self.node, "SASL")
        assert (await handshake(client, "PLAIN")).error_code is ErrorCode.NONE
        assert (await send_token(client, b"\0alice\0a=b,c", 0)).error_code is ErrorCode.NONE


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
        sources: Any = SimpleNamespace(broker=rig, metrics=rig.metrics, now=rig.clock.monotonic())
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
        assert [fault for row in kafka_beans.forwarded() if (fault := row.fault(before, broker))] == []
        assert broker[forwarded]["connection-count"] == 1
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
