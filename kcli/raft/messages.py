"""The messages that a raft node processes, and `Ready`, which contains the work that the caller must do for the node.

A record is committed in these steps. The caller sends `Append`. The node returns a `Ready` that asks for an append and
a flush. The caller reports with `Flushed` how far the log is on disk. The next Fetch of each follower shows how far the
log is on the follower's disk. If the offset that a majority of the voters has on disk has risen, the node returns this
offset as `Ready.apply`, the new high watermark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.addresses import Address
from kcli.model.ids import BrokerId, LeaderEpoch, Offset, Position
from kcli.protocol.batches.control import RaftControl
from kcli.raft.election_state import ElectionState
from kcli.raft.requests import QuorumResponse, RaftRequest, RaftResponse, ReceivedBatch
from kcli.raft.voters import ReplicaKey, VoterSet


class EpochStart(NamedTuple):
    """An epoch of the log and the offset of its first record."""

    epoch: LeaderEpoch
    start_offset: Offset


@dataclass(frozen=True, slots=True)
class VotersAt:
    """The voters and the kraft.version that are in force from `offset` on. If they come from a snapshot, `offset` is
    the offset of the last record in the snapshot.
    """

    offset: Offset
    kraft_version: int
    voters: VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The node starts, with the state found on its disk.

    `epochs`: the epochs of the log, oldest first. `snapshots`: oldest first. `voters` and `kraft_version`: from the
    configuration or from the bootstrap snapshot that `kcli storage format` wrote. `voter_history`: every change of the
    voters or of the kraft.version in the newest snapshot and in the log after it, oldest first.
    """

    stored: ElectionState | None
    log_start: Offset
    log_end_offset: Offset
    epochs: tuple[EpochStart, ...]
    snapshots: tuple[SnapshotId, ...] = ()
    voters: VoterSet
    kraft_version: int
    voter_history: tuple[VotersAt, ...] = ()


@dataclass(frozen=True, slots=True)
class Append:
    """The active controller appends these record values to the log, as one batch."""

    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Flushed:
    """The caller flushed this node's log up to `end_offset`."""

    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline `RaftNode.deadline` has passed."""


@dataclass(frozen=True, slots=True)
class Resign:
    """The controller of this node failed. If the node leads, it gives up the lead. The node stays a member of the
    quorum."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The node will stop soon. If the node leads, it gives up the lead and reports this to the other voters."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request from another node. The node answers it with one `Reply` with the same token, in the next `Ready` or in
    a later one."""

    token: int
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class Answered:
    """The response to a request of this node."""

    request_id: int
    response: RaftResponse


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A request of this node was refused, lost, or not answered within `RaftSettings.request_timeout_s`."""

    request_id: int


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The peer does not support the API of a request, or not the version of this API that the request needs."""

    request_id: int


@dataclass(frozen=True, slots=True)
class SnapshotInstalled:
    """The caller has verified a downloaded snapshot, and has emptied the log. The log begins at the end of the
    snapshot.

    `voters` and `kraft_version`: from the snapshot, or None if the snapshot does not have them.
    """

    snapshot_id: SnapshotId
    kraft_version: int | None
    voters: VoterSet | None


@dataclass(frozen=True, slots=True)
class LogCleaned:
    """The caller wrote a snapshot or deleted old snapshots. The message has the new start of the log, and the remaining
    snapshots, oldest first.
    """

    log_start: Offset
    snapshots: tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class UpgradeKRaftVersion:
    """An operator sets the level of kraft.version (UpdateFeatures). A `Reply` follows, as for `Received`."""

    token: int
    level: int


Message = (
    Start
    | Append
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
    | UpgradeKRaftVersion
)


@dataclass(frozen=True, slots=True)
class ControlBatch:
    """A batch with records of the quorum itself: the new leader, the voters."""

    epoch: LeaderEpoch
    records: tuple[RaftControl, ...]


@dataclass(frozen=True, slots=True)
class DataBatch:
    """A batch with the values of metadata records."""

    epoch: LeaderEpoch
    values: tuple[bytes, ...]


Batch = ControlBatch | DataBatch | ReceivedBatch


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """A part of a snapshot from the leader. A part at position 0 begins a new file, and replaces an unfinished file.

    After the last part the caller verifies the snapshot, makes it durable, empties the log up to the end of the
    snapshot, and reports `SnapshotInstalled`.
    """

    snapshot_id: SnapshotId
    position: Position
    content: bytes
    is_last: bool


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that receives requests. Bootstrap servers have the ids -2, -3 and so on, as in Kafka."""

    id: BrokerId
    address: Address


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request to another server. `Answered`, `Unanswered` or `Unsupported` reports its result."""

    request_id: int
    peer: Peer
    request: RaftRequest


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a received request.

    If `read_from` is set, the response is a FetchResponse, and the caller adds the records of its log from this offset
    on.
    """

    token: int
    response: QuorumResponse
    read_from: Offset | None = None


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A voter fetches from `end_offset`, although it had all records before `former_end` in this leadership.

    A voter flushes its log before each Fetch. So the disk of this voter was replaced, or an older state of the disk was
    restored. The leader may have counted this voter for the high watermark, so committed records may be lost if other
    voters fail.
    """

    voter: ReplicaKey
    former_end: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Ready:
    """The work that the caller must do, in the order of the fields. If one part fails, the caller must not do the later
    parts."""

    persist: tuple[ElectionState, ...] = ()
    """Write each of these election states to the quorum-state file, and make each one durable before the next one."""
    truncate: Offset | None = None
    """Truncate the log to this offset, because the quorum has other records from this offset on."""
    append: tuple[Batch, ...] = ()
    """Append these batches to the log."""
    flush: bool = False
    """Flush the log and report `Flushed`. One flush may cover several appends."""
    write_snapshot: SnapshotChunk | None = None
    """Write this part of a snapshot."""
    send: tuple[Outgoing, ...] = ()
    """Send these requests to other servers. The election state that the requests contain is already durable."""
    replies: tuple[Reply, ...] = ()
    """Send these responses. The election state that the responses contain is already durable."""
    apply: Offset | None = None
    """Apply the records before this offset, which is the new high watermark. All these records are committed."""
    shrunk: tuple[Shrunk, ...] = ()
    """Warn the operator of these voters."""


NOTHING = Ready()
