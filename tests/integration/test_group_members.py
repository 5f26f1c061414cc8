"""Members over real sockets, with a real coordinator: they join, share work, leave, die and return."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.groups import CommittedOffset
from kcli.client.config import ClientConfig
from kcli.client.group.assignors import Assignor, CooperativeStickyAssignor, RangeAssignor
from kcli.client.group.consumer import ConsumerProtocol
from kcli.client.group.member import Member
from kcli.client.group.membership import State
from kcli.client.group.protocol import Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.errors import ErrorCode, KafkaError
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.rng import SystemRng
from rigs import node
from rigs.loops import on_a_loop, until

SESSION_MS = 1_500
"""The session of a member that dies in a test. Members that live send a heartbeat every HEARTBEAT_MS."""
HEARTBEAT_MS = 50


class Listener:
    """Remembers what happened to the partitions of one member."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []
        self.may_give_up = asyncio.Event()
        self.may_give_up.set()

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("assigned", len(partitions)))

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self.may_give_up.wait()
        self.events.append(("revoked", len(partitions)))

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.events.append(("lost", len(partitions)))


class Consumer:
    """One consumer of topic t, with a client of its own."""

    def __init__(self, port: int, instance: str | None, assignor: Assignor) -> None:
        self.client = AdminClient(ClientConfig(servers=(Address("127.0.0.1", port),), retry_backoff_ms=5))
        self.listener = Listener()
        self.protocol = ConsumerProtocol(["t"], self.listener, self._partition_counts, [assignor])
        settings = GroupSettings(
            group_id="g",
            group_instance_id=instance,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=60_000,
            retry_backoff_ms=5,
        )
        self.member = Member(self.client, settings, self.protocol, SystemRng(1))
        self.task = asyncio.create_task(self.member.run())

    async def _partition_counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        response = await self.client.metadata(topics)
        return {topic.name or "": len(topic.partitions) for topic in response.topics}

    @property
    def owned(self) -> list[int]:
        """The numbers of the partitions, if the member is stable."""
        if self.member.state is not State.STABLE:
            return []
        return sorted(number for _, number in self.protocol.owned)

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        await self.client.close()

    async def leave(self) -> None:
        await self.member.leave()
        await self.task
        await self.client.close()


class Group:
    def __init__(self, port: int, assignor: Assignor) -> None:
        self.port = port
        self.consumers: list[Consumer] = []
        self._assignor = assignor

    def join(self, instance: str | None = None) -> Consumer:
        self.consumers.append(Consumer(self.port, instance, self._assignor))
        return self.consumers[-1]

    async def shares(self, *sizes: int) -> None:
        """Waits until the members in the group own partitions in these numbers, and each partition has one owner."""

        def is_shared() -> bool:
            for consumer in self.consumers:
                if consumer.task.done() and not consumer.task.cancelled():
                    consumer.task.result()  # raises the error of a member that failed
            owned = [each.owned for each in self.consumers if not each.task.done()]
            return sorted(map(len, owned)) == sorted(sizes) and sorted(itertools.chain(*owned)) == list(
                range(6)
            )

        await until(is_shared)


@contextlib.asynccontextmanager
async def group(directory: Path, assignor: Assignor) -> AsyncIterator[Group]:
    async with node.running(directory, group_min_session_timeout_ms="100") as running:
        await node.create(await node.connect(running), "t", 6)
        found = Group(running.port(), assignor)
        try:
            yield found
        finally:
            for consumer in found.consumers:
                await consumer.die()


@on_a_loop
async def test_three_members_share_a_topic_while_they_come_and_go(tmp_path: Path) -> None:
    async with group(tmp_path, RangeAssignor()) as it:
        first, second, third = it.join(), it.join(), it.join()
        await it.shares(2, 2, 2)
        assert sum(each.member.is_leader for each in it.consumers) == 1
        await asyncio.gather(second.member.leave(), second.leave())
        await it.shares(3, 3)
        assert second.listener.events[-1] == ("revoked", 2), "before it left"
        await third.die()
        await third.member.leave()  # changes nothing for a member that is dead
        await it.shares(6)
        assert "lost" not in dict(first.listener.events)


@on_a_loop
async def test_a_static_member_returns_to_its_partitions_without_a_rebalance(tmp_path: Path) -> None:
    async with group(tmp_path, RangeAssignor()) as it:
        first, second = it.join("one"), it.join("two")
        await it.shares(3, 3)
        owned, generation = second.owned, first.member.generation.id
        await second.leave()
        returned = it.join("two")
        await it.shares(3, 3)
        assert returned.owned == owned
        assert returned.member.generation.id == first.member.generation.id == generation


@on_a_loop
async def test_a_second_process_with_the_same_instance_id_fences_the_first(tmp_path: Path) -> None:
    async with group(tmp_path, RangeAssignor()) as it:
        first = it.join("one")
        await it.shares(6)
        second = it.join("one")
        with pytest.raises(KafkaError) as failure:
            await first.task
        assert failure.value.code is ErrorCode.FENCED_INSTANCE_ID
        assert first.listener.events[-1] == ("lost", 6)
        await until(lambda: len(second.owned) == 6)


@on_a_loop
async def test_an_incremental_rebalance_moves_only_the_surplus(tmp_path: Path) -> None:
    async with group(tmp_path, CooperativeStickyAssignor()) as it:
        first = it.join()
        await it.shares(6)
        it.join()
        await it.shares(3, 3)
        assert first.listener.events[:2] == [("assigned", 6), ("revoked", 3)]
        assert sum(count for event, count in first.listener.events if event != "assigned") == 3


@on_a_loop
async def test_a_member_commits_offsets_in_its_generation_only(tmp_path: Path) -> None:
    async with group(tmp_path, RangeAssignor()) as it:
        consumer = it.join()
        await it.shares(6)
        partition = TopicPartition("t", 0)
        offsets = {partition: CommittedOffset(offset=7)}
        generation = consumer.member.generation
        results = await consumer.client.alter_group_offsets("g", offsets, generation=generation)
        assert results == {partition: None}
        assert (await consumer.client.list_group_offsets("g"))[partition] == offsets[partition]
        old = Generation(generation.id - 1, generation.member_id)
        refused = (await consumer.client.alter_group_offsets("g", offsets, generation=old))[partition]
        assert refused is not None and refused.code is ErrorCode.ILLEGAL_GENERATION


@on_a_loop
async def test_a_member_leaves_while_the_coordinator_holds_its_request(tmp_path: Path) -> None:
    async with group(tmp_path, RangeAssignor()) as it:
        first = it.join()
        await it.shares(6)
        first.listener.may_give_up.clear()
        second = it.join()
        await until(lambda: first.member.state is State.PREPARING)
        await until(lambda: second.member.generation.member_id)
        await second.leave()
        first.listener.may_give_up.set()
        await it.shares(6)


class Elected:
    """A toy protocol type: the leader names one member as the head of the group, as a schema registry does."""

    protocol_type = "toy"

    def __init__(self, url: str) -> None:
        self.url = url
        self.head = ""

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [("v0", self.url.encode())]

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        head = min(member.metadata for member in members)
        return {member.member_id: head for member in members}

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        self.head = assignment.decode()
        return False

    async def revoked(self, *, everything: bool) -> None:
        self.head = ""

    async def lost(self) -> None:
        self.head = ""


@on_a_loop
async def test_another_protocol_type_needs_only_its_own_bytes(tmp_path: Path) -> None:
    async with node.running(tmp_path, group_min_session_timeout_ms="100") as running:
        protocols = [Elected(url) for url in ("http://c", "http://a", "http://b")]
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
            members = []
            for protocol in protocols:
                config = ClientConfig(servers=(Address("127.0.0.1", running.port()),), retry_backoff_ms=5)
                client = await stack.enter_async_context(AdminClient(config))
                settings = GroupSettings(group_id="r", heartbeat_interval_ms=HEARTBEAT_MS)
                members.append(Member(client, settings, protocol))
                tasks.create_task(members[-1].run())
            await until(lambda: [each.head for each in protocols] == ["http://a"] * 3)
            await members[1].leave()
            await until(lambda: [each.head for each in protocols] == ["http://b", "", "http://b"])
            for member in members:
                await member.leave()


@on_a_loop
async def test_an_error_of_the_protocol_makes_the_member_leave(tmp_path: Path) -> None:
    class Broken(Elected):
        async def assigned(self, generation: Generation, assignment: bytes) -> bool:
            raise ValueError("no such connector")

    async with node.running(tmp_path) as running:
        config = ClientConfig(servers=(Address("127.0.0.1", running.port()),), retry_backoff_ms=5)
        async with AdminClient(config) as client:
            member = Member(client, GroupSettings(group_id="r"), Broken("http://a"))
            with pytest.raises(ValueError, match="no such connector"):
                await member.run()
            (description,) = (await client.describe_groups(["r"])).values()
            assert not isinstance(description, KafkaError)
            assert (description.state, description.members) == ("Empty", ())
