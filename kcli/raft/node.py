"""One member of the metadata quorum (KIP-595, KIP-853, KIP-996). The node takes a message and returns a `Ready`, the
work that the caller must do.

The node uses no log, file, clock or socket. The caller carries out each `Ready` from top to bottom: it makes the vote
durable, appends, flushes, and only then sends and replies. So a vote or a record that could be lost in a power failure
is never sent to other nodes. The caller also reports the time: it sends a `Tick` when `deadline` has passed.

One epoch has at most one leader, because a leader needs the votes of a majority, and a voter votes once in an epoch. A
follower sends Fetch to the leader. The offset of the Fetch shows which records the follower has on disk. The high
watermark is the end offset that a majority of the voters has on disk. A new leader has every record below the high
watermark, because a voter does not vote for a candidate with a shorter log. The next leader may remove records above
the high watermark. A single voter is a majority, and elects itself when it starts.

states/ has one class for each state. elections.py, leading.py, following.py and voter_changes.py contain the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from kcli.errors import ErrorCode
from kcli.model.ids import FIRST_OFFSET, BrokerId, LeaderEpoch, Offset
from kcli.raft.elections import Elections
from kcli.raft.following import Following
from kcli.raft.leading import Leading
from kcli.raft.member import Draft, Member, QuorumError
from kcli.raft.messages import (
    Answered,
    Append,
    Flushed,
    LogCleaned,
    Message,
    Outgoing,
    Ready,
    Received,
    Resign,
    Shutdown,
    SnapshotInstalled,
    Start,
    Tick,
    Unanswered,
    Unsupported,
    UpgradeKRaftVersion,
    VotersAt,
)
from kcli.raft.requests import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    EndEpochResponse,
    Endpoints,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeRequest,
    ProbeResponse,
    QuorumResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kcli.raft.settings import RaftSettings
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.table import State
from kcli.raft.states.unattached import Unattached
from kcli.raft.voter_changes import VoterChanges
from kcli.raft.voters import NO_VOTERS, ReplicaKey, VoterSet

__all__ = ["QuorumError", "RaftNode"]

FATAL = (ErrorCode.INVALID_REQUEST, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
"""Error codes of responses after which repeating the request does not help. The cause is a bug, or the nodes of the
quorum do not have the permission to send requests to each other."""


class RaftNode:
    """A member of the quorum, as a state machine. `deadline` is the time at which the caller must send the next `Tick`,
    or None. Read `deadline` after each call of `step`.

    `jitter` returns a random number in [0, 1).
    """

    def __init__(self, key: ReplicaKey, settings: RaftSettings, jitter: Callable[[], float]) -> None:
        self.key = key
        self.deadline: float | None = None
        self._is_started = False
        self._settings = settings
        self._jitter = jitter
        empty = Start(
            stored=None,
            log_start=FIRST_OFFSET,
            log_end_offset=FIRST_OFFSET,
            epochs=(),
            voters=NO_VOTERS,
            kraft_version=0,
        )
        self._compose(Member(key, settings, lambda: 0.0, empty, 0.0))

    def _compose(self, member: Member) -> None:
        self._member = member
        self._elections = Elections(member)
        self._leading = Leading(member)
        self._following = Following(member)
        self._changes = VoterChanges(member, self._leading)

    # --- views

    @property
    def state(self) -> State:
        return self._member.state

    @property
    def epoch(self) -> LeaderEpoch:
        return self._member.epoch

    @property
    def leader_id(self) -> BrokerId:
        return self._member.leader_id

    @property
    def leader_endpoints(self) -> Endpoints:
        return self._member.leader_endpoints

    @property
    def leader(self) -> Leader | None:
        """The state Leader with the progress of all replicas, if this node leads. Otherwise None."""
        state = self._member.state
        return state if isinstance(state, Leader) else None

    @property
    def high_watermark(self) -> Offset:
        """The highest committed offset that this node has heard of since its start, or -1."""
        return self._member.high_watermark

    @property
    def log_end_offset(self) -> Offset:
        return self._member.log.end

    @property
    def voters(self) -> VoterSet:
        return self._member.voters

    @property
    def kraft_version(self) -> int:
        return self._member.kraft_version

    def voters_at(self, offset: Offset) -> VotersAt:
        """The voters and the kraft.version that were in force at `offset`."""
        return self._member.history.at(offset)

    @property
    def is_shut_down(self) -> bool:
        """Whether `Shutdown` is complete: this node no longer leads, and each other voter has acknowledged this or does
        not answer."""
        member = self._member
        if not isinstance(member.state, Resigned):
            return not isinstance(member.state, Leader)
        acknowledged = member.state.acknowledged
        return all(voter.key.id in acknowledged for voter in member.other_voters)

    # --- step

    def step(self, message: Message, now: float) -> Ready:
        """Takes a message. `now`: seconds of a monotonic clock.

        Raises NotControllerException on `Append` if this node is not the leader. Raises QuorumError if the node must
        stop, because it can no longer be a correct member.
        """
        if isinstance(message, Start):
            self._start(message, now)
        else:
            assert self._is_started, "before Start the node does not know its vote, and could vote again"
            self._handle(message, now)
        self._act(now)
        self._member.persist_level()
        self.deadline = min((deadline for deadline in self._deadlines(now) if deadline > now), default=None)
        draft, self._member.draft = self._member.draft, Draft()
        return draft.ready()

    def _start(self, start: Start, now: float) -> None:
        member = Member(self.key, self._settings, self._jitter, start, now)
        if not member.voters.voters and not self._settings.bootstrap:
            raise QuorumError(_NO_VOTERS.format(id=self.key.id))
        self._compose(member)
        self._is_started = True
        if member.log.end > FIRST_OFFSET:
            # The end of the log may be in the page cache only, and a Fetch reports what is on disk.
            member.ask_for_flush()
        # A quorum of one needs the vote of no other node, so it does not wait for an election timeout.
        if member.is_voter and member.voters.is_only_voter(self.key):
            member.become_candidate(now)
        elif start.stored is not None:
            # The log can have a newer epoch or a newer kraft.version than the file.
            member.persist()

    def _handle(
        self,
        message: Append
        | Flushed
        | Tick
        | Resign
        | Shutdown
        | Received
        | Answered
        | Unanswered
        | Unsupported
        | SnapshotInstalled
        | LogCleaned
        | UpgradeKRaftVersion,
        now: float,
    ) -> None:
        member = self._member
        match message:
            case Append(values=values):
                self._leading.append(values)
            case Flushed(end_offset=end_offset):
                member.log.flushed_to(end_offset)
                if isinstance(member.state, Leader):
                    self._leading.flushed(now)
            case Resign() | Shutdown():
                member.shutting_down |= isinstance(message, Shutdown)
                if isinstance(member.state, Leader):
                    self._leading.resign(now)
            case Received():
                self._received(message, now)
            case Answered(request_id=request_id, response=response):
                self._answered(member.connections.ended(request_id), response, now)
            case Unanswered(request_id=request_id):
                self._unanswered(member.connections.ended(request_id), now)
            case Unsupported(request_id=request_id):
                self._unsupported(member.connections.ended(request_id), now)
            case SnapshotInstalled():
                self._following.installed(message)
            case LogCleaned(log_start=log_start, snapshots=snapshots):
                member.log.cleaned(log_start, snapshots)
            case UpgradeKRaftVersion(token=token, level=level):
                self._changes.upgrade(token, level, now)
            case Tick():
                pass
            case _ as unreachable:
                assert_never(unreachable)

    def _act(self, now: float) -> None:
        """Does the work of the present state, and moves to other states, until the state does not change any more."""
        member = self._member
        changed = True
        while changed:
            before = member.state
            changed = (
                self._leading.act(before, now) if isinstance(before, Leader) else self._elections.act(now)
            )
            if isinstance(before, Candidate) and isinstance(member.state, Leader):
                self._leading.begin(before, now)
        self._changes.act(now)
        self._following.act(now)

    def _deadlines(self, now: float) -> list[float]:
        """The times at which the node must act without a message."""
        member = self._member
        times: list[float] = []
        match member.state:
            case Leader() as state:
                times += [fetch.deadline for fetch in member.waiting.fetches.values()]
                times += self._changes.deadlines()
                if member.other_voters:
                    times += [state.check_deadline, state.begin_deadline]
            case Follower() as state:
                times += [state.fetch_deadline, state.update_deadline]
            case Unattached(deadline=deadline) | Prospective(deadline=deadline):
                times.append(deadline)
            case Candidate(deadline=deadline) | Resigned(deadline=deadline):
                times.append(deadline)
        pause = member.connections.next_end_of_pause(now)
        return times if pause is None else [*times, pause]

    # --- messages of other nodes

    def _received(self, message: Received, now: float) -> None:
        token = message.token
        match message.request:
            case VoteRequest() as request:
                self._elections.vote(token, request, now)
            case BeginEpochRequest() as request:
                self._elections.begin_epoch(token, request, now)
            case EndEpochRequest() as request:
                self._elections.end_epoch(token, request, now)
            case FetchRequest() as request:
                self._leading.fetch(token, request, now)
            case FetchSnapshotRequest() as request:
                self._leading.fetch_snapshot(token, request, now)
            case AddVoterRequest() as request:
                self._changes.add(token, request, now)
            case RemoveVoterRequest() as request:
                self._changes.remove(token, request, now)
            case UpdateVoterRequest() as request:
                self._changes.update(token, request, now)
            case ProbeRequest():
                raise AssertionError("the caller answers ApiVersions")
            case _ as unreachable:
                assert_never(unreachable)

    def _answered(
        self, outgoing: Outgoing | None, response: QuorumResponse | ProbeResponse, now: float
    ) -> None:
        """Processes the response to `outgoing`. If `outgoing` is None, the node has sent the request in an older state,
        and the response is dropped."""
        if outgoing is None:
            return
        if isinstance(response, ProbeResponse):
            self._changes.probed(outgoing.peer, response, now)
        elif self._is_usable(outgoing, response, now):
            self._use(outgoing, response, now)
        elif response.error is not ErrorCode.NONE or response.epoch < self.epoch:
            self._member.connections.pause(outgoing.peer.id, now)

    def _is_usable(self, outgoing: Outgoing, response: QuorumResponse, now: float) -> bool:
        """Takes over the epoch and the leader that a response names. Returns True if the rest of the response must be
        processed too."""
        member = self._member
        if response.error in FATAL and not isinstance(response, VoterChangeResponse):
            kind = type(outgoing.request).__name__.removesuffix("Request")
            raise QuorumError(
                f"Server {outgoing.peer.address} answered {kind} of this node with {response.error.name}."
            )
        # The sender has not heard of the present epoch yet, so its response does not concern this epoch (KIP-595).
        if response.epoch < member.epoch or response.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return False
        before = member.state
        member.learn(response.epoch, response.leader_id, response.leader_endpoints, now)
        has_moved = member.state is not before
        if not has_moved and response.leader_id == member.leader_id:
            self._following.leader_confirmed(now)
        if isinstance(response, FetchResponse):
            # A node that knew no leader may have found it: this response is already from the leader.
            is_expected = isinstance(member.state, Follower) and response.leader_id == member.leader_id
            return is_expected and member.epoch == before.epoch and response.error is ErrorCode.NONE
        return not has_moved

    def _use(self, outgoing: Outgoing, response: QuorumResponse, now: float) -> None:
        peer_id, request = outgoing.peer.id, outgoing.request
        failed = response.error is not ErrorCode.NONE
        match response:
            case VoteResponse() if not failed or response.error is ErrorCode.INVALID_VOTER_KEY:
                assert isinstance(request, VoteRequest)
                self._elections.voted(peer_id, request, response)
            case EndEpochResponse() if not failed:
                self._elections.end_acknowledged(peer_id)
            case FetchResponse():
                self._following.fetched(response, now)
            case FetchSnapshotResponse() if failed:
                self._following.snapshot_refused(response.error)
            case FetchSnapshotResponse():
                self._following.fetched_snapshot(response, now)
            case VoterChangeResponse():
                self._following.reported(response, now)
            case _:
                pass
        if failed:
            self._member.connections.pause(peer_id, now)

    def _unanswered(self, outgoing: Outgoing | None, now: float) -> None:
        if outgoing is None:
            return
        self._member.connections.pause(outgoing.peer.id, now)
        match outgoing.request:
            case ProbeRequest():
                self._changes.probe_failed(outgoing.peer)
            case EndEpochRequest() if self._member.shutting_down:
                # Often all nodes stop together, and a voter that has gone cannot acknowledge.
                self._elections.end_acknowledged(outgoing.peer.id)
            case _:
                pass

    def _unsupported(self, outgoing: Outgoing | None, now: float) -> None:
        match outgoing:
            case None:
                return
            case Outgoing(request=VoteRequest(pre_vote=True)):
                self._elections.pre_vote_unsupported(now)
            case Outgoing(request=UpdateVoterRequest()):
                self._following.report_unsupported()
            case _:
                self._unanswered(outgoing, now)


_NO_VOTERS = (
    "Node {id} has no voters: neither the metadata log nor its snapshots name any, and controller.quorum.voters and "
    "controller.quorum.bootstrap.servers are empty. Format its directory with --standalone."
)
