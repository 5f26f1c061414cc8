"""The state of a member, its moves to other states, and the work that the caller must do after a message.

The modules elections, leading, following and voter_changes contain the rules, and share one `Member`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kcli.errors import ErrorCode, KcliError
from kcli.model.ids import NO_LEADER, NO_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.raft.connections import Connections
from kcli.raft.election_state import ElectionState
from kcli.raft.log_state import LogState
from kcli.raft.messages import (
    Batch,
    ControlBatch,
    DataBatch,
    Outgoing,
    Peer,
    Ready,
    Reply,
    Shrunk,
    SnapshotChunk,
    Start,
)
from kcli.raft.requests import (
    Endpoints,
    FetchResponse,
    QuorumResponse,
    RaftRequest,
    ReceivedBatch,
    VoterChangeResponse,
)
from kcli.raft.settings import RaftSettings
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.table import MOVES, State
from kcli.raft.states.unattached import Unattached
from kcli.raft.states.votes import Votes
from kcli.raft.voter_history import VoterHistory
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.raft.waiting import Waiting

CHECK_QUORUM_FACTOR = 1.5
"""A leader resigns if a majority of the voters sends it no Fetch for this number of fetch timeouts, as in Kafka."""

FIRST_BOOTSTRAP_ID = -2
"""The id that stands for the first bootstrap server, because the real node id is unknown. The next bootstrap servers
get the ids -3, -4 and so on, as in Kafka."""


class QuorumError(KcliError):
    """This node cannot take part in its quorum, because of its configuration, its voters, its log or its disk."""


@dataclass(slots=True)
class Draft:
    """The content of the next `Ready`, while the node processes a message."""

    persist: list[ElectionState] = field(default_factory=list)
    truncate: Offset | None = None
    append: list[Batch] = field(default_factory=list)
    flush: bool = False
    write_snapshot: SnapshotChunk | None = None
    send: list[Outgoing] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    apply: Offset | None = None
    shrunk: list[Shrunk] = field(default_factory=list)

    def ready(self) -> Ready:
        return Ready(
            persist=tuple(self.persist),
            truncate=self.truncate,
            append=tuple(self.append),
            flush=self.flush,
            write_snapshot=self.write_snapshot,
            send=tuple(self.send),
            replies=tuple(self.replies),
            apply=self.apply,
            shrunk=tuple(self.shrunk),
        )


class Member:
    """The state of a member of the quorum. `waiting` has the requests that this node will answer while it leads, or
    refuse when it stops leading."""

    def __init__(
        self, key: ReplicaKey, settings: RaftSettings, jitter: Callable[[], float], start: Start, now: float
    ) -> None:
        self.key = key
        self.settings = settings
        self.jitter = jitter
        self.log = LogState(start)
        self.history = VoterHistory(start)
        self.connections = Connections(settings.retry_backoff_s)
        self.high_watermark = NO_OFFSET
        self.shutting_down = False
        self.draft = Draft()
        self.waiting = Waiting()
        self._persisted = start.stored
        self.state: State = self._restored(start.stored, now)

    # --- views

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.epoch

    @property
    def leader_id(self) -> BrokerId:
        """The leader that this node reports to others. A node that resigned reports no leader."""
        return NO_LEADER if isinstance(self.state, Resigned) else self.state.leader_id

    @property
    def leader_endpoints(self) -> Endpoints:
        match self.state:
            case Leader():
                return self.settings.own_endpoints
            case Follower(leader_endpoints=endpoints) | Prospective(leader_endpoints=endpoints):
                return endpoints
            case _:
                return {}

    @property
    def voters(self) -> VoterSet:
        return self.history.voters

    @property
    def kraft_version(self) -> int:
        return self.history.kraft_version

    @property
    def is_voter(self) -> bool:
        return self.settings.can_vote and self.voters.voter(self.key) is not None

    @property
    def may_lead(self) -> bool:
        """Whether this node may lead: it is a voter, or it was a voter and its removal may not be committed yet.

        If the logs of the other voters are shorter than the log of this node, this node does not vote for them. They
        may need its vote for a majority, so only this node can be elected (Raft dissertation, 4.2.2).
        """
        if self.is_voter or not self.settings.can_vote:
            return self.is_voter
        is_committed = self.history.offset < max(self.high_watermark, self.log.newest_snapshot.end_offset)
        return (
            not is_committed
            and self.history.at(Offset(self.history.offset - 1)).voters.voter(self.key) is not None
        )

    @property
    def other_voters(self) -> tuple[Voter, ...]:
        return tuple(voter for voter in self.voters.voters if not voter.key.matches(self.key))

    def own_voter(self) -> Voter:
        """The entry that this node should have in the list of voters, from its settings."""
        settings = self.settings
        return Voter(
            self.key, dict(settings.own_endpoints), settings.min_kraft_version, settings.max_kraft_version
        )

    @property
    def is_listed_correctly(self) -> bool:
        """Whether this node's entry in the list of voters is up to date. Also True if this node is not a voter, or does
        not know its own endpoints."""
        return not (self.is_voter and self.settings.own_endpoints) or self.own_voter() in self.voters.voters

    def leader_only_error(self, epoch: LeaderEpoch) -> ErrorCode:
        """The error code for a request that only the leader of `epoch` may serve. NONE if this node is that leader."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(self.state, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.BROKER_NOT_AVAILABLE if self.shutting_down else ErrorCode.NONE

    # --- duties

    def reply(self, token: int, response: QuorumResponse, read_from: Offset | None = None) -> None:
        self.draft.replies.append(Reply(token, response, read_from))

    def refuse_fetch(self, token: int, error: ErrorCode) -> None:
        response = FetchResponse(
            error=error,
            epoch=self.epoch,
            leader_id=self.leader_id,
            leader_endpoints=self.leader_endpoints,
        )
        self.reply(token, response)

    def finish_change(self, error: ErrorCode, message: str | None = None) -> None:
        """Answers the request that waits for a change of the voters."""
        assert self.waiting.change is not None, "a change is pending"
        token, self.waiting.change = self.waiting.change.token, None
        self.answer_change(token, error, message)

    def answer_change(self, token: int, error: ErrorCode, message: str | None = None) -> None:
        response = VoterChangeResponse(
            error=error,
            epoch=self.epoch,
            leader_id=self.leader_id,
            leader_endpoints=self.leader_endpoints,
            message=message,
        )
        self.reply(token, response)

    def send(self, peer: Peer, request: RaftRequest) -> None:
        self.draft.send.append(self.connections.send(peer, request))

    def send_to_voter(self, voter: Voter, request: RaftRequest, now: float) -> None:
        """Sends a request to a voter, if the connection to the voter is free and the address of the voter is known."""
        peer = self.peer_of(voter)
        if peer is not None and self.connections.is_ready(peer.id, now):
            self.send(peer, request)

    def peer_of(self, voter: Voter) -> Peer | None:
        address = voter.endpoints.get(self.settings.default_listener)
        return None if address is None else Peer(voter.key.id, address)

    def append(self, batch: ControlBatch | DataBatch | ReceivedBatch) -> Offset:
        """Appends a batch. Returns its base offset."""
        base_offset = self.log.end
        match batch:
            case ControlBatch(records=records):
                next_offset = Offset(base_offset + len(records))
                self.history.read(records, base_offset)
            case DataBatch(values=values):
                next_offset = Offset(base_offset + len(values))
            case ReceivedBatch(controls=controls):
                next_offset = batch.next_offset
                self.history.read(controls, base_offset)
        self.log.append(batch.epoch, next_offset)
        self.draft.append.append(batch)
        self.ask_for_flush()
        return base_offset

    def ask_for_flush(self) -> None:
        if self.settings.flushes:
            self.draft.flush = True
        else:
            self.log.flushed_to(self.log.end)

    def commit(self, high_watermark: Offset) -> None:
        """Raises the high watermark. A value below the present high watermark changes nothing."""
        assert high_watermark <= self.log.end, "only records of the log are committed"
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.draft.apply = high_watermark

    # --- moves

    def become_unattached(self, epoch: LeaderEpoch, now: float, leader_id: BrokerId = NO_LEADER) -> None:
        same = epoch == self.epoch
        match self.state:
            case Candidate(deadline=deadline) | Unattached(deadline=deadline) | Resigned(deadline=deadline):
                election_deadline = deadline
            case Prospective(deadline=deadline, votes=votes) if not votes.is_lost:
                election_deadline = deadline
            case _:
                election_deadline = self._election_deadline(now)
        self._move(
            Unattached(
                epoch=epoch,
                deadline=election_deadline,
                leader_id=leader_id,
                voted=self.state.voted if same else None,
            )
        )

    def become_voted(self, candidate: ReplicaKey, now: float) -> None:
        """Votes for a candidate in the present epoch, and restarts the election timer (Raft, section 5.2)."""
        state = self.state
        assert isinstance(state, Unattached | Prospective) and state.voted is None, "one vote in an epoch"
        deadline = self._election_deadline(now)
        if isinstance(state, Unattached):
            self._move(replace(state, voted=candidate, deadline=deadline))
            return
        self._move(replace(state, voted=candidate, deadline=deadline, votes=self._own_vote()))
        self.persist()

    def become_prospective(self, now: float) -> None:
        state = self.state
        endpoints = self.leader_endpoints or self.endpoints_of(state.leader_id)
        self._move(
            Prospective(
                epoch=state.epoch,
                deadline=self._election_deadline(now),
                votes=self._own_vote(),
                leader_id=state.leader_id,
                leader_endpoints=endpoints,
                voted=state.voted,
            )
        )

    def become_candidate(self, now: float) -> None:
        self._move(
            Candidate(
                epoch=LeaderEpoch(self.epoch + 1),
                deadline=self._election_deadline(now),
                votes=self._own_vote(),
                voted=self.key,
            )
        )

    def become_leader(self, now: float) -> None:
        assert isinstance(self.state, Candidate) and self.state.votes.is_won, "a majority elects the leader"
        self._move(
            Leader(
                epoch=self.epoch,
                leader_id=self.key.id,
                epoch_start_offset=self.log.end,
                check_deadline=self.check_deadline(now),
                begin_deadline=now,
            )
        )

    def become_follower(
        self, epoch: LeaderEpoch, leader_id: BrokerId, endpoints: Endpoints, now: float
    ) -> None:
        self._move(
            Follower(
                epoch=epoch,
                leader_id=leader_id,
                leader_endpoints=endpoints,
                fetch_deadline=now + self.settings.fetch_timeout_s,
                update_deadline=now + self.settings.fetch_timeout_s,
                voted=self.state.voted if epoch == self.epoch else None,
            )
        )

    def become_resigned(self, successors: tuple[ReplicaKey, ...], now: float) -> None:
        self._move(
            Resigned(
                epoch=self.epoch,
                deadline=self._election_deadline(now),
                leader_id=self.key.id,
                successors=successors,
            )
        )

    def learn(self, epoch: LeaderEpoch, leader_id: BrokerId, endpoints: Endpoints, now: float) -> None:
        """Moves to another state if the epoch or the leader that another node has named is new to this node.

        Raises QuorumError if two leaders are named for one epoch, or if this voter is named as the leader but does not
        lead.
        """
        if epoch < self.epoch:
            return
        known = self.state.leader_id if epoch == self.epoch else NO_LEADER
        if leader_id == self.key.id != known and self.is_voter:
            raise QuorumError(_named_leader(self.key, epoch, self.epoch))
        if leader_id not in (NO_LEADER, self.key.id):
            if known not in (NO_LEADER, leader_id):
                raise QuorumError(_two_leaders(epoch, known, leader_id))
            self._learn_leader(epoch, leader_id, endpoints, now)
        elif epoch > self.epoch:
            # If this node is an observer but is named as the leader, it has a new disk. With the old disk, it was a
            # voter and led this epoch.
            self.become_unattached(epoch, now)

    def _learn_leader(
        self, epoch: LeaderEpoch, leader_id: BrokerId, endpoints: Endpoints, now: float
    ) -> None:
        is_new = epoch > self.epoch or self.state.leader_id == NO_LEADER
        listed = endpoints or self.endpoints_of(leader_id)
        if self.settings.default_listener not in listed:
            # Without an address, this node cannot fetch from the leader. But it remembers the leader, because an epoch
            # has only one.
            if is_new:
                self.become_unattached(epoch, now, leader_id)
        elif is_new or isinstance(self.state, Unattached) or len(listed) > len(self.leader_endpoints):
            self.become_follower(epoch, leader_id, listed, now)

    def endpoints_of(self, voter_id: BrokerId) -> Endpoints:
        for voter in self.voters.voters:
            if voter.key.id == voter_id:
                return voter.endpoints
        return {}

    def check_deadline(self, now: float) -> float:
        return now + CHECK_QUORUM_FACTOR * self.settings.fetch_timeout_s

    def _election_deadline(self, now: float) -> float:
        return now + self.settings.election_timeout_s * (1 + self.jitter())

    def _own_vote(self) -> Votes:
        return Votes(self.voters, granted=(self.key.id,) if self.is_voter else ())

    def _move(self, state: State) -> None:
        assert type(state) in MOVES[type(self.state)], f"{self.state} cannot become {state}"
        assert state.epoch >= self.epoch, "an epoch never goes back"
        was_leader = isinstance(self.state, Leader)
        self.state = state
        self.connections.forget()
        if not isinstance(state, Prospective | Resigned):
            self.persist()
        if was_leader:
            self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        """Refuses the requests that wait, because this node has stopped leading."""
        for token in list(self.waiting.fetches):
            del self.waiting.fetches[token]
            self.refuse_fetch(token, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.waiting.change is not None:
            self.finish_change(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def persist(self) -> None:
        """Puts the election state into the next `Ready`, unless the same state was already written."""
        static_voters = self.voters.ids if self.kraft_version == 0 else None
        state = ElectionState(self.epoch, self.state.leader_id, self.state.voted, static_voters)
        if state != self._persisted:
            self._persisted = state
            self.draft.persist.append(state)

    def persist_level(self) -> None:
        """Writes the election state again if kraft.version has changed, because kraft.version decides which fields the
        state has."""
        written = self._persisted
        if written is not None and (written.static_voters is None) != (self.kraft_version > 0):
            self.persist()

    # --- start

    def _restored(self, stored: ElectionState | None, now: float) -> State:
        """The state of the node after a start, from the election state in quorum-state. If the log has a newer epoch,
        the stored election state is ignored."""
        log_epoch = self.log.last.epoch
        fresh = self._election_deadline(now)
        if stored is None or stored.epoch < log_epoch:
            return Unattached(epoch=log_epoch, deadline=fresh)
        epoch = stored.epoch
        if stored.leader_id == self.key.id:
            return Resigned(epoch=epoch, deadline=fresh, leader_id=self.key.id)
        if stored.voted is not None and stored.voted.matches(self.key) and stored.leader_id == NO_LEADER:
            return Candidate(epoch=epoch, deadline=fresh, votes=self._own_vote(), voted=self.key)
        endpoints = self.endpoints_of(stored.leader_id)
        if self.settings.default_listener in endpoints:
            return Follower(
                epoch=epoch,
                leader_id=stored.leader_id,
                leader_endpoints=endpoints,
                fetch_deadline=now + self.settings.fetch_timeout_s,
                update_deadline=now + self.settings.fetch_timeout_s,
                voted=stored.voted,
            )
        return Unattached(epoch=epoch, deadline=fresh, leader_id=stored.leader_id, voted=stored.voted)


def _named_leader(key: ReplicaKey, epoch: LeaderEpoch, own_epoch: LeaderEpoch) -> str:
    return (
        f"Node {key.id} is the leader of epoch {epoch} according to another controller, but its disk only has epoch "
        f"{own_epoch}. Either this disk was replaced, or another node has the same node.id."
    )


def _two_leaders(epoch: LeaderEpoch, known: BrokerId, other: BrokerId) -> str:
    return f"Epoch {epoch} has two leaders, {known} and {other}: two nodes may have the same node.id."
