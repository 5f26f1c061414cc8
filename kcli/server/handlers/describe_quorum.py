"""DescribeQuorum (key 55, versions 0-2): the leader of the metadata log, and the progress of each voter.

KIP-595 defines this API. From version 1 on, the response contains fetch times and catch-up times (KIP-836). From
version 2 on, it contains the directories and endpoints of the voters (KIP-853).
"""

from __future__ import annotations

from kcli.errors import ErrorCode, InvalidRequestException, UnknownTopicOrPartitionException
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
from kcli.server.handlers.ports import NodeContext
from kcli.server.quorum.metadata_log import PARTITION
from kcli.server.requests.access import DESCRIBE_CLUSTER, whole_request

ACCESS = whole_request(DESCRIBE_CLUSTER)


def handle(context: NodeContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describes the partition of the metadata log. A request for any other number of partitions is refused."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        raise InvalidRequestException(
            f"Exactly one partition of {CLUSTER_METADATA_TOPIC} can be described, "
            f"not {sum(len(topic.partitions) for topic in request.topics)}"
        )
    (topic,) = request.topics
    (partition,) = topic.partitions
    if (topic.topic_name, partition.partition_index) != (CLUSTER_METADATA_TOPIC, PARTITION):
        unknown = ResponsePartitionData(
            partition_index=partition.partition_index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=UnknownTopicOrPartitionException.default_message,
        )
        return _response(topic.topic_name, unknown)
    return _response(topic.topic_name, _quorum(context), _nodes(context))


def _response(
    topic: str, partition: ResponsePartitionData, nodes: tuple[Node, ...] = ()
) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=(ResponseTopicData(topic_name=topic, partitions=(partition,)),),
        nodes=nodes,
    )


def _quorum(context: NodeContext) -> ResponsePartitionData:
    """The state of the quorum. The leader itself does not fetch, so its fetch time and catch-up time are always the
    present time."""
    quorum, now_ms = context.ports.quorum, context.ports.clock.now_ms()
    return ResponsePartitionData(
        partition_index=PARTITION,
        leader_id=quorum.leader_id,
        leader_epoch=quorum.epoch,
        high_watermark=quorum.high_watermark,
        current_voters=tuple(
            ReplicaState(
                replica_id=voter.key.id,
                replica_directory_id=voter.key.directory_id,
                log_end_offset=quorum.log_end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
            for voter in quorum.voters.voters
        ),
    )


def _nodes(context: NodeContext) -> tuple[Node, ...]:
    return tuple(
        Node(
            node_id=voter.key.id,
            listeners=tuple(
                Listener(name=name, host=host, port=port) for name, (host, port) in voter.endpoints.items()
            ),
        )
        for voter in context.ports.quorum.voters.voters
    )
