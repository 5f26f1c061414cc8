"""Groups on a broker of its own: how long a rebalance of many members takes, heartbeats and commits per second, and how
soon the offsets of very many groups are served after a start.

    python bench/groups.py [--members 100] [--partitions 1000] [--seconds 5] [--groups 100000]

The clients are connections of our own that do nothing else; the broker runs on the first core, they on the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from run import Bench, _pinned

from kcli.client.config import Address
from kcli.client.connection import Connection
from kcli.coordinator.group.records import OffsetRecord, encode
from kcli.errors import ErrorCode
from kcli.protocol.api import ApiKey
from kcli.protocol.batch import Record, encode_batch, iter_batches
from kcli.protocol.messages import consumer_group_heartbeat as ch
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.messages import heartbeat as h
from kcli.protocol.messages import join_group as j
from kcli.protocol.messages import metadata as m
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.messages import sync_group as s
from kcli.protocol.records.consumer_offsets import OffsetCommitValue
from kcli.protocol.records.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from kcli.runtime.network import SystemNetwork
from kcli.testing.broker_process import BrokerProcess

TIMEOUT_S = 60.0
CONNECTIONS = 20
IN_FLIGHT = 10
RECORDS_PER_BATCH = 5_000
FEW_PARTITIONS = 4
OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.heartbeat.interval.ms": "10",
    "offsets.topic.num.partitions": "1",
}


async def connect(bench: Bench) -> Connection:
    return await Connection.open(SystemNetwork(), Address("127.0.0.1", bench.broker.port), "bench", TIMEOUT_S)


async def ask(connection: Connection, message: object, key: ApiKey, at_most: int = 99) -> Any:
    version = min(connection.version_for(key), at_most)
    return await connection.request(message, key, version=version, timeout=TIMEOUT_S)


async def find(connection: Connection, group: str) -> None:
    """Returns when the group's coordinator answers."""
    while True:
        found = await ask(
            connection, fc.FindCoordinatorRequest(coordinator_keys=(group,)), ApiKey.FIND_COORDINATOR
        )
        if found.coordinators[0].error_code is ErrorCode.NONE:
            request = of.OffsetFetchRequest(groups=(of.OffsetFetchRequestGroup(group_id=group, topics=None),))
            answer = await ask(connection, request, ApiKey.OFFSET_FETCH, 9)
            if answer.groups[0].error_code is ErrorCode.NONE:
                return
        await asyncio.sleep(0.005)


class Consumer:
    """A member of a consumer group that gives up at once what it is to give up."""

    def __init__(self, connection: Connection, group: str, topic: str) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._id = uuid.uuid4().hex
        self.epoch = 0
        self.owned: tuple[ch.RequestTopicPartitions, ...] = ()

    async def beat(self) -> bool:
        """Whether its assignment has changed."""
        joins = self.epoch == 0
        request = ch.ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=(self._topic,) if joins else None,
            topic_partitions=self.owned,
        )
        answer = await ask(self._connection, request, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        assert answer.error_code is ErrorCode.NONE, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = tuple(
                ch.RequestTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            )
        return answer.assignment is not None

    @property
    def size(self) -> int:
        return sum(len(each.partitions) for each in self.owned)


async def consumer_rebalance(bench: Bench, members: int, topic: str, partitions: int) -> None:
    """All join at once; then one more, and all heartbeat until everything has an owner again."""
    connections = [await connect(bench) for _ in range(CONNECTIONS)]
    await find(connections[0], "consumer")
    group = [Consumer(connections[nth % CONNECTIONS], "consumer", topic) for nth in range(members)]

    async def settle(what: str) -> None:
        cpu, begun = bench.cpu_s(), time.perf_counter()
        while sum(each.size for each in group) < partitions or len({each.epoch for each in group}) > 1:
            await asyncio.gather(*(each.beat() for each in group))
        name = f"consumer protocol, {partitions} partitions, {what}"
        bench.add(name, (time.perf_counter() - begun) * 1000, "ms")
        bench.add(f"{name}: broker CPU", (bench.cpu_s() - cpu) * 1000, "CPU-ms")

    await settle(f"{members} members join")
    group.append(Consumer(connections[0], "consumer", topic))
    await group[-1].beat()
    await settle("one more joins")
    for connection in connections:
        connection.close()


async def classic_rebalance(bench: Bench, members: int, topic: str) -> None:
    connections = [await connect(bench) for _ in range(members)]
    await find(connections[0], "classic")
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=(topic,)))
    ids = [""] * members

    async def enter(nth: int) -> None:
        while True:
            request = j.JoinGroupRequest(
                group_id="classic",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=ids[nth],
                protocol_type="consumer",
                protocols=(j.JoinGroupRequestProtocol(name="range", metadata=subscription),),
            )
            joined = await ask(connections[nth], request, ApiKey.JOIN_GROUP)
            ids[nth] = joined.member_id
            if joined.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                continue
            assert joined.error_code is ErrorCode.NONE, joined
            assignments = tuple(
                s.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"x" * 40)
                for each in joined.members
            )
            sync = s.SyncGroupRequest(
                group_id="classic",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            )
            synced = await ask(connections[nth], sync, ApiKey.SYNC_GROUP)
            if synced.error_code is ErrorCode.NONE:
                return
            assert synced.error_code is ErrorCode.REBALANCE_IN_PROGRESS, synced

    for what in (f"{members} members join", "all join again"):
        cpu, begun = bench.cpu_s(), time.perf_counter()
        await asyncio.gather(*(enter(nth) for nth in range(members)))
        bench.add(f"classic protocol, {what}", (time.perf_counter() - begun) * 1000, "ms")
        bench.add(f"classic protocol, {what}: broker CPU", (bench.cpu_s() - cpu) * 1000, "CPU-ms")
    for connection in connections:
        connection.close()


async def rate(
    bench: Bench, what: str, seconds: float, one: Callable[[Connection, int], Awaitable[None]]
) -> None:
    """`one` again and again, several at a time on several connections."""
    connections = [await connect(bench) for _ in range(CONNECTIONS)]
    done = 0

    async def work(nth: int) -> None:
        nonlocal done
        while time.perf_counter() < until:
            await one(connections[nth % CONNECTIONS], nth)
            done += 1

    cpu, begun = bench.cpu_s(), time.perf_counter()
    until = begun + seconds
    await asyncio.gather(*(work(nth) for nth in range(CONNECTIONS * IN_FLIGHT)))
    took, cpu = time.perf_counter() - begun, bench.cpu_s() - cpu
    bench.add(f"{what}: rate", done / took, "requests/s")
    bench.add(f"{what}: broker CPU", cpu / done * 1e6, "CPU-us each")
    for connection in connections:
        connection.close()


async def rates(bench: Bench, topic: str, seconds: float) -> None:
    first = await connect(bench)
    await find(first, "rates")
    members = [Consumer(first, f"rates-{nth}", topic) for nth in range(CONNECTIONS * IN_FLIGHT)]
    for member in members:
        await member.beat()

    async def consumer_beat(connection: Connection, nth: int) -> None:
        members[nth]._connection = connection
        await members[nth].beat()

    async def classic_beat(connection: Connection, _nth: int) -> None:
        await ask(connection, h.HeartbeatRequest(group_id="none", member_id="m"), ApiKey.HEARTBEAT)

    async def commit(connection: Connection, nth: int) -> None:
        await ask(connection, commit_of(f"commits-{nth}", topic, 1), ApiKey.OFFSET_COMMIT, 9)

    await rate(bench, "heartbeats of the consumer protocol", seconds, consumer_beat)
    await rate(bench, "heartbeats of the classic protocol", seconds, classic_beat)
    await rate(bench, "commits of one partition", seconds, commit)
    first.close()


def commit_of(group: str, topic: str, offset: int) -> oc.OffsetCommitRequest:
    part = oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    return oc.OffsetCommitRequest(
        group_id=group, topics=(oc.OffsetCommitRequestTopic(name=topic, partitions=(part,)),)
    )


def write_groups(path: Path, topic: str, groups: int) -> None:
    """Offsets of so many groups behind what a broker that is not running has in its log."""
    raw = path.read_bytes()
    last = [header for _, header in iter_batches(raw)][-1]
    offset, now_ms = last.next_offset, int(time.time() * 1000)
    with path.open("ab") as log:
        for start in range(0, groups, RECORDS_PER_BATCH):
            records = []
            for number in range(start, min(start + RECORDS_PER_BATCH, groups)):
                committed = OffsetCommitValue(offset=number, commit_timestamp=now_ms)
                key, value = encode(OffsetRecord(f"many-{number}", topic, 0, committed))
                records.append(Record(-1, now_ms, key, value))
            log.write(
                encode_batch(
                    records, base_offset=offset, leader_epoch=last.partition_leader_epoch, base_sequence=0
                )
            )
            offset += len(records)


async def many_groups(bench: Bench, topic: str, groups: int) -> None:
    bench.broker.kill()
    data = bench.broker.directory / "data"
    write_groups(data / "__consumer_offsets-0" / "00000000000000000000.log", topic, groups)
    for how in ("unclean", "clean"):
        begun = time.perf_counter()
        bench.broker.start()
        started = time.perf_counter()
        connection = await connect(bench)
        await find(connection, f"many-{groups - 1}")
        served = time.perf_counter()
        bench.add(f"start with {groups} groups, {how}: ready", (started - begun) * 1000, "ms")
        bench.add(f"start with {groups} groups, {how}: offsets served", (served - begun) * 1000, "ms")
        connection.close()
        if how == "unclean":
            bench.broker.stop()


async def topic_of(bench: Bench, partitions: int) -> str:
    topic = bench.topic(f"groups-{partitions}", partitions)
    connection = await connect(bench)
    request = m.MetadataRequest(topics=(m.MetadataRequestTopic(name=topic),))
    await ask(connection, request, ApiKey.METADATA)
    connection.close()
    return topic


async def run(bench: Bench, options: argparse.Namespace) -> None:
    topic = await topic_of(bench, options.partitions)
    await consumer_rebalance(bench, options.members, topic, options.partitions)
    await classic_rebalance(bench, options.members, topic)
    await rates(bench, await topic_of(bench, FEW_PARTITIONS), options.seconds)
    await many_groups(bench, topic, options.groups)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--groups", type=int, default=100_000)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{'figure':<64}{'value':>14} unit")
    with (
        tempfile.TemporaryDirectory(prefix="kcli-bench-") as name,
        BrokerProcess(Path(name), overrides=OVERRIDES) as broker,
    ):
        bench = Bench(broker, 0)
        with _pinned(broker):
            asyncio.run(run(bench, options))


if __name__ == "__main__":
    main()
