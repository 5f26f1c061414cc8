"""Groups under stress whose members speak either protocol, and change it: they crash, stall, leave and return; writes
lag or fail, coordinators move, a topic grows or is created again, expressions are matched late. Clients follow the
protocols as real ones do; everything is drawn from one seed.

Held at every moment: a partition has one owner whose commits would be taken, and a committed offset never goes back. In
the end, after the trouble: the group is stable, all living members are in it, and every partition has an owner. No
member waits for an answer, and a coordinator that reads the log finds the same group.
"""

from __future__ import annotations

import heapq
import os
import random
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from kcli.coordinator.group.config import ConsumerTimes, GroupConfig
from kcli.coordinator.group.consumer.requests import REGEXES_RESOLVED
from kcli.coordinator.group.consumer.targets.regexes import RegexesResolved, ResolveRegexes, matching
from kcli.coordinator.group.records import encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.topics import Topic
from kcli.coordinator.group.types import decode
from kcli.coordinator.runtime import Ready
from kcli.coordinator.write_errors import write_error
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kcli.runtime.rng import SystemRng
from rigs.answers import answers
from rigs.group_calls import beat, consumer_beat, describe, describe_consumers, join_group, leave, sync
from rigs.steps import last_of

GROUP, TOPIC = "g", "t"
SESSION_MS, REBALANCE_MS = 6_000, 4_000
TROUBLE_MS, CALM_MS = 60_000, 60_000
SEEDS = int(os.environ.get("KCLI_SIM_SEEDS", "40"))


class OneTopic:
    """The topic as one image has it. It may be created again, with a new id."""

    def __init__(self, version: int, life: int, partitions: int) -> None:
        self.version, self.life, self.partitions = version, life, partitions
        self.topic_id = uuid.UUID(int=(7 + life) << 70)
        self._topic = Topic(TOPIC, self.topic_id, [()] * partitions)

    def topic(self, name: str) -> Topic:
        return self._topic if name == TOPIC else None

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic:
        return self._topic if topic_id == self.topic_id else None

    def names(self) -> tuple[str, ...]:
        return (TOPIC,)

    def existing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.topic(name) is not None]


class Coordinator:
    """A shard and its runner: writes of a moment are appended together or not at all, and are committed in order."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.config = GroupConfig(initial_rebalance_delay_ms=500, offsets_retention_check_interval_ms=5_000)
        self.log, self.gathered, self.in_flight = [], [], deque()
        self.rng = SystemRng(sim.random.randrange(1 << 30))
        self.waiting, self.tokens = {}, 0
        self.shard = self.new_shard()
        self.take(self.shard.start(0))
        self.wake()

    def new_shard(self, log: list[Any] | None = None) -> GroupShard:
        times = ConsumerTimes(session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500)
        shard = GroupShard(self.config, self.rng, lambda _: times)
        shard.topics_changed(self.sim.topics, (), has_new=True)
        for offset, (key, value) in enumerate(self.log if log is None else log):
            shard.replay(decode(key, value), offset)
        return shard

    def compacted(self) -> list[tuple[bytes, ...]]:
        """What the cleaner leaves of the log: of each key the last value, in the order of the log."""
        last = {}
        for key, value in self.log:
            last.pop(key, None)
            last[key] = value
        return [(key, value) for key, value in last.items() if value is not None]

    def call(self, step: Callable[..., Any], answered: Callable[..., Any]) -> None:
        self.tokens += 1
        self.waiting[self.tokens] = answered
        try:
            self.take(step(self.shard, self.tokens, self.sim.now))
        except KafkaError as error:
            self.answer(self.tokens, None, error.code)
        self.wake()

    def take(self, ready: Ready) -> None:
        if not ready.records:
            self.deliver(ready)
            return
        self.gathered.append(ready)
        if len(self.gathered) == 1:
            shard = self.shard
            self.sim.after(self.sim.random.choice((0, 0, 2)), lambda: self.append(shard))

    def append(self, shard: GroupShard) -> None:
        if shard is not self.shard:
            return
        batch, self.gathered = self.gathered, []
        if self.sim.trouble and self.sim.random.random() < 0.03:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
            for ready in batch:
                if ready.continuations:
                    self.take(ready.written(code, self.sim.now))
                for token, _ in answers(ready):
                    self.answer(token, None, write_error(code))
        else:
            self.in_flight.extend(batch)
            self.sim.after(self.sim.random.choice((0, 0, 1, 30)), lambda: self.commit(shard, len(batch)))
        self.wake()

    def commit(self, shard: GroupShard, count: int) -> None:
        if shard is not self.shard:
            return
        for _ in range(count):
            ready = self.in_flight.popleft()
            self.write(ready)
            if ready.continuations:
                self.take(ready.written(ErrorCode.NONE, self.sim.now))
            self.deliver(ready)
        self.sim.check_offsets()
        self.wake()

    def write(self, ready: Ready) -> None:
        for record in ready.records:
            self.log.append(encode(record))
            self.shard.replay(record, len(self.log) - 1)

    def deliver(self, ready: Ready) -> None:
        for token, response in answers(ready):
            self.answer(token, response, ErrorCode.NONE)
        shard = self.shard
        for send in ready.sends:
            self.sim.after(self.sim.random.randrange(1, 2_000), lambda send=send: self.resolved(shard, send))

    def resolved(self, shard: GroupShard, asked: ResolveRegexes) -> None:
        if shard is self.shard:
            found = last_of(matching(asked.regexes, asked.topics.names()))
            resolved = RegexesResolved(asked.group_id, found, asked.topics.version)
            self.take(shard.serve(REGEXES_RESOLVED, resolved, self.sim.now))
            self.wake()

    def answer(self, token: int, response: Any, code: ErrorCode) -> None:
        answered = self.waiting.pop(token)
        self.sim.after(self.sim.random.randrange(5), lambda: answered(response, code))

    def wake(self) -> None:
        deadline = self.shard.next_deadline_ms
        if deadline is not None:
            self.sim.at(max(deadline, self.sim.now), self.tick)

    def tick(self) -> None:
        before = self.shard.next_deadline_ms
        while (ready := self.shard.tick(self.sim.now)) is not None:
            self.take(ready)
        if self.shard.next_deadline_ms != before:
            self.wake()

    def fail_over(self) -> None:
        """Another broker takes over: some of the writes in flight are in the log, and none is answered."""
        for _ in range(self.sim.random.randrange(len(self.in_flight) + 1)):
            self.write(self.in_flight.popleft())
        self.in_flight.clear()
        self.gathered = []
        for token, response in answers(self.shard.resign(self.sim.now)):
            self.answer(token, response, ErrorCode.NONE)
        for token in tuple(self.waiting):
            self.answer(token, None, ErrorCode.NOT_COORDINATOR)
        self.shard = self.new_shard()
        self.take(self.shard.start(self.sim.now))
        self.sim.check_offsets()
        self.wake()


class Member:
    """One consumer of either protocol. `life` tells its present run from events of a former one; `owned` is what it
    reads from now, as (topic id, partition); `epoch` its member epoch or generation."""

    def __init__(self, sim: Simulation, name: str, instance: str | None) -> None:
        self.sim, self.name, self.instance = sim, name, instance
        self.life, self.alive, self.stalled_until = 0, False, 0
        self.owned: tuple[tuple[uuid.UUID, int], ...] = ()
        self.member_id, self.epoch, self.positions = "", 0, {}
        self.commits_under_way = 0

    def begin(self) -> None:
        """Joins the group, by the member's own protocol."""
        raise NotImplementedError

    def start(self) -> None:
        self.alive, self.life, self.member_id, self.epoch = True, self.life + 1, "", 0
        self.commits_under_way = 0
        self.begin()
        self.commit_later(self.life)

    def crash(self) -> None:
        self.alive, self.owned, self.life = False, (), self.life + 1

    def soon(self, delay: int, action: Callable[..., Any]) -> None:
        life = self.life
        self.sim.after(delay, lambda: action() if self.life == life else None)

    def call(self, step: Callable[..., Any], handle: Callable[..., Any]) -> None:
        life = self.life
        self.sim.coordinator.call(
            step, lambda response, code: handle(response, code) if self.life == life else None
        )

    def caller(self, version: int) -> Caller:
        return Caller(api_version=version, client_id=self.name, client_host="/h")

    def own(self, partitions: tuple[tuple[uuid.UUID, int], ...]) -> None:
        """Takes these as its own, from where they were committed: behind every write that is under way."""
        new = tuple(each for each in partitions if each not in self.owned)
        self.owned = tuple(each for each in self.owned if each in partitions) + new
        self.sim.check_owners(self)
        self.positions = {each: self.positions.get(each) for each in self.owned if each not in new}
        self.find_positions(new, self.life)

    def find_positions(self, partitions: tuple[tuple[uuid.UUID, int], ...], life: int) -> None:
        if self.life != life:
            return
        coordinator = self.sim.coordinator
        if coordinator.in_flight or coordinator.gathered:
            self.sim.after(1, lambda: self.find_positions(partitions, life))
            return
        for partition in partitions:
            if partition in self.owned and partition not in self.positions:
                self.positions[partition] = self.sim.offset(partition[1])

    def commit_later(self, life: int) -> None:
        self.sim.after(self.sim.random.randrange(200, 900), lambda: self.commit(life))

    def commit(self, life: int) -> None:
        if self.life != life or self.sim.quiet:
            return
        self.commit_later(life)
        # A topic that was deleted may have the name of a newer topic, so topics are compared by id.
        there = self.sim.topics.topic_id
        known = [each for each in self.owned if each[0] == there and self.positions.get(each) is not None]
        if not known or self.sim.now < self.stalled_until:
            return
        for partition in known:
            self.positions[partition] += self.sim.random.randrange(1, 5)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=(
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=tuple(
                        OffsetCommitRequestPartition(
                            partition_index=each[1], committed_offset=self.positions[each]
                        )
                        for each in known
                    ),
                ),
            ),
        )
        self.commits_under_way += 1
        self.call(
            lambda shard, token, now: shard.commit_offsets(request, 9, token, now),
            lambda *_: self.committed(),
        )

    def committed(self) -> None:
        self.commits_under_way -= 1


class ConsumerMember(Member):
    """Speaks KIP-848. A partition that it is to give up it keeps for a while, and reports it as long."""

    def begin(self) -> None:
        self.member_id = f"{self.name}-{self.life}"
        self.uses_regex = self.sim.random.random() < 0.3
        self.reports_all = True
        self.beat()

    def leave(self) -> None:
        if self.member_id and self.epoch >= 0:
            away = self.instance is not None and self.sim.random.random() < 0.7
            request = ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self.member_id,
                member_epoch=-2 if away else -1,
                instance_id=self.instance,
                topic_partitions=None,
            )
            self.call(
                lambda shard, token, now: consumer_beat(shard, request, self.caller(1), token, now),
                lambda *_: None,
            )
        self.crash()

    def beat(self) -> None:
        if self.sim.now < self.stalled_until:
            self.soon(self.stalled_until - self.sim.now, self.beat)
            return
        joins, full = self.epoch == 0, self.epoch == 0 or self.reports_all
        owned = tuple(
            RequestTopicPartitions(topic_id=topic_id, partitions=(number,)) for topic_id, number in self.owned
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_MS if full else -1,
            subscribed_topic_names=(() if self.uses_regex else (TOPIC,)) if full else None,
            subscribed_topic_regex=("t.*" if self.uses_regex else "") if full else None,
            topic_partitions=() if joins else owned,
        )
        self.call(
            lambda shard, token, now: consumer_beat(shard, request, self.caller(1), token, now),
            self.beaten,
        )

    def beaten(self, response: ConsumerGroupHeartbeatResponse | None, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            self.failed(code)
            return
        self.reports_all = False
        self.epoch = response.member_epoch
        if response.assignment is None:
            self.soon(500, self.beat)
            return
        wanted = tuple(
            (topic.topic_id, number)
            for topic in response.assignment.topic_partitions
            for number in topic.partitions
        )
        loses = any(each not in wanted for each in self.owned)
        slow = self.sim.random.choice((0, 100, 1_000)) if loses else 0
        if loses and self.sim.trouble and self.sim.random.random() < 0.05:
            slow = REBALANCE_MS + 1_000  # too slow: the coordinator will not wait
        self.soon(slow, lambda: self.take(wanted))

    def take(self, wanted: tuple[tuple[uuid.UUID, int], ...]) -> None:
        if self.commits_under_way:
            self.soon(5, lambda: self.take(wanted))  # nothing of what it gives up may come later
            return
        self.own(wanted)
        self.soon(self.sim.random.choice((0, 500)), self.beat)

    def failed(self, code: ErrorCode) -> None:
        if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.owned, self.epoch = (), 0
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
            return
        elif code is ErrorCode.GROUP_ID_NOT_FOUND:
            self.owned, self.epoch = (), 0
        self.reports_all = True
        self.soon(200, self.beat)


class ClassicMember(Member):
    """Speaks the classic protocol and gives up everything before it joins."""

    topics_known: Any = None

    def begin(self) -> None:
        self.join()
        self.beat_later(self.life)

    def leave(self) -> None:
        if self.instance is None and self.member_id:
            request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=self.member_id),))
            self.call(lambda shard, token, now: leave(shard, request, 5, token, now), lambda *_: None)
        self.crash()

    def again(self, code: ErrorCode) -> None:
        self.owned, self.epoch = (), -1
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id = ""
        self.soon(50, self.join)

    def join(self) -> None:
        if self.commits_under_way:
            self.soon(5, self.join)
            return
        self.owned = ()
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=(TOPIC,)), 1)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        )
        self.call(
            lambda shard, token, now: join_group(shard, request, self.caller(9), token, now), self.joined
        )

    def joined(self, response: JoinGroupResponse | None, code: ErrorCode) -> None:
        code = response.error_code if code is ErrorCode.NONE else code
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif code is not ErrorCode.NONE:
            self.again(code)
        else:
            self.member_id, self.epoch = response.member_id, response.generation_id
            self.sync(response)

    def sync(self, joined: JoinGroupResponse) -> None:
        ids = sorted(member.member_id for member in joined.members)
        self.topics_known = self.sim.topics
        assignments = ()
        if joined.leader == self.member_id and not joined.skip_assignment:
            assignments = tuple(
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=encode_assignment(
                        ConsumerProtocolAssignment(
                            assigned_partitions=(
                                TopicPartitions(
                                    topic=TOPIC,
                                    partitions=tuple(range(index, self.sim.topics.partitions, len(ids))),
                                ),
                            )
                        )
                    ),
                )
                for index, member_id in enumerate(ids)
            )
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self.call(lambda shard, token, now: sync(shard, request, token, now), self.synced)

    def synced(self, response: SyncGroupResponse, code: ErrorCode) -> None:
        code = response.error_code if code is ErrorCode.NONE else code
        if code is not ErrorCode.NONE:
            self.again(code)
            return
        assigned = decode_assignment(response.assignment)[0] if response.assignment else None
        self.has_synced = True
        listed = () if assigned is None else assigned.assigned_partitions
        self.own(tuple((self.topics_known.topic_id, number) for each in listed for number in each.partitions))

    def beat_later(self, life: int) -> None:
        self.sim.after(1_000, lambda: self.beat(life))

    def beat(self, life: int) -> None:
        if self.life != life:
            return
        self.beat_later(life)
        if self.sim.now < self.stalled_until or not self.member_id or self.epoch < 0:
            return
        code = beat(
            self.sim.coordinator.shard, GROUP, self.member_id, self.instance, self.epoch, self.sim.now
        )
        self.sim.coordinator.wake()
        if code is ErrorCode.NONE and self.topics_known not in (None, self.sim.topics):
            self.topics_known = self.sim.topics
            code = ErrorCode.REBALANCE_IN_PROGRESS  # it has seen for itself that the topic is not what it was
        if code is not ErrorCode.NONE and self.has_synced:
            self.has_synced = False
            self.again(code)

    has_synced = False


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now, self.events, self.sequence = 0, [], 0
        self.trouble = True
        self.quiet = False
        """No write is committed any more, so a request without an answer stays without one."""
        self.high = {}
        self.topics = OneTopic(0, 0, self.random.randrange(2, 6))
        self.mix = self.random.choice((1.0, 1.0, 0.5))
        """How many speak the new protocol."""
        self.coordinator = Coordinator(self)
        self.members = [self.new_member(nth) for nth in range(5)]
        self.types_seen = set()

    def new_member(self, nth: int) -> ClassicMember | ConsumerMember:
        kind = ConsumerMember if self.random.random() < self.mix else ClassicMember
        return kind(self, f"m{nth}", f"i{nth}" if nth < 2 else None)

    def at(self, when: int, action: Callable[..., Any]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (when, self.sequence, action))

    def after(self, delay: int, action: Callable[..., Any]) -> None:
        self.at(self.now + delay, action)

    def run_until(self, end: int) -> None:
        while self.events and self.events[0][0] <= end:
            self.now, _, action = heapq.heappop(self.events)
            action()
        self.now = end

    def stir(self) -> None:
        """One piece of trouble, and the next one soon."""
        if not self.trouble:
            return
        self.after(self.random.randrange(200, 3_000), self.stir)
        self.types_seen.update(group.group_type for group in self.coordinator.shard.list_groups())
        nth = self.random.randrange(len(self.members))
        member = self.members[nth]
        match self.random.randrange(7):
            case 0 if member.alive:
                member.crash()
            case 1 if member.alive:
                member.leave()
            case 2 if member.alive:
                member.stalled_until = self.now + self.random.randrange(1_000, 12_000)
            case 3 if self.random.random() < 0.3:
                self.coordinator.fail_over()
            case 4 if self.random.random() < 0.3:
                self.change_topic()
            case _ if not member.alive:
                lives = member.life
                self.members[nth] = self.new_member(nth)  # maybe of the other protocol
                self.members[nth].life = lives
                self.members[nth].start()

    def change_topic(self) -> None:
        """The topic grows, or is deleted and created again. Its offsets stay, so that they can be followed."""
        before, created_again = self.topics, self.random.random() < 0.5
        partitions = self.random.randrange(1, 6) if created_again else before.partitions + 1
        self.topics = OneTopic(before.version + 1, before.life + created_again, partitions)
        self.coordinator.shard.topics_changed(self.topics, (TOPIC,), has_new=created_again)

    # What must hold

    def offset(self, partition: int) -> int:
        (topic,) = self.coordinator.shard.fetch_offsets(GROUP, ((TOPIC, (partition,)),)).topics
        return max(topic.partitions[0].committed_offset, 0)

    def check_offsets(self) -> None:
        for partition in range(self.topics.partitions):
            offset = self.offset(partition)
            assert offset >= self.high.get(partition, 0), f"offset of {partition} went back to {offset}"
            self.high[partition] = offset

    def is_current(self, member: ClassicMember | ConsumerMember) -> bool:
        """Whether the coordinator would take a commit of it."""
        shard = self.coordinator.shard
        (group,) = shard.list_groups() or (None,)
        if group is None:
            return False
        if group.group_type == "consumer":
            found = shard.fetch_offsets(GROUP, (), member_id=member.member_id, member_epoch=member.epoch)
            return found.error_code is ErrorCode.NONE
        if not isinstance(member, ClassicMember):
            return False
        code = beat(shard, GROUP, member.member_id, member.instance, member.epoch, self.now)
        return code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)

    def check_owners(self, member: ClassicMember | ConsumerMember) -> None:
        for other in self.members:
            shared = set(other.owned) & set(member.owned)
            if other is member or not other.alive or not shared:
                continue
            assert not (self.is_current(other) and self.is_current(member)), (
                f"{other.name} and {member.name} both own {shared}"
            )

    def check_calm(self) -> None:
        alive = [member for member in self.members if member.alive]
        (group,) = self.coordinator.shard.list_groups()
        expected = "consumer" if any(isinstance(each, ConsumerMember) for each in alive) else "classic"
        assert group.group_state == "Stable"
        if expected == "consumer":
            assert group.group_type == "consumer"
            members = describe_consumers(self.coordinator.shard, GROUP).members
        elif group.group_type == "classic":
            members = describe(self.coordinator.shard, GROUP, 6).members
        else:
            # The last of the new protocol did not go alone: a classic one went in the same moment.
            members = describe_consumers(self.coordinator.shard, GROUP).members
        assert sorted(each.member_id for each in members) == sorted(each.member_id for each in alive)
        owned = sorted(partition for member in alive for partition in member.owned)
        assert owned == [(self.topics.topic_id, number) for number in range(self.topics.partitions)]
        assert not self.coordinator.waiting
        for log in (self.coordinator.log, self.coordinator.compacted()):
            assert facts(self.coordinator.new_shard(log)) == facts(self.coordinator.shard)


def facts(shard: GroupShard) -> Any:
    """A group by its members and offsets, in no order."""
    consumer, classic = describe_consumers(shard, GROUP), describe(shard, GROUP, 6)
    offsets = shard.fetch_offsets(GROUP, None).topics
    return (
        replace(consumer, members=tuple(sorted(consumer.members, key=lambda member: member.member_id))),
        replace(classic, members=tuple(sorted(classic.members, key=lambda member: member.member_id))),
        sorted(
            (each.partition_index, each.committed_offset) for topic in offsets for each in topic.partitions
        ),
    )


@pytest.mark.parametrize("seed", range(SEEDS))
def test_group_survives_trouble(seed: int) -> None:
    sim = Simulation(seed)
    sim.members[0].start()
    sim.stir()
    sim.run_until(TROUBLE_MS)
    sim.trouble = False
    for member in sim.members[:3]:
        if not member.alive:
            member.start()
    sim.run_until(TROUBLE_MS + CALM_MS)
    sim.quiet = True
    sim.run_until(TROUBLE_MS + CALM_MS + 5_000)
    sim.check_calm()
    assert sum(sim.high.values()) > 0, "nobody ever committed anything: the simulation tests nothing"
    assert "consumer" in sim.types_seen or sim.mix < 1, "nobody spoke the new protocol"
