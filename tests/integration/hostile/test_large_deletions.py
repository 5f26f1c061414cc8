"""Deletions of thousands of offsets: each iteration of the event loop deletes a few, and all of them are gone in the
end."""

from __future__ import annotations

from pathlib import Path

from kcli.errors import ErrorCode
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.wire.api import ApiKey
from rigs.groups import Speaker, running
from rigs.loops import on_a_loop, until
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter

PARTITIONS = 3000


async def commit_to_all(it: Speaker, group: str) -> None:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
        for number in range(PARTITIONS)
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    response = await it.call(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group_id=group, topics=(topic,)))
    assert {each.error_code for each in response.topics[0].partitions} == {ErrorCode.NONE}
    assert offset_count(it) == PARTITIONS


def offset_count(it: Speaker) -> int:
    return sum(
        runner.look(lambda shard, _: shard.offset_count) for runner in it.node.broker.groups.shards.runners()
    )


@on_a_loop
async def test_a_group_with_many_offsets_is_deleted_in_turns(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.find()
        await it.create("t", PARTITIONS)
        await commit_to_all(it, "g")
        request = DeleteGroupsRequest(groups_names=("g", "unknown"))
        with TurnCounter() as counter:
            results = (await it.call(ApiKey.DELETE_GROUPS, request)).results
        assert counter.calls_in_one_turn <= CALLS_PER_TURN_MAX
        assert [each.error_code for each in results] == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]
        assert offset_count(it) == 0
        assert await it.fetch() == ("NONE", {})


@on_a_loop
async def test_a_group_with_many_offsets_and_a_member_keeps_all_of_them(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.find()
        await it.create("t", PARTITIONS)
        await commit_to_all(it, "g")
        await it.member()
        results = (await it.call(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=("g",)))).results
        assert [each.error_code for each in results] == [ErrorCode.NON_EMPTY_GROUP]
        assert offset_count(it) == PARTITIONS


@on_a_loop
async def test_the_offsets_of_a_deleted_topic_are_deleted_in_turns(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        await it.find()
        await it.create("t", PARTITIONS)
        await it.create("u")
        await commit_to_all(it, "g")
        assert await it.commit({("u", 0): 5}, group="g") == ["NONE"]
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=10_000)
        await it.call(ApiKey.DELETE_TOPICS, request)
        with TurnCounter() as counter:
            await until(lambda: offset_count(it) == 1)
        assert counter.calls_in_one_turn <= CALLS_PER_TURN_MAX
        assert await it.fetch() == ("NONE", {("u", 0): (5, "NONE")})
