"""FindCoordinator (key 10, versions 0-6): the broker that coordinates a group or a transactional id.

KIPs: 98, 699, 932. Before version 4, the request has one key. From version 4 on, it has several keys, and each key can
get its own error. If the internal topic is missing, it is created first. If the partition has no leader, or the leader
does not have the client's listener, the error is COORDINATOR_NOT_AVAILABLE. Keys of share groups get INVALID_REQUEST,
because this broker does not store the state of share groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kcli.config.broker import BrokerConfig
from kcli.coordinator.hashing import partition_for
from kcli.errors import ClusterAuthorizationException, ErrorCode, KafkaError, error_for
from kcli.metadata.image import MetadataImage
from kcli.model.request_values import CoordinatorType
from kcli.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kcli.runtime.clock import Clock
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC, InternalTopic
from kcli.server.coordinators.topic_creation import TopicCreator
from kcli.server.coordinators.transactions import TransactionCoordinator
from kcli.server.handlers.shared.controller_requests import controller_context
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import (
    CLUSTER_ACTION,
    DESCRIBE_GROUP,
    DESCRIBE_TRANSACTIONAL_ID,
)
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import EVERY_NAME, refusal

_BATCHED_FROM = 4
READY_SECONDS = 1.0
"""The longest wait until a shard is loaded. It is long enough for the load of an empty partition. If the load of a long
log takes more time, clients send their requests again."""
KEY_COST = 10
CHARACTERS_PER_MICROSECOND = 16
_NO_NODE = -1
_NO_PORT = -1


class _Shards(Protocol):
    """The partitions of a coordinator, for groups or for transactions."""

    def partition_of(self, key: str) -> int: ...
    def is_loaded(self, partition: int) -> bool: ...
    async def wait_until_loaded(self, partitions: Iterable[int], seconds: float) -> None: ...


_TOPICS: dict[int, InternalTopic] = {
    CoordinatorType.GROUP: GROUP_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_TOPIC,
}


@dataclass(frozen=True, slots=True)
class Ports:
    clock: Clock
    config: BrokerConfig
    groups: GroupCoordinator
    loader: MetadataLoader
    topics: TopicCreator
    transactions: TransactionCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    keys = _keys(context, request)
    if request.key_type == CoordinatorType.SHARE and not context.rights.allows(CLUSTER_ACTION):
        return await _refused_share_keys(context, keys)
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return await _failed(context, keys, ErrorCode.INVALID_REQUEST)
    need = DESCRIBE_GROUP if topic is GROUP_TOPIC else DESCRIBE_TRANSACTIONAL_ID
    allowed = await context.allowed(need, keys)
    if allowed is EVERY_NAME:
        return _response(context, await _find(context, topic, keys))
    visible = tuple([key for key in keys if key in allowed])
    coordinators = iter(await _find(context, topic, visible) if visible else ())
    refused_code = refusal(need.resource_type).code
    merged = []
    for key in keys:
        await context.pace(REFUSAL_COST)
        merged.append(next(coordinators) if key in allowed else _nowhere(key, refused_code))
    return _response(context, merged)


async def error_response(
    context: Context, request: FindCoordinatorRequest, error: KafkaError
) -> FindCoordinatorResponse:
    return await _failed(context, _keys(context, request), error.code)


async def _refused_share_keys(context: Context, keys: Sequence[str]) -> FindCoordinatorResponse:
    """The error for keys of share groups. As in Kafka, only these errors have a text."""
    refused = ClusterAuthorizationException()
    coordinators = []
    for key in keys:
        await context.pace(REFUSAL_COST)
        coordinators.append(replace(_nowhere(key, refused.code), error_message=refused.message))
    return _response(context, coordinators)


async def _find(context: Context, topic: InternalTopic, keys: Sequence[str]) -> Sequence[Coordinator]:
    """The coordinators of keys that the client may describe, in the same order."""
    if topic.name not in context.ports.loader.image.topics and not await context.ports.topics.create_internal(
        topic, controller_context(context)
    ):
        return await _all_nowhere(context, keys, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    beginning = await _beginning(context, topic, keys)
    if beginning:
        # Without this wait, the client would get COORDINATOR_LOAD_IN_PROGRESS and retry only after seconds.
        await _shards(context, topic).wait_until_loaded(beginning, READY_SECONDS)
    image = context.ports.loader.image  # one image for all turns
    coordinators = []
    for key in keys:
        await context.pace(_cost_of(key))
        coordinators.append(_locate(context, image, topic, key))
    return coordinators


async def _beginning(context: Context, topic: InternalTopic, keys: Sequence[str]) -> tuple[int, ...]:
    """Returns the partitions that belong to the keys, that this broker leads, and that it has not loaded yet."""
    shards = _shards(context, topic)
    partitions = set()
    for key in keys:
        await context.pace(_cost_of(key))
        partitions.add(shards.partition_of(key))
    image = context.ports.loader.image
    return tuple(
        partition
        for partition in sorted(partitions)
        if not shards.is_loaded(partition)
        and (state := image.partition(topic.name, partition)) is not None
        and state.leader == context.ports.config.node_id
    )


def _shards(context: Context, topic: InternalTopic) -> _Shards:
    return context.ports.groups.shards if topic is GROUP_TOPIC else context.ports.transactions.shards


def _cost_of(key: str) -> int:
    """The cost to locate a key. A long key takes longer, because its hash code (as in Java) takes 50 ns for each
    character."""
    return KEY_COST + len(key) // CHARACTERS_PER_MICROSECOND


def _locate(context: Context, image: MetadataImage, topic: InternalTopic, key: str) -> Coordinator:
    topic_image = image.topics.topic(topic.name)
    if topic_image is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    # The existing topic gives the number of partitions, because all brokers must use the same number even if their
    # configurations differ.
    partition = topic_image.partitions.get(partition_for(key, len(topic_image.partitions)))
    broker = None if partition is None else image.brokers.get(partition.leader)
    endpoint = None if broker is None or broker.fenced else broker.endpoints.get(context.listener)
    if broker is None or endpoint is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=broker.id, host=endpoint.host, port=endpoint.port)


def _keys(context: Context, request: FindCoordinatorRequest) -> tuple[str, ...]:
    return request.coordinator_keys if context.api_version >= _BATCHED_FROM else (request.key,)


async def _failed(context: Context, keys: Sequence[str], code: ErrorCode) -> FindCoordinatorResponse:
    return _response(context, await _all_nowhere(context, keys, code))


async def _all_nowhere(context: Context, keys: Sequence[str], code: ErrorCode) -> list[Coordinator]:
    coordinators = []
    for key in keys:
        await context.pace(REFUSAL_COST)
        coordinators.append(_nowhere(key, code))
    return coordinators


def _nowhere(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=_NO_NODE, port=_NO_PORT, error_code=code)


def _response(context: Context, coordinators: Sequence[Coordinator]) -> FindCoordinatorResponse:
    if context.api_version >= _BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=tuple(coordinators))
    (only,) = coordinators
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=_message(only.error_code),
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _message(code: ErrorCode) -> str:
    """The error message as in Kafka. For a success it is the name of the code."""
    return code.name if code is ErrorCode.NONE else error_for(code).message
