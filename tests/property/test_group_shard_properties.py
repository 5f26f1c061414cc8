"""A group shard under any sequence of requests, sensible or not, with writes that wait, succeed or fail.

It never breaks, answers every request exactly once, and what it holds is what a coordinator that reads its log holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kcli.coordinator.group.classic.group import ClassicGroup, GroupState
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.records import encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.types import decode
from kcli.coordinator.runtime import Ready
from kcli.errors import ErrorCode
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
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
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.runtime.rng import SystemRng
from rigs.answers import answers
from rigs.examples import examples
from rigs.group_calls import beat, join_group, leave, sync

SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"

groups = st.sampled_from(["g", "h"])
instances = st.sampled_from([None, None, "i", "j"])
# A place in the list of all ids that were ever given out, none, or one that never was.
members = st.one_of(st.integers(0, 12), st.just(-1), st.just(-2))
generations = st.one_of(st.just(None), st.integers(-1, 4))
versions = st.sampled_from([0, 3, 4, 9])
protocols = st.sampled_from([("range",), ("range", "sticky"), ("sticky",), ()])


class GroupShardMachine(RuleBasedStateMachine):
    @initialize(
        delay_ms=st.sampled_from([0, 500]),
        max_size=st.sampled_from([2, 100]),
        retention_ms=st.sampled_from([500, 10**6]),
    )
    def begin(self, delay_ms: int, max_size: int, retention_ms: int) -> None:
        self.config = GroupConfig(
            initial_rebalance_delay_ms=delay_ms,
            max_size=max_size,
            offsets_retention_ms=retention_ms,
            offsets_retention_check_interval_ms=1_000,
        )
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.in_flight = []
        self.holding = False
        self.ids: list[str] = []
        self.open: set[int] = set()
        self.asked = 0
        self.shard = GroupShard(self.config, SystemRng(1))
        self.take(self.shard.start(0))

    def token(self) -> int:
        self.asked += 1
        self.open.add(self.asked)
        return self.asked

    def take(self, ready: Ready) -> None:
        if not ready.records:
            self.answer(ready)
            return
        self.in_flight.append(ready)
        if not self.holding:
            self.writes_are_committed(len(self.in_flight))

    def answer(self, ready: Ready) -> None:
        for token, _ in answers(ready):
            assert token in self.open, "answered twice"
            self.open.remove(token)

    def learn_ids(self) -> None:
        """Also ids of members that have no answer yet, because a client that guesses such an id may use it."""
        for group in self.shard._groups.values():
            assert isinstance(group, ClassicGroup)
            for member_id in (*group.members, *group.pending_joins):
                if member_id not in self.ids:
                    self.ids.append(member_id)

    def member_id(self, nth: int) -> str:
        self.learn_ids()
        if nth == -1:
            return ""
        # The latest first: they are the ones that may still be members.
        return self.ids[-1 - nth] if 0 <= nth < len(self.ids) else "stranger"

    def nth_of(self, member_id: str) -> int:
        self.learn_ids()
        return len(self.ids) - 1 - self.ids.index(member_id)

    def generation(self, group: str, wanted: int | None) -> int:
        known = self.shard._groups.get(group)
        return known.generation_id if wanted is None and isinstance(known, ClassicGroup) else wanted or 0

    # What may happen

    @rule(group=groups, member=members, instance=instances, version=versions, names=protocols)
    def join(
        self, group: str, member: int, instance: str | None, version: int, names: tuple[str, ...]
    ) -> None:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=3_000,
            member_id=self.member_id(member),
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in names),
        )
        caller = Caller(api_version=version, client_id="c", client_host="/h")
        self.take(join_group(self.shard, request, caller, self.token(), self.now_ms))

    @rule(group=groups, instance=instances, names=protocols.filter(bool))
    def newcomer(self, group: str, instance: str | None, names: tuple[str, ...]) -> None:
        self.join(group, -1, instance, 3, names)

    @rule(group=groups)
    def round_of_rebalance(self, group: str) -> None:
        """What members do when left in peace."""
        self.everybody_joins(group)
        self.time_passes(self.config.initial_rebalance_delay_ms)
        self.everybody_syncs(group)

    @rule(group=groups)
    def everybody_joins(self, group: str) -> None:
        known = self.shard._groups.get(group)
        if isinstance(known, ClassicGroup):
            for member in tuple(known.members.values()):
                self.join(
                    group, self.nth_of(member.member_id), member.group_instance_id, 9, ("range", "sticky")
                )

    @rule(group=groups, member=members, instance=instances, wanted=generations)
    def sync(self, group: str, member: int, instance: str | None, wanted: int | None) -> None:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=self.generation(group, wanted),
            member_id=self.member_id(member),
            group_instance_id=instance,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=each, assignment=b"a") for each in self.ids
            ),
        )
        self.take(sync(self.shard, request, self.token(), self.now_ms))

    @rule(group=groups)
    def everybody_syncs(self, group: str) -> None:
        known = self.shard._groups.get(group)
        if isinstance(known, ClassicGroup):
            for member in tuple(known.members.values()):
                self.sync(group, self.nth_of(member.member_id), member.group_instance_id, None)

    @rule(group=groups, member=members, instance=instances, wanted=generations)
    def heartbeat(self, group: str, member: int, instance: str | None, wanted: int | None) -> None:
        generation = self.generation(group, wanted)
        beat(self.shard, group, self.member_id(member), instance, generation, self.now_ms)

    @rule(
        group=groups,
        leaving=st.lists(st.tuples(members, instances), min_size=1, max_size=3),
        version=versions,
    )
    def leave(self, group: str, leaving: list[tuple[int, str | None]], version: int) -> None:
        identities = tuple(
            MemberIdentity(member_id=self.member_id(member), group_instance_id=instance)
            for member, instance in leaving
        )
        request = LeaveGroupRequest(group_id=group, members=identities, member_id=identities[0].member_id)
        self.take(leave(self.shard, request, min(version, 5), self.token(), self.now_ms))

    @rule(
        group=groups,
        member=members,
        wanted=generations,
        offset=st.integers(0, 9),
        retention=st.sampled_from([-1, 700]),
    )
    def commit(self, group: str, member: int, wanted: int | None, offset: int, retention: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=offset % 2, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1 if member == -1 else self.generation(group, wanted),
            member_id=self.member_id(member),
            topics=(OffsetCommitRequestTopic(name="tu"[offset % 3 == 0], partitions=(partition,)),),
            retention_time_ms=retention,
        )
        self.take(self.shard.commit_offsets(request, 9, self.token(), self.now_ms))

    @rule(group=groups, topic=st.sampled_from("tu"))
    def delete_offsets(self, group: str, topic: str) -> None:
        partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in range(3))
        request = OffsetDeleteRequest(
            group_id=group, topics=(OffsetDeleteRequestTopic(name=topic, partitions=partitions),)
        )
        self.take(self.shard.delete_offsets(request, self.token(), self.now_ms))

    @rule(named=st.lists(groups, min_size=1, max_size=3, unique=True))
    def delete_groups(self, named: list[str]) -> None:
        request = DeleteGroupsRequest(groups_names=tuple(named))
        self.take(self.shard.delete_groups(request, self.token(), self.now_ms))

    @rule(topic=st.sampled_from("tu"))
    def drop(self, topic: str) -> None:
        self.take(self.shard.delete_topics((topic,), self.now_ms))

    @rule(milliseconds=st.sampled_from([0, 0, 1, 500, 500, 1_000, 3_000, 6_000, 300_000]))
    def time_passes(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while (deadline := self.shard.next_deadline_ms) is not None and deadline <= end_ms:
            self.now_ms = max(self.now_ms, deadline)
            while (ready := self.shard.tick(self.now_ms)) is not None:
                self.take(ready)
        self.now_ms = end_ms

    @rule()
    def writes_wait_from_now_on(self) -> None:
        self.holding = True

    @rule()
    def writes_wait_no_more(self) -> None:
        self.holding = False
        self.writes_are_committed(len(self.in_flight))

    @rule(count=st.integers(1, 5))
    def writes_are_committed(self, count: int) -> None:
        for _ in range(count):
            if not self.in_flight:
                break
            ready = self.in_flight.pop(0)
            self.commit_records(ready)
            if ready.continuations:
                self.take(ready.written(ErrorCode.NONE, self.now_ms))
            self.answer(ready)

    def commit_records(self, ready: Ready) -> None:
        for record in ready.records:
            self.log.append(encode(record))
            self.shard.replay(record, len(self.log) - 1)

    @rule()
    def a_write_fails(self) -> None:
        if self.in_flight:
            ready = self.in_flight.pop(0)
            if ready.continuations:
                self.take(ready.written(ErrorCode.NOT_ENOUGH_REPLICAS, self.now_ms))
            self.open -= {token for token, _ in answers(ready)}

    @rule(survive=st.integers(0, 3))
    def fail_over(self, survive: int) -> None:
        for ready in self.in_flight[:survive]:
            self.commit_records(ready)
        for ready in self.in_flight:
            self.open -= {token for token, _ in answers(ready)}
        self.in_flight.clear()
        self.answer(self.shard.resign(self.now_ms))
        assert not self.open, "somebody was never answered"
        self.shard = self.loaded()
        self.take(self.shard.start(self.now_ms))

    def teardown(self) -> None:
        """However it went, in the end everybody has been answered."""
        self.writes_wait_no_more()
        self.answer(self.shard.resign(self.now_ms))
        assert not self.open, "somebody was never answered"

    def loaded(self) -> GroupShard:
        shard = GroupShard(self.config, SystemRng(self.asked))
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            shard.replay(record, offset)
        return shard

    # What must hold

    @invariant()
    def groups_are_sound(self) -> None:
        for group in self.shard._groups.values():
            assert isinstance(group, ClassicGroup)
            waiting = sum(member.join_token is not None for member in group.members.values())
            assert group.awaiting_join_count == waiting
            assert set(group.static_members.values()) <= group.members.keys()
            assert group.leader_id in group.members if group.members else group.leader_id is None
            assert not group.members or group.state not in (GroupState.EMPTY, GroupState.DEAD)
            assert group.pending_syncs.keys() <= group.members.keys()
            syncing = any(member.sync_token is not None for member in group.members.values())
            assert not syncing or group.state is GroupState.COMPLETING_REBALANCE
            assert group.state is not GroupState.DEAD or self.in_flight, "a failed deletion is undone"
        timers: Iterable[Any] = self.shard._timers._deadlines
        for _, group_id, _ in timers:
            assert not group_id or group_id in self.shard._groups, "a timer without its group"

    @invariant()
    def offsets_are_those_of_the_log(self) -> None:
        again = self.loaded()
        for group in ("g", "h"):
            found = self.shard.fetch_offsets(group, None)
            assert found == again.fetch_offsets(group, None)
            assert not found.topics or group in self.shard._groups, "offsets that outlived their group"
        # A group may be known before its first record is committed, but never the other way round.
        assert {each.group_id for each in again.list_groups()} <= {
            each.group_id for each in self.shard.list_groups()
        }


GroupShardMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=50, deadline=None
)
TestGroupShard = GroupShardMachine.TestCase
