"""The list of the types of groups: a type is one package and one row, and a group is served by its type."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, get_args

import pytest

from kcli.coordinator import group
from kcli.coordinator.group.classic.requests import JOIN_GROUP
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.group_type import GroupType, GroupTypeRow, Retention, ShardParts, serving
from kcli.coordinator.group.records import LogRecord, OffsetRecord, group_id_of
from kcli.coordinator.group.requests import Call, Describe, Question, Request
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.step import GroupReady, GroupStep
from kcli.coordinator.group.types import GROUP_TYPES, decode, decoder
from kcli.coordinator.runtime import Producer
from kcli.errors import ErrorCode, GroupIdNotFoundException
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.join_group import JoinGroupRequest
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.records.consumer_offsets import (
    ConsumerOffsetsKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kcli.protocol.records.schema import schema_of
from kcli.runtime.rng import SystemRng
from rigs.answers import answers, result_of
from rigs.group_calls import beat, caller, describe, describe_consumers, describing_consumers
from rigs.group_world import GroupWorld

# A type of groups that count. Each Add raises the number of its group, and a group ends some time after its last Add.

COUNTER_TYPE = 99
LIFETIME_MS = 50


class CounterTimer(StrEnum):
    END = "counter end"


@dataclass(frozen=True, slots=True)
class CounterRecord:
    group_type: ClassVar[str] = "counter"

    group_id: str
    number: int | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        group_id = self.group_id.encode()
        key = struct.pack(">hh", COUNTER_TYPE, len(group_id)) + group_id
        return key, None if self.number is None else struct.pack(">q", self.number)


def decode_counter(key: bytes, value: bytes | None) -> CounterRecord:
    return CounterRecord(group_id_of(key), None if value is None else struct.unpack(">q", value)[0])


@dataclass
class Counter:
    group_id: str
    number: int = 0

    group_type = "counter"


@dataclass(frozen=True)
class AddRequest:
    group_id: str
    amount: int


ADD: Request[Call[AddRequest, int]] = Request("Add")
READ: Question[Describe, int] = Question("Read")


class CounterType(GroupType):
    timers = tuple(CounterTimer)

    def __init__(self, parts: ShardParts) -> None:
        self.groups = parts.groups
        self.timers_of_shard = parts.timers
        self.requests = serving(ADD.by(self.add), READ.by(self.read))

    def own(self, group_id: str) -> Counter:
        group = self.groups.get(group_id)
        if not isinstance(group, Counter):
            raise GroupIdNotFoundException
        return group

    def add(self, call: Call[AddRequest, int], step: GroupStep) -> None:
        group = self.groups.get(call.group_id, Counter(call.group_id))
        if not isinstance(group, Counter):
            raise GroupIdNotFoundException
        after = group.number + call.request.amount
        step.append(CounterRecord(call.group_id, after))
        step.reply(call.token, after)
        self.timers_of_shard.schedule((CounterTimer.END, call.group_id, ""), step.now_ms + LIFETIME_MS)

    def read(self, question: Describe, _now_ms: int) -> int:
        return self.own(question.group_id).number

    def admit_commit(self, _request: OffsetCommitRequest, _api_version: int, _now_ms: int) -> ErrorCode:
        return ErrorCode.NONE

    def admit_transactional_commit(self, _request: OffsetCommitRequest) -> ErrorCode:
        return ErrorCode.NONE

    def admit_fetch(self, _group_id: str, _member_id: str, _member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, _group_id: str, _topic: str) -> bool:
        return False

    def delete_offsets_error(self, _group_id: str) -> ErrorCode:
        return ErrorCode.NONE

    def retention(self, _group_id: str) -> Retention | None:
        return None

    def listed(self, group_id: str) -> ListedGroup:
        return ListedGroup(
            group_id=group_id, group_type="counter", group_state=f"At {self.own(group_id).number}"
        )

    def delete_error(self, _group_id: str) -> ErrorCode:
        return ErrorCode.NONE

    def delete(self, group_id: str, step: GroupStep) -> None:
        step.append(CounterRecord(group_id, None))

    def expire(self, kind: StrEnum, group_id: str, _member_id: str, step: GroupStep) -> None:
        assert kind is CounterTimer.END
        self.delete(group_id, step)

    def replay(self, record: LogRecord, *, live: bool) -> None:
        assert isinstance(record, CounterRecord)
        if record.number is None:
            self.groups.pop(record.group_id, None)
        else:
            self.groups[record.group_id] = Counter(record.group_id, record.number)


def counter_row(name: str) -> GroupTypeRow:
    return GroupTypeRow(name=name, record_types=(COUNTER_TYPE,), decode=decode_counter, create=CounterType)


TYPES = (*GROUP_TYPES, counter_row("counter"))
decode_all = decoder(TYPES)


class Log:
    """A shard with the additional type, and its log."""

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes | None]] = []
        self.shard = self.loaded()

    def loaded(self) -> GroupShard:
        shard = GroupShard(GroupConfig(), SystemRng(1), types=TYPES)
        for offset, (key, value) in enumerate(self.entries):
            record = decode_all(key, value)
            assert record is not None
            shard.replay(record, offset)
        shard.start(0)
        return shard

    def write(self, ready: GroupReady) -> list[Any]:
        """Commits the records. Returns the answers."""
        for record in ready.records:
            self.entries.append(record.encoded())
            self.shard.replay(record, len(self.entries))
        return [answer for _, answer in answers(ready)]

    def add(self, group_id: str, amount: int, now_ms: int = 0) -> list[Any]:
        call: Call[AddRequest, int] = Call(AddRequest(group_id, amount), caller(0), TOKEN)
        return self.write(self.shard.serve(ADD, call, now_ms))


TOKEN: Any = "token"


def test_a_new_type_brings_its_requests_records_and_timers() -> None:
    log = Log()
    assert log.add("c", 2) == [2]
    assert log.add("c", 3, now_ms=10) == [5]
    assert log.shard.ask(READ, Describe("c", 0), 0) == 5
    assert [(each.group_id, each.group_type, each.group_state) for each in log.shard.list_groups()] == [
        ("c", "counter", "At 5")
    ]
    assert log.loaded().ask(READ, Describe("c", 0), 0) == 5, "the next coordinator loads the group"
    assert log.shard.next_deadline_ms == LIFETIME_MS
    assert log.shard.tick(LIFETIME_MS) is None, "the second Add moved the deadline"
    ready = log.shard.tick(10 + LIFETIME_MS)
    assert ready is not None
    log.write(ready)
    assert list(log.shard.list_groups()) == list(log.loaded().list_groups()) == []


def test_other_requests_treat_a_group_of_a_new_type_as_a_group_of_another_type() -> None:
    log = Log()
    log.add("c", 1)
    request = JoinGroupRequest(group_id="c", session_timeout_ms=6000)
    (refused,) = log.write(log.shard.serve(JOIN_GROUP, Call(request, caller(9), TOKEN), 0))
    assert refused.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert beat(log.shard, "c", "m", None, 1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert describe(log.shard, "c").error_message == "Group c is not a classic group."
    assert describe_consumers(log.shard, "c").error_message == "Group c is not a consumer group."
    commit = OffsetRecord("c", "t", 0, OffsetCommitValue(offset=1))
    log.shard.replay(commit, 9)
    assert [each.group_type for each in log.shard.list_groups()] == ["counter"]
    (deleted,) = log.write(log.shard.delete_groups(DeleteGroupsRequest(groups_names=("c",)), TOKEN, 0))
    assert deleted.results[0].error_code is ErrorCode.NONE
    assert list(log.shard.list_groups()) == []


def test_a_deadline_of_an_earlier_group_with_the_same_id_is_ignored() -> None:
    log = Log()
    log.add("c", 1)
    log.shard.replay(CounterRecord("c", None), 1)
    log.shard.replay(OffsetRecord("c", "t", 0, OffsetCommitValue(offset=1)), 2)
    ready = log.shard.tick(LIFETIME_MS)
    assert ready is not None
    assert ready.records == ()
    assert [each.group_type for each in log.shard.list_groups()] == ["classic"]


def test_a_request_that_a_type_refuses_raises_its_error() -> None:
    log = Log()
    log.shard.replay(OffsetRecord("g", "t", 0, OffsetCommitValue(offset=1)), 0)
    with pytest.raises(GroupIdNotFoundException):
        log.add("g", 1)
    with pytest.raises(GroupIdNotFoundException):
        log.shard.ask(READ, Describe("unknown", 0), 0)


def test_a_shard_without_the_row_skips_the_records_of_a_type() -> None:
    assert decode(*CounterRecord("c", 1).encoded()) is None


def test_two_types_with_the_same_timer_are_refused() -> None:
    twice = (*TYPES, counter_row("copy"))
    with pytest.raises(AssertionError, match="two types of groups have the timer"):
        GroupShard(GroupConfig(), SystemRng(1), types=twice)


def test_each_record_type_of_a_group_has_one_row() -> None:
    offsets = {LegacyOffsetCommitKey, OffsetCommitKey}
    known = [schema_of(key).key for key in get_args(ConsumerOffsetsKey) if key not in offsets]
    assert sorted(number for row in GROUP_TYPES for number in row.record_types) == sorted(known)


def test_only_the_list_of_types_imports_a_type() -> None:
    """The interface, the shard and the offsets know no type, so a new type changes none of these modules."""
    folder = Path(group.__path__[0])
    packages = {each.name for each in folder.iterdir() if (each / "__init__.py").exists()}
    types = packages - {"offsets"}
    assert {"classic", "consumer"} <= types
    imported = {
        (path.name, name)
        for path in (*folder.glob("*.py"), *folder.glob("offsets/*.py"))
        for name in types
        if f"kcli.coordinator.group.{name}" in path.read_text(encoding="utf-8")
    }
    assert {module for module, _ in imported} == {"types.py"}


# A group that does not exist


@pytest.mark.parametrize(
    ("generation", "member", "version", "code"),
    [
        (-1, "", 9, ErrorCode.NONE),
        (-1, "m", 8, ErrorCode.NONE),
        (0, "m", 8, ErrorCode.ILLEGAL_GENERATION),
        (0, "m", 9, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_offsets_make_a_group_but_a_generation_does_not(
    generation: Any, member: Any, version: Any, code: Any
) -> None:
    shard = GroupShard(GroupConfig(), SystemRng(1))
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=(
            OffsetCommitRequestTopic(name="t", partitions=(OffsetCommitRequestPartition(partition_index=0),)),
        ),
    )
    ready = shard.commit_offsets(request, version, TOKEN, 0)
    response = answers(ready)[0][1]
    assert response.topics[0].partitions[0].error_code is code
    for record in ready.records:
        shard.replay(record, 0)
    assert [each.group_type for each in shard.list_groups()] == (
        ["classic"] if code is ErrorCode.NONE else []
    )


def test_a_transactional_commit_with_a_generation_needs_a_group() -> None:
    shard = GroupShard(GroupConfig(), SystemRng(1))
    partition = OffsetCommitRequestPartition(partition_index=0)
    topics = (OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
    for generation, code in ((-1, ErrorCode.NONE), (0, ErrorCode.ILLEGAL_GENERATION)):
        request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=generation, topics=topics)
        ready = shard.commit_offsets_in_transaction(request, Producer(1, 0), TOKEN, 0)
        assert answers(ready)[0][1].topics[0].partitions[0].error_code is code


def test_a_shard_without_groups_refuses_what_needs_one() -> None:
    shard = GroupShard(GroupConfig(), SystemRng(1))
    assert beat(shard, "g", "m", None, 1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(shard.list_groups()) == []
    assert describe_consumers(shard, "g").error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_description_in_turns_is_the_group_of_its_beginning() -> None:
    world = GroupWorld()
    world.run("topic t 4")
    for member in ("m1", "m2", "m3"):
        world.run(f"hb {member} group=g member={member} epoch=0")
    steps = describing_consumers(world.shard, "g")
    next(steps)
    world.run("hb left group=g member=m2 epoch=-1")
    described = result_of(steps)
    assert [member.member_id for member in described.members] == ["m1", "m2", "m3"]
    assert described.group_epoch == 3
    assert [each.member_id for each in describe_consumers(world.shard, "g").members] == [
        "m1",
        "m3",
    ]
