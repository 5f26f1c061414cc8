"""The leader: it appends records, serves the fetches of the other replicas, and counts what a majority has on disk."""

from __future__ import annotations

from dataclasses import replace

from kcli.errors import ErrorCode, NotControllerException
from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.ids import NO_OFFSET, Offset
from kcli.protocol.batches.control import KRaftVersionRecord, LeaderChangeMessage, RaftControl
from kcli.protocol.batches.control import Voter as VoterId
from kcli.raft.member import Member
from kcli.raft.messages import ControlBatch, DataBatch, Shrunk
from kcli.raft.requests import (
    BeginEpochRequest,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.leader import Leader, Progress
from kcli.raft.voters import ReplicaKey
from kcli.raft.waiting import ParkedFetch

NOT_A_MEMBER = -1
"""The id of a reader that is not a member of the quorum."""

LONGEST_WAIT_S = 5.0
"""The longest time that a Fetch waits for new records. The nodes of a cluster request a wait of half a second. Any
other reader can send another Fetch."""
MAX_PARKED = 500
"""The most Fetch requests that may wait. At this limit, only a Fetch of a voter may still wait. A Fetch of any other
reader is answered immediately."""


class Leading:
    """The work of a leader."""

    def __init__(self, member: Member) -> None:
        self._member = member

    # --- the epoch begins and ends

    def begin(self, elected: Candidate, now: float) -> None:
        """Appends the first batch of the epoch.

        The batch includes the voters in two cases: if only the files of `kcli storage format` have them so far and the
        log does not, or if this node has new endpoints.
        """
        member = self._member
        granted = [voter_id for voter_id in elected.votes.voters.ids if voter_id in elected.votes.granted]
        change = LeaderChangeMessage(
            leader_id=member.key.id,
            voters=tuple(VoterId(voter_id=voter_id) for voter_id in member.voters.ids),
            granting_voters=tuple(VoterId(voter_id=voter_id) for voter_id in granted),
        )
        records: tuple[RaftControl, ...] = (change,)
        if member.kraft_version > 0 and (
            member.history.offset == NO_OFFSET or not member.is_listed_correctly
        ):
            version = KRaftVersionRecord(k_raft_version=member.kraft_version)
            updated = None if member.is_listed_correctly else member.voters.updated(member.own_voter())
            records = (change, version, (updated or member.voters).record())
        # A leader may count only records of its own epoch as committed (Raft, 5.4.2). So it writes a record at once,
        # and with it the records of earlier epochs are committed.
        self.append_controls(records, now)

    def act(self, state: Leader, now: float) -> bool:
        """Resigns if its check deadline has passed, and sends BeginQuorumEpoch when this is due. Returns True if the
        state changed."""
        member = self._member
        parked = member.waiting.fetches
        for token in [token for token, fetch in parked.items() if fetch.deadline <= now]:
            self._answer_fetch(token, parked.pop(token).request)
        if not member.other_voters:
            return False
        # A majority has not fetched for a long time, so this leader can commit nothing, and another leader may exist.
        # It resigns, so that its clients look for the other leader.
        if now >= state.check_deadline:
            self.resign(now)
            return True
        if now >= state.begin_deadline:
            self._announce(state, now)
        return False

    def _announce(self, state: Leader, now: float) -> None:
        member = self._member
        for voter in member.other_voters:
            request = BeginEpochRequest(
                epoch=state.epoch,
                leader_id=member.key.id,
                voter=voter.key,
                leader_endpoints=member.settings.own_endpoints,
            )
            member.send_to_voter(voter, request, now)
        member.state = replace(state, begin_deadline=now + member.settings.fetch_timeout_s / 2)

    def resign(self, now: float) -> None:
        """Gives up the lead. The voter with the longest log is the first successor."""
        state = self._leader()
        keys = [voter.key for voter in self._member.other_voters]
        keys.sort(key=lambda key: state.progress_of(key).end_offset, reverse=True)
        self._member.become_resigned(tuple(keys), now)

    # --- the log

    def append(self, values: tuple[bytes, ...]) -> None:
        member = self._member
        if not isinstance(member.state, Leader) or member.shutting_down:
            raise NotControllerException
        member.append(DataBatch(member.epoch, values))
        self._answer_parked()

    def append_controls(self, records: tuple[RaftControl, ...], now: float) -> Offset:
        """Appends records of the quorum. New voters are in force immediately. Returns the base offset."""
        member = self._member
        base_offset = member.append(ControlBatch(member.epoch, records))
        self._answer_parked()
        member.state = replace(self._leader(), check_deadline=member.check_deadline(now))
        self.flushed(now)
        return base_offset

    def _answer_parked(self) -> None:
        parked = self._member.waiting.fetches
        for token in list(parked):
            self._answer_fetch(token, parked.pop(token).request)

    def flushed(self, now: float) -> None:
        """Stores how far this node's own log is on disk, and updates the high watermark."""
        member = self._member
        own = Progress(end_offset=member.log.flushed, fetched_at=now, caught_up_at=now)
        self._note(member.key, own, now)

    def _note(self, replica: ReplicaKey, progress: Progress, now: float) -> None:
        member = self._member
        before = self._leader()
        after = before.with_progress(self._slot(replica), progress, member.voters, now)
        after = after.counted(member.voters)
        member.state = after
        if after.high_watermark > before.high_watermark:
            self._committed(after.high_watermark, now)

    def _committed(self, high_watermark: Offset, now: float) -> None:
        member = self._member
        member.commit(high_watermark)
        self._answer_parked()
        change = member.waiting.change
        if change is not None and change.offset is not None and change.offset < high_watermark:
            member.finish_change(ErrorCode.NONE)
        # A leader that is removed from the voters leads until the removal is committed, because the other voters may
        # not have the new list before (KIP-853).
        if member.voters.voter(member.key) is None and member.history.offset < high_watermark:
            self.resign(now)

    def _slot(self, replica: ReplicaKey) -> ReplicaKey:
        """The key under which the progress of the replica is stored. In kraft.version 0 the key of a voter has no
        directory id."""
        voter = self._member.voters.voter(replica)
        return replica if voter is None else voter.key

    # --- requests of other nodes

    def fetch(self, token: int, request: FetchRequest, now: float) -> None:
        member = self._member
        # Whether this node leads is checked first. This node may also ask itself, because a bootstrap address may be
        # its own. The error then makes it ask the next server.
        error = member.leader_only_error(request.epoch) or self._check_fetch(request)
        if error:
            member.refuse_fetch(token, error)
            return
        self._heard(request.replica, now)
        match member.log.check(request.fetch_offset, request.last_fetched_epoch):
            case EpochEnd() as diverging:
                self._reply_fetch(token, diverging=diverging)
            case SnapshotId() as snapshot_id:
                self._reply_fetch(token, snapshot_id=snapshot_id)
            case None:
                self._fetch(token, request, now)

    def _fetch(self, token: int, request: FetchRequest, now: float) -> None:
        """Stores that the replica's log ends at the `fetch_offset` of its request. Then answers the request, or keeps
        it until there are new records.
        """
        end = self._member.log.end
        if request.replica.id != NOT_A_MEMBER:
            known = self._leader().progress_of(self._slot(request.replica))
            self._check_end(request, known.end_offset)
            self._note(request.replica, known.fetched(request.fetch_offset, end, now), now)
        state = self._member.state
        if not isinstance(state, Leader):
            # The fetch committed the removal of this node from the voters.
            self._member.refuse_fetch(token, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif (
            request.fetch_offset < end
            # The replica applies records only up to its high watermark, so a new one is sent at once (KIP-1166).
            or request.high_watermark < state.high_watermark
            or not request.max_wait_s
            or not self._may_park(request.replica)
        ):
            self._answer_fetch(token, request)
        else:
            self._member.waiting.fetches[token] = ParkedFetch(
                request, now + min(request.max_wait_s, LONGEST_WAIT_S)
            )

    def _check_end(self, request: FetchRequest, former_end: Offset) -> None:
        """Reports a voter whose log has become shorter. As in Kafka, its Fetch is still served."""
        member = self._member
        if request.fetch_offset < former_end and member.voters.voter(request.replica) is not None:
            member.draft.shrunk.append(Shrunk(request.replica, former_end, request.fetch_offset))

    def _may_park(self, replica: ReplicaKey) -> bool:
        return (
            # Observers must not take the places of voters, because only fetches of voters move the high watermark.
            len(self._member.waiting.fetches) < MAX_PARKED or self._member.voters.voter(replica) is not None
        )

    def _check_fetch(self, request: FetchRequest) -> ErrorCode:
        is_valid = (
            request.max_wait_s >= 0
            and request.fetch_offset >= 0
            and 0 <= request.last_fetched_epoch <= request.epoch
            and request.replica.id != self._member.key.id
        )
        return ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST

    def _heard(self, replica: ReplicaKey, now: float) -> None:
        member = self._member
        voter = member.voters.voter(replica)
        if voter is not None:
            deadline = member.check_deadline(now)
            member.state = self._leader().heard_from(voter.key.id, member.voters, deadline)

    def _answer_fetch(self, token: int, request: FetchRequest) -> None:
        has_records = request.fetch_offset < self._member.log.end
        self._reply_fetch(token, read_from=request.fetch_offset if has_records else None)

    def _reply_fetch(
        self,
        token: int,
        *,
        diverging: EpochEnd | None = None,
        snapshot_id: SnapshotId | None = None,
        read_from: Offset | None = None,
    ) -> None:
        member = self._member
        response = FetchResponse(
            epoch=member.epoch,
            leader_id=member.leader_id,
            leader_endpoints=member.leader_endpoints,
            high_watermark=self._leader().high_watermark,
            diverging=diverging,
            snapshot_id=snapshot_id,
        )
        member.reply(token, response, read_from)

    def fetch_snapshot(self, token: int, request: FetchSnapshotRequest, now: float) -> None:
        member = self._member
        error = member.leader_only_error(request.epoch)
        if not error and request.snapshot_id not in member.log.snapshots:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif not error and request.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        elif not error:
            self._heard(request.replica, now)
        response = FetchSnapshotResponse(
            error=error,
            epoch=member.epoch,
            leader_id=member.leader_id,
            leader_endpoints=member.leader_endpoints,
            snapshot_id=request.snapshot_id,
            position=request.position,
        )
        member.reply(token, response)

    def _leader(self) -> Leader:
        state = self._member.state
        assert isinstance(state, Leader), "only a leader serves replicas"
        return state
