"""Classic groups under stress: members that crash, stall, leave and return, writes that lag or fail, coordinators that
move. Simulated clients follow the protocol as real ones do; everything is drawn from one seed.

Held at every moment: in one generation no partition has two owners, and a committed offset never goes back. In the
end, once the trouble stops: the group is stable, everybody alive is in it, every partition has an owner, and no request
was left without an answer.
"""

from __future__ import annotations

import heapq
import os
import random
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.records import encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.types import decode
from kcli.coordinator.runtime import Ready
from kcli.coordinator.write_errors import write_error
from kcli.errors import ErrorCode
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kcli.runtime.rng import SystemRng
from rigs.answers import answers
from rigs.group_calls import beat, describe, join_group, leave, sync

GROUP, TOPIC, PARTITIONS = "g", "t", 6
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"
SESSION_MS, REBALANCE_MS = 6_000, 10_000
TROUBLE_MS, CALM_MS = 60_000, 60_000
SEEDS = int(os.environ.get("KCLI_SIM_SEEDS", "40"))


class Coordinator:
    """A shard with a log whose commits lag, and now and then fail."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.config = GroupConfig(initial_rebalance_delay_ms=500, offsets_retention_check_interval_ms=5_000)
        self.log = []
        self.in_flight = deque()
        self.rng = SystemRng(sim.random.randrange(1 << 30))
        self.shard = GroupShard(self.config, self.rng)
        self.shard.start(0)
        self.waiting = {}
        self.tokens = 0
        self.wake()

    def call(self, step: Callable[..., Any], answered: Callable[..., Any]) -> None:
        self.tokens += 1
        self.waiting[self.tokens] = answered
        self.take(step(self.shard, self.tokens, self.sim.now))
        self.wake()

    def take(self, ready: Ready) -> None:
        if not ready.records:
            for token, response in answers(ready):
                self.answer(token, response, ErrorCode.NONE)
            return
        self.in_flight.append(ready)
        shard = self.shard
        self.sim.after(self.sim.random.choice((0, 0, 1, 30)), lambda: self.commit_next(shard))

    def commit_next(self, shard: GroupShard) -> None:
        if shard is not self.shard:
            return  # that coordinator is gone
        ready = self.in_flight.popleft()
        if self.sim.trouble and self.sim.random.random() < 0.02:
            code = ErrorCode.NOT_ENOUGH_REPLICAS
            if ready.continuations:
                self.take(ready.written(code, self.sim.now))
            for token, _ in answers(ready):
                self.answer(token, None, write_error(code))
        else:
            self.commit(ready)
            if ready.continuations:
                self.take(ready.written(ErrorCode.NONE, self.sim.now))
            for token, response in answers(ready):
                self.answer(token, response, ErrorCode.NONE)
        self.sim.check_offsets()
        self.wake()

    def commit(self, ready: Ready) -> None:
        for record in ready.records:
            self.log.append(encode(record))
            self.shard.replay(record, len(self.log) - 1)

    def answer(self, token: object, response: Any, code: ErrorCode) -> None:
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
            self.commit(self.in_flight.popleft())
        self.in_flight.clear()
        for token, response in answers(self.shard.resign(self.sim.now)):
            self.answer(token, response, ErrorCode.NONE)
        for token in tuple(self.waiting):
            self.answer(token, None, ErrorCode.NOT_COORDINATOR)
        self.shard = GroupShard(self.config, self.rng)
        for offset, (key, value) in enumerate(self.log):
            self.shard.replay(decode(key, value), offset)
        self.take(self.shard.start(self.sim.now))
        self.sim.check_offsets()
        self.wake()


class Member:
    """One consumer. `life` tells its present run from events of a former one."""

    def __init__(self, sim: Simulation, name: str, instance: str | None) -> None:
        self.sim, self.name, self.instance = sim, name, instance
        self.owned: tuple[int, ...] = ()
        self.member_id, self.generation = "", -1
        self.life = 0
        self.alive = False
        self.stalled_until = 0
        self.arrival = 0
        self.positions = {}

    def start(self) -> None:
        self.alive, self.life, self.member_id = True, self.life + 1, ""
        self.join()
        self.beat_later(self.life)
        self.commit_later(self.life)

    def crash(self) -> None:
        self.alive, self.owned, self.life = False, (), self.life + 1
        self.arrival = self.sim.now  # its next life has a connection of its own

    def leave(self) -> None:
        if self.instance is None and self.member_id:
            request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=self.member_id),))
            self.sim.coordinator.call(
                lambda shard, token, now: leave(shard, request, 5, token, now), lambda *_: None
            )
        self.crash()

    def guarded(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        life = self.life
        return lambda response, code: handle(response, code) if self.life == life else None

    def again(self, code: ErrorCode) -> None:
        self.owned, self.generation = (), -1
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id = ""
        life = self.life
        self.sim.after(50, lambda: self.join() if self.life == life else None)

    def join(self) -> None:
        self.owned = ()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),),
        )
        caller = Caller(api_version=9, client_id=self.name, client_host="/h")
        answered = self.guarded(self.joined)
        self.sim.at(
            max(self.arrival, self.sim.now),
            lambda: self.sim.coordinator.call(
                lambda shard, token, now: join_group(shard, request, caller, token, now), answered
            ),
        )

    def joined(self, response: JoinGroupResponse, code: ErrorCode) -> None:
        code = response.error_code if code is ErrorCode.NONE else code
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif code is not ErrorCode.NONE:
            self.again(code)
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.sync(response)

    def sync(self, joined: JoinGroupResponse) -> None:
        ids = sorted(member.member_id for member in joined.members)
        assignments = ()
        if joined.leader == self.member_id and not joined.skip_assignment:
            assignments = tuple(
                SyncGroupRequestAssignment(
                    member_id=member_id, assignment=bytes(range(index, PARTITIONS, len(ids)))
                )
                for index, member_id in enumerate(ids)
            )
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self.sim.coordinator.call(
            lambda shard, token, now: sync(shard, request, token, now), self.guarded(self.synced)
        )

    def synced(self, response: SyncGroupResponse, code: ErrorCode) -> None:
        code = response.error_code if code is ErrorCode.NONE else code
        if code is not ErrorCode.NONE:
            self.again(code)
            return
        self.fetch(tuple(response.assignment), self.life, self.generation)

    def fetch(self, assigned: tuple[int, ...], life: int, generation: int) -> None:
        """Reads its positions the way consumers do, requiring them stable: behind every write that is under way."""
        if self.life != life or self.generation != generation:
            return
        if self.sim.coordinator.in_flight:
            self.sim.after(1, lambda: self.fetch(assigned, life, generation))
            return
        self.owned = assigned
        self.sim.check_owners(self)
        self.positions = {partition: self.sim.offset(partition) for partition in self.owned}

    def beat_later(self, life: int) -> None:
        self.sim.after(2_000, lambda: self.beat(life))

    def beat(self, life: int) -> None:
        if self.life != life:
            return
        self.beat_later(life)
        if self.sim.now < self.stalled_until or not self.owned:
            return
        code = beat(
            self.sim.coordinator.shard, GROUP, self.member_id, self.instance, self.generation, self.sim.now
        )
        self.sim.coordinator.wake()
        if code is not ErrorCode.NONE:
            self.again(code)

    def commit_later(self, life: int) -> None:
        self.sim.after(self.sim.random.randrange(200, 900), lambda: self.commit(life))

    def commit(self, life: int) -> None:
        if self.life != life or self.sim.quiet:
            return
        self.commit_later(life)
        if not self.owned or (self.sim.now < self.stalled_until and self.sim.random.random() < 0.9):
            return  # even a stalled one may send what it had in its hands
        for partition in self.owned:
            self.positions[partition] += self.sim.random.randrange(1, 5)
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=self.positions[index])
            for index in self.owned
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=partitions),),
        )
        generation = self.generation
        answered = self.guarded(lambda response, code: self.committed(response, code, generation))
        # Some commits arrive late, though in the order of their connection: the member may be dead by then, and
        # its partition another's.
        self.arrival = max(self.arrival, self.sim.now + self.sim.random.choice((0, 0, 10, 1_000)))
        self.sim.at(
            self.arrival,
            lambda: self.sim.coordinator.call(
                lambda shard, token, now: shard.commit_offsets(request, 9, token, now), answered
            ),
        )

    def committed(self, response: OffsetCommitResponse | None, code: ErrorCode, generation: int) -> None:
        code = response.topics[0].partitions[0].error_code if code is ErrorCode.NONE else code
        if code is not ErrorCode.NONE and self.owned and generation == self.generation:
            self.again(code)


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.events = []
        self.sequence = 0
        self.trouble = True
        self.quiet = False
        """No write is committed any more, so a request without an answer stays without one."""
        self.owners = {}
        self.high = {}
        self.coordinator = Coordinator(self)
        self.members = [Member(self, f"m{n}", f"i{n}" if n < 2 else None) for n in range(5)]

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
        member = self.random.choice(self.members)
        match self.random.randrange(6):
            case 0 if member.alive:
                member.crash()
            case 1 if member.alive:
                member.leave()
            case 2 if member.alive:
                member.stalled_until = self.now + self.random.randrange(1_000, 12_000)
            case 3 if self.random.random() < 0.3:
                self.coordinator.fail_over()
            case _ if not member.alive:
                member.start()

    # What must hold

    def offset(self, partition: int) -> int:
        (topic,) = self.coordinator.shard.fetch_offsets(GROUP, ((TOPIC, (partition,)),)).topics
        return max(topic.partitions[0].committed_offset, 0)

    def check_offsets(self) -> None:
        for partition in range(PARTITIONS):
            offset = self.offset(partition)
            assert offset >= self.high.get(partition, 0), f"offset of {partition} went back to {offset}"
            self.high[partition] = offset

    def check_owners(self, member: Member) -> None:
        for partition in member.owned:
            key = (member.generation, partition)
            # A static member that came back holds the same place under a new id.
            owner = self.owners.setdefault(key, member.name)
            assert owner == member.name, (
                f"{owner} and {member.name} both own {partition} in {member.generation}"
            )

    def check_calm(self) -> None:
        alive = [member for member in self.members if member.alive]
        described = describe(self.coordinator.shard, GROUP, 6)
        assert described.group_state == "Stable"
        assert sorted(each.member_id for each in described.members) == sorted(
            each.member_id for each in alive
        )
        assert sorted(partition for member in alive for partition in member.owned) == list(range(PARTITIONS))
        assert not self.coordinator.waiting
        self.check_compacted_log(described)

    def check_compacted_log(self, described: DescribedGroup) -> None:
        """A coordinator that reads what compaction leaves of the log finds the same group and offsets."""
        last = {}
        for key, value in self.coordinator.log:
            last.pop(key, None)
            last[key] = value
        again = GroupShard(self.coordinator.config, self.coordinator.rng)
        for offset, (key, value) in enumerate(last.items()):
            if value is not None:
                again.replay(decode(key, value), offset)
        found = describe(again, GROUP, 6)
        assert sorted((each.member_id, each.member_assignment) for each in found.members) == sorted(
            (each.member_id, each.member_assignment) for each in described.members
        )
        assert offsets_of(again) == offsets_of(self.coordinator.shard)


def offsets_of(shard: GroupShard) -> list[tuple[int, ...]]:
    return sorted(
        (each.partition_index, each.committed_offset)
        for topic in shard.fetch_offsets(GROUP, None).topics
        for each in topic.partitions
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
