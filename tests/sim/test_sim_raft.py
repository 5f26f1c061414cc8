"""Seeded stories of a metadata quorum of 3 to 5 voters and an observer, without a server around them.

Messages are delayed, lost, delivered twice and overtaken. Machines crash between any two duties, lose what is not
flushed, pause, and lose their disk. Voters are added, removed and updated, and kraft.version is raised. Records are
appended all the time. After every event the invariants of Raft are checked. When the faults stop, a leader must emerge
and commit everything. Three short stories follow that chance alone seldom tells: a voter that cannot reach the leader,
a voter that loses its power between two candidates, and figure 8 of the Raft paper.

    python -m pytest tests/sim/test_sim_raft.py -k 17
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from kcli.errors import NotControllerException
from kcli.model.ids import BrokerId, LeaderEpoch
from kcli.protocol.batches.control import VotersRecord
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import (
    Answered,
    Append,
    Outgoing,
    Received,
    Reply,
    Resign,
    Tick,
    Unanswered,
    UpgradeKRaftVersion,
)
from kcli.raft.requests import (
    AddVoterRequest,
    ProbeRequest,
    ProbeResponse,
    RaftRequest,
    RaftResponse,
    ReceivedBatch,
    RemoveVoterRequest,
    VoteRequest,
    VoteResponse,
)
from kcli.raft.settings import RaftSettings
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.leader import Leader
from kcli.raft.states.table import State
from kcli.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet, voter_set
from rigs.raft import LISTENER, MANY, Disk, Machine, PowerFailure, address_of, directory, voter_of

SEEDS = 24
SEEDS_IN_FULL = 40
SEEDS_UNTIL_NOTICED = 10
STORM_S = 30.0
ELECTION_S = 15.0
"""Within this time after the last fault a leader is elected, and every node follows it."""
COMMIT_S = 3.0
"""Within this time every node has a record and knows that it is committed."""
SETTINGS = RaftSettings(default_listener=LISTENER)
Ticket = tuple[int, int, int]
"""A request: its sender, the incarnation of the sender, and its number there."""
FROM_OPERATOR = (-100, 0, 0)
"""A request that no machine sent."""


class RaftSim:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.sequence = 0
        self.calm = False
        self.crash_rate = self.rng.choice([0.0, 0.0005, 0.003])
        self.loss_rate = self.rng.choice([0.0, 0.02, 0.2])
        self.slowest_s = self.rng.choice([0.01, 0.05, 0.6])
        self.cut: set[frozenset[int]] = set()
        self.wiped: int | None = None
        count = self.rng.choice([3, 3, 4, 5])
        self.next_directory = 100
        is_static = self.rng.random() < 0.4
        keys = [ReplicaKey(number, directory(number)) for number in range(1, count + 1)]
        dynamic = VoterSet(tuple(voter_of(key) for key in keys))
        static = VoterSet(tuple(voter_of(ReplicaKey(key.id)) for key in keys))
        self.machines: dict[int, Machine] = {}
        spares = self.rng.choice([1, 2])
        bootstrap = tuple(address_of(key.id) for key in keys)
        for number in range(1, count + spares + 2):
            is_broker = number == count + spares + 1
            settings = replace(SETTINGS, bootstrap=bootstrap, can_vote=not is_broker, flushes=not is_broker)
            is_voter = number <= count
            voters = static if is_static else dynamic if is_voter else NO_VOTERS
            level = 0 if is_static else 1 if is_voter else 0
            self.machines[number] = self._machine(number, settings, voters, level)
        self.offsets = dict.fromkeys(self.machines, 0.0)
        self.incarnations = dict.fromkeys(self.machines, 0)
        self.outstanding: dict[Ticket, Outgoing] = {}
        self.tokens: dict[int, tuple[Ticket, int]] = {}
        """By token: the request, and the machine that received it."""
        self.flushing: set[int] = set()
        """The machines whose flush is running."""
        self.held_votes: list[tuple[Ticket, int, VoteRequest]] | None = None
        """The requests for votes that are not delivered yet, while a story holds them back."""
        self.lost_from: int | None = None
        """Responses with records from this offset on are lost."""
        self.appended = 0
        self.checks = Checks(self)

    def _machine(self, number: int, settings: RaftSettings, voters: VoterSet, level: int) -> Machine:
        machine = Machine(number, settings, self.rng.random, voters, level)
        machine.on_send = lambda outgoing: self._send(number, outgoing)
        machine.on_reply = self._replied
        machine.on_duty = lambda duty, value: self._duty(number, duty, value)
        machine.on_move = lambda moves: self.checks.moved(machine, moves)
        return machine

    # Time

    def at(self, delay: float, event: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.events, (self.now + delay, self.sequence, event))

    def run(self, until: float) -> None:
        while self.events and self.events[0][0] <= until:
            self.now, _, event = heapq.heappop(self.events)
            event()
        self.now = until

    def local(self, number: int) -> float:
        return self.now + self.offsets[number]

    # Machines

    def step(self, number: int, action: Callable[[Machine, float], None]) -> None:
        """Lets a running machine process a message, then checks the invariants and plans its next tick."""
        machine = self.machines[number]
        if not machine.is_running:
            return
        try:
            action(machine, self.local(number))
        except PowerFailure:
            self.power_off(number)
            self.at(self.rng.uniform(0, 5), lambda: self.start(number))
        self.checks.after(machine)
        self._plan(number)

    def _plan(self, number: int) -> None:
        machine = self.machines[number]
        incarnation = self.incarnations[number]
        deadline = machine.node.deadline
        if not machine.is_running:
            return
        if deadline is not None:

            def tick() -> None:
                if self.incarnations[number] == incarnation and machine.node.deadline == deadline:
                    if self.local(number) >= deadline:
                        self.step(number, lambda m, now: m.step(Tick(), now))
                    else:
                        self._plan(number)

            self.at(max(deadline - self.local(number), 0) + 1e-6, tick)
        if machine.flushing is not None and number not in self.flushing:
            self.flushing.add(number)
            self.at(self.rng.uniform(0, 0.02), lambda: self._flush(number, incarnation))

    def _flush(self, number: int, incarnation: int) -> None:
        if self.incarnations[number] == incarnation:
            self.flushing.discard(number)
            self.step(number, lambda machine, now: machine.flush(now))

    def start(self, number: int) -> None:
        machine = self.machines[number]
        if machine.is_running:
            return
        self.incarnations[number] += 1
        self.flushing.discard(number)
        machine.is_running = True
        self.step(number, lambda m, now: m.start(now))

    def power_off(self, number: int, *, power: bool = True) -> None:
        machine = self.machines[number]
        machine.stop()
        self.incarnations[number] += 1
        if power:
            machine.disk.lose_unflushed(self.rng.choice([0, 0, 1, 2]))

    def _duty(self, number: int, duty: str, value: object) -> None:
        if not self.calm and self.rng.random() < self.crash_rate:
            raise PowerFailure
        self.checks.duty(self.machines[number], duty, value)

    # The net

    def _is_lost(self, one: int, other: int) -> bool:
        if frozenset((one, other)) in self.cut:
            return True
        return not self.calm and self.rng.random() < self.loss_rate

    def _delay(self) -> float:
        if self.held_votes is not None:
            return 0.001  # equal times, so that no voter is a candidate before the others
        return self.rng.uniform(0.0005, 0.005 if self.calm else self.slowest_s)

    def _send(self, sender: int, outgoing: Outgoing) -> None:
        ticket = (sender, self.incarnations[sender], outgoing.request_id)
        self.outstanding[ticket] = outgoing
        self.at(SETTINGS.request_timeout_s, lambda: self._unanswered(ticket))
        receiver = int(outgoing.peer.address.host[1:])
        request = outgoing.request
        if self.held_votes is not None and isinstance(request, VoteRequest) and not request.pre_vote:
            self.held_votes.append((ticket, receiver, request))
            return
        copies = 2 if not self.calm and self.rng.random() < 0.02 else 1
        for _ in range(copies):
            if not self._is_lost(sender, receiver):
                self.at(self._delay(), lambda: self._deliver(ticket, receiver, outgoing.request))

    def _unanswered(self, ticket: Ticket) -> None:
        if self.outstanding.pop(ticket, None) is not None and self.incarnations[ticket[0]] == ticket[1]:
            self.step(ticket[0], lambda m, now: m.step(Unanswered(ticket[2]), now))

    def _token(self, ticket: Ticket, receiver: int) -> int:
        self.sequence += 1
        self.tokens[self.sequence] = (ticket, receiver)
        return self.sequence

    def _deliver(self, ticket: Ticket, receiver: int, request: RaftRequest) -> None:
        if not self.machines[receiver].is_running:
            self.at(self._delay(), lambda: self._unanswered(ticket))
            return
        if isinstance(request, ProbeRequest):
            self.at(
                self._delay(),
                lambda: self._answer(ticket, ProbeResponse(min_kraft_version=0, max_kraft_version=1)),
            )
            return
        token = self._token(ticket, receiver)
        self.step(receiver, lambda m, now: m.step(Received(token, request), now))

    def _replied(self, reply: Reply) -> None:
        ticket, receiver = self.tokens.pop(reply.token)
        self.checks.replied(self.machines[receiver], self.outstanding.get(ticket), reply)
        if self.lost_from is not None and (reply.read_from or 0) >= self.lost_from:
            return
        if ticket != FROM_OPERATOR and not self._is_lost(ticket[0], receiver):
            self.at(self._delay(), lambda: self._answer(ticket, reply.response))

    def _answer(self, ticket: Ticket, response: RaftResponse) -> None:
        if self.outstanding.pop(ticket, None) is not None and self.incarnations[ticket[0]] == ticket[1]:
            self.step(ticket[0], lambda m, now: m.step(Answered(ticket[2], response), now))

    # What happens

    def leader(self) -> int | None:
        """A machine that believes to lead."""
        leading = [
            number for number, machine in self.machines.items() if machine.is_running and machine.node.leader
        ]
        return self.rng.choice(leading) if leading else None

    def append(self) -> None:
        number = self.leader()
        if number is not None:
            self.appended += 1
            values = tuple(f"v{self.appended}.{part}".encode() for part in range(self.rng.randint(1, 3)))

            def action(machine: Machine, now: float) -> None:
                try:
                    machine.step(Append(values), now)
                except NotControllerException:
                    assert machine.node.leader is None

            self.step(number, action)
        if not self.calm:
            self.at(self.rng.expovariate(5), self.append)

    def ask(self, number: int, request: RaftRequest) -> None:
        token = self._token(FROM_OPERATOR, number)
        self.step(number, lambda m, now: m.step(Received(token, request), now))

    def change_voters(self) -> None:
        number = self.leader()
        if number is not None:
            voters = self.machines[number].node.voters
            others = [m for m in self.machines.values() if m.settings.can_vote and m.key.id not in voters.ids]
            choice = self.rng.random()
            if self.machines[number].node.kraft_version == 0:
                token = self._token(FROM_OPERATOR, number)
                self.step(number, lambda m, now: m.step(UpgradeKRaftVersion(token, 1), now))
            elif others and choice < 0.6:
                new = self.rng.choice(others)
                voter = Voter(new.key, dict(new.settings.own_endpoints))
                self.ask(number, AddVoterRequest(voter=voter, timeout_s=10.0))
            else:
                gone = [voter.key for voter in voters.voters if self._may_go(voter.key, voters)]
                if gone:
                    self.ask(number, RemoveVoterRequest(key=self.rng.choice(gone)))
        if not self.calm:
            self.at(self.rng.expovariate(0.5), self.change_voters)

    def _may_go(self, key: ReplicaKey, voters: VoterSet) -> bool:
        """A voter without a disk counts against the majority, so an operator removes it before any other voter."""
        if self.wiped is not None:
            return key.id == self.wiped and self.machines[key.id].key != key
        return len(voters.voters) > 1

    def fault(self) -> None:
        number = self.rng.choice(list(self.machines))
        match self.rng.randrange(8):
            case 0 | 1 if self.machines[number].is_running:
                self.power_off(number, power=self.rng.random() < 0.7)
                self.at(self.rng.uniform(0.01, 6), lambda: self.start(number))
            case 2:
                pair = frozenset(self.rng.sample(list(self.machines), 2))
                self.cut.add(pair)
                self.at(self.rng.uniform(0.1, 8), partial(self.cut.discard, pair))
            case 3:
                for other in self.machines:
                    pair = frozenset((number, other))
                    self.cut.add(pair)
                    self.at(self.rng.uniform(0.1, 8), partial(self.cut.discard, pair))
            case 4:
                self.offsets[number] += self.rng.uniform(0, 4)
                self.step(number, lambda m, now: m.step(Tick(), now))
            case 5:
                self.snapshot(number)
            case 6 if self.machines[number].is_running:
                self.step(number, lambda m, now: m.step(Resign(), now))
            case 7:
                self.replace_disk_or_endpoints(number)
            case _:
                pass
        if not self.calm:
            self.at(self.rng.expovariate(1.2), self.fault)

    def snapshot(self, number: int) -> None:
        def take(machine: Machine, now: float) -> None:
            known = machine.disk.snapshots[-1].end_offset if machine.disk.snapshots else 0
            ends = [b.next_offset for b in machine.disk.log if known < b.next_offset <= machine.applied]
            if ends:
                machine.take_snapshot(self.rng.choice(ends), now, clean=self.rng.random() < 0.7)

        self.step(number, take)

    def replace_disk_or_endpoints(self, number: int) -> None:
        machine = self.machines[number]
        if machine.is_running or not machine.settings.can_vote:
            return
        endpoints = {LISTENER: address_of(number), "EXTERNAL": (f"n{number}", self.rng.randrange(1000, 1010))}
        machine.settings = replace(machine.settings, own_endpoints=endpoints)
        committed = voters_of(self.checks.committed)
        is_safe = committed is not None and len(committed.voters) >= 3
        if self.wiped is None and is_safe and self.rng.random() < 0.3 and self.all_dynamic():
            self.wiped = number
            self.next_directory += 1
            machine.key = ReplicaKey(number, directory(self.next_directory))
            machine.disk = Disk()
            machine.voters, machine.kraft_version = NO_VOTERS, 0

    def all_dynamic(self) -> bool:
        newest = [voters_of(machine.disk.batches) for machine in self.machines.values()]
        return all(voters is not None and len(voters.voters) >= 3 for voters in newest if voters is not None)

    # The story

    def storm(self) -> None:
        for number in self.machines:
            self.at(self.rng.uniform(0, 3), partial(self.start, number))
        self.at(1, self.append)
        self.at(3, self.change_voters)
        self.at(2, self.fault)
        self.run(STORM_S)

    def heal(self) -> None:
        self.calm = True
        self.cut.clear()
        for number in self.machines:
            self.start(number)
        self.settle()

    def settle(self) -> None:
        self.run(self.now + ELECTION_S)
        for _ in range(3):
            self.append()
            self.run(self.now + COMMIT_S)
        leader = self.only_leader()
        for machine in self.machines.values():
            assert machine.disk.end == leader.disk.end == machine.node.high_watermark, (
                f"machine {machine.key.id} has all records and knows that they are committed"
            )

    def until(self, condition: Callable[[], bool]) -> None:
        ends_at = self.now + ELECTION_S
        while not condition():
            assert self.now < ends_at, "the story continues"
            self.run(self.now + 0.001)

    def only_leader(self) -> Machine:
        leaders = [machine for machine in self.machines.values() if machine.node.leader is not None]
        assert len(leaders) == 1, f"one leader, not {[machine.key.id for machine in leaders]}"
        return leaders[0]

    def cut_one_follower(self) -> None:
        """A voter that hears only the other followers does not end the epoch of a leader that they hear (KIP-996)."""
        leader = self.only_leader()
        voters = leader.node.voters
        followers = [
            each.key.id for each in voters.voters if self.machines[each.key.id].key.matches(each.key)
        ]
        followers.remove(leader.key.id)
        if not voters.is_majority(len(followers)):
            return
        pair = frozenset((leader.key.id, self.rng.choice(followers)))
        epoch = leader.node.epoch
        self.cut.add(pair)
        self.run(self.now + 4 * SETTINGS.fetch_timeout_s)
        self.cut.discard(pair)
        self.run(self.now + ELECTION_S)
        assert self.only_leader() is leader and leader.node.epoch == epoch, "the leader keeps its epoch"

    def voters(self) -> list[Machine]:
        """The voters in a random order, the leader first. Empty if a voter has lost its disk."""
        leader = self.only_leader()
        voters = leader.node.voters.voters
        if not all(self.machines[voter.key.id].key.matches(voter.key) for voter in voters):
            return []
        others = [self.machines[voter.key.id] for voter in voters if not voter.key.matches(leader.key)]
        self.rng.shuffle(others)
        return [leader, *others]

    def vote_twice(self) -> None:
        """All followers are candidates of one epoch. The leader votes, loses its power, and is asked again."""
        leader, *others = self.voters() or [self.only_leader()]
        if len(others) < 2:
            return
        self.isolate(leader)
        self.held_votes = []
        for other in others:
            self.offsets[other.key.id] += 2 * SETTINGS.fetch_timeout_s
        for other in others:
            self.step(other.key.id, lambda m, now: m.step(Tick(), now))
        self.until(lambda: all(isinstance(other.node.state, Candidate) for other in others))
        assert len({other.node.epoch for other in others}) == 1
        self.cut.clear()
        held, self.held_votes = self.held_votes, None
        for ticket, receiver, request in held:
            if receiver == leader.key.id:
                self._deliver(ticket, receiver, request)
                self.power_off(receiver)
                self.start(receiver)
        self.settle()

    def isolate(self, machine: Machine) -> None:
        self.cut |= {frozenset((machine.key.id, other)) for other in self.machines}

    def copy_an_old_record(self) -> None:
        """Figure 8 of the Raft paper: a majority has a record of an old epoch, and yet it is not committed."""
        first, *others = self.voters() or [self.only_leader()]
        if len(others) < 2:
            return
        end = first.disk.end
        # The leader alone has a record. The next leader alone has the first record of its epoch.
        self.isolate(first)
        self.step(first.key.id, lambda m, now: m.step(Append((b"old",)), now))
        self.lost_from = end
        self.until(lambda: any(each.node.leader and each.disk.flushed > end for each in others))
        (second,) = (each for each in others if each.node.leader)
        others.remove(second)
        # The first leader is elected again and copies its old record to a majority, but no record of the new epoch.
        needed = (len(others) + 2) // 2
        for each in (second, *others[needed:]):
            self.power_off(each.key.id, power=False)
        self.cut.clear()
        self.lost_from = end + 1
        first.fetch_batches = 1
        self.until(lambda: all(each.disk.flushed > end for each in others[:needed]))
        self.run(self.now + 0.1)
        # The second leader has the newer epoch in its log, so it is elected again and cuts off the old record.
        self.power_off(first.key.id, power=False)
        self.lost_from = None
        first.fetch_batches = MANY
        self.start(second.key.id)
        self.until(lambda: second.node.leader is not None)
        for number in self.machines:
            self.start(number)
        self.settle()
        assert first.disk.batches == second.disk.batches
        assert all(batch.content != b"old" for batch in first.disk.batches), "no majority had committed it"


def voters_of(batches: tuple[ReceivedBatch, ...]) -> VoterSet | None:
    for batch in reversed(batches):
        for control in batch.controls:
            if isinstance(control, VotersRecord):
                return voter_set(control)
    return None


class Checks:
    """The invariants of Raft. What is durable is read from the disks, not from the nodes."""

    def __init__(self, sim: RaftSim) -> None:
        self.sim = sim
        self.leaders: dict[int, ReplicaKey] = {}
        self.committed: tuple[ReceivedBatch, ...] = ()
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.epochs: dict[ReplicaKey, int] = {}
        self.checked: dict[ReplicaKey, tuple[ReceivedBatch, ...]] = {}
        self.entries: dict[tuple[int, int], tuple[ReceivedBatch, tuple[int, int] | None]] = {}

    def moved(self, machine: Machine, moves: list[tuple[State, State]]) -> None:
        for before, state in moves:
            assert state.epoch >= before.epoch
            if isinstance(state, Leader):
                first = self.leaders.setdefault(state.epoch, machine.key)
                assert first == machine.key, (
                    f"epoch {state.epoch} has leaders {first.id} and {machine.key.id}"
                )
                self.has_committed(machine)

    def replied(self, machine: Machine, asked: Outgoing | None, reply: Reply) -> None:
        request, response = None if asked is None else asked.request, reply.response
        is_vote = isinstance(request, VoteRequest) and not request.pre_vote
        if is_vote and isinstance(response, VoteResponse) and response.granted:
            self.voted(machine, request.epoch, request.candidate)

    def voted(self, machine: Machine, epoch: int, candidate: ReplicaKey) -> None:
        first = self.votes.setdefault((machine.key, epoch), candidate)
        assert first.matches(candidate), f"{machine.key.id} votes for two candidates in epoch {epoch}"

    def has_committed(self, machine: Machine) -> None:
        count = len(self.committed)
        assert machine.disk.batches[:count] == self.committed, (
            f"leader {machine.key.id} of epoch {machine.node.epoch} has every committed record"
        )

    def duty(self, machine: Machine, duty: str, value: object) -> None:
        match duty, value:
            case "persist", ElectionState():
                self.persisted(machine, value)
            case "truncate", int():
                self.truncated(machine, value)
            case "apply", int():
                self.applied(machine, value)
            case _:
                pass

    def persisted(self, machine: Machine, state: ElectionState) -> None:
        assert state.epoch >= self.epochs.get(machine.key, 0), "the durable epoch never goes back"
        self.epochs[machine.key] = state.epoch
        if state.voted is not None:
            self.voted(machine, state.epoch, state.voted)

    def truncated(self, machine: Machine, end: int) -> None:
        assert end >= machine.applied, "no applied record is cut off"
        for mine, committed in zip(machine.disk.batches, self.committed, strict=False):
            assert mine != committed or mine.next_offset <= end, f"a committed record is cut off at {end}"

    def applied(self, machine: Machine, high_watermark: int) -> None:
        assert high_watermark >= machine.applied, "the high watermark never goes back"
        assert high_watermark <= machine.disk.end
        mine = tuple(batch for batch in machine.disk.batches if batch.next_offset <= high_watermark)
        assert mine[-1].next_offset == high_watermark, "batches are committed whole"
        shorter = min(len(mine), len(self.committed))
        assert mine[:shorter] == self.committed[:shorter], "committed records never change"
        if len(mine) > len(self.committed):
            self.committed = mine
        if machine.node.leader is not None:
            self.majority_has(machine, mine, high_watermark)

    def majority_has(self, leader: Machine, batches: tuple[ReceivedBatch, ...], end: int) -> None:
        voters = leader.node.voters
        having = [
            machine.key.id
            for machine in self.sim.machines.values()
            if voters.voter(machine.key) is not None
            and machine.disk.flushed >= end
            and machine.disk.batches[: len(batches)] == batches
        ]
        assert voters.is_majority(len(having)), (
            f"{end} is committed, but only {having} of {voters.ids} have it"
        )

    def after(self, machine: Machine) -> None:
        """After every event: the log of the machine, and the epochs of its node."""
        if machine.is_running:
            assert machine.node.epoch >= self.epochs.get(machine.key, 0)
            assert machine.node.log_end_offset == machine.disk.end
            assert machine.node.high_watermark <= machine.disk.end
            if machine.node.leader is not None:
                self.leads_alone(machine)
        self.matches_others(machine)

    def leads_alone(self, machine: Machine) -> None:
        assert self.leaders[machine.node.epoch] == machine.key

    def matches_others(self, machine: Machine) -> None:
        """Log matching: the same offset and epoch is the same batch, with the same batches before it."""
        checked = self.checked.get(machine.key, ())
        batches = machine.disk.batches
        if batches is checked:
            return
        start = 0
        for start, (mine, before) in enumerate(zip(batches, checked, strict=False)):  # noqa: B007
            if mine is not before:
                break
        previous = batches[start - 1] if start else None
        for batch in batches[start:]:
            key = (batch.base_offset, batch.epoch)
            before_it = None if previous is None else (previous.base_offset, previous.epoch)
            known = self.entries.setdefault(key, (batch, before_it))
            assert known == (batch, before_it), (
                f"two logs differ at offset {batch.base_offset}, epoch {batch.epoch}"
            )
            previous = batch
        self.checked[machine.key] = batches


def run_seed(seed: int) -> RaftSim:
    sim = RaftSim(seed)
    sim.storm()
    sim.heal()
    sim.cut_one_follower()
    sim.vote_twice()
    sim.copy_an_old_record()
    return sim


@pytest.mark.parametrize(
    "seed",
    [*range(SEEDS), *(pytest.param(each, marks=pytest.mark.full) for each in range(SEEDS, SEEDS_IN_FULL))],
)
def test_a_quorum_keeps_its_promises(seed: int) -> None:
    try:
        run_seed(seed)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error}") from error


# The simulation is worth what it catches: each of these bugs breaks a promise of the quorum.


def _votes_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that starts again does not know for whom it voted."""

    def without_vote(
        epoch: LeaderEpoch, leader_id: BrokerId, _voted: object, static_voters: tuple[BrokerId, ...] | None
    ) -> ElectionState:
        return ElectionState(epoch, leader_id, None, static_voters)

    monkeypatch.setattr("kcli.raft.member.ElectionState", without_vote)


def _old_epochs_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader commits records of older epochs as soon as a majority has them."""

    def counted(leader: Leader, voters: VoterSet) -> Leader:
        ends = {voter.key.id: leader.progress_of(voter.key).end_offset for voter in voters.voters}
        reached = voters.majority_offset(ends)
        return leader if reached <= max(leader.high_watermark, 0) else replace(leader, high_watermark=reached)

    monkeypatch.setattr(Leader, "counted", counted)


@pytest.mark.parametrize("bug", [_votes_not_stored, _old_epochs_committed])
def test_a_broken_rule_is_noticed(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS_UNTIL_NOTICED):
            run_seed(seed)
