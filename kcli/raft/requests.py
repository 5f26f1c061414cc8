"""The requests and responses between the members of the quorum, as values.

The caller converts these values to and from Kafka's messages, and checks the cluster id and the topic partition. An
outgoing response has all known endpoints of the leader. The caller sends only the endpoint of the listener that
received the request. An incoming response has at most one endpoint, under the name of the default listener.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.errors import ErrorCode
from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER, NO_OFFSET, BrokerId, LeaderEpoch, Offset, Position
from kcli.protocol.batches.control import RaftControl
from kcli.raft.voters import ReplicaKey, Voter

FIRST_POSITION = Position(0)

Endpoints = Mapping[str, Address]
"""The addresses of a server, by listener name."""


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """An epoch and the offset after its last record."""

    epoch: LeaderEpoch
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class ReceivedBatch:
    """A batch from the leader, with the offsets and the epoch of its header. `content`: its bytes.

    `controls`: the records of a control batch, without records of unknown types.
    """

    base_offset: Offset
    next_offset: Offset
    epoch: LeaderEpoch
    content: bytes
    controls: tuple[RaftControl, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Vote or pre-vote: a candidate asks for a vote in `epoch`. `last`: the newest epoch of the candidate's log, and
    the end of this log.

    A pre-vote only asks whether the receiver would vote for the candidate in the epoch after `epoch` (KIP-996). `voter`
    is the voter that the request is addressed to, or None if the version of the request lacks this field.
    """

    epoch: LeaderEpoch
    candidate: ReplicaKey
    voter: ReplicaKey | None
    last: EpochEnd
    pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochRequest:
    """BeginQuorumEpoch: the sender is the leader of `epoch`."""

    epoch: LeaderEpoch
    leader_id: BrokerId
    voter: ReplicaKey | None
    leader_endpoints: Endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochRequest:
    """EndQuorumEpoch: the leader of `epoch` resigns. `preferred`: its successors, best first."""

    epoch: LeaderEpoch
    leader_id: BrokerId
    preferred: tuple[ReplicaKey, ...]
    leader_endpoints: Endpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """Asks the leader of `epoch` for the records from `fetch_offset` on. The sender has all earlier records on its
    disk.

    `replica.id` is -1 for a reader that is not a member. `last_fetched_epoch`: the epoch of the sender's newest record,
    or 0. `high_watermark`: the high watermark that the sender knows, or -1.
    """

    replica: ReplicaKey
    epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    high_watermark: Offset = NO_OFFSET
    max_wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest:
    """Asks the leader of `epoch` for the bytes of a snapshot from `position` on."""

    replica: ReplicaKey
    epoch: LeaderEpoch
    snapshot_id: SnapshotId
    position: Position
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoterRequest:
    """AddRaftVoter: an operator adds an observer to the voters (KIP-853)."""

    voter: Voter
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoterRequest:
    """RemoveRaftVoter: an operator removes a voter (KIP-853)."""

    key: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """UpdateRaftVoter: a voter reports its endpoints and its range of kraft.version to the leader of `epoch`."""

    epoch: LeaderEpoch
    voter: Voter


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """ApiVersions, sent to a new voter to learn its range of kraft.version."""


RaftRequest = (
    VoteRequest
    | BeginEpochRequest
    | EndEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | ProbeRequest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse:
    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints = field(default_factory=dict)
    granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochResponse:
    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochResponse:
    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """The response to a Fetch. At most one of `diverging`, `snapshot_id` and `batches` is set.

    `diverging`: the newest epoch that both logs can have in common, and the end of this epoch in the leader's log.
    `snapshot_id`: the leader no longer has the records, and the follower must download this snapshot. An outgoing
    response has no `batches`, because the caller reads them from its log (`Reply.read_from`).
    """

    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints = field(default_factory=dict)
    high_watermark: Offset = NO_OFFSET
    diverging: EpochEnd | None = None
    snapshot_id: SnapshotId | None = None
    batches: tuple[ReceivedBatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse:
    """A part of a snapshot: `content` begins at `position` of a file of `size` bytes.

    On the leader, the caller of the node sets `size` and `content`. If the file or the position does not exist, the
    caller sets `error`.
    """

    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints = field(default_factory=dict)
    snapshot_id: SnapshotId | None = None
    size: int = 0
    position: Position = FIRST_POSITION
    content: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeResponse:
    """The response to AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter, and to a request for a new level of
    kraft.version."""

    error: ErrorCode = ErrorCode.NONE
    epoch: LeaderEpoch
    leader_id: BrokerId = NO_LEADER
    leader_endpoints: Endpoints = field(default_factory=dict)
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResponse:
    """The range of kraft.version that a new voter supports."""

    min_kraft_version: int
    max_kraft_version: int


QuorumResponse = (
    VoteResponse
    | BeginEpochResponse
    | EndEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
)
RaftResponse = QuorumResponse | ProbeResponse
