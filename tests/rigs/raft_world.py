"""The world of tests/scenario/raft_*.txt: machines with raft nodes, and the messages between them.

Node 1 is alone until `nodes` names others. Its directory is #1, and so on. A line of another node than the only one
begins with its id. Commands take a node id first if there are several nodes; without an id they are for all nodes:

    nodes [static] 1 2 3                new machines, which are the voters; static: of the configuration
    observer 4 | broker 5               more machines, which know the voters as bootstrap servers
    voters 1/#1 … | static 1 … | none   the voters that `format` or the configuration names to node 1
    start                               the node starts from what is on the disk
    append value …                      the active controller appends one batch
    hold | flush [offset]               flushes are kept back; a flush is reported: all, or only up to `offset`
    small-fetches                       a Fetch returns one batch
    resign | shutdown
    crash-at persist|append|flush [n]   the power fails before the n-th such duty of the next command
    crash                               the power fails now: the node and what is not flushed are gone
    lose-file | lose-disk | new-disk    the quorum-state file or the whole disk is lost; a new disk has a new directory
    show                                the node's state, and the disk
    tick 1 1.5                          1.5 seconds pass for node 1 only
    wait 1.5                            1.5 seconds pass for all nodes, and all messages arrive
    deliver [1 2]                       the messages in flight arrive: all, or those from 1 to 2
    settle                              messages arrive until there are no more
    drop 1 2                            the messages in flight from 1 to 2 are lost
    cut 1 2 | heal                      messages between 1 and 2 are lost, until `heal`
    add 1 4 | remove 1 3 | upgrade 1 1  an operator asks node 1 to change the voters, or to set kraft.version
    endpoint 2 EXTERNAL 9999            node 2 has one more listener from its next start on
    snapshot 1 4                        node 1 writes a snapshot up to offset 4 and deletes the log before it
    begin 1 2 7                         node 1 hears from a node that calls itself 2, the leader of epoch 7
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from kcli.errors import ErrorCode
from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import (
    Answered,
    Append,
    Batch,
    ControlBatch,
    DataBatch,
    Message,
    Outgoing,
    Received,
    Reply,
    Resign,
    Shrunk,
    Shutdown,
    Tick,
    Unanswered,
    UpgradeKRaftVersion,
)
from kcli.raft.requests import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeRequest,
    ProbeResponse,
    RaftRequest,
    RaftResponse,
    ReceivedBatch,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kcli.raft.settings import RaftSettings
from kcli.raft.states.leader import Leader
from kcli.raft.states.table import State
from kcli.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet
from rigs.raft import LISTENER, Disk, Machine, PowerFailure, address_of, directory, voter_of
from rigs.scenarios import Commands

OPERATOR = 0
"""The sender of requests that no node sent."""

FIRST_PORT = 9093


@dataclass(frozen=True)
class Flight:
    """A request to `target`, or the response to it if `response` is set. `request_id` is the number at its sender."""

    source: int
    target: int
    request_id: int
    request: RaftRequest
    response: RaftResponse | None = None


class RaftWorld(Commands):
    def __init__(self) -> None:
        super().__init__()
        self.machines: dict[int, Machine] = {}
        self._clocks: dict[int, float] = {}
        self._in_flight: list[Flight] = []
        self._received: dict[int, Flight] = {}
        self._cuts: set[frozenset[int]] = set()
        self._holding = False
        self._quiet = False
        self._fails_at: tuple[str, int] | None = None
        self._do_nodes(["1"])

    # --- commands: machines

    def _do_nodes(self, words: list[str]) -> None:
        is_static = words[0] == "static"
        numbers = [int(word) for word in words if word != "static"]
        keys = [
            ReplicaKey(number) if is_static else ReplicaKey(number, directory(number)) for number in numbers
        ]
        voters = VoterSet(tuple(voter_of(key) for key in keys))
        self.machines.clear()
        self._in_flight.clear()
        self._cuts.clear()
        for number in numbers:
            self._add_machine(number, RaftSettings(default_listener=LISTENER), voters, 0 if is_static else 1)

    def _do_observer(self, words: list[str], *, is_broker: bool = False) -> None:
        bootstrap = tuple(address_of(number) for number in self.machines)
        settings = RaftSettings(
            default_listener=LISTENER, bootstrap=bootstrap, can_vote=not is_broker, flushes=not is_broker
        )
        self._add_machine(int(words[0]), settings, NO_VOTERS, 0)

    def _do_broker(self, words: list[str]) -> None:
        self._do_observer(words, is_broker=True)

    def _add_machine(self, number: int, settings: RaftSettings, voters: VoterSet, level: int) -> None:
        machine = Machine(number, settings, lambda: number / 10, voters, level)
        machine.on_send = lambda outgoing: self._sent(number, outgoing)
        machine.on_reply = lambda reply: self._replied(number, reply)
        machine.on_duty = lambda duty, value: self._duty(number, duty, value)
        machine.on_move = lambda moves: self._moved(number, moves)
        self.machines[number] = machine
        self._clocks[number] = 0.0

    def _do_voters(self, words: list[str]) -> None:
        named = [word for word in words if word[0].isdigit()]
        machine = self.machines[1]
        machine.kraft_version = 0 if words[0] == "static" else 1
        voters = VoterSet(tuple(Voter(_key(word), {LISTENER: address_of(int(word[0]))}) for word in named))
        machine.voters = voters if named else NO_VOTERS

    def _do_start(self, words: list[str]) -> None:
        for number in self._numbers(words):
            self._run(number, None)

    def _do_append(self, words: list[str]) -> None:
        number, rest = self._one(words)
        self._run(number, Append(tuple(word.encode() for word in rest)))

    def _do_hold(self, _words: list[str]) -> None:
        self._holding = True

    def _do_small_fetches(self, _words: list[str]) -> None:
        for machine in self.machines.values():
            machine.fetch_batches = 1

    def _do_flush(self, words: list[str]) -> None:
        number, rest = self._one(words)
        machine = self.machines[number]
        end_offset = int(rest[0]) if rest else machine.disk.end
        ends = (0, *(batch.next_offset for batch in machine.disk.batches))
        assert end_offset in ends, "a batch is flushed whole"
        machine.flush(self._clocks[number], end_offset)

    def _do_resign(self, words: list[str]) -> None:
        self._run(self._one(words)[0], Resign())

    def _do_shutdown(self, words: list[str]) -> None:
        self._run(self._one(words)[0], Shutdown())

    def _do_crash_at(self, words: list[str]) -> None:
        self._fails_at = (words[0], int(words[1]) if len(words) > 1 else 1)

    def _do_crash(self, words: list[str]) -> None:
        for number in self._numbers(words):
            machine = self.machines[number]
            machine.stop()
            machine.disk.lose_unflushed()
            machine.node = machine.new_node()
            self._in_flight = [each for each in self._in_flight if number not in (each.source, each.target)]

    def _do_lose_file(self, words: list[str]) -> None:
        self.machines[self._one(words)[0]].disk.file = None

    def _do_lose_disk(self, words: list[str]) -> None:
        number = self._one(words)[0]
        self._do_crash([str(number)])
        self.machines[number].disk = Disk()

    def _do_new_disk(self, words: list[str]) -> None:
        self._do_lose_disk(words)
        machine = self.machines[self._one(words)[0]]
        machine.key = ReplicaKey(machine.key.id, uuid.UUID(int=machine.key.directory_id.int + 90))
        machine.node = machine.new_node()

    def _do_endpoint(self, words: list[str]) -> None:
        machine = self.machines[int(words[0])]
        endpoints = {**machine.settings.own_endpoints, words[1]: Address("h", int(words[2]))}
        machine.settings = replace(machine.settings, own_endpoints=endpoints)

    def _do_snapshot(self, words: list[str]) -> None:
        number = int(words[0])
        self.machines[number].take_snapshot(int(words[1]), self._clocks[number])

    def _do_show(self, words: list[str]) -> None:
        for number in self._numbers(words):
            machine = self.machines[number]
            state = machine.node.state
            self._say(number, f"{_name(state)}, leader {machine.node.leader_id}")
            if isinstance(state, Leader):
                start, high_watermark = state.epoch_start_offset, state.high_watermark
                self._say(number, f"epoch starts at {start}, high watermark {high_watermark}")
            elif len(self.machines) > 1:
                self._say(number, f"high watermark {machine.node.high_watermark}")
            if len(self.machines) > 1:
                ids = " ".join(
                    f"{voter.key.id}/{voter.key.directory_id}" for voter in machine.node.voters.voters
                )
                self._say(number, f"kraft.version {machine.node.kraft_version}, voters {ids}")
            disk = machine.disk
            stored = "no quorum-state" if disk.file is None else f"quorum-state {_show(disk.file)}"
            self._say(number, f"disk: {stored}; log ends at {disk.end}, flushed to {disk.flushed}")

    # --- commands: time and messages

    def _do_tick(self, words: list[str]) -> None:
        number = int(words[0])
        self._clocks[number] += float(words[1])
        self._tick(number)

    def _tick(self, number: int) -> None:
        machine = self.machines[number]
        deadline = machine.node.deadline
        if machine.is_running and deadline is not None and deadline <= self._clocks[number]:
            self._run(number, Tick())

    def _do_wait(self, words: list[str]) -> None:
        left = float(words[0])
        self._quiet = True
        self._settle()
        while (passed := min([left, *self._times_to_deadlines()])) < left:
            left -= passed
            self._pass(passed)
        self._pass(left)
        self._quiet = False

    def _times_to_deadlines(self) -> list[float]:
        running = (number for number, machine in self.machines.items() if machine.is_running)
        deadlines = ((number, self.machines[number].node.deadline) for number in running)
        return [max(at - self._clocks[number], 0.001) for number, at in deadlines if at is not None]

    def _pass(self, seconds: float) -> None:
        for number in self.machines:
            self._clocks[number] += seconds
        for number in self.machines:
            self._tick(number)
        self._settle()

    def _do_deliver(self, words: list[str]) -> None:
        wanted = tuple(map(int, words))
        arriving = [each for each in self._in_flight if not wanted or (each.source, each.target) == wanted]
        for flight in arriving:
            self._in_flight.remove(flight)
            self._arrive(flight)

    def _do_settle(self, _words: list[str]) -> None:
        self._quiet = True
        self._settle()
        self._quiet = False

    def _settle(self) -> None:
        for _ in range(1000):
            if not self._in_flight:
                return
            self._arrive(self._in_flight.pop(0))
        raise AssertionError("the messages do not come to an end")

    def _do_drop(self, words: list[str]) -> None:
        ends = (int(words[0]), int(words[1]))
        lost = [each for each in self._in_flight if (each.source, each.target) == ends]
        for flight in lost:
            self._in_flight.remove(flight)
            self._lost(flight)

    def _do_cut(self, words: list[str]) -> None:
        self._cuts.add(frozenset(map(int, words)))

    def _do_heal(self, _words: list[str]) -> None:
        self._cuts.clear()

    # --- commands: an operator

    def _do_add(self, words: list[str]) -> None:
        new = self.machines[int(words[1])]
        voter = Voter(new.key, dict(new.settings.own_endpoints))
        self._ask(int(words[0]), AddVoterRequest(voter=voter, timeout_s=30.0))

    def _do_remove(self, words: list[str]) -> None:
        number = int(words[0])
        voters = self.machines[number].node.voters.voters
        keys = [voter.key for voter in voters if voter.key.id == int(words[1])]
        self._ask(number, RemoveVoterRequest(key=keys[0] if keys else ReplicaKey(int(words[1]))))

    def _do_begin(self, words: list[str]) -> None:
        number, leader, epoch = map(int, words)
        endpoints = {LISTENER: address_of(leader)}
        request = BeginEpochRequest(epoch=epoch, leader_id=leader, voter=None, leader_endpoints=endpoints)
        self._ask(number, request)

    def _ask(self, number: int, request: RaftRequest) -> None:
        self._run(number, Received(self._token(Flight(OPERATOR, number, 0, request)), request))

    def _do_upgrade(self, words: list[str]) -> None:
        number = int(words[0])
        token = self._token(Flight(OPERATOR, number, 0, ProbeRequest()))
        self._run(number, UpgradeKRaftVersion(token, int(words[1])))

    # --- messages

    def _token(self, flight: Flight) -> int:
        token = len(self._received) + 1
        self._received[token] = flight
        return token

    def _sent(self, number: int, outgoing: Outgoing) -> None:
        target = int(outgoing.peer.address.host[1:])
        self._in_flight.append(Flight(number, target, outgoing.request_id, outgoing.request))

    def _replied(self, number: int, reply: Reply) -> None:
        asked = self._received[reply.token]
        if asked.source == OPERATOR:
            self._say(number, f"answers {_show_response(reply.response)}")
            return
        self._in_flight.append(replace(asked, source=number, target=asked.source, response=reply.response))

    def _arrive(self, flight: Flight) -> None:
        machine = self.machines[flight.target]
        if frozenset((flight.source, flight.target)) in self._cuts or not machine.is_running:
            self._lost(flight)
            return
        response = flight.response
        if not self._quiet:
            text = _show_request(flight.request) if response is None else _show_response(response)
            self.out.append(f"{flight.source} -> {flight.target} {text}")
        if response is not None:
            self._run(flight.target, Answered(flight.request_id, response))
        elif isinstance(flight.request, ProbeRequest):
            probed = ProbeResponse(min_kraft_version=0, max_kraft_version=1)
            self._in_flight.append(
                replace(flight, source=flight.target, target=flight.source, response=probed)
            )
        else:
            self._run(flight.target, Received(self._token(flight), flight.request))

    def _lost(self, flight: Flight) -> None:
        sender = flight.source if flight.response is None else flight.target
        if not self._quiet:
            self.out.append(f"{flight.source} -> {flight.target} lost")
        if self.machines[sender].is_running:
            self._run(sender, Unanswered(flight.request_id))

    # --- duties

    def _run(self, number: int, message: Message | None) -> None:
        """Lets a node start, or process a message, and its machine flush if it must."""
        machine = self.machines[number]
        now = self._clocks[number]
        try:
            if message is None:
                machine.start(now)
            else:
                machine.step(message, now)
            while machine.flushing is not None and len(self.machines) > 1 and not self._holding:
                machine.flush(now)
        except PowerFailure:
            self._say(number, "the power fails")
            self._do_crash([str(number)])

    def _moved(self, number: int, moves: list[tuple[State, State]]) -> None:
        names = [_name(moves[0][0])] if moves else []
        for before, after in moves:
            if (type(before), before.epoch) != (type(after), after.epoch):
                names.append(_name(after))
        if len(names) > 1:
            self._say(number, " -> ".join(names))

    def _duty(self, number: int, duty: str, value: object) -> None:
        self._fail_at(duty)
        disk = self.machines[number].disk
        match duty, value:
            case "persist", ElectionState():
                self._say(number, f"persist {_show(value)}")
            case "append", ControlBatch() | DataBatch() | ReceivedBatch():
                self._say(number, f"append {disk.end}: epoch {value.epoch} {_content(value)}")
            case "truncate", _:
                self._say(number, f"truncate to {value}")
            case "flush", _:
                if len(self.machines) == 1 or self._holding:
                    self._say(number, "flush")
            case "apply", _:
                self._say(number, f"apply up to {value}")
            case "snapshot", _:
                self._say(number, "write a part of a snapshot")
            case "shrunk", Shrunk(voter, former_end, end):
                self._say(number, f"warn: voter {voter.id} had {former_end} records, and now has {end}")
            case _:
                raise AssertionError(duty)

    def _fail_at(self, duty: str) -> None:
        if self._fails_at is None or self._fails_at[0] != duty:
            return
        left = self._fails_at[1] - 1
        self._fails_at = (duty, left) if left else None
        if not left:
            raise PowerFailure

    # --- words

    def _numbers(self, words: list[str]) -> list[int]:
        return [int(words[0])] if words else list(self.machines)

    def _one(self, words: list[str]) -> tuple[int, list[str]]:
        """The node of a command and the other words. The only node is not named."""
        if len(self.machines) == 1:
            return 1, words
        return int(words[0]), words[1:]

    def _say(self, number: int, text: str) -> None:
        self.out.append(text if len(self.machines) == 1 else f"{number}: {text}")


def _key(text: str) -> ReplicaKey:
    number, slash, directory_id = text.partition("/")
    return ReplicaKey(int(number), uuid.UUID(directory_id)) if slash else ReplicaKey(int(number))


def _name(state: State) -> str:
    return f"{type(state).__name__} {state.epoch}"


def _show(state: ElectionState) -> str:
    parts = [f"epoch {state.epoch}"]
    if state.leader_id != NO_LEADER:
        parts.append(f"leader {state.leader_id}")
    if state.voted is not None:
        parts.append(f"voted {state.voted.id}/{state.voted.directory_id}")
    if state.static_voters is not None:
        parts.append(f"static voters {' '.join(map(str, state.static_voters))}")
    return " ".join(parts)


def _content(batch: Batch) -> str:
    match batch:
        case ControlBatch(records=records):
            names = (type(record).__name__ for record in records)
            return " ".join(name.removesuffix("Record").removesuffix("Message") for name in names)
        case DataBatch(values=values):
            return " ".join(value.decode() for value in values)
        case ReceivedBatch(content=content):
            return content.decode()


def _show_request(request: RaftRequest) -> str:
    match request:
        case VoteRequest(pre_vote=pre_vote, epoch=epoch, last=last):
            kind = "PreVote" if pre_vote else "Vote"
            return f"{kind} epoch {epoch}, log ends at {last.end_offset} with epoch {last.epoch}"
        case BeginEpochRequest(epoch=epoch, leader_id=leader_id):
            return f"BeginQuorumEpoch epoch {epoch} leader {leader_id}"
        case EndEpochRequest(epoch=epoch, preferred=preferred):
            return f"EndQuorumEpoch epoch {epoch} successors {' '.join(str(key.id) for key in preferred)}"
        case FetchRequest(epoch=epoch, fetch_offset=offset, last_fetched_epoch=last_epoch):
            return f"Fetch epoch {epoch} from {offset} after epoch {last_epoch}"
        case FetchSnapshotRequest(epoch=epoch, snapshot_id=snapshot_id, position=position):
            name = f"{snapshot_id.end_offset}-{snapshot_id.epoch}"
            return f"FetchSnapshot epoch {epoch} of {name} from position {position}"
        case UpdateVoterRequest(epoch=epoch, voter=voter):
            return f"UpdateRaftVoter epoch {epoch} {voter.key.id}/{voter.key.directory_id}"
        case _:
            return type(request).__name__.removesuffix("Request")


def _show_response(response: RaftResponse) -> str:
    if isinstance(response, ProbeResponse):
        return "Probe"
    parts = [f"epoch {response.epoch}"]
    if response.error is not ErrorCode.NONE:
        parts.append(response.error.name)
    if response.leader_id != NO_LEADER:
        parts.append(f"leader {response.leader_id}")
    match response:
        case VoteResponse(granted=granted):
            parts.append("granted" if granted else "refused")
        case FetchResponse(diverging=diverging, snapshot_id=snapshot_id, batches=batches):
            if diverging is not None:
                parts.append(f"diverging after epoch {diverging.epoch} at {diverging.end_offset}")
            if snapshot_id is not None:
                parts.append(f"snapshot {snapshot_id.end_offset}-{snapshot_id.epoch}")
            if batches:
                parts.append(f"records {batches[0].base_offset} to {batches[-1].next_offset - 1}")
            parts.append(f"high watermark {response.high_watermark}")
        case FetchSnapshotResponse(position=position):
            parts.append(f"position {position}")
        case VoterChangeResponse(message=message) if message is not None:
            parts.append(message)
        case _:
            pass
    return ", ".join(parts)
