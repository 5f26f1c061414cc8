"""FetchSnapshot (key 59, versions 0-1): a node that is far behind downloads a snapshot of the metadata (KIP-630).

The raft node checks the epoch of the request. Then this handler reads the requested part of the snapshot's file.
Version 1 adds directory ids (KIP-853).
"""

from __future__ import annotations

from dataclasses import replace

from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)
from kcli.raft import requests
from kcli.runtime.threads import READS
from kcli.server.handlers.shared.raft_requests import Ports, ask_raft, check_cluster_id
from kcli.server.quorum.metadata_log import PARTITION
from kcli.server.quorum.quorum import Quorum
from kcli.server.quorum.raft_client_wire import FETCH_MAX_BYTES
from kcli.server.quorum.raft_server_wire import fetch_snapshot_request, fetch_snapshot_response
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], message: FetchSnapshotRequest) -> FetchSnapshotResponse:
    check_cluster_id(context.ports.loader, message.cluster_id)
    if len(message.topics) != 1 or len(message.topics[0].partitions) != 1:
        raise InvalidRequestException("FetchSnapshot must name exactly one partition")
    topic = message.topics[0]
    if (topic.name, topic.partitions[0].partition) != (CLUSTER_METADATA_TOPIC, PARTITION):
        return _unknown_partition(topic.name, topic.partitions[0].partition)
    request = fetch_snapshot_request(message)
    response = await ask_raft(context.ports.raft, request, requests.FetchSnapshotResponse)
    if response.error is ErrorCode.NONE:
        response = await READS.run(_read, context.ports.raft, request, response)
    return fetch_snapshot_response(request, response, context.listener)


def _read(
    raft: Quorum, request: requests.FetchSnapshotRequest, response: requests.FetchSnapshotResponse
) -> requests.FetchSnapshotResponse:
    snapshots = raft.log.snapshots
    max_bytes = min(request.max_bytes, FETCH_MAX_BYTES)
    try:
        size, content = snapshots.read_part(request.snapshot_id, request.position, max_bytes)
    except KafkaError as error:
        return replace(response, error=error.code)
    return replace(response, size=size, content=content)


def _unknown_partition(topic: str, partition: int) -> FetchSnapshotResponse:
    snapshot = ResponsePartitionSnapshot(index=partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return FetchSnapshotResponse(topics=(ResponseTopicSnapshot(name=topic, partitions=(snapshot,)),))
