"""Measures groups: rebalances, heartbeats and commits per second, and a start with the offsets of many groups.

    python bench/groups.py [--members 100] [--groups 100000] [--seconds 5] [--heartbeat-ms 500] [--only rebalance,…]

All members are in one process, each with its own connection. They send the requests of the protocol directly and do not
read records, so the figures are those of the coordinator and not of a client library. In both protocols there are two
partitions per member, and each member sends a heartbeat every --heartbeat-ms. The answer to a heartbeat tells a member
about a rebalance. So each rebalance includes a wait of half the heartbeat interval on average. The broker runs on the
first core, and the members on the others. The last lines are JSON, one line per figure.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from run import Bench, _pinned

from kcli.client.admin.admin import AdminClient
from kcli.client.config import client_config
from kcli.client.connection import Connection
from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.protocol.messages import consumer_group_heartbeat as ch
from kcli.protocol.messages import heartbeat as h
from kcli.protocol.messages import join_group as jg
from kcli.protocol.messages import leave_group as lg
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.messages import sync_group as sg
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.testing.broker_process import BrokerProcess

TIMEOUT_S = 60.0
SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
PARTITIONS_PER_MEMBER = 2
# The number of connections for commits: enough to keep the broker busy, and few enough for one process of clients.
CONNECTIONS = 16
LEAVE_EPOCH = -1
LOADING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class Member:
    """A member of a group. `owned` are the partitions that are assigned to it."""

    def __init__(
        self, connection: Connection, group: str, topic: str, topic_id: uuid.UUID, partitions: int
    ) -> None:
        self.connection = connection
        self.group = group
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = partitions
        self.id = ""
        self.epoch = 0
        self.owned: frozenset[int] = frozenset()

    async def ask(self, message: Any, key: ApiKey) -> Any:
        version = self.connection.version_for(key)
        return await self.connection.request(message, key, version=version, timeout=TIMEOUT_S)

    async def join(self) -> None:
        raise NotImplementedError

    async def heartbeat(self) -> None:
        """Sends a heartbeat, and does what the answer requires."""
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    async def commit(self) -> None:
        """Commits an offset for each owned partition."""
        partitions = tuple(
            oc.OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
            for number in sorted(self.owned)
        )
        request = oc.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.id,
            topics=(oc.OffsetCommitRequestTopic(name=self.topic, partitions=partitions),),
        )
        # Version 9 is the last one with names of topics. Later versions have topic ids.
        answer = await self.connection.request(request, ApiKey.OFFSET_COMMIT, version=9, timeout=TIMEOUT_S)
        expect(*(each.error_code for topic in answer.topics for each in topic.partitions))


class ConsumerMember(Member):
    """A member with the consumer protocol (KIP-848). It gives up revoked partitions immediately."""

    async def join(self) -> None:
        self.id = str(uuid.uuid4())
        await self._beat(
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=(self.topic,),
            topic_partitions=(),
        )

    async def heartbeat(self) -> None:
        if await self._beat(member_epoch=self.epoch):
            mine = ch.RequestTopicPartitions(topic_id=self.topic_id, partitions=tuple(sorted(self.owned)))
            await self._beat(member_epoch=self.epoch, topic_partitions=(mine,) if self.owned else ())

    async def leave(self) -> None:
        await self._beat(member_epoch=LEAVE_EPOCH)

    async def _beat(self, **fields: Any) -> bool:
        """Sends a heartbeat. Returns whether the answer changes the owned partitions."""
        request = ch.ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.id, **fields)
        answer = await self.ask(request, ApiKey.CONSUMER_GROUP_HEARTBEAT)
        expect(answer.error_code)
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return False
        given = frozenset(
            number for topic in answer.assignment.topic_partitions for number in topic.partitions
        )
        changed, self.owned = given != self.owned, given
        return changed


class ClassicMember(Member):
    """A member with the classic protocol. The leader assigns the partitions to the members in turn."""

    async def join(self) -> None:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=(self.topic,)))
        while True:
            request = jg.JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self.id,
                protocol_type="consumer",
                protocols=(jg.JoinGroupRequestProtocol(name="range", metadata=subscription),),
            )
            joined = await self.ask(request, ApiKey.JOIN_GROUP)
            self.id = joined.member_id or self.id
            if joined.error_code is ErrorCode.MEMBER_ID_REQUIRED:
                continue
            expect(joined.error_code)
            self.epoch = joined.generation_id
            if await self._sync(joined):
                return

    async def _sync(self, joined: jg.JoinGroupResponse) -> bool:
        members = [each.member_id for each in joined.members]
        dealt = {name: range(nth, self.partitions, len(members)) for nth, name in enumerate(members)}
        request = sg.SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                sg.SyncGroupRequestAssignment(member_id=name, assignment=self._assignment(numbers))
                for name, numbers in dealt.items()
            ),
        )
        synced = await self.ask(request, ApiKey.SYNC_GROUP)
        if synced.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        expect(synced.error_code)
        assigned, _ = decode_assignment(synced.assignment)
        self.owned = frozenset(
            number for topic in assigned.assigned_partitions for number in topic.partitions
        )
        return True

    def _assignment(self, numbers: Sequence[int]) -> bytes:
        parts = (TopicPartitions(topic=self.topic, partitions=tuple(numbers)),)
        return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts))

    async def heartbeat(self) -> None:
        request = h.HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self.id)
        answer = await self.ask(request, ApiKey.HEARTBEAT)
        if answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            await self.join()
        else:
            expect(answer.error_code)

    async def leave(self) -> None:
        me = lg.MemberIdentity(member_id=self.id)
        expect(
            (
                await self.ask(lg.LeaveGroupRequest(group_id=self.group, members=(me,)), ApiKey.LEAVE_GROUP)
            ).error_code
        )


def expect(*codes: ErrorCode) -> None:
    wrong = [code.name for code in codes if code is not ErrorCode.NONE]
    if wrong:
        raise SystemExit(f"the broker answered {wrong[0]}")


PROTOCOLS: dict[str, type[Member]] = {"classic": ClassicMember, "consumer": ConsumerMember}


class Group:
    """Members that are in the group. Each one has a task that sends a heartbeat every `heartbeat_s`."""

    def __init__(self, heartbeat_s: float) -> None:
        self.heartbeat_s = heartbeat_s
        self.living: dict[Member, asyncio.Task[None]] = {}

    def start(self, member: Member) -> None:
        self.living[member] = asyncio.create_task(self._live(member))

    async def _live(self, member: Member) -> None:
        await member.join()
        while True:
            await asyncio.sleep(self.heartbeat_s)
            await member.heartbeat()

    async def stop(self, member: Member) -> None:
        task = self.living.pop(member)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def shared(self, partitions: int) -> None:
        """Waits until all partitions are owned, every member owns some, and all members have the same generation."""
        end = time.monotonic() + TIMEOUT_S
        while not self._is_shared(partitions):
            for task in self.living.values():
                if task.done():
                    task.result()
            if time.monotonic() > end:
                raise SystemExit(f"not shared out after {TIMEOUT_S:g} s")
            await asyncio.sleep(0.005)

    def _is_shared(self, partitions: int) -> bool:
        owned = [number for member in self.living for number in member.owned]
        epochs = {member.epoch for member in self.living}
        return (
            len(epochs) == 1
            and all(member.owned for member in self.living)
            and sorted(owned) == list(range(partitions))
        )


@contextlib.asynccontextmanager
async def connections(broker: BrokerProcess, count: int) -> AsyncIterator[list[Connection]]:
    address = Address("127.0.0.1", broker.port)
    made = [await Connection.open(SystemNetwork(), address, "bench", TIMEOUT_S) for _ in range(count)]
    try:
        yield made
    finally:
        for each in made:
            each.close()


async def prepared(broker: BrokerProcess, topic: str, group: str) -> uuid.UUID:
    """Waits until the group has a coordinator, and returns the id of the topic.

    The look-up of the first coordinator creates `__consumer_offsets`.
    """
    async with AdminClient(client_config({}, bootstrap_servers=broker.bootstrap)) as admin:
        await admin.list_group_offsets(group)
        found = (await admin.describe_topics([topic]))[topic]
    assert not isinstance(found, Exception) and found.topic_id is not None
    return found.topic_id


async def rebalances(bench: Bench, protocol: str, count: int, options: argparse.Namespace) -> None:
    """Measures rebalances: all members join, one leaves, one joins. Then measures heartbeats and commits."""
    partitions = PARTITIONS_PER_MEMBER * count
    topic = bench.topic(f"rebalance-{protocol}", partitions)
    group_id = f"bench-{protocol}"
    known = await prepared(bench.broker, topic, group_id)
    async with connections(bench.broker, count) as opened:
        members = [PROTOCOLS[protocol](each, group_id, topic, known, partitions) for each in opened]
        group = Group(options.heartbeat_ms / 1000)
        name = f"{protocol}, {count} members"

        async def timed(what: str) -> None:
            begun, cpu = time.perf_counter(), bench.cpu_s()
            await group.shared(partitions)
            bench.add(f"{name}: {what}", (time.perf_counter() - begun) * 1000, "ms")
            bench.add(f"{name}: {what}, broker CPU", (bench.cpu_s() - cpu) * 1000, "CPU-ms")

        for member in members:
            group.start(member)
        await timed("all come")
        await group.stop(members[-1])
        await members[-1].leave()
        await timed("one leaves")
        members[-1] = PROTOCOLS[protocol](opened[-1], group_id, topic, known, partitions)
        group.start(members[-1])
        await timed("one comes")
        for member in members:
            await group.stop(member)
        await rate(
            bench, f"{name}: heartbeats", "1/s", members, lambda member: member.heartbeat(), options.seconds
        )
        await rate(
            bench,
            f"{name}: commits of {PARTITIONS_PER_MEMBER} offsets",
            "1/s",
            members,
            lambda member: member.commit(),
            options.seconds,
        )


async def rate(
    bench: Bench,
    name: str,
    unit: str,
    members: Sequence[Member],
    work: Callable[[Any], Awaitable[None]],
    seconds: float,
) -> None:
    """Measures how often `work` is done per second.

    All members work at the same time, each with one request after the other.
    """
    cpu, begun = bench.cpu_s(), time.perf_counter()
    end, done = begun + seconds, 0

    async def again(member: Member) -> None:
        nonlocal done
        while time.perf_counter() < end:
            await work(member)
            done += 1

    await asyncio.gather(*map(again, members))
    took, cpu = time.perf_counter() - begun, bench.cpu_s() - cpu
    bench.add(name, done / took, unit)
    bench.add(f"{name}: broker CPU", cpu / done * 1e6, "CPU-µs each")


# A start with many groups


async def fill(bench: Bench, topic: str, groups: int) -> None:
    """Commits one offset in each of `groups` groups."""
    partition = oc.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = (oc.OffsetCommitRequestTopic(name=topic, partitions=(partition,)),)
    names = iter([f"group-{number}" for number in range(groups)])

    async def commit(connection: Connection) -> None:
        for name in names:
            request = oc.OffsetCommitRequest(group_id=name, topics=topics)
            answer = await connection.request(request, ApiKey.OFFSET_COMMIT, version=9, timeout=TIMEOUT_S)
            expect(answer.topics[0].partitions[0].error_code)

    begun = time.perf_counter()
    async with connections(bench.broker, CONNECTIONS) as opened:
        # Several requests are in flight on each connection, so that the broker is measured and not the client.
        await asyncio.gather(*(commit(each) for each in opened for _ in range(4)))
    bench.add(f"{groups} groups: first commits", groups / (time.perf_counter() - begun), "1/s")


async def until_loaded(broker: BrokerProcess, groups: int) -> None:
    """Waits until every partition of __consumer_offsets is loaded, so that the offsets of its groups can be fetched."""
    async with connections(broker, 1) as (connection,):
        # Every partition has some of the first few hundred groups, so a thousand groups include the partition that
        # loads last.
        for number in range(min(groups, 1000)):
            asked = of.OffsetFetchRequestGroup(group_id=f"group-{number}", topics=None)
            request = of.OffsetFetchRequest(groups=(asked,))
            while True:
                answer = await connection.request(request, ApiKey.OFFSET_FETCH, version=9, timeout=TIMEOUT_S)
                found = answer.groups[0]
                if found.error_code not in LOADING:
                    break
                await asyncio.sleep(0.005)
            expect(found.error_code)
            assert found.topics, f"the offsets of group-{number} are gone"


def memory_mb(bench: Bench) -> float:
    status = Path(f"/proc/{bench.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) / 1024


def start_up(bench: Bench, groups: int) -> None:
    topic = bench.topic("start", 1)
    bench.broker.restart()
    time.sleep(1)
    empty = memory_mb(bench)
    asyncio.run(prepared(bench.broker, topic, "group-0"))
    asyncio.run(fill(bench, topic, groups))
    for how, end in (("after a stop", bench.broker.stop), ("after a kill", bench.broker.kill)):
        end()
        begun = time.perf_counter()
        bench.broker.start()
        ready = time.perf_counter()
        asyncio.run(until_loaded(bench.broker, groups))
        loaded = time.perf_counter()
        bench.add(f"{groups} groups, {how}: start to ready", ready - begun, "s")
        bench.add(f"{groups} groups, {how}: start to loaded", loaded - begun, "s")
    time.sleep(1)
    bench.add(f"{groups} groups: memory", memory_mb(bench), "MB")
    bench.add(f"{groups} groups: memory of each", (memory_mb(bench) - empty) * 1024 / groups, "kB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--heartbeat-ms", type=int, default=500)
    parser.add_argument("--only", default="rebalance,start")
    options = parser.parse_args()
    if options.members < 2 or options.groups < 1:
        parser.error("at least 2 members and 1 group")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": str(min(options.heartbeat_ms, 5000)),
        "group.consumer.heartbeat.interval.ms": str(options.heartbeat_ms),
    }
    print(f"{'figure':<44}{'value':>14} unit")
    with (
        tempfile.TemporaryDirectory(prefix="kcli-bench-") as name,
        BrokerProcess(Path(name), overrides=overrides) as broker,
    ):
        bench = Bench(broker, 0)
        if "rebalance" in options.only:
            with _pinned(broker):
                for protocol in PROTOCOLS:
                    asyncio.run(rebalances(bench, protocol, options.members, options))
        if "start" in options.only:
            start_up(bench, options.groups)
    for figure in bench.figures:
        print(json.dumps(asdict(figure)))


if __name__ == "__main__":
    main()
