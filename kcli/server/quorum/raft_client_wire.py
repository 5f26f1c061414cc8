"""The raft node's own requests on the wire. Converts requests from values to messages, and their responses from
messages to values.

Versions: Vote 0-2, BeginQuorumEpoch 0-1, EndQuorumEpoch 0-1, Fetch 4-18, FetchSnapshot 0-1, UpdateRaftVoter 0, and
ApiVersions, which asks a new voter for its range of kraft.version.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from typing import Protocol, TypeVar, assert_never, cast

from kcli import KAFKA_VERSION
from kcli.config.features import KRAFT_VERSION
from kcli.errors import ErrorCode, ProtocolError
from kcli.metadata.snapshot_file import MAX_BATCH_BYTES, SnapshotId
from kcli.model.addresses import Address
from kcli.model.ids import ZERO_ID, BrokerId, LeaderEpoch, Offset, Position
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.batches.batch import crc_is_valid, iter_batches
from kcli.protocol.messages import api_versions as av
from kcli.protocol.messages import begin_quorum_epoch as bq
from kcli.protocol.messages import end_quorum_epoch as eq
from kcli.protocol.messages import fetch as fe
from kcli.protocol.messages import fetch_snapshot as fs
from kcli.protocol.messages import update_raft_voter as uv
from kcli.protocol.messages import vote as vo
from kcli.protocol.wire.api import ApiKey
from kcli.raft.requests import (
    AddVoterRequest,
    BeginEpochRequest,
    BeginEpochResponse,
    EndEpochRequest,
    EndEpochResponse,
    EpochEnd,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ProbeRequest,
    ProbeResponse,
    RaftRequest,
    RaftResponse,
    ReceivedBatch,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kcli.server.quorum.metadata_log import PARTITION, TOPIC_ID, LogBatch

_log = logging.getLogger("kcli.server.RaftManager")

FETCH_MAX_BYTES = MAX_BATCH_BYTES
"""The most bytes of a Fetch or FetchSnapshot response. Kafka 4.1 asks for 8 MiB too, the size of the largest batch."""

T = TypeVar("T")


class _Endpoint(Protocol):
    """The fields that the class NodeEndpoint has in every response."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


def api_of(request: RaftRequest) -> tuple[ApiKey, int]:
    """Returns the API of a request, and the lowest version of this API in which the request can be sent."""
    match request:
        case VoteRequest():
            return ApiKey.VOTE, 2 if request.pre_vote else 0
        case BeginEpochRequest():
            return ApiKey.BEGIN_QUORUM_EPOCH, 0
        case EndEpochRequest():
            return ApiKey.END_QUORUM_EPOCH, 0
        case FetchRequest():
            return ApiKey.FETCH, 12  # the first version with the epoch of the last fetched record
        case FetchSnapshotRequest():
            return ApiKey.FETCH_SNAPSHOT, 0
        case UpdateVoterRequest():
            return ApiKey.UPDATE_RAFT_VOTER, 0
        case ProbeRequest():
            return ApiKey.API_VERSIONS, 3  # the first version with features
        case AddVoterRequest() | RemoveVoterRequest():
            raise AssertionError("only operators send requests that change the voters")
        case _ as unreachable:
            assert_never(unreachable)


def encode_request(request: RaftRequest, cluster_id: str) -> object:
    """Converts a request from a value to a message."""
    match request:
        case VoteRequest():
            return _vote(request, cluster_id)
        case BeginEpochRequest():
            return _begin_epoch(request, cluster_id)
        case EndEpochRequest():
            return _end_epoch(request, cluster_id)
        case FetchRequest():
            return _fetch(request, cluster_id)
        case FetchSnapshotRequest():
            return _fetch_snapshot(request, cluster_id)
        case UpdateVoterRequest():
            return _update_voter(request, cluster_id)
        case ProbeRequest():
            return av.ApiVersionsRequest(client_software_name="kcli", client_software_version=KAFKA_VERSION)
        case AddVoterRequest() | RemoveVoterRequest():
            raise AssertionError("only operators send requests that change the voters")
        case _ as unreachable:
            assert_never(unreachable)


def decode_response(request: RaftRequest, message: object, listener: str) -> RaftResponse:
    """Converts a response from a message to a value. `listener` is the listener to which the request was sent. Raises
    ProtocolError if the message does not contain the metadata partition."""
    match request:
        case VoteRequest():
            return _voted(request, cast(vo.VoteResponse, message), listener)
        case BeginEpochRequest():
            return _epoch_began(request, cast(bq.BeginQuorumEpochResponse, message), listener)
        case EndEpochRequest():
            return _epoch_ended(request, cast(eq.EndQuorumEpochResponse, message), listener)
        case FetchRequest():
            return _fetched(request, cast(fe.FetchResponse, message), listener)
        case FetchSnapshotRequest():
            return _snapshot_fetched(request, cast(fs.FetchSnapshotResponse, message), listener)
        case UpdateVoterRequest():
            return _voter_updated(cast(uv.UpdateRaftVoterResponse, message), listener)
        case ProbeRequest():
            return _probed(cast(av.ApiVersionsResponse, message))
        case AddVoterRequest() | RemoveVoterRequest():
            raise AssertionError("only operators send requests that change the voters")
        case _ as unreachable:
            assert_never(unreachable)


# Requests.


def _vote(request: VoteRequest, cluster_id: str) -> vo.VoteRequest:
    voter = request.voter
    partition = vo.RequestPartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=_directory(request.candidate.directory_id),
        voter_directory_id=None if voter is None else _directory(voter.directory_id),
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.end_offset,
        pre_vote=request.pre_vote,
    )
    topic = vo.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return vo.VoteRequest(cluster_id=cluster_id, voter_id=-1 if voter is None else voter.id, topics=(topic,))


def _begin_epoch(request: BeginEpochRequest, cluster_id: str) -> bq.BeginQuorumEpochRequest:
    voter = request.voter
    partition = bq.RequestPartitionData(
        partition_index=PARTITION,
        voter_directory_id=None if voter is None else _directory(voter.directory_id),
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = bq.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return bq.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=-1 if voter is None else voter.id,
        topics=(topic,),
        leader_endpoints=tuple(
            bq.LeaderEndpoint(name=name, host=host, port=port)
            for name, (host, port) in request.leader_endpoints.items()
        ),
    )


def _end_epoch(request: EndEpochRequest, cluster_id: str) -> eq.EndQuorumEpochRequest:
    partition = eq.RequestPartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=tuple(
            eq.ReplicaInfo(candidate_id=key.id, candidate_directory_id=_directory(key.directory_id))
            for key in request.preferred
        ),
        preferred_successors=tuple(key.id for key in request.preferred),
    )
    topic = eq.RequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return eq.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=(topic,),
        leader_endpoints=tuple(
            eq.LeaderEndpoint(name=name, host=host, port=port)
            for name, (host, port) in request.leader_endpoints.items()
        ),
    )


def _fetch(request: FetchRequest, cluster_id: str) -> fe.FetchRequest:
    partition = fe.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=FETCH_MAX_BYTES,
        replica_directory_id=_directory(request.replica.directory_id),
        high_watermark=request.high_watermark,
    )
    topic = fe.FetchTopic(topic_id=TOPIC_ID, topic=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return fe.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fe.ReplicaState(replica_id=request.replica.id),
        replica_id=request.replica.id,
        max_wait_ms=round(request.max_wait_s * 1000),
        max_bytes=FETCH_MAX_BYTES,
        topics=(topic,),
    )


def _fetch_snapshot(request: FetchSnapshotRequest, cluster_id: str) -> fs.FetchSnapshotRequest:
    partition = fs.RequestPartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=fs.RequestSnapshotId(
            end_offset=request.snapshot_id.end_offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=_directory(request.replica.directory_id),
    )
    topic = fs.RequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=(partition,))
    return fs.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.id,
        max_bytes=min(request.max_bytes, FETCH_MAX_BYTES),
        topics=(topic,),
    )


def _update_voter(request: UpdateVoterRequest, cluster_id: str) -> uv.UpdateRaftVoterRequest:
    voter = request.voter
    return uv.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.id,
        voter_directory_id=_directory(voter.key.directory_id),
        listeners=tuple(
            uv.Listener(name=name, host=host, port=port) for name, (host, port) in voter.endpoints.items()
        ),
        k_raft_version_feature=uv.KRaftVersionFeature(
            min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
        ),
    )


def _directory(directory_id: uuid.UUID) -> uuid.UUID | None:
    return None if directory_id == ZERO_ID else directory_id


# Responses. A response that is refused as a whole has no epoch, so it gets the epoch of the request.


def _voted(request: VoteRequest, message: vo.VoteResponse, listener: str) -> VoteResponse:
    if message.error_code:
        return VoteResponse(error=message.error_code, epoch=request.epoch)
    partition = _only(_only(message.topics).partitions)
    return VoteResponse(
        error=partition.error_code,
        epoch=LeaderEpoch(partition.leader_epoch),
        leader_id=BrokerId(partition.leader_id),
        leader_endpoints=_leader(partition.leader_id, message.node_endpoints, listener),
        granted=partition.vote_granted,
    )


def _epoch_began(
    request: BeginEpochRequest, message: bq.BeginQuorumEpochResponse, listener: str
) -> BeginEpochResponse:
    if message.error_code:
        return BeginEpochResponse(error=message.error_code, epoch=request.epoch)
    partition = _only(_only(message.topics).partitions)
    return BeginEpochResponse(
        error=partition.error_code,
        epoch=LeaderEpoch(partition.leader_epoch),
        leader_id=BrokerId(partition.leader_id),
        leader_endpoints=_leader(partition.leader_id, message.node_endpoints, listener),
    )


def _epoch_ended(
    request: EndEpochRequest, message: eq.EndQuorumEpochResponse, listener: str
) -> EndEpochResponse:
    if message.error_code:
        return EndEpochResponse(error=message.error_code, epoch=request.epoch)
    partition = _only(_only(message.topics).partitions)
    return EndEpochResponse(
        error=partition.error_code,
        epoch=LeaderEpoch(partition.leader_epoch),
        leader_id=BrokerId(partition.leader_id),
        leader_endpoints=_leader(partition.leader_id, message.node_endpoints, listener),
    )


def _fetched(request: FetchRequest, message: fe.FetchResponse, listener: str) -> FetchResponse:
    if message.error_code:
        return FetchResponse(error=message.error_code, epoch=request.epoch)
    partition = _only(_only(message.responses).partitions)
    leader, diverging, snapshot = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    return FetchResponse(
        error=partition.error_code,
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=BrokerId(leader.leader_id),
        leader_endpoints=_leader(leader.leader_id, message.node_endpoints, listener),
        high_watermark=Offset(partition.high_watermark),
        diverging=(
            None
            if diverging.epoch < 0
            else EpochEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
        ),
        snapshot_id=(
            None
            if snapshot.epoch < 0
            else SnapshotId(Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch))
        ),
        batches=received_batches(bytes(partition.records or b"")),
    )


def received_batches(content: bytes) -> tuple[ReceivedBatch, ...]:
    """The batches of a Fetch response. A damaged batch and the batches after it are ignored, because the next Fetch
    gets them again.
    """
    batches = []
    for position, header in iter_batches(content):
        if not crc_is_valid(content, position, header):
            _log.error("The leader's batch at offset %d has a wrong checksum", header.base_offset)
            break
        batch = LogBatch(content, position, header)
        batches.append(
            ReceivedBatch(
                header.base_offset,
                header.next_offset,
                header.partition_leader_epoch,
                content[position : position + header.size_bytes],
                tuple(batch.controls) if header.is_control else (),
            )
        )
    return tuple(batches)


def _snapshot_fetched(
    request: FetchSnapshotRequest, message: fs.FetchSnapshotResponse, listener: str
) -> FetchSnapshotResponse:
    if message.error_code:
        return FetchSnapshotResponse(error=message.error_code, epoch=request.epoch)
    partition = _only(_only(message.topics).partitions)
    leader, snapshot = partition.current_leader, partition.snapshot_id
    return FetchSnapshotResponse(
        error=partition.error_code,
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=BrokerId(leader.leader_id),
        leader_endpoints=_leader(leader.leader_id, message.node_endpoints, listener),
        snapshot_id=SnapshotId(Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch)),
        size=partition.size,
        position=Position(partition.position),
        content=bytes(partition.unaligned_records),
    )


def _voter_updated(message: uv.UpdateRaftVoterResponse, listener: str) -> VoterChangeResponse:
    leader = message.current_leader
    return VoterChangeResponse(
        error=message.error_code,
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=BrokerId(leader.leader_id),
        leader_endpoints={listener: Address(leader.host, leader.port)} if leader.host else {},
    )


def _probed(message: av.ApiVersionsResponse) -> ProbeResponse:
    if message.error_code is not ErrorCode.NONE:
        raise ProtocolError(f"ApiVersions was refused with {message.error_code.name}")
    for feature in message.supported_features:
        if feature.name == KRAFT_VERSION:
            return ProbeResponse(min_kraft_version=feature.min_version, max_kraft_version=feature.max_version)
    return ProbeResponse(min_kraft_version=0, max_kraft_version=0)


def _only(items: tuple[T, ...]) -> T:
    if len(items) != 1:
        raise ProtocolError(f"a response of the quorum has {len(items)} partitions, expected 1")
    return items[0]


def _leader(leader_id: int, endpoints: Iterable[_Endpoint], listener: str) -> dict[str, Address]:
    """The leader's address. Servers send the address of the listener to which the request was sent."""
    for endpoint in endpoints:
        if endpoint.node_id == leader_id:
            return {listener: Address(endpoint.host, endpoint.port)}
    return {}
