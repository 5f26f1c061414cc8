"""A machine with a raft node: its disk in memory, and the duties of each `Ready` carried out in their order.

The world around it decides what happens to the messages, to the flushes and to the power.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.addresses import Address
from kcli.protocol.batches.control import KRaftVersionRecord, VotersRecord
from kcli.raft.election_state import ElectionState
from kcli.raft.member import Member
from kcli.raft.messages import (
    ControlBatch,
    DataBatch,
    EpochStart,
    Flushed,
    LogCleaned,
    Message,
    Outgoing,
    Ready,
    Reply,
    SnapshotChunk,
    SnapshotInstalled,
    Start,
    VotersAt,
)
from kcli.raft.node import RaftNode
from kcli.raft.requests import FetchResponse, FetchSnapshotResponse, ReceivedBatch
from kcli.raft.settings import RaftSettings
from kcli.raft.states.table import State
from kcli.raft.voters import NO_VOTERS, ReplicaKey, Voter, VoterSet, voter_set

LISTENER = "CONTROLLER"
SNAPSHOT_PART_BYTES = 200
MANY = 1000


class PowerFailure(Exception):
    """The rest of the duties is not carried out."""


def address_of(node_id: int) -> Address:
    return Address(f"n{node_id}", 9093)


def voter_of(key: ReplicaKey) -> Voter:
    return Voter(key, {LISTENER: address_of(key.id)})


def directory(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)


class WatchedNode(RaftNode):
    """Notes each move from state to state."""

    moves: list[tuple[State, State]]

    def _compose(self, member: Member) -> None:
        self.moves = []
        move = member._move

        def noted(state: State) -> None:
            self.moves.append((member.state, state))
            move(state)

        member._move = noted
        super()._compose(member)


@dataclass
class Disk:
    """What a machine has stored. `flushed`: the end of the part of the log that survives a loss of power.

    `batches` includes the part before `log_start`, which the log no longer has: the invariants are about all records.
    """

    file: ElectionState | None = None
    batches: tuple[ReceivedBatch, ...] = ()
    flushed: int = 0
    log_start: int = 0
    snapshots: tuple[SnapshotId, ...] = ()

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    @property
    def log(self) -> tuple[ReceivedBatch, ...]:
        return tuple(batch for batch in self.batches if batch.base_offset >= self.log_start)

    def cut(self, end: int) -> None:
        self.batches = tuple(batch for batch in self.batches if batch.next_offset <= end)
        self.flushed = min(self.flushed, end)

    def lose_unflushed(self, survivors: int = 0) -> None:
        """A loss of power: what is not flushed is gone, except the first `survivors` batches of it."""
        unflushed = [batch for batch in self.batches if batch.next_offset > self.flushed]
        kept = unflushed[:survivors]
        end = kept[-1].next_offset if kept else self.flushed
        snapshot_end = self.snapshots[-1].end_offset if self.snapshots else 0
        if end < snapshot_end:
            # The log ends before the newest snapshot, which is durable. The log begins again at its end.
            end = self.log_start = snapshot_end
            self.snapshots = self.snapshots[-1:]
        self.cut(end)
        self.flushed = self.end


class Machine:
    """`on_send`, `on_reply`, `on_apply`: called for these duties. `on_duty`: called before each duty, by its name."""

    def __init__(
        self,
        node_id: int,
        settings: RaftSettings,
        jitter: Callable[[], float],
        voters: VoterSet = NO_VOTERS,
        kraft_version: int = 1,
    ) -> None:
        self.key = ReplicaKey(node_id, directory(node_id))
        self.settings = replace(settings, own_endpoints={LISTENER: address_of(node_id)})
        self.jitter = jitter
        self.voters = voters
        self.kraft_version = kraft_version
        self.disk = Disk()
        self.is_running = False
        self.flushing: int | None = None
        """The end of the log when the last flush was asked for, or None if it is reported."""
        self.applied = 0
        self.fetch_batches = MANY
        """The most batches in the response to a Fetch."""
        self.on_duty: Callable[[str, object], None] = lambda _duty, _value: None
        self.on_send: Callable[[Outgoing], None] = lambda _outgoing: None
        self.on_reply: Callable[[Reply], None] = lambda _reply: None
        self.on_move: Callable[[list[tuple[State, State]]], None] = lambda _moves: None
        self._part: list[bytes] = []
        self.node = self.new_node()

    def new_node(self) -> WatchedNode:
        return WatchedNode(self.key, self.settings, self.jitter)

    def start(self, now: float) -> None:
        self.node = self.new_node()
        self.is_running = True
        self.flushing = None
        self.applied = 0
        disk = self.disk
        newest = disk.snapshots[-1].end_offset if disk.snapshots else 0
        epochs: list[EpochStart] = []
        for batch in disk.log:
            if not epochs or batch.epoch > epochs[-1].epoch:
                epochs.append(EpochStart(batch.epoch, batch.base_offset))
        self.step(
            Start(
                stored=disk.file,
                log_start=disk.log_start,
                log_end_offset=max(disk.end, disk.log_start),
                epochs=tuple(epochs),
                snapshots=disk.snapshots,
                voters=self.voters,
                kraft_version=self.kraft_version,
                voter_history=self._history(newest),
            ),
            now,
        )

    def _history(self, newest: int) -> tuple[VotersAt, ...]:
        """The changes of the voters: in the newest snapshot, then each in the log after it."""
        found: list[VotersAt] = []
        level, voters = self.kraft_version, self.voters
        for batch in self.disk.batches:
            before = (level, voters)
            for control in batch.controls:
                if isinstance(control, VotersRecord):
                    voters = voter_set(control)
                elif isinstance(control, KRaftVersionRecord):
                    level = control.k_raft_version
            if (level, voters) != before or any(isinstance(each, VotersRecord) for each in batch.controls):
                found.append(VotersAt(batch.base_offset, level, voters))
        covered = [entry for entry in found if entry.offset < newest]
        return (*(replace(entry, offset=newest - 1) for entry in covered[-1:]), *found[len(covered) :])

    def stop(self) -> None:
        """The process ends. The disk keeps everything, but what was not flushed is still not flushed."""
        self.is_running = False
        self.applied = 0

    # Duties

    def step(self, message: Message, now: float) -> None:
        """Raises PowerFailure if `on_duty` does. The machine has crashed then."""
        self.node.moves.clear()
        try:
            ready = self.node.step(message, now)
        finally:
            self.on_move(self.node.moves)
        self._obey(ready, now)

    def _obey(self, ready: Ready, now: float) -> None:
        disk = self.disk
        for state in ready.persist:
            self.on_duty("persist", state)
            disk.file = state
        if ready.truncate is not None:
            self.on_duty("truncate", ready.truncate)
            disk.cut(ready.truncate)
            if self.flushing is not None:
                self.flushing = min(self.flushing, ready.truncate)
        for batch in ready.append:
            self.on_duty("append", batch)
            disk.batches += (self._stored(batch),)
        assert disk.end == self.node.log_end_offset or ready.write_snapshot is not None
        if ready.flush:
            self.on_duty("flush", None)
            self.flushing = disk.end
        if ready.write_snapshot is not None:
            self._write_snapshot(ready.write_snapshot, now)
        for outgoing in ready.send:
            self.on_send(outgoing)
        for reply in ready.replies:
            self.on_reply(self._filled(reply))
        if ready.apply is not None:
            self.on_duty("apply", ready.apply)
            self.applied = ready.apply
        for shrunk in ready.shrunk:
            self.on_duty("shrunk", shrunk)

    def _stored(self, batch: ControlBatch | DataBatch | ReceivedBatch) -> ReceivedBatch:
        base = self.disk.end
        match batch:
            case ReceivedBatch():
                assert batch.base_offset == base, "a received batch continues the log"
                return batch
            case ControlBatch(epoch=epoch, records=records):
                names = (type(record).__name__ for record in records)
                content = " ".join(name.removesuffix("Record").removesuffix("Message") for name in names)
                return ReceivedBatch(base, base + len(records), epoch, content.encode(), records)
            case DataBatch(epoch=epoch, values=values):
                return ReceivedBatch(base, base + len(values), epoch, b" ".join(values))

    def flush(self, now: float, end: int | None = None) -> None:
        """Completes the flush that was asked for, or a flush up to `end`."""
        flushed = self.flushing if end is None else end
        assert flushed is not None, "a flush was asked for"
        self.flushing = None
        self.disk.flushed = max(self.disk.flushed, flushed)
        self.step(Flushed(flushed), now)

    def _filled(self, reply: Reply) -> Reply:
        """The response with what the caller reads from its disk."""
        response = reply.response
        if isinstance(response, FetchResponse) and reply.read_from is not None:
            batches = tuple(batch for batch in self.disk.log if batch.next_offset > reply.read_from)
            batches = batches[: self.fetch_batches]
            return replace(reply, response=replace(response, batches=batches))
        if (
            isinstance(response, FetchSnapshotResponse)
            and response.snapshot_id is not None
            and not response.error
        ):
            content = self.snapshot(response.snapshot_id)
            part = content[response.position : response.position + SNAPSHOT_PART_BYTES]
            return replace(reply, response=replace(response, size=len(content), content=part))
        return reply

    # Snapshots

    def snapshot(self, snapshot_id: SnapshotId) -> bytes:
        return pickle.dumps(
            [batch for batch in self.disk.batches if batch.next_offset <= snapshot_id.end_offset]
        )

    def take_snapshot(self, end: int, now: float, *, clean: bool = True) -> None:
        """Writes a snapshot of the committed log up to `end`, and deletes the log before it."""
        last = next(batch for batch in self.disk.batches if batch.next_offset == end)
        self.disk.snapshots += (SnapshotId(end, last.epoch),)
        if clean:
            self.disk.log_start = end
            self.disk.snapshots = self.disk.snapshots[-1:]
        self.step(LogCleaned(self.disk.log_start, self.disk.snapshots), now)

    def _write_snapshot(self, chunk: SnapshotChunk, now: float) -> None:
        if chunk.position == 0:
            self._part = []
        assert sum(map(len, self._part)) == chunk.position, "the parts of a snapshot come in order"
        self._part.append(chunk.content)
        self.on_duty("snapshot", chunk)
        if not chunk.is_last:
            return
        end = chunk.snapshot_id.end_offset
        self.disk.batches = tuple(pickle.loads(b"".join(self._part)))
        assert self.disk.end == end
        self.disk.flushed = self.disk.log_start = end
        self.disk.snapshots = (chunk.snapshot_id,)
        history = self._history(end)
        voters = history[-1] if history else None
        self.step(
            SnapshotInstalled(
                chunk.snapshot_id,
                None if voters is None else voters.kraft_version,
                None if voters is None else voters.voters,
            ),
            now,
        )
