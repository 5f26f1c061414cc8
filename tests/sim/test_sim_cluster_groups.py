"""Groups whose coordinator dies or is cut off, on virtual time: another broker continues with members and offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.messages import consumer_group_heartbeat as gh
from kcli.protocol.messages import heartbeat as hb
from kcli.protocol.messages import join_group as jg
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.messages import sync_group as sg
from kcli.protocol.wire.api import ApiKey
from rigs.cluster_client import ClusterClient, on_brokers
from simulation.actors.client import eventually
from simulation.world.cluster import SimCluster, SimNode

GROUP, KIND = "g", 0
PARTITIONS = 6
SESSION_S = 45.0
"""group.consumer.session.timeout.ms, and the session time-out of the classic members here."""
NONE = ErrorCode.NONE


class Group(ClusterClient):
    """The clients of one group."""

    @property
    def owner_id(self) -> int:
        return self.coordinator_id(GROUP, KIND)

    @property
    def owner(self) -> SimNode:
        return self.coordinator(GROUP, KIND)

    async def call(self, key: ApiKey, request: object, at_most: int = 99) -> Any:
        """Repeats a request until a coordinator serves it."""
        return await self.persist(
            lambda: self.ask(self.owner_id, key, request, at_most),
            lambda answer: answer.error_code,
            fails=True,
        )

    async def beat(
        self, member: str, epoch: int, *, joins: bool = False
    ) -> gh.ConsumerGroupHeartbeatResponse:
        request = gh.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=("t",) if joins else None,
            topic_partitions=() if joins else None,
        )
        answer: gh.ConsumerGroupHeartbeatResponse = await self.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        return answer

    async def commit_once(self, broker: int, offset: int, member: str, epoch: int) -> ErrorCode:
        partitions = tuple(
            oc.OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
            for number in range(PARTITIONS)
        )
        request = oc.OffsetCommitRequest(
            group_id=GROUP,
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=(oc.OffsetCommitRequestTopic(name="t", partitions=partitions),),
        )
        answer = await self.ask(broker, ApiKey.OFFSET_COMMIT, request, 9)
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        return code

    async def commit(self, offset: int, member: str, epoch: int) -> ErrorCode:
        code: ErrorCode = await self.persist(
            lambda: self.commit_once(self.owner_id, offset, member, epoch), lambda code: code, fails=True
        )
        return code

    async def committed(self) -> set[int]:
        topics = (of.OffsetFetchRequestTopics(name="t", partition_indexes=tuple(range(PARTITIONS))),)
        request = of.OffsetFetchRequest(
            groups=(of.OffsetFetchRequestGroup(group_id=GROUP, topics=topics),), require_stable=True
        )
        answer = await self.persist(
            lambda: self.ask(self.owner_id, ApiKey.OFFSET_FETCH, request, 9),
            lambda answer: answer.groups[0].error_code,
        )
        return {part.committed_offset for part in answer.groups[0].topics[0].partitions}


def on_cluster(story: Callable[[SimCluster, Group], Awaitable[None]]) -> None:
    async def main(cluster: SimCluster, replicas: int) -> None:
        group = Group(cluster, replicas)
        await group.create("t", PARTITIONS)
        await group.find(GROUP, KIND)
        await story(cluster, group)

    on_brokers(main, replicas=3)


def partitions_of(answer: gh.ConsumerGroupHeartbeatResponse) -> tuple[int, ...]:
    assert answer.assignment is not None
    return tuple(
        sorted(number for topic in answer.assignment.topic_partitions for number in topic.partitions)
    )


async def two_members(group: Group) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Two members of the consumer protocol. Returns the epoch and the partitions of each member."""
    for member in ("a", "b"):
        answer = await group.beat(member, 0, joins=True)
        assert answer.error_code is NONE
    first = await group.beat("a", 1)  # it learns that it must give partitions up
    kept = partitions_of(first)
    topic = group.image.topics.topic("t")
    assert topic is not None
    owned = gh.RequestTopicPartitions(topic_id=topic.topic_id, partitions=kept)
    request = gh.ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="a", member_epoch=1, rebalance_timeout_ms=-1, topic_partitions=(owned,)
    )
    released = await group.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
    other = await group.beat("b", 2)
    return {"a": (released.member_epoch, kept), "b": (other.member_epoch, partitions_of(other))}


def test_members_keep_epoch_assignment_and_offsets_at_the_next_coordinator() -> None:
    async def story(cluster: SimCluster, group: Group) -> None:
        members = await two_members(group)
        assert sorted(number for _, owned in members.values() for number in owned) == [*range(PARTITIONS)]
        assert await group.commit(7, "a", members["a"][0]) is NONE
        old = group.owner_id
        group.owner.kill()
        for member, (epoch, _) in members.items():
            answer = await group.beat(member, epoch)
            assert (answer.error_code, answer.member_epoch) == (NONE, epoch)
            assert answer.assignment is None, "it has not changed"
        assert group.owner_id != old
        assert await group.committed() == {7}
        assert await group.commit(8, "b", members["b"][0]) is NONE
        assert await group.committed() == {8}

    on_cluster(story)


def test_members_have_a_full_session_after_the_load() -> None:
    async def story(cluster: SimCluster, group: Group) -> None:
        members = await two_members(group)
        old = group.owner_id
        await asyncio.sleep(SESSION_S - 10)
        group.owner.kill()
        await eventually(lambda: group.owner_id not in (-1, old), 30, "another coordinator")
        await asyncio.sleep(SESSION_S - 5)  # more than the rest of the old session
        epoch, _ = members["a"]
        answer = await group.beat("a", epoch)
        assert (answer.error_code, answer.member_epoch) == (NONE, epoch)
        await asyncio.sleep(10)
        late = await group.beat("b", members["b"][0])
        assert late.error_code is ErrorCode.UNKNOWN_MEMBER_ID, "the session of b is over"

    on_cluster(story)


def test_a_classic_member_keeps_its_generation_at_the_next_coordinator() -> None:
    async def story(cluster: SimCluster, group: Group) -> None:
        join = jg.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(jg.JoinGroupRequestProtocol(name="range", metadata=b"m"),),
        )
        joined = await group.call(ApiKey.JOIN_GROUP, join, 3)
        assert joined.error_code is NONE
        member, generation = joined.member_id, joined.generation_id
        sync = sg.SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member,
            assignments=(sg.SyncGroupRequestAssignment(member_id=member, assignment=b"all"),),
        )
        assert (await group.call(ApiKey.SYNC_GROUP, sync, 4)).assignment == b"all"
        assert await group.commit(5, member, generation) is NONE
        group.owner.kill()
        beat = hb.HeartbeatRequest(group_id=GROUP, member_id=member, generation_id=generation)
        assert (await group.call(ApiKey.HEARTBEAT, beat)).error_code is NONE
        assert (await group.call(ApiKey.SYNC_GROUP, sync, 4)).assignment == b"all"
        assert await group.commit(6, member, generation) is NONE
        assert await group.committed() == {6}
        await asyncio.sleep(SESSION_S + 1)
        late = await group.call(ApiKey.HEARTBEAT, beat)
        assert late.error_code is ErrorCode.UNKNOWN_MEMBER_ID

    on_cluster(story)


def test_a_commit_that_was_not_replicated_is_refused_and_never_seen() -> None:
    async def story(cluster: SimCluster, group: Group) -> None:
        assert await group.commit(5, "", -1) is NONE
        old = group.owner
        cluster.isolate(old)
        lost = asyncio.ensure_future(group.commit_once(old.node_id, 6, "", -1))
        await eventually(lambda: group.owner_id not in (-1, old.node_id), 60, "another coordinator")
        assert await group.committed() == {5}
        cluster.network.mend_links()
        assert await lost in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert await group.commit(7, "", -1) is NONE
        await asyncio.sleep(20)
        group.owner.kill()
        assert await group.committed() == {7}

    on_cluster(story)


def test_the_old_coordinator_sends_members_away_and_may_lead_again() -> None:
    async def story(cluster: SimCluster, group: Group) -> None:
        members = await two_members(group)
        old = group.owner
        epoch, _ = members["a"]
        old.kill()
        assert (await group.beat("a", epoch)).error_code is NONE
        second = group.owner
        await old.start()
        request = gh.ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=epoch)
        refused = await group.ask(old.node_id, ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        assert refused.error_code is ErrorCode.NOT_COORDINATOR
        await asyncio.sleep(15)  # it joins the ISR
        second.kill()
        for member, (epoch, _) in members.items():
            answer = await group.beat(member, epoch)
            assert (answer.error_code, answer.member_epoch) == (NONE, epoch)

    on_cluster(story)
