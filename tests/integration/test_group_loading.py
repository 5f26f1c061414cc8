"""What clients hear while a coordinator reads its log: that it does, from every API; a heartbeat is fine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from kcli.coordinator.group.records import OffsetRecord, encode
from kcli.errors import CorruptRecordError, ErrorCode
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.describe_groups import DescribeGroupsRequest
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.list_groups import ListGroupsRequest
from kcli.protocol.messages.offset_delete import OffsetDeleteRequest
from kcli.protocol.messages.sync_group import SyncGroupRequest
from kcli.protocol.records.consumer_offsets import OffsetCommitValue
from kcli.protocol.wire.api import ApiKey
from kcli.server.coordinators import groups as coordinators
from kcli.server.partitions.leader_partition import LeaderPartition
from rigs.groups import running
from rigs.loops import on_a_loop, until

GROUPS, PER_BATCH = 30_000, 5_000
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def fill(leader: LeaderPartition, now_ms: int) -> None:
    """Many groups with one offset each, so that reading them takes a while."""
    for start in range(0, GROUPS, PER_BATCH):
        records = []
        for number in range(start, start + PER_BATCH):
            committed = OffsetCommitValue(offset=number, commit_timestamp=now_ms)
            key, value = encode(OffsetRecord(f"group-{number}", "t", 0, committed))
            records.append(Record(-1, now_ms, key, value))
        leader.append(encode_batch(records), acks=-1, now_ms=now_ms)


def errors_of(response: Any) -> list[ErrorCode]:
    """Every error code anywhere in a response."""
    found = []
    for name in getattr(response, "__slots__", ()):
        value = getattr(response, name)
        if isinstance(value, ErrorCode):
            found.append(value)
        elif isinstance(value, tuple):
            found += [code for each in value for code in errors_of(each)]
    return [code for code in found if code is not ErrorCode.NONE]


ASKED = {
    ApiKey.SYNC_GROUP: SyncGroupRequest(group_id="g", protocol_type="c", protocol_name="r"),
    ApiKey.LEAVE_GROUP: LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id="m"),)),
    ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest(groups=("g",)),
    ApiKey.LIST_GROUPS: ListGroupsRequest(),
    ApiKey.DELETE_GROUPS: DeleteGroupsRequest(groups_names=("g",)),
    ApiKey.OFFSET_DELETE: OffsetDeleteRequest(group_id="g"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=()
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest(group_ids=("g",)),
}


@on_a_loop
async def test_a_loading_coordinator_answers_load_in_progress(tmp_path: Path) -> None:
    async with running(tmp_path, offsets_topic_num_partitions="1") as it:
        await it.create("t")
        await it.find()
        leader = it.node.broker.replicas.get("__consumer_offsets", 0)
        fill(leader, it.node.clock.now_ms())
        partition = ("t", 0)
        beat = HeartbeatRequest(group_id="g", member_id="m", generation_id=1)

        def lead_again() -> None:
            it.node.broker.groups.leadership_changed(leader, False)
            it.node.broker.groups.leadership_changed(leader, True)

        async def answers() -> dict[ApiKey | str, list[ErrorCode]]:
            """One after the other, each while the log is being read again because the broker leads again."""
            found: dict[ApiKey | str, list[ErrorCode]] = {}
            for key, message in ASKED.items():
                lead_again()
                found[key] = errors_of(await it.call(key, message))
            lead_again()
            found["join"] = errors_of(await it.join())
            lead_again()
            found["commit"] = [ErrorCode[name] for name in await it.commit({partition: 1})]
            lead_again()
            found["fetch"] = [ErrorCode[(await it.fetch(topics=["t"]))[0]]]
            lead_again()
            assert (await it.call(ApiKey.HEARTBEAT, beat)).error_code is ErrorCode.NONE
            assert it.node.broker.groups.shards.is_loading, "it was too quick: this has shown nothing"
            return found

        await answers()  # the first of each kind takes long, its codec being made
        found = await answers()
        assert found == {key: [LOADING] for key in found}
        await until(lambda: not it.node.broker.groups.shards.is_loading)
        assert await it.commit({partition: 1}) == ["NONE"]
        assert (await it.fetch(group="group-29999", topics=["t"]))[1][partition] == (29_999, "NONE")


@pytest.mark.parametrize("error", [CorruptRecordError("a torn record"), ZeroDivisionError()], ids=repr)
def test_no_client_is_served_from_a_log_that_cannot_be_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: CorruptRecordError | ZeroDivisionError,
) -> None:
    def broken(_key: bytes, _value: bytes | None) -> None:
        raise error

    @on_a_loop
    async def run() -> None:
        monkeypatch.setattr(coordinators, "decode", broken)
        async with running(tmp_path, offsets_topic_num_partitions="1") as it:
            await it.create("t")
            await it.find()
            assert await it.commit({("t", 0): 1}) == ["NONE"]
            leader = it.node.broker.groups.shards.runner("g").partition
            for led in (False, True):
                it.node.broker.groups.leadership_changed(leader, led)
            await until(lambda: not it.node.broker.groups.shards.is_loading)
            assert await it.commit({("t", 0): 2}) == ["NOT_COORDINATOR"]

    run()
    (failure,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert failure.message.startswith("Loading __consumer_offsets-0 failed")
    assert bool(failure.exc_info) is isinstance(error, ZeroDivisionError), (
        "only our mistakes need their place"
    )


@on_a_loop
async def test_the_partitions_of_a_topic_have_one_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(tmp_path, offsets_topic_num_partitions="8") as it:
        await it.find()
        lines = [each.getMessage() for each in caplog.records if each.getMessage().startswith("Loaded ")]
        assert [line.rpartition(" in ")[0] for line in lines if "__consumer_offsets" in line] == [
            "Loaded 0 records of 8 partitions of __consumer_offsets"
        ]
