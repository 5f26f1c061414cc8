"""Changes of the voters and of kraft.version (KIP-853).

One change runs at a time, and the next change waits until the voters of the previous change are committed. So two
consecutive sets of voters differ by one voter. Any majority of the old set and any majority of the new set then have a
voter in common.
"""

from __future__ import annotations

from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.model.ids import NO_OFFSET, ZERO_ID
from kcli.model.uuids import uuid_to_text
from kcli.protocol.batches.control import KRaftVersionRecord, RaftControl
from kcli.raft.leading import Leading
from kcli.raft.member import Member
from kcli.raft.messages import Peer
from kcli.raft.requests import (
    AddVoterRequest,
    ProbeRequest,
    ProbeResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from kcli.raft.states.leader import NEVER, Leader
from kcli.raft.voters import ReplicaKey, Voter, VoterSet
from kcli.raft.waiting import PendingChange

CAUGHT_UP_WITHIN_S = 3600.0
"""A new voter must have sent a Fetch within this time, as in Kafka."""

FIRST_DYNAMIC_LEVEL = 1
"""The level of kraft.version from which on the log contains the voters."""


class VoterChanges:
    def __init__(self, member: Member, leading: Leading) -> None:
        self._member = member
        self._leading = leading

    def deadlines(self) -> list[float]:
        change = self._member.waiting.change
        return [] if change is None else [change.deadline]

    def act(self, now: float) -> None:
        change = self._member.waiting.change
        if change is not None and now >= change.deadline:
            self._member.finish_change(ErrorCode.REQUEST_TIMED_OUT)

    # --- AddRaftVoter

    def add(self, token: int, request: AddVoterRequest, now: float) -> None:
        """Begins to add a voter: first asks the new voter for its versions."""
        refusal = self._refusal("Add", "adding", request.voter.key) or self._refusal_of_new(
            request.voter, now
        )
        if refusal is not None:
            self._member.answer_change(token, *refusal)
            return
        member = self._member
        peer = member.peer_of(request.voter)
        assert peer is not None, "the default listener was checked"
        member.send(peer, ProbeRequest())
        timeout_s = min(request.timeout_s, member.settings.request_timeout_s)
        self._member.waiting.change = PendingChange(token, request.voter, now + timeout_s)

    def _refusal_of_new(self, voter: Voter, now: float) -> tuple[ErrorCode, str | None] | None:
        member = self._member
        if member.settings.default_listener not in voter.endpoints:
            listener = member.settings.default_listener
            message = f"Add voter request didn't include the endpoint for the default listener {listener}"
            return ErrorCode.INVALID_REQUEST, message
        if voter.key.id in member.voters.ids:
            known = _all(member.voters)
            message = f"The voter id for {_shown(voter.key)} is already part of the set of voters {known}."
            return ErrorCode.DUPLICATE_VOTER, message
        if not member.connections.is_ready(voter.key.id, now):
            message = f"New voter {_shown(voter.key)} is not ready to receive requests"
            return ErrorCode.REQUEST_TIMED_OUT, message
        return None

    def probed(self, peer: Peer, response: ProbeResponse, now: float) -> None:
        """Adds the new voter after it has answered with its versions. Refuses a voter that has not caught up, because
        the high watermark would have to wait for it."""
        voter = self._probed_voter(peer)
        if voter is None:
            return
        level = self._member.kraft_version
        aborted = f"Aborted add voter operation for {_shown(voter.key)} since"
        low, high = response.min_kraft_version, response.max_kraft_version
        if not low <= level <= high:
            supported = f"the kraft.version range (min: {low}, max: {high}) doesn't support"
            self._member.finish_change(
                ErrorCode.INVALID_REQUEST, f"{aborted} {supported} the finalized version {level}"
            )
        elif not self._is_caught_up(voter.key, now):
            self._member.finish_change(ErrorCode.REQUEST_TIMED_OUT, f"{aborted} it is lagging behind")
        else:
            added = replace(voter, min_kraft_version=low, max_kraft_version=high)
            self._append_voters(self._member.voters.with_voter(added), now)

    def _probed_voter(self, peer: Peer) -> Voter | None:
        pending = self._member.waiting.change
        if pending is None or pending.offset is not None or pending.voter is None:
            return None
        return pending.voter if pending.voter.key.id == peer.id else None

    def _is_caught_up(self, key: ReplicaKey, now: float) -> bool:
        state = self._member.state
        assert isinstance(state, Leader), "a change is pending"
        progress = state.progress_of(key)
        return progress.caught_up_at > NEVER and progress.fetched_at > now - CAUGHT_UP_WITHIN_S

    def probe_failed(self, peer: Peer) -> None:
        if self._probed_voter(peer) is not None:
            self._member.finish_change(
                ErrorCode.REQUEST_TIMED_OUT,
                "Aborted add voter operation since the new voter did not answer API_VERSIONS",
            )

    def _append_voters(self, voters: VoterSet, now: float) -> None:
        pending = self._member.waiting.change
        assert pending is not None, "the change is pending"
        offset = self._leading.append_controls((voters.record(),), now)
        self._member.waiting.change = replace(pending, offset=offset)

    # --- RemoveRaftVoter

    def remove(self, token: int, request: RemoveVoterRequest, now: float) -> None:
        member = self._member
        voters = member.voters.without(request.key)
        refusal = self._refusal("Remove", "removing", request.key)
        if refusal is not None:
            self._member.answer_change(token, *refusal)
        elif voters is None or not voters.voters:
            message = (
                f"Cannot remove voter {_shown(request.key)} from the set of voters {_all(member.voters)}"
            )
            self._member.answer_change(token, ErrorCode.VOTER_NOT_FOUND, message)
        else:
            self._member.waiting.change = PendingChange(token, None, now + member.settings.request_timeout_s)
            self._append_voters(voters, now)

    def _refusal(self, verb: str, doing: str, key: ReplicaKey) -> tuple[ErrorCode, str | None] | None:
        """Makes the checks of AddRaftVoter and RemoveRaftVoter in Kafka's order. Returns the refusal, or None."""
        member = self._member
        error = member.leader_only_error(member.epoch)
        if error is not ErrorCode.NONE:
            return error, None
        if key.directory_id == ZERO_ID or key.id < 0:
            return ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
        waiting = "Request timed out waiting for"
        state = member.state
        assert isinstance(state, Leader), "the leader was checked"
        if self._member.waiting.change is not None:
            return ErrorCode.REQUEST_TIMED_OUT, f"{waiting} leader to handle previous voter change request"
        if state.high_watermark == NO_OFFSET:
            message = f"{waiting} leader to establish HWM and fence previous voter changes"
            return ErrorCode.REQUEST_TIMED_OUT, message
        if member.kraft_version < FIRST_DYNAMIC_LEVEL:
            level = member.kraft_version
            message = f"Cluster doesn't support {doing} voter because the kraft.version feature is {level}"
            return ErrorCode.UNSUPPORTED_VERSION, message
        if member.history.offset >= state.high_watermark:
            message = (
                f"{waiting} voters to commit the latest voter change at {member.history.offset} "
                f"with HWM {state.high_watermark}"
            )
            return ErrorCode.REQUEST_TIMED_OUT, message
        return None

    # --- UpdateRaftVoter

    def update(self, token: int, request: UpdateVoterRequest, now: float) -> None:
        """Updates the entry of a voter with the values that the voter reports. The response does not wait for the
        commit."""
        error = self._member.leader_only_error(request.epoch)
        if error is ErrorCode.NONE:
            error = self._update(request.voter, now)
        self._member.answer_change(token, error)

    def _update(self, voter: Voter, now: float) -> ErrorCode:
        member = self._member
        state = member.state
        assert isinstance(state, Leader), "the leader was checked"
        level = member.kraft_version
        is_uncommitted = level >= FIRST_DYNAMIC_LEVEL and member.history.offset >= state.high_watermark
        if self._member.waiting.change is not None or state.high_watermark == NO_OFFSET or is_uncommitted:
            return ErrorCode.REQUEST_TIMED_OUT
        is_keyed = voter.key.directory_id != ZERO_ID  # an id of zero would match every disk of this voter
        if not is_keyed or not voter.min_kraft_version <= level <= voter.max_kraft_version:
            return ErrorCode.INVALID_REQUEST
        if member.settings.default_listener not in voter.endpoints:
            return ErrorCode.INVALID_REQUEST
        updated = member.voters.updated(voter)
        if updated is None:
            return ErrorCode.VOTER_NOT_FOUND
        if level < FIRST_DYNAMIC_LEVEL:
            member.state = replace(state, reported={**state.reported, voter.key.id: voter})
        else:
            self._leading.append_controls((updated.record(),), now)
        return ErrorCode.NONE

    # --- kraft.version

    def upgrade(self, token: int, level: int, now: float) -> None:
        """Raises kraft.version. At the first dynamic level the voters move from the configuration into the log."""
        self._member.answer_change(token, *self._upgrade(level, now))

    def _upgrade(self, level: int, now: float) -> tuple[ErrorCode, str | None]:
        member = self._member
        error = member.leader_only_error(member.epoch)
        if error is not ErrorCode.NONE or level == member.kraft_version:
            return error, None
        invalid = f"Invalid update version {level} for feature kraft.version."
        if level < member.kraft_version:
            return ErrorCode.INVALID_UPDATE_VERSION, f"{invalid} Can't downgrade."
        voters = self._reported_voters()
        supported = all(
            voter.min_kraft_version <= level <= voter.max_kraft_version for voter in voters.voters
        )
        if len(voters.voters) < len(member.voters.voters) or not supported:
            reason = "Each voter must support this level and have reported its directory id to the leader"
            return ErrorCode.INVALID_UPDATE_VERSION, f"{invalid} {reason}; known are {_all(voters)}."
        records: tuple[RaftControl, ...] = (KRaftVersionRecord(k_raft_version=level), voters.record())
        self._leading.append_controls(records, now)
        return ErrorCode.NONE, None

    def _reported_voters(self) -> VoterSet:
        """The voters with their directory ids, endpoints and versions, from their reports and from this node's own
        settings."""
        member = self._member
        state = member.state
        assert isinstance(state, Leader), "the leader was checked"
        reported = {**state.reported, member.key.id: member.own_voter()}
        voters = (reported.get(voter.key.id, voter) for voter in member.voters.voters)
        return VoterSet(tuple(voter for voter in voters if voter.key.directory_id != ZERO_ID))


def _shown(key: ReplicaKey) -> str:
    return f"ReplicaKey(id={key.id}, directoryId={uuid_to_text(key.directory_id)})"


def _all(voters: VoterSet) -> str:
    return f"[{', '.join(_shown(voter.key) for voter in voters.voters)}]"
