"""The follower: it fetches records or a snapshot from the leader, and removes records that the leader does not have.

A node that does not know the leader sends its Fetch to a bootstrap server. The error in the response names the leader.
"""

from __future__ import annotations

from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.ids import BrokerId, Offset, Position
from kcli.raft.member import FIRST_BOOTSTRAP_ID, Member, QuorumError
from kcli.raft.messages import Peer, SnapshotChunk, SnapshotInstalled
from kcli.raft.requests import (
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftRequest,
    ReceivedBatch,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from kcli.raft.states.follower import Download, Follower
from kcli.raft.states.unattached import Unattached

MAX_WAIT_S = 0.5
"""The longest time for which a leader may delay the response to a Fetch, as in Kafka."""

SNAPSHOT_CHUNK_BYTES = 8 << 20
"""The largest part of a snapshot in one response, as in Kafka."""


class Following:
    def __init__(self, member: Member) -> None:
        self._member = member

    # --- requests of this node

    def act(self, now: float) -> None:
        """Sends the next request, if the whole log of this node is on disk and no request is in flight."""
        member = self._member
        if member.shutting_down and member.is_voter:
            return
        # A Fetch reports to the leader that this node has all records before its offset, and the leader counts them for
        # the commit. So these records must be on disk first (KIP-595).
        if member.log.installing or member.log.flushed < member.log.end:
            return
        match member.state:
            case Unattached():
                self._ask_bootstrap(now)
            case Follower() as state:
                self._ask_leader(state, now)
            case _:
                return

    def _ask_leader(self, state: Follower, now: float) -> None:
        member = self._member
        leader = Peer(state.leader_id, state.leader_endpoints[member.settings.default_listener])
        lost_leader = not member.is_voter and now >= state.fetch_deadline
        if member.is_voter and now >= state.update_deadline and member.connections.is_ready(leader.id, now):
            if self._must_report(state):
                member.send(leader, UpdateVoterRequest(epoch=state.epoch, voter=member.own_voter()))
            state = replace(state, update_deadline=now + member.settings.fetch_timeout_s)
            member.state = state
        if lost_leader or member.connections.is_paused(leader.id, now):
            self._ask_bootstrap(now)
        elif member.connections.is_idle:
            member.send(leader, self._request(state))

    def _must_report(self, state: Follower) -> bool:
        """Whether this voter must report its endpoints and versions to the leader. In kraft.version 0, every new leader
        needs a report, because a leader keeps the reports only in memory.
        """
        member = self._member
        return not state.has_reported and (not member.kraft_version or not member.is_listed_correctly)

    def _request(self, state: Follower) -> RaftRequest:
        member = self._member
        if state.download is None:
            return self._fetch_request()
        return FetchSnapshotRequest(
            replica=member.key,
            epoch=state.epoch,
            snapshot_id=state.download.snapshot_id,
            position=state.download.position,
            max_bytes=SNAPSHOT_CHUNK_BYTES,
        )

    def _fetch_request(self) -> FetchRequest:
        member = self._member
        last = member.log.last
        return FetchRequest(
            replica=member.key,
            epoch=member.epoch,
            fetch_offset=last.end_offset,
            last_fetched_epoch=last.epoch,
            high_watermark=member.high_watermark,
            max_wait_s=MAX_WAIT_S,
        )

    def _ask_bootstrap(self, now: float) -> None:
        """Sends a Fetch to a random bootstrap server. Servers with a recent failure are left out."""
        member = self._member
        if not member.connections.is_idle:
            return
        ready = [peer for peer in self._bootstrap_servers() if member.connections.is_ready(peer.id, now)]
        if ready:
            member.send(ready[int(member.jitter() * len(ready))], self._fetch_request())

    def _bootstrap_servers(self) -> list[Peer]:
        """The configured servers and the known voters, without this node.

        Kafka asks only the configured servers. This node also asks the voters, in case no configured server knows the
        leader.
        """
        member = self._member
        listener = member.settings.default_listener
        voters = (voter.endpoints[listener] for voter in member.other_voters if listener in voter.endpoints)
        addresses = dict.fromkeys((*member.settings.bootstrap, *voters))
        own = member.settings.own_endpoints.values()
        return [
            Peer(BrokerId(FIRST_BOOTSTRAP_ID - place), address)
            for place, address in enumerate(addresses)
            if address not in own
        ]

    # --- responses to this node

    def leader_confirmed(self, now: float) -> None:
        """Lets an observer try its leader again, because another server named the same leader. This has an effect only
        if the leader did not answer in time."""
        member = self._member
        state = member.state
        if isinstance(state, Follower) and not member.is_voter and now >= state.fetch_deadline:
            member.state = replace(state, fetch_deadline=now + member.settings.fetch_timeout_s)

    def fetched(self, response: FetchResponse, now: float) -> None:
        """Handles the leader's response to a Fetch. Raises QuorumError if the leader's log contradicts committed
        records."""
        member = self._member
        state = member.state
        assert isinstance(state, Follower), "only the leader of a follower answers without an error"
        deadline = now + member.settings.fetch_timeout_s
        state = member.state = replace(state, fetch_deadline=deadline, has_fetched=True)
        if response.diverging is not None:
            self._truncate(response.diverging)
        elif response.snapshot_id is not None:
            self._begin_download(state, response.snapshot_id)
        else:
            for batch in response.batches:
                self._append(batch)
            # The response may have only a part of the committed records.
            member.commit(Offset(min(response.high_watermark, member.log.end)))

    def _append(self, batch: ReceivedBatch) -> None:
        log = self._member.log
        if batch.base_offset != log.end or batch.epoch < log.last.epoch:
            raise QuorumError(
                f"The leader sent a batch at offset {batch.base_offset} with epoch {batch.epoch}, but the log ends at "
                f"{log.end} with epoch {log.last.epoch}."
            )
        self._member.append(batch)

    def _truncate(self, diverging: EpochEnd) -> None:
        """Removes records that the leader does not have. The next Fetch shows whether more records must be removed
        (KIP-595)."""
        member = self._member
        own = member.log.end_of(diverging.epoch)
        end_offset = own.end_offset
        if own.epoch == diverging.epoch:
            end_offset = min(end_offset, diverging.end_offset)
        committed = max(member.high_watermark, member.log.newest_snapshot.end_offset, member.log.start)
        if end_offset < committed:
            raise QuorumError(
                f"The leader's log ends epoch {diverging.epoch} at offset {diverging.end_offset}, but this node has "
                f"committed records up to offset {committed}."
            )
        member.log.truncate(end_offset)
        member.history.truncate(end_offset)
        member.draft.truncate = end_offset

    def reported(self, response: VoterChangeResponse, now: float) -> None:
        """Handles the leader's response to UpdateRaftVoter. In kraft.version 1 the report is complete when its record
        is in the log."""
        member = self._member
        state = member.state
        assert isinstance(state, Follower), "a follower reports"
        deadline = now + member.settings.fetch_timeout_s
        is_noted = response.error is ErrorCode.NONE and not member.kraft_version
        member.state = replace(state, fetch_deadline=deadline, has_fetched=True, has_reported=is_noted)

    def report_unsupported(self) -> None:
        """Stops the reports to this leader, because the leader does not support UpdateRaftVoter."""
        state = self._member.state
        assert isinstance(state, Follower), "a follower reports"
        self._member.state = replace(state, has_reported=True)

    # --- snapshots

    def _begin_download(self, state: Follower, snapshot_id: SnapshotId) -> None:
        if snapshot_id.end_offset < self._member.high_watermark:
            raise QuorumError(f"The leader offers snapshot {snapshot_id}, which is older than the own log.")
        self._member.state = replace(state, download=Download(snapshot_id, Position(0)))

    def fetched_snapshot(self, response: FetchSnapshotResponse, now: float) -> None:
        member = self._member
        state = member.state
        assert isinstance(state, Follower) and state.download is not None, (
            "a part of a snapshot was asked for"
        )
        download = state.download
        end = Position(download.position + len(response.content))
        is_last = end == response.size
        is_next = (response.snapshot_id, response.position) == (download.snapshot_id, download.position)
        if not is_next or end > response.size or not (response.content or is_last):
            raise QuorumError(
                f"The leader sent {response.snapshot_id} from position {response.position} instead of {download}."
            )
        member.draft.write_snapshot = SnapshotChunk(
            download.snapshot_id, download.position, response.content, is_last
        )
        member.state = replace(
            state,
            fetch_deadline=now + member.settings.fetch_timeout_s,
            has_fetched=True,
            download=None if is_last else replace(download, position=end),
        )
        if is_last:
            member.log.restart_at(download.snapshot_id)
            member.log.installing = True

    def snapshot_refused(self, error: ErrorCode) -> None:
        """Ends the download of a snapshot that the leader has deleted. The response to the next Fetch will name a newer
        snapshot."""
        state = self._member.state
        if isinstance(state, Follower) and error is ErrorCode.SNAPSHOT_NOT_FOUND:
            self._member.state = replace(state, download=None)

    def installed(self, message: SnapshotInstalled) -> None:
        member = self._member
        member.log.installing = False
        end_offset = message.snapshot_id.end_offset
        member.history.restart_at(Offset(end_offset - 1), message.kraft_version, message.voters)
        member.commit(end_offset)
