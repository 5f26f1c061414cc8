"""Elections: pre-votes, votes, and the requests with which a leader reports that its epoch begins or ends (KIP-595,
KIP-996)."""

from __future__ import annotations

from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch
from kcli.raft.member import Member
from kcli.raft.requests import (
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    VoteRequest,
    VoteResponse,
)
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.states.unattached import Unattached
from kcli.raft.voters import ReplicaKey


class Elections:
    def __init__(self, member: Member) -> None:
        self._member = member

    # --- timers and requests of this node

    def act(self, now: float) -> bool:
        """Moves to the next state if the deadline of the present state has passed, and sends requests. Returns True if
        the state changed."""
        member = self._member
        match member.state:
            case Unattached(deadline=deadline):
                return member.may_lead and self._campaign(deadline, now)
            case Follower(fetch_deadline=deadline):
                return member.may_lead and self._campaign(deadline, now)
            case Prospective() as state:
                return self._prospective(state, now)
            case Candidate() as state:
                return self._candidate(state, now)
            case Resigned() as state:
                return self._resigned(state, now)
            case _:
                return False

    def _campaign(self, deadline: float, now: float) -> bool:
        """Begins an election if `deadline` has passed. Returns True if the election begins."""
        member = self._member
        if now < deadline or member.shutting_down or member.log.installing:
            return False
        member.become_prospective(now)
        return True

    def _prospective(self, state: Prospective, now: float) -> bool:
        if state.votes.is_won:
            self._member.become_candidate(now)
            return True
        if state.votes.is_lost or now >= state.deadline:
            self._give_up(state, now)
            return True
        self._ask_for_votes(state, pre_vote=True, now=now)
        return False

    def _give_up(self, state: Prospective, now: float) -> None:
        member = self._member
        if state.leader_id != NO_LEADER and member.settings.default_listener in state.leader_endpoints:
            member.become_follower(state.epoch, state.leader_id, state.leader_endpoints, now)
        else:
            member.become_unattached(state.epoch, now, state.leader_id)

    def _candidate(self, state: Candidate, now: float) -> bool:
        if state.votes.is_won:
            self._member.become_leader(now)
            return True
        if now >= state.deadline:
            self._member.become_prospective(now)
            return True
        if not state.votes.is_lost:
            self._ask_for_votes(state, pre_vote=False, now=now)
        return False

    def _ask_for_votes(self, state: Prospective | Candidate, *, pre_vote: bool, now: float) -> None:
        for voter in state.votes.waiting_for:
            request = VoteRequest(
                epoch=state.epoch,
                candidate=self._member.key,
                voter=voter.key,
                last=self._member.log.last,
                pre_vote=pre_vote,
            )
            self._member.send_to_voter(voter, request, now)

    def _resigned(self, state: Resigned, now: float) -> bool:
        member = self._member
        if now >= state.deadline and not member.shutting_down:
            # In the old epoch, answers that name this node as its leader could still arrive.
            member.become_unattached(LeaderEpoch(state.epoch + 1), now)
            return True
        request = EndEpochRequest(
            epoch=state.epoch,
            leader_id=member.key.id,
            preferred=state.successors,
            leader_endpoints=member.settings.own_endpoints,
        )
        for voter in member.other_voters:
            if voter.key.id not in state.acknowledged:
                member.send_to_voter(voter, request, now)
        return False

    # --- requests of other nodes

    def vote(self, token: int, request: VoteRequest, now: float) -> None:
        member = self._member
        granted = False
        error = self._check_vote(request)
        if error is ErrorCode.NONE and request.epoch > member.epoch:
            member.become_unattached(request.epoch, now)
        if error is ErrorCode.NONE and request.voter is not None and not request.voter.matches(member.key):
            error = ErrorCode.INVALID_VOTER_KEY
        if error is ErrorCode.NONE:
            granted = self._grant(request, now)
        response = VoteResponse(
            error=error,
            epoch=member.epoch,
            leader_id=member.leader_id,
            leader_endpoints=member.leader_endpoints,
            granted=granted,
        )
        member.reply(token, response)

    def _grant(self, request: VoteRequest, now: float) -> bool:
        member = self._member
        own = member.log.last
        # A candidate with an older log may lack committed records, so it must not win (Raft, 5.4.1).
        up_to_date = (request.last.epoch, request.last.end_offset) >= (own.epoch, own.end_offset)
        granted = member.state.grants(request.candidate, up_to_date=up_to_date, pre_vote=request.pre_vote)
        # A pre-vote promises nothing, so it is not stored, and several candidates may get it (KIP-996).
        if granted and not request.pre_vote and member.state.voted is None:
            member.become_voted(request.candidate, now)
        return granted

    def _check_vote(self, request: VoteRequest) -> ErrorCode:
        newest = request.last.epoch if request.pre_vote else request.last.epoch + 1
        if newest > request.epoch or request.last.epoch < 0 or request.last.end_offset < 0:
            return ErrorCode.INVALID_REQUEST
        if request.epoch < self._member.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if request.candidate.id < 0:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def begin_epoch(self, token: int, request: BeginEpochRequest, now: float) -> None:
        error = self._heard_of_leader(request, now)
        if (
            error is ErrorCode.NONE
            and request.voter is not None
            and not request.voter.matches(self._member.key)
        ):
            error = ErrorCode.INVALID_VOTER_KEY
        member = self._member
        response = BeginEpochResponse(
            error=error,
            epoch=member.epoch,
            leader_id=member.leader_id,
            leader_endpoints=member.leader_endpoints,
        )
        member.reply(token, response)

    def end_epoch(self, token: int, request: EndEpochRequest, now: float) -> None:
        """Handles the report that the leader has resigned. The best successor begins an election immediately, the next
        successors a little later, and the other voters last."""
        member = self._member
        error = self._heard_of_leader(request, now)
        state = member.state
        if (
            error is ErrorCode.NONE
            and isinstance(state, Follower)
            and (state.epoch, state.leader_id) == (request.epoch, request.leader_id)
        ):
            wait_s = succession_wait_s(member.key, request.preferred, member.settings.election_backoff_max_s)
            # The leader is gone, so this node may help a successor with its pre-vote. Kafka waits for the deadline.
            member.state = replace(state, fetch_deadline=now + wait_s, has_fetched=False)
        response = EndEpochResponse(
            error=error,
            epoch=member.epoch,
            leader_id=member.leader_id,
            leader_endpoints=member.leader_endpoints,
        )
        member.reply(token, response)

    def _heard_of_leader(self, request: BeginEpochRequest | EndEpochRequest, now: float) -> ErrorCode:
        if request.epoch < self._member.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if request.leader_id < 0 or request.epoch < 0:
            return ErrorCode.INVALID_REQUEST
        self._member.learn(request.epoch, request.leader_id, request.leader_endpoints, now)
        return ErrorCode.NONE

    # --- responses to this node

    def voted(self, voter_id: BrokerId, request: VoteRequest, response: VoteResponse) -> None:
        state = self._member.state
        assert isinstance(state, Prospective if request.pre_vote else Candidate), (
            "a new state forgets its requests"
        )
        votes = state.votes.answered(voter_id, granted=response.granted)
        self._member.state = replace(state, votes=votes)

    def pre_vote_unsupported(self, now: float) -> None:
        """Ends the pre-vote and begins an election, because a voter does not support pre-votes."""
        if isinstance(self._member.state, Prospective):
            self._member.become_candidate(now)

    def end_acknowledged(self, voter_id: BrokerId) -> None:
        state = self._member.state
        if isinstance(state, Resigned):
            self._member.state = replace(state, acknowledged=(*state.acknowledged, voter_id))


def succession_wait_s(key: ReplicaKey, preferred: tuple[ReplicaKey, ...], max_s: float) -> float:
    """The time for which a voter waits after the leader resigned, before it begins an election. The time depends on the
    voter's place among the successors.

    The first successor waits 0 ms. If there are three successors and `max_s` is 1, the second successor waits 250 ms,
    and the third successor waits 500 ms.
    """
    max_ms = round(max_s * 1000)
    places = [place for place, successor in enumerate(preferred) if successor.matches(key)]
    if not places:
        return max_s
    if places[0] == 0:
        return 0.0
    return min(max_ms, (max_ms >> (len(preferred) - 1)) << (places[0] - 1)) / 1000
