"""The quorum seen from one member: a message in, and out comes what the shell owes it.

The shell obeys a `Ready` from top to bottom: make the vote durable, append the control records, flush, and only then
tell anybody. The high watermark moves when the shell reports how far the log is flushed: a lone voter is its own
majority, so what is on its disk is committed, but never before the first record of its own epoch is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from kcli.errors import StorageError
from kcli.model.ids import NO_LEADER, NO_OFFSET
from kcli.protocol.batches.control import KRaftVersionRecord, LeaderChangeMessage, RaftControl
from kcli.protocol.batches.control import Voter as VoterId
from kcli.raft.states import MOVES, Candidate, Leader, Resigned, State, Unattached
from kcli.raft.voters import ReplicaKey, VoterSet
from kcli.storage.checkpoint import NO_VOTE, QuorumState


class QuorumError(StorageError):
    """This node cannot take part in its quorum as it is set up."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the node finds when it starts. `voters_in_log`: the log itself names the voters, not only `format`'s
    snapshot or the configuration.
    """

    stored: QuorumState | None
    log_end_offset: int
    log_epoch: int
    voters: VoterSet
    kraft_version: int
    voters_in_log: bool


@dataclass(frozen=True, slots=True)
class Flushed:
    """The log is durable up to this offset."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class Resign:
    """The node is about to stop."""


Message = Start | Flushed | Resign


@dataclass(frozen=True, slots=True)
class Ready:
    """What the caller owes us, in this order: persist, append in `epoch` as one batch, flush, commit."""

    persist: tuple[QuorumState, ...] = ()
    append: tuple[RaftControl, ...] = ()
    flush: bool = False
    high_watermark: int | None = None


class RaftNode:
    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.state: State = Unattached(epoch=0)
        self.voters = VoterSet()
        self.kraft_version = 0

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        return self.key.id if isinstance(self.state, Leader) else NO_LEADER

    @property
    def high_watermark(self) -> int:
        return self.state.high_watermark if isinstance(self.state, Leader) else NO_OFFSET

    def step(self, message: Message) -> Ready:
        match message:
            case Start():
                return self._start(message)
            case Flushed(end_offset=end_offset):
                return self._flushed(end_offset)
            case Resign():
                return self._resign()
            case _ as unreachable:
                assert_never(unreachable)

    def _start(self, start: Start) -> Ready:
        self.voters = start.voters
        self.kraft_version = start.kraft_version
        self.state = _restored(start, self.key)
        if not self.voters.is_only_voter(self.key):
            raise QuorumError(_why_not_alone(self.key, self.voters))
        self._move(Candidate(self.epoch + 1))
        ballot = self._stored(voted=self.key)
        self._move(Leader(self.epoch, epoch_start_offset=start.log_end_offset))
        return Ready(
            persist=(ballot, self._stored()), append=self._first_records(start.voters_in_log), flush=True
        )

    def _first_records(self, voters_in_log: bool) -> tuple[RaftControl, ...]:
        """The new leader's first batch. Voters known only from `format` are put into the log once and for all."""
        ids = tuple(VoterId(voter_id=voter_id) for voter_id in self.voters.ids)
        change = LeaderChangeMessage(
            leader_id=self.key.id, voters=ids, granting_voters=(VoterId(voter_id=self.key.id),)
        )
        if self.kraft_version == 0 or voters_in_log:
            return (change,)
        return (change, KRaftVersionRecord(k_raft_version=self.kraft_version), self.voters.record())

    def _flushed(self, end_offset: int) -> Ready:
        state = self.state
        if not isinstance(state, Leader) or end_offset <= max(state.epoch_start_offset, state.high_watermark):
            return Ready()
        self._move(replace(state, high_watermark=end_offset))
        return Ready(high_watermark=end_offset)

    def _resign(self) -> Ready:
        if isinstance(self.state, Leader):
            self._move(Resigned(self.epoch))
        return Ready()

    def _stored(self, voted: ReplicaKey | None = None) -> QuorumState:
        """As it stands in the quorum-state file; its version is that of the voters it speaks of (KIP-853)."""
        version = min(self.kraft_version, 1)
        state = QuorumState(
            leader_id=self.leader_id,
            leader_epoch=self.epoch,
            voted_id=NO_VOTE if voted is None else voted.id,
            version=version,
            voters=self.voters.ids if version == 0 else None,
        )
        return state if voted is None else replace(state, voted_directory_id=voted.directory_id)

    def _move(self, state: State) -> None:
        assert (type(self.state), type(state)) in MOVES, f"{self.state} cannot become {state}"
        assert state.epoch >= self.state.epoch, "an epoch never goes back"
        self.state = state


def _restored(start: Start, key: ReplicaKey) -> State:
    stored = start.stored
    if stored is None or stored.leader_epoch < start.log_epoch:
        return Unattached(start.log_epoch)
    if stored.leader_id == key.id:
        return Resigned(stored.leader_epoch)
    voted = None if stored.voted_id == NO_VOTE else ReplicaKey(stored.voted_id, stored.voted_directory_id)
    if voted is not None and voted.matches(key):
        return Candidate(stored.leader_epoch)
    return Unattached(stored.leader_epoch, voted)


def _why_not_alone(key: ReplicaKey, voters: VoterSet) -> str:
    if not voters.voters:
        return (
            f"Node {key.id} has no voters: neither the metadata log nor its snapshots name any, and "
            "controller.quorum.voters is empty. Format its directory with --standalone."
        )
    if voters.voter(key) is None:
        known = ", ".join(
            f"{voter.key.id} with directory {voter.key.directory_id}" for voter in voters.voters
        )
        return f"Node {key.id} with directory {key.directory_id} is not a voter of its quorum; the voters are: {known}."
    others = ", ".join(str(voter_id) for voter_id in voters.ids if voter_id != key.id)
    return (
        f"Node {key.id} shares its quorum with voters {others}; only a quorum of a single voter can be run."
    )
