"""The requests of other nodes on the wire. Converts requests from messages to values, and the responses from values to
messages.

A response has the leader's address on the listener to which the request was sent.
"""

from __future__ import annotations

import uuid

from kcli.metadata.snapshot_file import SnapshotId
from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER, ZERO_ID, BrokerId, LeaderEpoch, Offset, Position
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.messages import begin_quorum_epoch as bq
from kcli.protocol.messages import end_quorum_epoch as eq
from kcli.protocol.messages import fetch as fe
from kcli.protocol.messages import fetch_snapshot as fs
from kcli.protocol.messages import remove_raft_voter as rr
from kcli.protocol.messages import update_raft_voter as uv
from kcli.protocol.messages import vote as vo
from kcli.protocol.messages.add_raft_voter import AddRaftVoterRequest
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
    QuorumResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from kcli.raft.voters import ReplicaKey, Voter
from kcli.server.quorum.metadata_log import PARTITION, TOPIC_ID


def key_of(node_id: int, directory_id: uuid.UUID | None) -> ReplicaKey:
    return ReplicaKey(BrokerId(node_id), directory_id or ZERO_ID)


def expected_voter(node_id: int, directory_id: uuid.UUID | None) -> ReplicaKey | None:
    """Returns the voter to which the sender has addressed the request, or None if this version of the request does not
    contain the receiver.
    """
    return None if node_id < 0 else key_of(node_id, directory_id)


# Vote, BeginQuorumEpoch, EndQuorumEpoch.


def vote_request(message: vo.VoteRequest) -> VoteRequest:
    partition = message.topics[0].partitions[0]
    return VoteRequest(
        epoch=LeaderEpoch(partition.replica_epoch),
        candidate=key_of(partition.replica_id, partition.replica_directory_id),
        voter=expected_voter(message.voter_id, partition.voter_directory_id),
        last=EpochEnd(LeaderEpoch(partition.last_offset_epoch), Offset(partition.last_offset)),
        pre_vote=partition.pre_vote,
    )


def vote_response(response: VoteResponse, listener: str) -> vo.VoteResponse:
    leader = _address(response, listener)
    partition = vo.ResponsePartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        vote_granted=response.granted,
    )
    return vo.VoteResponse(
        topics=(vo.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=(
            ()
            if leader is None
            else (vo.NodeEndpoint(node_id=response.leader_id, host=leader.host, port=leader.port),)
        ),
    )


def begin_epoch_request(message: bq.BeginQuorumEpochRequest) -> BeginEpochRequest:
    partition = message.topics[0].partitions[0]
    return BeginEpochRequest(
        epoch=LeaderEpoch(partition.leader_epoch),
        leader_id=BrokerId(partition.leader_id),
        voter=expected_voter(message.voter_id, partition.voter_directory_id),
        leader_endpoints={
            endpoint.name.upper(): Address(endpoint.host, endpoint.port)
            for endpoint in message.leader_endpoints
        },
    )


def begin_epoch_response(response: BeginEpochResponse, listener: str) -> bq.BeginQuorumEpochResponse:
    leader = _address(response, listener)
    partition = bq.ResponsePartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
    )
    return bq.BeginQuorumEpochResponse(
        topics=(bq.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=(
            ()
            if leader is None
            else (bq.NodeEndpoint(node_id=response.leader_id, host=leader.host, port=leader.port),)
        ),
    )


def end_epoch_request(message: eq.EndQuorumEpochRequest) -> EndEpochRequest:
    """Converts an EndQuorumEpoch request. In version 0, the request has only the ids of the preferred successors,
    without their directory ids.
    """
    partition = message.topics[0].partitions[0]
    preferred = tuple(
        key_of(candidate.candidate_id, candidate.candidate_directory_id)
        for candidate in partition.preferred_candidates
    )
    return EndEpochRequest(
        epoch=LeaderEpoch(partition.leader_epoch),
        leader_id=BrokerId(partition.leader_id),
        preferred=preferred or tuple(key_of(successor, None) for successor in partition.preferred_successors),
        leader_endpoints={
            endpoint.name.upper(): Address(endpoint.host, endpoint.port)
            for endpoint in message.leader_endpoints
        },
    )


def end_epoch_response(response: EndEpochResponse, listener: str) -> eq.EndQuorumEpochResponse:
    leader = _address(response, listener)
    partition = eq.ResponsePartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
    )
    return eq.EndQuorumEpochResponse(
        topics=(eq.ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=(
            ()
            if leader is None
            else (eq.NodeEndpoint(node_id=response.leader_id, host=leader.host, port=leader.port),)
        ),
    )


# Fetch and FetchSnapshot.


def fetch_request(message: fe.FetchRequest) -> FetchRequest:
    """Converts a Fetch request. The id of the replica is in `replica_state` from version 15 on, and in `replica_id` in
    older versions.
    """
    partition = message.topics[0].partitions[0]
    replica_id = max(message.replica_state.replica_id, message.replica_id)
    return FetchRequest(
        replica=key_of(replica_id, partition.replica_directory_id),
        epoch=LeaderEpoch(partition.current_leader_epoch),
        fetch_offset=Offset(partition.fetch_offset),
        last_fetched_epoch=LeaderEpoch(partition.last_fetched_epoch),
        high_watermark=Offset(partition.high_watermark),
        max_wait_s=message.max_wait_ms / 1000,
    )


def fetch_response(
    response: FetchResponse, records: bytes, log_start_offset: Offset, listener: str
) -> fe.FetchResponse:
    leader = _address(response, listener)
    diverging, snapshot_id = response.diverging, response.snapshot_id
    partition = fe.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        log_start_offset=log_start_offset,
        diverging_epoch=(
            fe.EpochEndOffset()
            if diverging is None
            else fe.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
        ),
        current_leader=fe.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
        snapshot_id=(
            fe.SnapshotId()
            if snapshot_id is None
            else fe.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch)
        ),
        records=records,
    )
    return fe.FetchResponse(
        responses=(
            fe.FetchableTopicResponse(
                topic_id=TOPIC_ID, topic=CLUSTER_METADATA_TOPIC, partitions=(partition,)
            ),
        ),
        node_endpoints=(
            ()
            if leader is None
            else (fe.NodeEndpoint(node_id=response.leader_id, host=leader.host, port=leader.port),)
        ),
    )


def fetch_snapshot_request(message: fs.FetchSnapshotRequest) -> FetchSnapshotRequest:
    partition = message.topics[0].partitions[0]
    snapshot_id = partition.snapshot_id
    return FetchSnapshotRequest(
        replica=key_of(message.replica_id, partition.replica_directory_id),
        epoch=LeaderEpoch(partition.current_leader_epoch),
        snapshot_id=SnapshotId(Offset(snapshot_id.end_offset), LeaderEpoch(snapshot_id.epoch)),
        position=Position(partition.position),
        max_bytes=message.max_bytes,
    )


def fetch_snapshot_response(
    request: FetchSnapshotRequest, response: FetchSnapshotResponse, listener: str
) -> fs.FetchSnapshotResponse:
    leader = _address(response, listener)
    partition = fs.ResponsePartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=fs.ResponseSnapshotId(
            end_offset=request.snapshot_id.end_offset, epoch=request.snapshot_id.epoch
        ),
        current_leader=fs.LeaderIdAndEpoch(leader_id=response.leader_id, leader_epoch=response.epoch),
        size=response.size,
        position=request.position,
        unaligned_records=response.content,
    )
    return fs.FetchSnapshotResponse(
        topics=(fs.ResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=(partition,)),),
        node_endpoints=(
            ()
            if leader is None
            else (fs.NodeEndpoint(node_id=response.leader_id, host=leader.host, port=leader.port),)
        ),
    )


# AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.


def add_voter_request(message: AddRaftVoterRequest) -> AddVoterRequest:
    endpoints = {
        listener.name.upper(): Address(listener.host, listener.port) for listener in message.listeners
    }
    voter = Voter(key_of(message.voter_id, message.voter_directory_id), endpoints)
    return AddVoterRequest(voter=voter, timeout_s=message.timeout_ms / 1000)


def remove_voter_request(message: rr.RemoveRaftVoterRequest) -> RemoveVoterRequest:
    return RemoveVoterRequest(key=key_of(message.voter_id, message.voter_directory_id))


def update_voter_request(message: uv.UpdateRaftVoterRequest) -> UpdateVoterRequest:
    supported = message.k_raft_version_feature
    voter = Voter(
        key_of(message.voter_id, message.voter_directory_id),
        {listener.name.upper(): Address(listener.host, listener.port) for listener in message.listeners},
        supported.min_supported_version,
        supported.max_supported_version,
    )
    return UpdateVoterRequest(epoch=LeaderEpoch(message.current_leader_epoch), voter=voter)


def update_voter_response(response: VoterChangeResponse, listener: str) -> uv.UpdateRaftVoterResponse:
    leader = _address(response, listener) or Address("", 0)
    return uv.UpdateRaftVoterResponse(
        error_code=response.error,
        current_leader=uv.CurrentLeader(
            leader_id=response.leader_id, leader_epoch=response.epoch, host=leader.host, port=leader.port
        ),
    )


def _address(response: QuorumResponse, listener: str) -> Address | None:
    """The leader's address on a listener, if the leader and the address are known."""
    return None if response.leader_id == NO_LEADER else response.leader_endpoints.get(listener)
