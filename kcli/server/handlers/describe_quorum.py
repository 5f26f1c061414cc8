"""DescribeQuorum (key 55, versions 0-2): the leader of the metadata log, and the progress of voters and observers.

KIP-595 defines this API. Only the leader knows the progress, so other controllers answer NOT_LEADER_OR_FOLLOWER. From
version 1 on, the response contains fetch times and catch-up times (KIP-836). From version 2 on, it contains the
directories and endpoints of the voters (KIP-853).
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import (
    KafkaError,
    NotLeaderOrFollowerException,
    UnknownTopicOrPartitionException,
)
from kcli.model.pace import nested
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kcli.runtime.clock import Clock
from kcli.server.handlers.shared.raft_requests import names_metadata_log
from kcli.server.quorum.metadata_log import PARTITION
from kcli.server.quorum.view import QuorumReplica, QuorumView
from kcli.server.requests.context import REFUSAL_COST, RequestContext


@dataclass(frozen=True, slots=True)
class Ports:
    clock: Clock
    quorum: QuorumView


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describes the partition of the metadata log. If the request names another partition, each partition in the
    response gets UNKNOWN_TOPIC_OR_PARTITION.
    """
    if not names_metadata_log(request.topics):
        return await _refused(context, request, UnknownTopicOrPartitionException)
    if not context.ports.quorum.is_leader:
        return await _refused(context, request, NotLeaderOrFollowerException)
    topic = ResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(_quorum(context),))
    return DescribeQuorumResponse(topics=(topic,), nodes=_nodes(context))


async def _refused(
    context: Context, request: DescribeQuorumRequest, error: type[KafkaError]
) -> DescribeQuorumResponse:
    topics = await nested(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: topic.partitions,
        lambda _, partition: ResponsePartitionData(
            partition_index=partition.partition_index,
            error_code=error.code,
            error_message=error.default_message,
        ),
        lambda topic, partitions: ResponseTopicData(topic_name=topic.topic_name, partitions=partitions),
    )
    return DescribeQuorumResponse(topics=topics)


def _quorum(context: Context) -> ResponsePartitionData:
    """The state of the quorum. The times of a replica that has never fetched or never caught up are -1."""
    quorum = context.ports.quorum
    replicas = quorum.replicas(context.ports.clock)
    return ResponsePartitionData(
        partition_index=PARTITION,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=tuple(_row(replica) for replica in replicas if replica.is_voter),
        observers=tuple(_row(replica) for replica in replicas if not replica.is_voter),
    )


def _row(replica: QuorumReplica) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.fetched_ms,
        last_caught_up_timestamp=replica.caught_up_ms,
    )


def _nodes(context: Context) -> tuple[Node, ...]:
    return tuple(
        Node(
            node_id=voter.key.id,
            listeners=tuple(
                Listener(name=name, host=host, port=port) for name, (host, port) in voter.endpoints.items()
            ),
        )
        for voter in context.ports.quorum.voters.voters
    )
