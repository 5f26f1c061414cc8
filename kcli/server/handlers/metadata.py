"""Metadata (key 3, versions 0-13): brokers, topics and partitions. Creates requested topics, if they may be created.

Null means all topics (v1, KIP-4). Cluster id (v2), KIP-204 (allow creation, v4), KIP-112 (offline replicas, v5).
Authorized operations are KIP-430 (v8; those of the cluster up to v10). Topic ids are KIP-516 (v10; requests by id from
v12 on).

While a topic is being created, the response reports it as unknown. The client asks again.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.metadata.image import MetadataImage, PartitionImage, TopicImage
from kcli.model import topic_names
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.cluster_view import alive_brokers, random_alive_broker, view_partition
from kcli.server.handlers.shared.controller_requests import controller_context
from kcli.server.requests.access import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
    per_resource,
)
from kcli.server.requests.operations import CLUSTER_OPERATIONS, NOT_REQUESTED, TOPIC_OPERATIONS

ACCESS = per_resource(DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER, DESCRIBE_CLUSTER)

# The first versions that can forbid creation, ask by topic id, or report a leader without the listener.
ALLOW_CREATION_SINCE = 4
LISTENER_NOT_FOUND_SINCE = 6
CLUSTER_OPERATIONS_SINCE, CLUSTER_OPERATIONS_UNTIL = 8, 10
BY_ID_SINCE = 12


def handle(context: BrokerContext, request: MetadataRequest) -> MetadataResponse:
    image = context.ports.metadata
    brokers = tuple(
        MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in alive_brokers(image, context.listener)
    )
    operations = NOT_REQUESTED
    if (
        request.include_cluster_authorized_operations
        and CLUSTER_OPERATIONS_SINCE <= context.api_version <= CLUSTER_OPERATIONS_UNTIL
    ):
        operations = CLUSTER_OPERATIONS
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=random_alive_broker(context),
        topics=tuple(_topics(context, request, image)),
        cluster_authorized_operations=operations,
    )


def error_response(_context: BrokerContext, request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    return MetadataResponse(
        topics=tuple(
            MetadataResponseTopic(name=topic.name or "", topic_id=topic.topic_id, error_code=error.code)
            for topic in request.topics or ()
        ),
        error_code=error.code,
    )


def _topics(
    context: BrokerContext, request: MetadataRequest, image: MetadataImage
) -> Iterator[MetadataResponseTopic]:
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        yield from (_found(context, request, topic) for topic in image.topics)
        return
    if context.api_version < BY_ID_SINCE and any(_is_by_id(topic) for topic in asked):
        raise InvalidRequestException(
            f"Topic IDs are not supported in requests for version {context.api_version}"
        )
    ids = [topic.topic_id for topic in asked if topic.topic_id is not None]
    if ids:
        for topic_id in dict.fromkeys(ids):
            topic = image.topics.topic_by_id(topic_id)
            if topic is None:
                yield MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
                )
            else:
                yield _found(context, request, topic)
        return
    names = dict.fromkeys(topic.name for topic in asked if topic.name is not None)
    missing = [name for name in names if name not in image.topics]
    for name in names:
        topic = image.topics.topic(name)
        if topic is not None:
            yield _found(context, request, topic)
    if missing and _may_create(context, request):
        context.ports.topics.create_missing(missing, controller_context(context))
    for name in missing:
        yield _missing(name)


def _is_by_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id is not None


def _may_create(context: BrokerContext, request: MetadataRequest) -> bool:
    allowed = request.allow_auto_topic_creation or context.api_version < ALLOW_CREATION_SINCE
    return allowed and context.ports.config.boolean("auto.create.topics.enable")


def _missing(name: str) -> MetadataResponseTopic:
    valid = topic_names.is_valid(name)
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=topic_names.is_internal(name),
    )


def _found(context: BrokerContext, request: MetadataRequest, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic_names.is_internal(topic.name),
        partitions=tuple(
            _partition(context, number, partition) for number, partition in sorted(topic.partitions.items())
        ),
        topic_authorized_operations=(
            TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED
        ),
    )


def _partition(context: BrokerContext, number: int, partition: PartitionImage) -> MetadataResponsePartition:
    no_listener = (
        ErrorCode.LISTENER_NOT_FOUND
        if context.api_version >= LISTENER_NOT_FOUND_SINCE
        else ErrorCode.LEADER_NOT_AVAILABLE
    )
    image = context.ports.metadata
    view = view_partition(image, partition, context.listener, no_listener=no_listener)
    error, replicas, isr = view.error_code, partition.replicas, partition.isr
    if context.api_version == 0:
        # The oldest clients treat a replica that they cannot reach as an error of the partition.
        replicas = tuple(replica for replica in replicas if replica not in view.offline_replicas)
        isr = tuple(replica for replica in isr if replica not in view.offline_replicas)
        if error is ErrorCode.NONE and (replicas, isr) != (partition.replicas, partition.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=number,
        leader_id=view.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline_replicas,
    )
