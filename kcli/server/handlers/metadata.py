"""Metadata (key 3, versions 0-13): brokers, topics and partitions. Creates requested topics, if they may be created.

From version 1 on, a null list of topics means all topics (KIP-4). Later versions add the cluster id (v2), the field
allow_auto_topic_creation (v4, KAFKA-5291), offline replicas (v5, KIP-112), authorized operations (v8, KIP-430), and
topic ids (v10, KIP-516). Requests may contain topic ids from version 12 on. Only versions 8 to 10 have the authorized
operations of the cluster.

While a topic is being created, the response reports it as unknown. The client asks again.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Container
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.metadata.image import MetadataImage, PartitionImage, TopicImage
from kcli.model import topic_names
from kcli.model.acl import ResourceType
from kcli.model.pace import mapped
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.shared_array import SharedArray
from kcli.runtime.clock import Clock
from kcli.runtime.rng import Rng
from kcli.server.coordinators.topic_creation import TopicCreator
from kcli.server.handlers.shared.cluster_view import alive_brokers, random_alive_broker, view_partition
from kcli.server.handlers.shared.controller_requests import controller_context
from kcli.server.handlers.shared.topic_answers import (
    TOPIC_COST,
    AnswerKind,
    KindOfAnswers,
    TopicAnswers,
    TopicArray,
)
from kcli.server.handlers.shared.visible_topics import VisibleTopics
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
)
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.operations import NOT_REQUESTED
from kcli.server.requests.rights import EVERY_NAME

# The first versions with a field that forbids creation, with topic ids in the request, and with an error for a leader
# without the client's listener.
ALLOW_CREATION_SINCE = 4
LISTENER_NOT_FOUND_SINCE = 6
CLUSTER_OPERATIONS_SINCE, CLUSTER_OPERATIONS_UNTIL = 8, 10
BY_ID_SINCE = 12

PARTITION_COST = 10
"""The cost to describe a partition, in microseconds."""


@dataclass(frozen=True, slots=True)
class Ports:
    clock: Clock
    config: BrokerConfig
    loader: MetadataLoader
    rng: Rng
    topic_answers: TopicAnswers
    topics: TopicCreator
    visible_topics: VisibleTopics


Context = RequestContext[Ports]


async def handle(context: Context, request: MetadataRequest) -> MetadataResponse:
    image = context.ports.loader.image  # one image for the whole answer
    answers = _answers(context, request, image)
    if request.topics is None or (context.api_version == 0 and not request.topics):
        topics = await _all_visible(context, answers, image)
    else:
        names, ids = await _names_and_ids(context, request.topics)
        if ids:
            topics = await _by_id(context, answers, image, ids)
        else:
            topics = await _by_name(context, request, answers, image, names)
    return MetadataResponse(
        brokers=_brokers(image, context.listener),
        cluster_id=image.cluster_id,
        controller_id=random_alive_broker(image, context.ports.rng),
        topics=topics,
        cluster_authorized_operations=_cluster_operations(context, request),
    )


async def error_response(context: Context, request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    topics = await mapped(
        context.pace,
        REFUSAL_COST,
        request.topics or (),
        lambda topic: MetadataResponseTopic(
            name=topic.name or "", topic_id=topic.topic_id, error_code=error.code
        ),
    )
    return MetadataResponse(topics=topics, error_code=error.code)


def _answers(context: Context, request: MetadataRequest, image: MetadataImage) -> KindOfAnswers:
    """Returns the answers for topics, which other clients share if they are equal for all clients."""
    with_operations = request.include_topic_authorized_operations
    # The operations depend on the client, so these answers cannot be shared.
    is_shared = context.rights.is_open or not with_operations
    return KindOfAnswers(
        context.ports.topic_answers if is_shared else TopicAnswers(),
        image,
        AnswerKind(context.api_version, context.listener, with_operations),
        lambda topic: _described(context, request, image, topic),
    )


async def _all_visible(context: Context, answers: KindOfAnswers, image: MetadataImage) -> TopicArray:
    """All topics that the client may describe. The other topics are left out without an error."""
    visible = await context.ports.visible_topics.of(context.rights, image.topics, context.pace)
    if visible is EVERY_NAME:
        return await answers.of_all_topics(context.pace)
    parts = []
    for topic in image.topics:
        await context.pace(TOPIC_COST)
        if topic.name in visible:
            parts.append(await answers.of_topic(topic))
    return SharedArray.joined(parts)


async def _names_and_ids(
    context: Context, topics: Collection[MetadataRequestTopic]
) -> tuple[Collection[str], Collection[uuid.UUID]]:
    """Returns the names and the ids of a request, each once. Raises InvalidRequestException for an id in a version that
    has no ids."""
    names: dict[str, None] = {}
    ids: dict[uuid.UUID, None] = {}
    for topic in topics:
        await context.pace(TOPIC_COST)
        if context.api_version < BY_ID_SINCE and _is_by_id(topic):
            raise InvalidRequestException(
                f"Topic IDs are not supported in requests for version {context.api_version}"
            )
        if topic.topic_id is not None:
            ids[topic.topic_id] = None
        elif topic.name is not None:
            names[topic.name] = None
    return names, ids


async def _by_id(
    context: Context, answers: KindOfAnswers, image: MetadataImage, ids: Collection[uuid.UUID]
) -> TopicArray:
    topics = image.topics
    names = (topic.name for topic_id in ids if (topic := topics.topic_by_id(topic_id)) is not None)
    visible = await context.allowed(DESCRIBE_TOPIC, names)
    parts = []
    for topic_id in ids:
        await context.pace(TOPIC_COST)
        topic = topics.topic_by_id(topic_id)
        if topic is None:
            parts.append(_error(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif topic.name not in visible:
            parts.append(_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
        else:
            parts.append(await answers.of_topic(topic))
    return SharedArray.joined(parts)


async def _by_name(
    context: Context,
    request: MetadataRequest,
    answers: KindOfAnswers,
    image: MetadataImage,
    names: Collection[str],
) -> TopicArray:
    visible = await context.allowed(DESCRIBE_TOPIC, names)
    parts, missing = [], []
    for name in names:
        await context.pace(TOPIC_COST)
        topic = image.topics.topic(name)
        if name not in visible:
            parts.append(_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
        elif topic is None:
            missing.append(name)
        else:
            parts.append(await answers.of_topic(topic))
    creatable = await _create(context, request, missing)
    unknown = []
    for name in missing:
        await context.pace(TOPIC_COST)
        if name in creatable:
            unknown.append(_missing(name))
        else:
            parts.append(_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
    return SharedArray.joined([*parts, SharedArray(unknown)])


async def _create(context: Context, request: MetadataRequest, missing: list[str]) -> Container[str]:
    """Begins to create the missing topics that the client may create, if topics are created automatically. Returns the
    names of the topics that the client may create, or every name if nothing is created."""
    creatable: Container[str] = EVERY_NAME
    if missing and _may_create(context, request):
        if not context.rights.allows(CREATE_CLUSTER, traced=True):
            creatable = await context.allowed(CREATE_TOPIC, missing)
        names = missing if creatable is EVERY_NAME else [name for name in missing if name in creatable]
        context.ports.topics.create_missing(names, controller_context(context))
    return creatable


def _error(code: ErrorCode, name: str | None, topic_id: uuid.UUID | None = None) -> TopicArray:
    """The answer for an unknown topic id, or for a topic that the client may not describe. The answer contains only the
    name or the id from the request.
    """
    return SharedArray((MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id),))


def _is_by_id(topic: MetadataRequestTopic) -> bool:
    return topic.name is None or topic.topic_id is not None


def _may_create(context: Context, request: MetadataRequest) -> bool:
    allowed = request.allow_auto_topic_creation or context.api_version < ALLOW_CREATION_SINCE
    return allowed and context.ports.config.boolean("auto.create.topics.enable")


def _missing(name: str) -> MetadataResponseTopic:
    valid = topic_names.is_valid(name)
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=topic_names.is_internal(name),
    )


def _brokers(image: MetadataImage, listener: str) -> tuple[MetadataResponseBroker, ...]:
    return tuple(
        MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in alive_brokers(image, listener)
    )


def _cluster_operations(context: Context, request: MetadataRequest) -> int:
    if (
        not request.include_cluster_authorized_operations
        or not CLUSTER_OPERATIONS_SINCE <= context.api_version <= CLUSTER_OPERATIONS_UNTIL
    ):
        return NOT_REQUESTED
    rights = context.rights
    return rights.operations(ResourceType.CLUSTER) if rights.allows(DESCRIBE_CLUSTER) else 0


async def _described(
    context: Context, request: MetadataRequest, image: MetadataImage, topic: TopicImage
) -> MetadataResponseTopic:
    partitions = []
    for number, partition in sorted(topic.partitions.items()):
        await context.pace(PARTITION_COST)
        partitions.append(_partition(context, image, number, partition))
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic_names.is_internal(topic.name),
        partitions=tuple(partitions),
        topic_authorized_operations=(
            context.rights.operations(ResourceType.TOPIC, topic.name)
            if request.include_topic_authorized_operations
            else NOT_REQUESTED
        ),
    )


def _partition(
    context: Context, image: MetadataImage, number: int, partition: PartitionImage
) -> MetadataResponsePartition:
    no_listener = (
        ErrorCode.LISTENER_NOT_FOUND
        if context.api_version >= LISTENER_NOT_FOUND_SINCE
        else ErrorCode.LEADER_NOT_AVAILABLE
    )
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
