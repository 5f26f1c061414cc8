"""Parts of the consumer protocol by themselves: what a story of a whole group would not reach."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import ConsumerTimes, GroupConfig, MigrationPolicy
from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber
from kcli.coordinator.group.consumer.assignors.uniform import assign_homogeneous
from kcli.coordinator.group.consumer.migration.embedded import assignment_bytes, by_id
from kcli.coordinator.group.consumer.state.assignment import assignment, disjoint, is_subset, overlaps, size
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.member import ConsumerMember, MemberState
from kcli.coordinator.group.consumer.state.record import ConsumerRecord
from kcli.coordinator.group.consumer.state.records import (
    current_record,
    epoch_record,
    group_tombstones,
    member_record,
    regex_record,
)
from kcli.coordinator.group.consumer.targets import targets
from kcli.coordinator.group.consumer.targets.reconciliation import check_state, reconcile
from kcli.coordinator.group.consumer.targets.regexes import NAMES_PER_STEP, compiled, matching
from kcli.coordinator.group.counts import GroupCounts
from kcli.coordinator.group.records import OffsetRecord, encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.topics import Topic
from kcli.coordinator.group.types import decode
from kcli.coordinator.hashing import in_hash_order, java_hash, uuid_hash
from kcli.coordinator.patterns import PATTERN_MAX_CHARS, REPEATS_MAX, UNICODE_CLASSES_MAX
from kcli.coordinator.runtime import Ready, Step
from kcli.errors import ErrorCode, FencedMemberEpochException, InvalidRegularExpression
from kcli.model.java_order import hash_order
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.records import consumer_offsets as co
from kcli.protocol.records.consumer_protocol import TopicPartitions, decode_assignment
from kcli.runtime.rng import SystemRng
from rigs.answers import answers
from rigs.group_calls import caller, consumer_beat, describe_consumers, join_group
from rigs.steps import last_of

A, B = uuid.UUID(int=1 << 70), uuid.UUID(int=2 << 70)


class Topics:
    version = 5

    def __init__(self, **partitions: int) -> None:
        ids = (A, B)
        self._topics = {
            name: Topic(name, ids[nth], [()] * count) for nth, (name, count) in enumerate(partitions.items())
        }

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return next((each for each in self._topics.values() if each.topic_id == topic_id), None)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._topics))

    def existing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.topic(name) is not None]


def heartbeat(shard: GroupShard, epoch: int, **fields: Any) -> Ready:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=("t",) if epoch == 0 else None,
        topic_partitions=fields.pop("owned", () if epoch == 0 else None),
        **fields,
    )
    caller = Caller(api_version=1, client_id="c", client_host="/h")
    return consumer_beat(shard, request, caller, "token", 0)


def loaded(*records: ConsumerRecord | GroupRecord | OffsetRecord, **topics: int) -> GroupShard:
    shard = GroupShard(GroupConfig(), SystemRng(1))
    shard.topics_changed(Topics(**(topics or {"t": 2})), (), has_new=True)
    for offset, record in enumerate(records):
        again = decode(*encode(record))
        assert again is not None
        shard.replay(again, offset)
    shard.start(0)
    return shard


def test_a_step_that_fails_in_its_middle_leaves_the_group_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_spec: object) -> object:
        raise ZeroDivisionError

    shard = loaded()
    with monkeypatch.context() as patch:
        patch.setattr(targets, "ASSIGNORS", {"uniform": broken})
        with pytest.raises(ZeroDivisionError):
            heartbeat(shard, 0)
    assert list(shard.list_groups()) == []
    ready = heartbeat(shard, 0)
    for offset, record in enumerate(ready.records):
        shard.replay(record, offset)
    assert [group.group_state for group in shard.list_groups()] == ["Stable"]


def test_a_group_epoch_counts_as_a_rebalance_when_it_is_committed_and_not_when_it_is_loaded() -> None:
    counts = GroupCounts()
    shard = GroupShard(GroupConfig(), SystemRng(1), counts=counts)
    shard.topics_changed(Topics(t=2), (), has_new=True)
    shard.start(0)
    records = heartbeat(shard, 0).records
    assert counts.consumer_rebalances == 0, "nothing is committed yet"
    for offset, record in enumerate(records):
        shard.replay(record, offset)
    assert counts.consumer_rebalances == 1
    again = GroupShard(GroupConfig(), SystemRng(1), counts=counts)
    for offset, record in enumerate(records):
        again.replay(record, offset)
    assert counts.consumer_rebalances == 1


# Assignments


def test_assignments_that_overlap_are_taken_apart_in_their_order() -> None:
    both, more = {A: frozenset({0, 1})}, {A: frozenset({1, 2}), B: frozenset({0})}
    assert list(disjoint((both, more, both))) == [both, {A: frozenset({2}), B: frozenset({0})}, {}]


def test_partitions_named_twice_are_had_once() -> None:
    merged = assignment([(A, (1, 2)), (B, ()), (A, (2, 3))])
    assert merged == {A: frozenset({1, 2, 3})}
    assert size(merged) == 3
    assert is_subset({A: frozenset({1})}, merged)
    assert not is_subset({B: frozenset({1})}, merged)
    assert overlaps(merged, {A: frozenset({3})})
    assert not overlaps(merged, {B: frozenset({3})})


def test_members_and_topics_come_in_javas_order() -> None:
    names = [f"consumer-{number}-{number * 7919 % 1000}" for number in range(60)]
    for count in (1, 12, 13, 24, 60):
        assert in_hash_order(names[:count], java_hash) == hash_order(names[:count])
    assert in_hash_order(["b", "a", "b"], java_hash) == ["a", "b"]
    assert uuid_hash(uuid.UUID(int=(1 << 96) | 3)) == 2
    many = [uuid.UUID(int=number << 64) for number in range(40)]
    assert in_hash_order(reversed(many), uuid_hash) == many


def test_partitions_of_deleted_topics_are_left_out_of_a_classic_assignment() -> None:
    topics = Topics(t=2)
    listed = [TopicPartitions(topic="t", partitions=(1,)), TopicPartitions(topic="gone", partitions=(0,))]
    assert by_id(listed, topics) == {A: frozenset({1})}
    assert by_id([TopicPartitions(topic="t", partitions=(-1, 0, 2))], topics) == {A: frozenset({0})}
    for subscription, version in ((b"\0\2", 2), (b"\0\x63", 3), (b"\xff\xff", 0), (b"", 0)):
        embedded = assignment_bytes({A: frozenset({1, 0}), B: frozenset({7})}, topics, subscription)
        assert int.from_bytes(embedded[:2], "big") == version
        assert decode_assignment(embedded)[0].assigned_partitions == (
            TopicPartitions(topic="t", partitions=(0, 1)),
        )


# Reconciliation


def nobody(_topic_id: uuid.UUID) -> dict[int, str]:
    return {}


def test_a_member_that_is_where_it_should_be_stays_itself() -> None:
    member = ConsumerMember(member_id="m", epoch=3, assigned={A: frozenset({0})})
    assert reconcile(member, 3, {A: frozenset({0, 1})}, None, nobody) is member


def test_a_member_in_a_state_of_a_newer_kafka_begins_with_nothing() -> None:
    member = ConsumerMember(
        member_id="m", epoch=3, previous_epoch=2, state=MemberState.UNKNOWN, assigned={A: frozenset({0, 1})}
    )
    for owned in (None, {A: frozenset({0})}):
        with pytest.raises(FencedMemberEpochException, match="unknown state"):
            check_state(member, owned)
    check_state(member, {})
    after = reconcile(member, 5, {A: frozenset({0})}, {}, nobody)
    assert (after.state, after.epoch, after.assigned) == (MemberState.STABLE, 5, {A: frozenset({0})})


def test_a_member_may_get_back_a_partition_that_it_is_revoking() -> None:
    member = ConsumerMember(
        member_id="m",
        epoch=3,
        state=MemberState.UNREVOKED_PARTITIONS,
        pending_revocation={A: frozenset({1})},
    )

    def itself(_topic_id: uuid.UUID) -> dict[int, str]:
        return {0: "m", 1: "m"}

    after = reconcile(member, 4, {A: frozenset({1})}, {}, itself)
    assert (after.state, after.assigned) == (MemberState.STABLE, {A: frozenset({1})})


def test_a_state_we_do_not_know_is_read() -> None:
    value = co.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=4, state=99)
    assert ConsumerMember(member_id="m").with_current(value).state is MemberState.UNKNOWN


def test_such_a_member_is_fenced_before_anything_is_written() -> None:
    odd = ConsumerMember(member_id="m", topic_names=("t",), client_id="c", client_host="/h", epoch=2)
    value = co.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=2, previous_member_epoch=1, state=50)
    key = co.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    shard = loaded(member_record("g", odd), epoch_record("g", 2, 0), ConsumerRecord(key, value))
    before = describe_consumers(shard, "g")
    with pytest.raises(FencedMemberEpochException):
        heartbeat(shard, 2)
    assert describe_consumers(shard, "g") == before
    reply: Any = answers(heartbeat(shard, 0))[0][1]
    assert reply.error_code is ErrorCode.NONE


# Regular expressions


def test_a_whole_name_must_match() -> None:
    found = last_of(matching(["a.*", "b", "(?i)C+", "("], ("a1", "ba", "b", "bb", "cC")))
    assert found == {"a.*": ("a1",), "b": ("b",), "(?i)C+": ("cC",), "(": ()}


@pytest.mark.parametrize("regex", ["(", "a{2,1}", "(?<=behind)x", "\\1"])
def test_an_expression_that_re2_refuses_is_refused(regex: str) -> None:
    with pytest.raises(InvalidRegularExpression) as refused:
        compiled(regex)
    assert regex in refused.value.message


@pytest.mark.parametrize(
    "regex",
    [
        "a" * (PATTERN_MAX_CHARS + 1),
        r"\pL" * (UNICODE_CLASSES_MAX + 1),
        "a{9}" * (REPEATS_MAX + 1),
        ".{1000}" * 45,
    ],
)
def test_an_expression_that_takes_long_to_compile_is_refused(regex: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=r"it has|too large"):
        compiled(regex)


def test_the_topics_are_matched_in_steps() -> None:
    names = [f"t{number}" for number in range(2 * NAMES_PER_STEP + 1)]
    steps = list(matching(["t1", "x"], names))
    assert steps == [NAMES_PER_STEP, NAMES_PER_STEP, 1] * 2


# Records


def test_a_costly_expression_is_matched_in_smaller_steps() -> None:
    names = [f"t{number}" for number in range(1000)]
    usual, costly = list(matching(["t.*"], names)), list(matching(["(?:.?){40}" * 10], names))
    assert len(costly) > 10 * len(usual)
    assert max(costly) <= NAMES_PER_STEP


def test_an_expression_with_thousands_of_groups_captures_nothing() -> None:
    """RE2 would copy each group for each name, which took half a second."""
    match: Any = compiled("()" * 4000 + ".*").fullmatch("t")
    assert match.groups() == (), "no group is copied"


def test_every_record_is_read_as_it_was_written() -> None:
    member = ConsumerMember(
        member_id="m",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        topic_names=("a", "b"),
        topic_regex="x.*",
        rebalance_timeout_ms=9,
        server_assignor="range",
        classic=co.ClassicMemberMetadata(
            session_timeout_ms=7, supported_protocols=(co.ClassicProtocol(name="range", metadata=b"m"),)
        ),
        epoch=5,
        previous_epoch=4,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={A: frozenset({0, 3})},
        pending_revocation={B: frozenset({1})},
    )
    group = ConsumerGroup("g")
    for record in (
        epoch_record("g", 5, -7),
        member_record("g", member),
        current_record("g", member),
        regex_record("g", "x.*", ("x1",), version=3, timestamp_ms=4),
    ):
        assert decode(*encode(record)) == record
        group.apply(record)
    assert group.members == {"m": member}
    assert group.owners_of(A)[3] == group.owners_of(B)[1] == "m"
    assert group.names_of(member) == ("a", "b", "x1")
    assert (group.epoch, group.metadata_hash) == (5, -7)
    for record in group_tombstones(group):
        assert decode(*encode(record)) == record
        group.apply(record)
    assert (group.members, group.regexes, group.owners_of(A)) == ({}, {}, {})


def test_records_out_of_order_make_the_same_group() -> None:
    """Compaction keeps of each key the last record, in its place: the member may come after what it has."""
    member = ConsumerMember(
        member_id="m", instance_id="i", topic_names=("t",), epoch=2, assigned={A: frozenset({0})}
    )
    records = (member_record("g", member), current_record("g", member))
    group, other = ConsumerGroup("g"), ConsumerGroup("g")
    for record in records:
        group.apply(record)
    for record in reversed(records):
        other.apply(record)
    assert group.members == other.members
    assert group.static_members == other.static_members == {"i": "m"}
    assert list(group.subscribed) == list(other.subscribed) == ["t"]


def test_a_group_of_kafka_4_0_is_taken_over() -> None:
    """4.0 kept the partitions of the topics in a record; 4.1 has the hash instead, and deletes the record."""
    member = ConsumerMember(
        member_id="m",
        client_id="c",
        client_host="/h",
        topic_names=("t",),
        rebalance_timeout_ms=60_000,
        epoch=4,
        assigned={A: frozenset({0, 1})},
    )
    key = co.ConsumerGroupPartitionMetadataKey(group_id="g")
    topic = co.TopicMetadata(topic_id=A, topic_name="t", num_partitions=2)
    shard = loaded(
        member_record("g", member),
        ConsumerRecord(key, co.ConsumerGroupPartitionMetadataValue(topics=(topic,))),
        epoch_record("g", 4, 0),
        current_record("g", member),
    )
    ready = heartbeat(shard, 4)
    assert ConsumerRecord(key, None) in ready.records
    assert describe_consumers(shard, "g").group_epoch == 5
    reply: Any = answers(ready)[0][1]
    assert reply.member_epoch == 5


def test_a_simple_group_becomes_a_consumer_group_on_loading() -> None:
    offset = OffsetRecord("g", "t", 0, co.OffsetCommitValue(offset=3))
    shard = loaded(offset, epoch_record("g", 4, 0))
    (listed,) = shard.list_groups()
    assert (listed.group_type, listed.group_state) == ("consumer", "Empty")
    classic = loaded(epoch_record("g", 4, 0), GroupRecord("g", co.GroupMetadataValue(generation=5)))
    assert next(classic.list_groups()).group_type == "classic"


def test_tombstones_of_what_was_never_read_do_nothing() -> None:
    group = ConsumerGroup("g")
    group.apply(epoch_record("g", 1, 0))
    gone = ConsumerMember(member_id="m")
    group.members["m"] = gone
    tombstones = tuple(group_tombstones(group))
    del group.members["m"]
    shard = loaded(*tombstones)
    assert list(shard.list_groups()) == []


def test_policies_by_direction() -> None:
    allowed = {policy: (policy.allows_upgrade, policy.allows_downgrade) for policy in MigrationPolicy}
    assert allowed == {
        MigrationPolicy.DISABLED: (False, False),
        MigrationPolicy.UPGRADE: (True, False),
        MigrationPolicy.DOWNGRADE: (False, True),
        MigrationPolicy.BIDIRECTIONAL: (True, True),
    }
    assert ConsumerTimes().session_timeout_ms > ConsumerTimes().heartbeat_interval_ms


def test_a_member_that_keeps_its_partitions_keeps_its_target_object() -> None:
    """A join compares the target of each member with the target before. The same object needs no comparison."""
    topic_id = uuid.UUID(int=1)
    has = [{topic_id: frozenset((0, 1))}, {topic_id: frozenset((2, 3))}]
    members = {f"m{nth}": Subscriber(None, (topic_id,), assigned) for nth, assigned in enumerate(has)}
    members["new"] = Subscriber(None, (topic_id,), {})
    found = assign_homogeneous(members, {topic_id: 6})
    assert found["m0"] is has[0]
    assert found["m1"] is has[1]
    assert found["new"] == {topic_id: frozenset((4, 5))}
    # With four partitions in all, only the first member keeps two.
    fewer = assign_homogeneous(members, {topic_id: 4})
    assert fewer["m0"] is has[0]
    assert (fewer["m1"], fewer["new"]) == ({topic_id: frozenset((2,))}, {topic_id: frozenset((3,))})


def test_a_rebalance_ends_although_its_deadline_passed_during_an_upgrade_that_failed() -> None:
    def run(until_ms: int) -> None:
        while shard.next_deadline_ms is not None and shard.next_deadline_ms <= until_ms:
            ready = shard.tick(until_ms)
            if ready is not None:
                answered.extend(ready.replies)

    def join(member_id: str, now_ms: int) -> Ready:
        subscription = b"\0\0" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff"
        request = JoinGroupRequest(
            group_id="g",
            member_id=member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        )
        ready: Ready = join_group(shard, request, caller(3), object(), now_ms)
        return ready

    answered: list[Any] = []
    shard = GroupShard(GroupConfig(initial_rebalance_delay_ms=3_000), SystemRng(1))
    shard.start(0)
    shard.topics_changed(Topics(t=1), (), has_new=False)
    join("", 0)
    upgrade = heartbeat(shard, 0)
    replies: Any = upgrade.replies
    (member_id,) = [reply.response.member_id for reply in replies if reply.response.member_id != "m"]
    run(4_000)  # the initial delay of the classic group is over
    for written in upgrade.continuations:
        written(ErrorCode.NOT_ENOUGH_REPLICAS, Step(4_000))
    join(member_id, 4_100)
    run(8_000)
    assert [reply.response.error_code for reply in answered] == [ErrorCode.NONE]
    assert [group.group_state for group in shard.list_groups()] == ["CompletingRebalance"]
