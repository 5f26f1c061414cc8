"""One member of the metadata quorum (KIP-595). It takes a message and returns a `Ready`: the caller's duties.

The node uses no log, file, clock or socket. The caller carries out each `Ready` from top to bottom: it makes the vote
durable, appends, flushes, and only then sends and applies. So other nodes never learn of a vote or a record that could
be lost in a power failure. When the caller reports a flush, the node computes the high watermark: the end offset that a
majority of the voters has on disk. A lone voter is its own majority.
"""

from __future__ import annotations

from typing import assert_never

from kcli.errors import KcliError, NotControllerException
from kcli.model.ids import FIRST_LEADER_EPOCH, NO_LEADER, NO_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.protocol.batches.control import KRaftVersionRecord, LeaderChangeMessage, RaftControl
from kcli.protocol.batches.control import Voter as VoterId
from kcli.raft.election_state import ElectionState
from kcli.raft.messages import (
    NOTHING,
    Append,
    ControlBatch,
    DataBatch,
    Flushed,
    Ready,
    Resign,
    Shutdown,
    Start,
)
from kcli.raft.states import MOVES, Candidate, Leader, Resigned, State, Unattached
from kcli.raft.voters import NO_VOTERS, ReplicaKey, VoterSet


class QuorumError(KcliError):
    """This node cannot take part in its quorum, because of its configuration or its voters."""


class RaftNode:
    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.state: State = Unattached(epoch=FIRST_LEADER_EPOCH)
        self.voters = NO_VOTERS
        self.kraft_version = 0

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.epoch

    @property
    def leader_id(self) -> BrokerId:
        return self.key.id if isinstance(self.state, Leader) else NO_LEADER

    @property
    def high_watermark(self) -> Offset:
        return self.state.high_watermark if isinstance(self.state, Leader) else NO_OFFSET

    def step(self, message: Start | Append | Flushed | Resign | Shutdown, now: float) -> Ready:
        """Takes a message. `now`: seconds of a monotonic clock, for election timers; a lone voter has no such timers.

        Raises QuorumError on `Start` unless this node is the only voter, and NotControllerException on `Append` if this
        node is not the leader.
        """
        match message:
            case Start():
                return self._start(message)
            case Append(values=values):
                return self._append(values)
            case Flushed(end_offset=end_offset):
                return self._flushed(end_offset)
            case Resign() | Shutdown():
                return self._resign()
            case _ as unreachable:
                assert_never(unreachable)

    # --- elections

    def _start(self, start: Start) -> Ready:
        newest = start.voter_history[-1] if start.voter_history else start
        self.voters = newest.voters
        self.kraft_version = newest.kraft_version
        self.state = _restored(start, self.key)
        if not self.voters.is_only_voter(self.key):
            raise QuorumError(_why_not_alone(self.key, self.voters))
        candidate = Candidate(LeaderEpoch(self.epoch + 1), granted=(self.key,))
        self._move(candidate)
        vote = self._election_state()
        assert self.voters.is_majority(len(candidate.granted)), "the vote of the only voter is a majority"
        self._move(Leader(self.epoch, epoch_start_offset=start.log_end_offset))
        first = ControlBatch(self.epoch, self._first_records(candidate, bool(start.voter_history)))
        return Ready(persist=(vote, self._election_state()), append=(first,), flush=True)

    def _first_records(self, elected: Candidate, voters_in_log: bool) -> tuple[RaftControl, ...]:
        """The records of the new leader's first batch. They include the voters if only `format` has named these so
        far."""
        change = LeaderChangeMessage(
            leader_id=self.key.id,
            voters=tuple(VoterId(voter_id=voter_id) for voter_id in self.voters.ids),
            granting_voters=tuple(VoterId(voter_id=voter.id) for voter in elected.granted),
        )
        if self.kraft_version == 0 or voters_in_log:
            return (change,)
        return (change, KRaftVersionRecord(k_raft_version=self.kraft_version), self.voters.record())

    def _resign(self) -> Ready:
        if isinstance(self.state, Leader):
            self._move(Resigned(self.epoch))
        return NOTHING

    # --- the log

    def _append(self, values: tuple[bytes, ...]) -> Ready:
        if not isinstance(self.state, Leader):
            raise NotControllerException
        return Ready(append=(DataBatch(self.epoch, values),), flush=True)

    def _flushed(self, end_offset: Offset) -> Ready:
        before = self.state
        if not isinstance(before, Leader):
            return NOTHING
        after = before.flushed_by(self.key.id, end_offset, self.voters)
        self._move(after)
        if after.high_watermark == before.high_watermark:
            return NOTHING
        return Ready(apply=after.high_watermark)

    # --- state

    def _election_state(self) -> ElectionState:
        voted = self.key if isinstance(self.state, Candidate) else None
        static_voters = self.voters.ids if self.kraft_version == 0 else None
        return ElectionState(self.epoch, self.leader_id, voted, static_voters)

    def _move(self, state: State) -> None:
        assert (type(self.state), type(state)) in MOVES, f"{self.state} cannot become {state}"
        assert state.epoch >= self.state.epoch, "an epoch never goes back"
        self.state = state


def _restored(start: Start, key: ReplicaKey) -> State:
    """The state before the election, from quorum-state. If the log has a newer epoch, the stored state is ignored."""
    stored = start.stored
    log_epoch = start.epochs[-1][0] if start.epochs else FIRST_LEADER_EPOCH
    if stored is None or stored.epoch < log_epoch:
        return Unattached(log_epoch)
    if stored.leader_id == key.id:
        return Resigned(stored.epoch)
    if stored.voted is not None and stored.voted.matches(key):
        return Candidate(stored.epoch, granted=(key,))
    return Unattached(stored.epoch, stored.voted)


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
