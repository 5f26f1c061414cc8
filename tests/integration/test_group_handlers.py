"""The group APIs of a whole broker, over sockets: every version, where errors stand, restarts, deleted topics."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode, NotCoordinatorException
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers.leave_group import MEMBERS_PER_DECISION
from rigs.groups import Speaker, running
from rigs.loops import on_a_loop, until
from rigs.node import connect
from rigs.wire_client import Client


@on_a_loop
async def test_the_coordinator_is_found_and_its_topic_made(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        assert "__consumer_offsets" not in it.node.metadata.topics
        for version in range(7):
            request = FindCoordinatorRequest(key="g", coordinator_keys=("g", "h"))
            response = await it.call(ApiKey.FIND_COORDINATOR, request, version)
            found = response.coordinators if version >= 4 else (response,)
            assert len(found) == (2 if version >= 4 else 1)
            for each in found:
                assert (each.error_code, each.node_id, each.port) == (ErrorCode.NONE, 1, it.port)
        topic = it.node.metadata.topics.topic("__consumer_offsets")
        assert len(topic.partitions) == 3
        assert dict(it.node.metadata.topic_config("__consumer_offsets")) == {
            "compression.type": "producer",
            "cleanup.policy": "compact",
            "segment.bytes": "104857600",
        }


@on_a_loop
async def test_coordinators_that_are_nowhere(tmp_path: Path) -> None:
    async with running(tmp_path, offsets_topic_replication_factor="3") as it:
        request = FindCoordinatorRequest(key="g", coordinator_keys=("g",))
        found = (await it.call(ApiKey.FIND_COORDINATOR, request)).coordinators[0]
        assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        old = await it.call(ApiKey.FIND_COORDINATOR, request, 3)
        assert old.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert old.error_message == "The coordinator is not available."
        for key_type in (2, 9):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g:t:0",))
            found = (await it.call(ApiKey.FIND_COORDINATOR, request)).coordinators[0]
            assert found.error_code is ErrorCode.INVALID_REQUEST
        # Without the offsets topic a group has no coordinator.
        assert (await it.join()).error_code is ErrorCode.NOT_COORDINATOR


@on_a_loop
async def test_a_life_in_every_version(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.find()
        for version in range(10):
            group = f"g{version}"
            joined = await it.join(version, group)
            if version >= 4:
                assert joined.error_code is ErrorCode.MEMBER_ID_REQUIRED
                joined = await it.join(version, group, joined.member_id)
            assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
            assert joined.members[0].member_id == joined.leader == joined.member_id
            assert joined.protocol_type == ("consumer" if version >= 7 else None)
            synced = await it.sync(joined, min(version, 5), group)
            assert synced.assignment == b"mine"
            beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=joined.member_id)
            response = await it.call(ApiKey.HEARTBEAT, beat, min(version, 4))
            assert response.error_code is ErrorCode.NONE
            of_member: dict[str, Any] = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
            assert await it.commit({("t", 0): version}, max(version, 2), group, **of_member) == ["NONE"]
            expected = {("t", 0): (version, "NONE")}
            assert await it.fetch(max(version, 1), group, topics=["t"]) == ("NONE", expected)
            if version >= 2:
                assert await it.fetch(version, group) == ("NONE", expected)
            described = await it.call(
                ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=(group,)), min(version, 6)
            )
            assert described.groups[0].group_state == "Stable"
            assert described.groups[0].members[0].client_host == "/127.0.0.1"
            leave = LeaveGroupRequest(
                group_id=group,
                member_id=joined.member_id,
                members=(MemberIdentity(member_id=joined.member_id), MemberIdentity(member_id="stranger")),
            )
            left = await it.call(ApiKey.LEAVE_GROUP, leave, min(version, 5))
            assert left.error_code is ErrorCode.NONE
            codes = [member.error_code.name for member in left.members]
            assert codes == (["NONE", "UNKNOWN_MEMBER_ID"] if version >= 3 else [])
        for version in range(3):
            gone = DeleteGroupsRequest(groups_names=("nope", f"g{version}", "nope"))
            results = (await it.call(ApiKey.DELETE_GROUPS, gone, version)).results
            found = [(result.group_id, result.error_code.name) for result in results]
            assert found == [("nope", "GROUP_ID_NOT_FOUND"), (f"g{version}", "NONE")]


@on_a_loop
async def test_a_member_after_many_strangers_leaves_too(tmp_path: Path) -> None:
    """A group removes this many members in several decisions."""
    async with running(tmp_path) as it:
        await it.find()
        joined = await it.join()
        names = [*(f"stranger-{number}" for number in range(MEMBERS_PER_DECISION)), joined.member_id]
        members = tuple(MemberIdentity(member_id=name) for name in names)
        left = await it.call(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group_id="g", members=members), 5)
        assert [member.member_id for member in left.members] == names
        assert [member.error_code for member in left.members] == [
            *(ErrorCode.UNKNOWN_MEMBER_ID,) * MEMBERS_PER_DECISION,
            ErrorCode.NONE,
        ]


@on_a_loop
async def test_the_empty_group_id_is_for_offsets_only(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.find("")
        invalid = ErrorCode.INVALID_GROUP_ID
        joined = await it.join(group="")
        assert joined.error_code is invalid
        assert (await it.sync(joined, group="")).error_code is invalid
        for key, request in (
            (ApiKey.HEARTBEAT, HeartbeatRequest()),
            (ApiKey.LEAVE_GROUP, LeaveGroupRequest()),
            (ApiKey.OFFSET_DELETE, OffsetDeleteRequest()),
        ):
            assert (await it.call(key, request)).error_code is invalid
        assert await it.commit({("t", 0): 3}, group="") == ["NONE"]
        assert await it.fetch(group="") == ("NONE", {("t", 0): (3, "NONE")})
        # An administrator who finds such a group in a list can describe and delete it.
        described = await it.call(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=("",)))
        assert (described.groups[0].error_code, described.groups[0].group_state) == (ErrorCode.NONE, "Empty")
        deleted = await it.call(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=("",)))
        assert deleted.results[0].error_code is ErrorCode.NONE
        assert await it.fetch(group="") == ("NONE", {})


@on_a_loop
async def test_authorized_operations_of_a_group_are_returned_only_on_request(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.find()
        await it.member()
        for asked, told in ((False, -(2**31)), (True, 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11)):
            request = DescribeGroupsRequest(groups=("g",), include_authorized_operations=asked)
            described = (await it.call(ApiKey.DESCRIBE_GROUPS, request)).groups[0]
            assert described.authorized_operations == told


@on_a_loop
async def test_a_sync_must_name_the_protocol(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.find()
        request = SyncGroupRequest(group_id="g", member_id="m", generation_id=1, protocol_type="consumer")
        response = await it.call(ApiKey.SYNC_GROUP, request)
        assert response.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@on_a_loop
async def test_partitions_that_do_not_exist_take_no_offsets(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t", 2)
        await it.find()
        mixed = {("t", 1): 1, ("t", 2): 1, ("nope", 0): 1, ("t", 0): 1}
        unknown = "UNKNOWN_TOPIC_OR_PARTITION"
        assert await it.commit(mixed) == ["NONE", unknown, unknown, "NONE"]
        assert await it.commit({("nope", 0): 1}) == [unknown]
        # An error of the group is that of the partitions which do exist.
        stale: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 7}
        assert await it.commit(mixed, group="h", **stale) == [
            "GROUP_ID_NOT_FOUND",
            unknown,
            unknown,
            "GROUP_ID_NOT_FOUND",
        ]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
def test_where_the_error_of_a_fetch_stands(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with running(tmp_path) as it:
            # There is no topic yet, so this broker does not coordinate the group.
            found = await it.fetch(version, topics=["t"])
            if version == 1:
                assert found == ("NONE", {("t", 0): (-1, "NOT_COORDINATOR")})
            else:
                assert found == ("NOT_COORDINATOR", {})

    asyncio.run(main())


@on_a_loop
async def test_a_partition_without_an_offset_is_not_an_error(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.find()
        for version in range(1, 10):
            assert await it.fetch(version, topics=["t"]) == ("NONE", {("t", 0): (-1, "NONE")})
            if version >= 2:
                assert await it.fetch(version) == ("NONE", {})


@on_a_loop
async def test_a_stable_fetch_comes_after_the_writes_before_it(tmp_path: Path) -> None:
    async with running(tmp_path, group_coordinator_append_linger_ms="50") as it:
        await it.create("t")
        await it.find()
        other = Client(*await asyncio.open_connection("127.0.0.1", it.port))
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=8)
        topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
        other.post(OffsetCommitRequest(group_id="g", topics=topics), ApiKey.OFFSET_COMMIT, 9)
        runner = it.node.broker.groups.shards.runner("g")
        await until(lambda: runner.when_written() is not None)
        barrier = runner.when_written()
        assert await it.fetch(topics=["t"]) == ("NONE", {("t", 0): (-1, "NONE")})
        assert await it.fetch(topics=["t"], require_stable=True) == ("NONE", {("t", 0): (8, "NONE")})
        await barrier
        await other.receive(ApiKey.OFFSET_COMMIT, 9)
        other.close()


@on_a_loop
async def test_a_fetch_that_waits_when_the_leadership_ends_is_sent_elsewhere(tmp_path: Path) -> None:
    async with running(tmp_path, group_coordinator_append_linger_ms="600000") as it:
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await it.create("t")
        await it.find()
        commit = asyncio.ensure_future(it.commit({("t", 0): 7}))
        runner = it.node.broker.groups.shards.runner("g")
        barriers = []

        def has_barrier() -> bool:
            barriers.append(runner.when_written())
            return barriers[-1] is not None

        await until(has_barrier)
        ask, before = runner.when_written, len(barriers)

        def asked() -> Any:
            barriers.append(ask())
            return barriers[-1]

        runner.when_written = asked
        other = Speaker(it.node, Client(*await asyncio.open_connection("127.0.0.1", it.port)), it.port)
        fetch = asyncio.ensure_future(other.fetch(topics=["t"], require_stable=True))
        await until(lambda: len(barriers) > before)
        it.node.broker.groups.leadership_changed(runner.partition, False)
        assert await commit == ["NOT_COORDINATOR"]
        assert await fetch == ("NOT_COORDINATOR", {})
        other.client.close()
        assert isinstance(barriers.pop().exception(), NotCoordinatorException)
        gc.collect()
        assert complaints == []


@on_a_loop
async def test_offsets_are_deleted_unless_the_group_subscribes(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.create("u")
        await it.find()
        joined = await it.member()
        of_member: dict[str, Any] = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
        assert await it.commit({("t", 0): 1, ("u", 0): 2}, **of_member) == ["NONE", "NONE"]
        topics = tuple(
            OffsetDeleteRequestTopic(
                name=name,
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 7)),
            )
            for name in ("t", "nope", "u")
        )
        response = await it.call(ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group_id="g", topics=topics))
        found = [
            (topic.name, [partition.error_code.name for partition in topic.partitions])
            for topic in response.topics
        ]
        assert found == [
            ("t", ["GROUP_SUBSCRIBED_TO_TOPIC", "UNKNOWN_TOPIC_OR_PARTITION"]),
            ("nope", ["UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION"]),
            ("u", ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]),
        ]
        assert await it.fetch() == ("NONE", {("t", 0): (1, "NONE")})
        response = await it.call(ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group_id="h", topics=topics))
        assert response.error_code is ErrorCode.GROUP_ID_NOT_FOUND


@on_a_loop
async def test_a_deleted_topic_takes_its_offsets_along(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.create("u")
        await it.find()
        assert await it.commit({("t", 0): 1, ("u", 0): 2}) == ["NONE", "NONE"]
        request = DeleteTopicsRequest(topic_names=("t",), timeout_ms=5000)
        await it.call(ApiKey.DELETE_TOPICS, request, 5)
        assert await it.fetch() == ("NONE", {("u", 0): (2, "NONE")})


@on_a_loop
async def test_groups_are_listed_by_state_and_type(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.find()
        await it.member("stable")
        assert await it.commit({("t", 0): 1}, group="simple") == ["NONE"]

        async def listed(version: int = 5, **filters: Any) -> list[tuple[str, ...]]:
            response = await it.call(ApiKey.LIST_GROUPS, ListGroupsRequest(**filters), version)
            return sorted(
                (group.group_id, group.protocol_type, group.group_state) for group in response.groups
            )

        both = [("simple", "", "Empty"), ("stable", "consumer", "Stable")]
        assert await listed() == await listed(4) == both
        assert await listed(0) == [("simple", "", ""), ("stable", "consumer", "")]
        assert await listed(states_filter=("eMPTY",)) == both[:1]
        assert await listed(states_filter=("stable", "dead")) == both[1:]
        assert await listed(types_filter=("Classic",)) == both
        assert await listed(types_filter=("consumer",)) == []


@on_a_loop
async def test_groups_survive_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.create("t")
        await it.find()
        joined = await it.member()
        of_member: dict[str, Any] = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
        assert await it.commit({("t", 0): 42}, **of_member) == ["NONE"]
        # The number of partitions is the topic's, whatever the configuration says next time.
    async with running(tmp_path, offsets_topic_num_partitions="7") as it:
        await it.find()
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await it.call(ApiKey.HEARTBEAT, beat)).error_code is ErrorCode.NONE
        assert await it.fetch() == ("NONE", {("t", 0): (42, "NONE")})
        assert await it.commit({("t", 0): 43}, **of_member) == ["NONE"]


@on_a_loop
async def test_members_that_start_together_are_in_the_first_generation(tmp_path: Path) -> None:
    async with running(tmp_path, group_initial_rebalance_delay_ms="0") as it:
        await it.find()
        crowd = [Speaker(it.node, await connect(it.node), it.port) for _ in range(20)]
        # Up to version 3 a member joins without a member id, so that no client is between two requests.
        joined = await asyncio.gather(*(each.join(3) for each in crowd))
        assert [each.generation_id for each in joined] == [1] * len(crowd)
        assert sum(len(each.members) for each in joined) == len(crowd)


@on_a_loop
async def test_a_stop_sends_waiting_members_elsewhere(tmp_path: Path) -> None:
    async with running(tmp_path, group_initial_rebalance_delay_ms="60000") as it:
        await it.find()
        first = await it.join()
        waiting = asyncio.create_task(it.join(member=first.member_id))
        runner = it.node.broker.groups.shards.runner("g")
        await until(
            lambda: next(runner.ask(lambda shard, _: shard.list_groups())).group_state == "PreparingRebalance"
        )
        await it.node.broker.groups.stop()
        assert (await waiting).error_code is ErrorCode.NOT_COORDINATOR
        assert (await it.join()).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert (await it.call(ApiKey.HEARTBEAT, beat)).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
