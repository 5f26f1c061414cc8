"""Metadata (key 3, versions 0-13): brokers, topics and partitions. Creates requested topics, if they may be created.

From version 1 on, a null list of topics means all topics (KIP-4). Later versions add the cluster id (v2), the field
allow_auto_topic_creation (v4, KAFKA-5291), offline replicas (v5, KIP-112), authorized operations (v8, KIP-430), and
topic ids (v10, KIP-516). Requests may contain topic ids from version 12 on. Only versions 8 to 10 have the authorized
operations of the cluster.

While a topic is being created, the response reports it as unknown. The client asks again.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Container, Iterable

from kcli.errors import ErrorCode, InvalidRequestException, KafkaError
from kcli.metadata.image import MetadataImage, PartitionImage, TopicImage
from kcli.model import topic_names
from kcli.model.acl import ResourceType
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kcli.protocol.wire.shared_array import SharedArray
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.cluster_view import alive_brokers, random_alive_broker, view_partition
from kcli.server.handlers.shared.controller_requests import controller_context
from kcli.server.handlers.shared.topic_answers import AnswerKind, KindOfAnswers, TopicAnswers, TopicArray
from kcli.server.requests.access import (
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC,
)
from kcli.server.requests.answers import then
from kcli.server.requests.operations import NOT_REQUESTED
from kcli.server.requests.rights import EVERY_NAME, Rights
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns

# The first versions with a field that forbids creation, with topic ids in the request, and with an error for a leader
# without the client's listener.
ALLOW_CREATION_SINCE = 4
LISTENER_NOT_FOUND_SINCE = 6
CLUSTER_OPERATIONS_SINCE, CLUSTER_OPERATIONS_UNTIL = 8, 10
BY_ID_SINCE = 12


PER_TURN = 100
"""Names, topics or partitions that are handled in one iteration of the event loop. Each takes 1 to 10 µs."""


def handle(
    context: BrokerContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    image = context.ports.metadata  # one image for all turns
    topics = run_in_turns(_topics(context, request, image), PER_TURN)
    return then(topics, lambda found: _response(context, request, image, found))


def _response(
    context: BrokerContext, request: MetadataRequest, image: MetadataImage, topics: TopicArray
) -> MetadataResponse:
    brokers = tuple(
        MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker, endpoint in alive_brokers(image, context.listener)
    )
    operations = NOT_REQUESTED
    if (
        request.include_cluster_authorized_operations
        and CLUSTER_OPERATIONS_SINCE <= context.api_version <= CLUSTER_OPERATIONS_UNTIL
    ):
        rights = context.rights
        operations = rights.operations(ResourceType.CLUSTER) if rights.allows(DESCRIBE_CLUSTER) else 0
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=random_alive_broker(context),
        topics=topics,
        cluster_authorized_operations=operations,
    )


def error_response(
    _context: BrokerContext, request: MetadataRequest, error: KafkaError
) -> MetadataResponse | Awaitable[MetadataResponse]:
    topics = in_turns(
        request.topics or (),
        lambda topic: MetadataResponseTopic(
            name=topic.name or "", topic_id=topic.topic_id, error_code=error.code
        ),
        REFUSALS_PER_TURN,
    )
    return then(topics, lambda failed: MetadataResponse(topics=tuple(failed), error_code=error.code))


def _topics(context: BrokerContext, request: MetadataRequest, image: MetadataImage) -> Steps[TopicArray]:
    """The topics of the response. Yields after each name, topic and partition."""
    rights = context.rights
    # The operations depend on the client, so these answers cannot be shared.
    is_shared = rights.is_open or not request.include_topic_authorized_operations
    answers = KindOfAnswers(
        context.ports.topic_answers if is_shared else TopicAnswers(),
        image,
        AnswerKind(context.api_version, context.listener, request.include_topic_authorized_operations),
        lambda topic: _found(context, request, image, topic),
    )
    asked = request.topics
    if asked is None or (context.api_version == 0 and not asked):
        return (yield from _all_visible(context, answers, image))
    names: dict[str, None] = {}
    ids: dict[uuid.UUID, None] = {}
    for topic in asked:
        if context.api_version < BY_ID_SINCE and _is_by_id(topic):
            raise InvalidRequestException(
                f"Topic IDs are not supported in requests for version {context.api_version}"
            )
        if topic.topic_id is not None:
            ids[topic.topic_id] = None
        elif topic.name is not None:
            names[topic.name] = None
        yield
    if ids:
        return (yield from _by_id(rights, answers, image, ids))
    return (yield from _by_name(context, request, answers, image, names))


def _all_visible(context: BrokerContext, answers: KindOfAnswers, image: MetadataImage) -> Steps[TopicArray]:
    """All topics that the client may describe. The other topics are left out without an error."""
    seen = yield from context.ports.visible_topics.of(context.rights, image.topics)
    if seen is EVERY_NAME:
        return (yield from answers.of_all_topics())
    parts = []
    for topic in image.topics:
        if topic.name in seen:
            parts.append((yield from answers.of_topic(topic)))
        yield
    return SharedArray.joined(parts)


def _refused(name: str | None, topic_id: uuid.UUID | None = None) -> TopicArray:
    """The answer for a topic that the client may not describe. The answer contains only the name or the id from the
    request.
    """
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return SharedArray((MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id),))


def _by_id(
    rights: Rights, answers: KindOfAnswers, image: MetadataImage, ids: Iterable[uuid.UUID]
) -> Steps[TopicArray]:
    found = (topic.name for topic_id in ids if (topic := image.topics.topic_by_id(topic_id)) is not None)
    seen = yield from rights.allowed_steps(DESCRIBE_TOPIC, found)
    parts = []
    for topic_id in ids:
        topic = image.topics.topic_by_id(topic_id)
        if topic is None:
            unknown = MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
            )
            parts.append(SharedArray((unknown,)))
        elif topic.name not in seen:
            parts.append(_refused(None, topic_id))
        else:
            parts.append((yield from answers.of_topic(topic)))
        yield
    return SharedArray.joined(parts)


def _by_name(
    context: BrokerContext,
    request: MetadataRequest,
    answers: KindOfAnswers,
    image: MetadataImage,
    names: Iterable[str],
) -> Steps[TopicArray]:
    rights = context.rights
    seen = yield from rights.allowed_steps(DESCRIBE_TOPIC, names)
    parts, missing = [], []
    for name in names:
        topic = image.topics.topic(name)
        if name not in seen:
            parts.append(_refused(name))
        elif topic is None:
            missing.append(name)
        else:
            parts.append((yield from answers.of_topic(topic)))
        yield
    creatable: Container[str] = EVERY_NAME
    if missing and _may_create(context, request):
        if not rights.allows(CREATE_CLUSTER, traced=True):
            creatable = yield from rights.allowed_steps(CREATE_TOPIC, missing)
        created = missing
        if creatable is not EVERY_NAME:
            created = [name for name in missing if name in creatable]
        context.ports.topics.create_missing(created, controller_context(context))
    unknown = []
    for name in missing:
        if name in creatable:
            unknown.append(_missing(name))
        else:
            parts.append(_refused(name))
        yield
    return SharedArray.joined([*parts, SharedArray(unknown)])


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


def _found(
    context: BrokerContext, request: MetadataRequest, image: MetadataImage, topic: TopicImage
) -> Steps[MetadataResponseTopic]:
    partitions = []
    for number, partition in sorted(topic.partitions.items()):
        partitions.append(_partition(context, image, number, partition))
        yield
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
    context: BrokerContext, image: MetadataImage, number: int, partition: PartitionImage
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
