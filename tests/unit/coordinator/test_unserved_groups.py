"""Groups of the newer protocols, known from their records alone: listed, served their offsets, never touched."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import ConsumerTimes, GroupConfig
from kcli.coordinator.group.group_type import ShardParts
from kcli.coordinator.group.records import OffsetRecord, encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.step import GroupStep
from kcli.coordinator.group.streams.streams_type import STREAMS
from kcli.coordinator.group.unserved import RawRecord
from kcli.coordinator.runtime import Step
from kcli.errors import ErrorCode
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from kcli.protocol.records.consumer_offsets import GroupMetadataValue, OffsetCommitValue
from kcli.runtime.rng import SystemRng
from rigs.answers import answers
from rigs.group_calls import beat, describe, join_group


def other(
    key_type: int, group: str = "g", member: str = "", value: bytes | None = b"\x00\x00\x00\x00\x00\x01"
) -> RawRecord:
    key = struct.pack(">hh", key_type, len(group)) + group.encode() + member.encode()
    return RawRecord("share" if key_type < 16 else "streams", group, key, value)


def current(member: str, epoch: int, state: int = 0, key_type: int = 22) -> RawRecord:
    return other(
        key_type, member=member, value=struct.pack(">hiib", 0, epoch, epoch - 1, state) + b"\x01\x01\x00"
    )


def shard_with(*records: GroupRecord | OffsetRecord | RawRecord, retention_ms: int = 1000) -> GroupShard:
    config = GroupConfig(offsets_retention_ms=retention_ms, offsets_retention_check_interval_ms=100)
    shard = GroupShard(config, SystemRng(1))
    for offset, record in enumerate(records):
        shard.replay(record, offset)
    assert shard.start(0).records == ()
    return shard


def state_of(shard: GroupShard) -> tuple[str, ...]:
    (group,) = shard.list_groups()
    return group.group_type, group.group_state, group.protocol_type


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((other(11),), ("share", "Empty", "share")),
        ((other(10, member="m"), other(11)), ("share", "Stable", "share")),
        ((other(17),), ("streams", "Empty", "streams")),
        ((other(19, member="m"), other(17), other(20), current("m", 1)), ("streams", "Stable", "streams")),
        (
            (other(19, member="m"), other(17), other(20), current("m", 1, state=1)),
            ("streams", "Reconciling", "streams"),
        ),
        ((other(19, member="m"), other(17), current("m", 1)), ("streams", "Assigning", "streams")),
    ],
)
def test_type_and_state_follow_from_the_records(
    records: tuple[RawRecord, ...], expected: tuple[str, ...]
) -> None:
    assert state_of(shard_with(*records)) == expected


def test_a_group_is_gone_with_its_last_record() -> None:
    shard = shard_with(other(19, member="m"), other(17))
    shard.replay(other(19, member="m", value=None), 2)
    assert state_of(shard)[1] == "Empty"
    shard.replay(other(17, value=None), 3)
    shard.replay(other(17, value=None), 4)
    assert list(shard.list_groups()) == []


def test_a_group_that_changed_its_type_is_what_it_became() -> None:
    classic = GroupRecord("g", GroupMetadataValue(protocol_type="consumer", generation=4))
    became_streams = shard_with(classic, GroupRecord("g", None), other(17))
    assert state_of(became_streams)[0] == "streams"
    became_classic = shard_with(other(17), other(17, value=None), classic)
    assert state_of(became_classic)[0] == "classic"
    kept_only_offsets = shard_with(OffsetRecord("g", "t", 0, OffsetCommitValue(offset=1)), other(17))
    assert state_of(kept_only_offsets)[0] == "streams"


def test_its_offsets_are_served_and_do_not_expire() -> None:
    shard = shard_with(other(17), OffsetRecord("g", "t", 0, OffsetCommitValue(offset=7, commit_timestamp=0)))
    while (ready := shard.tick(1_000_000)) is not None:
        assert not ready.records
    (topic,) = shard.fetch_offsets("g", None).topics
    assert topic.partitions[0].committed_offset == 7
    assert (
        shard.fetch_offsets("g", None, member_id="m", member_epoch=1).error_code
        is ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_a_group_of_another_type_cannot_be_joined_or_deleted() -> None:
    shard = shard_with(other(19, member="m"), other(17), other(17, group="empty"))
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range"),),
    )
    ready = join_group(shard, request, Caller(api_version=9, client_id="c", client_host="/h"), "token", 0)
    assert ready.records == ()
    reply: Any = answers(ready)[0][1]
    assert reply.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    ready = shard.delete_groups(DeleteGroupsRequest(groups_names=("g", "empty")), "token", 0)
    assert ready.records == ()
    reply = answers(ready)[0][1]
    codes = [result.error_code for result in reply.results]
    assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNSUPPORTED_VERSION]
    assert beat(shard, "g", "m", None, 1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(shard, "g", 6).error_message == "Group g is not a classic group."


def commit(group: str, generation: int = -1, member: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )


def test_an_administrator_moves_the_offsets_of_an_empty_one_only() -> None:
    shard = shard_with(other(19, member="m"), other(17), other(17, group="empty"))
    assert len(shard.commit_offsets(commit("empty"), 9, "token", 0).records) == 1
    assert shard.commit_offsets(commit("empty", 1, "m"), 9, "token", 0).records == ()
    ready = shard.commit_offsets(commit("g"), 9, "token", 0)
    reply: Any = answers(ready)[0][1]
    assert reply.topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_may_be_deleted_from_an_empty_one_only() -> None:
    shard = shard_with(
        other(19, member="m"),
        other(17),
        other(17, group="empty"),
        OffsetRecord("empty", "t", 0, OffsetCommitValue(offset=1)),
    )
    topics = (
        OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(partition_index=0),)),
    )
    ready = shard.delete_offsets(OffsetDeleteRequest(group_id="empty", topics=topics), "token", 0)
    assert ready.records == (OffsetRecord("empty", "t", 0, None),)
    ready = shard.delete_offsets(OffsetDeleteRequest(group_id="g", topics=topics), "token", 0)
    reply: Any = answers(ready)[0][1]
    assert reply.error_code is ErrorCode.NON_EMPTY_GROUP


def test_an_unknown_record_is_written_as_it_was_read() -> None:
    record = other(22, member="m", value=b"\x00\x00bytes of a future version")
    assert encode(record) == (record.key, record.value)


def test_the_deletion_of_a_group_is_a_tombstone_for_each_of_its_records() -> None:
    parts = ShardParts(config=GroupConfig(), new_uuid=SystemRng(1).uuid, times_of=lambda _: ConsumerTimes())
    streams = STREAMS.create(parts)
    for record in (other(17), other(19, member="m"), other(22, member="m")):
        streams.replay(record, live=False)
    step: GroupStep = Step(0)
    streams.delete("g", step)
    for record in step.records:
        streams.replay(record, live=True)
    assert parts.groups == {}
