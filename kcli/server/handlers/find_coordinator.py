"""FindCoordinator (key 10, versions 0-6): the broker that coordinates a group or a transactional id.

KIPs: 98, 699, 932. Before version 4, the request has one key. From version 4 on, it has several keys, and each key can
get its own error. If the internal topic is missing, it is created first. If the partition has no leader, or the leader
does not have the client's listener, the error is COORDINATOR_NOT_AVAILABLE. Keys of share groups get INVALID_REQUEST,
because this broker does not store the state of share groups.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Iterable
from dataclasses import replace
from typing import Protocol

from kcli.coordinator.hashing import partition_for
from kcli.errors import ClusterAuthorizationException, ErrorCode, KafkaError, error_for
from kcli.metadata.image import MetadataImage
from kcli.model.request_values import CoordinatorType
from kcli.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kcli.server.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC, InternalTopic
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.controller_requests import controller_context
from kcli.server.requests.access import (
    CLUSTER_ACTION,
    DESCRIBE_GROUP,
    DESCRIBE_TRANSACTIONAL_ID,
)
from kcli.server.requests.answers import finished, then
from kcli.server.requests.rights import EVERY_NAME, refusal
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns

_BATCHED_FROM = 4
READY_SECONDS = 1.0
"""The longest wait until a shard is loaded. It is long enough for the load of an empty partition. If the load of a long
log takes more time, clients send their requests again."""
KEYS_PER_TURN = 100
"""Keys that are located in one iteration of the event loop. A key takes 8 µs."""
CHARACTERS_PER_STEP = 160
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


def handle(
    context: BrokerContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if request.key_type == CoordinatorType.SHARE and not context.rights.allows(CLUSTER_ACTION):
        return _refused_share_keys(context, request)
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return _failed(context.api_version, request, ErrorCode.INVALID_REQUEST)
    need = DESCRIBE_GROUP if topic is GROUP_TOPIC else DESCRIBE_TRANSACTIONAL_ID
    allowed = context.rights.allowed_in_turns(need, _keys(context.api_version, request))
    refused_code = refusal(need.resource_type).code

    def find(names: Container[str]) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
        if names is EVERY_NAME:
            return _find_allowed(context, request, topic)
        asked = tuple(key for key in _keys(context.api_version, request) if key in names)
        if context.api_version < _BATCHED_FROM or not asked:
            if asked:
                return _find_allowed(context, request, topic)
            return _failed(context.api_version, request, refused_code)
        found = _find_allowed(context, replace(request, coordinator_keys=asked), topic)
        return then(found, lambda response: _with_refused(request, response, names, refused_code))

    return then(allowed, find)


def _refused_share_keys(
    context: BrokerContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """The error for keys of share groups. As in Kafka, only these errors have a text."""
    refused = ClusterAuthorizationException()
    keys = _keys(context.api_version, request)
    found = in_turns(
        keys,
        lambda key: replace(_nowhere(key, refused.code), error_message=refused.message),
        REFUSALS_PER_TURN,
    )
    return then(found, lambda coordinators: _response(context.api_version, tuple(coordinators)))


def _with_refused(
    request: FindCoordinatorRequest, response: FindCoordinatorResponse, names: Container[str], code: ErrorCode
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    """The response in the order of the request, with an error for each key that the client may not describe."""
    found = iter(response.coordinators)
    coordinators = in_turns(
        request.coordinator_keys,
        lambda key: next(found) if key in names else _nowhere(key, code),
        REFUSALS_PER_TURN,
    )
    return then(coordinators, lambda merged: FindCoordinatorResponse(coordinators=tuple(merged)))


def _find_allowed(
    context: BrokerContext, request: FindCoordinatorRequest, topic: InternalTopic
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if topic.name not in context.ports.metadata.topics:
        return _create_and_find(context, request, topic)
    return then(
        run_in_turns(_beginning(context, request, topic), KEYS_PER_TURN),
        lambda beginning: (
            _find_ready(context, request, topic, beginning) if beginning else _find(context, request, topic)
        ),
    )


def error_response(
    context: BrokerContext, request: FindCoordinatorRequest, error: KafkaError
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    return _failed(context.api_version, request, error.code)


async def _create_and_find(
    context: BrokerContext, request: FindCoordinatorRequest, topic: InternalTopic
) -> FindCoordinatorResponse:
    if not await context.ports.topics.create_internal(topic, controller_context(context)):
        return await finished(_failed(context.api_version, request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    beginning = await finished(run_in_turns(_beginning(context, request, topic), KEYS_PER_TURN))
    return await _find_ready(context, request, topic, beginning)


async def _find_ready(
    context: BrokerContext,
    request: FindCoordinatorRequest,
    topic: InternalTopic,
    partitions: tuple[int, ...],
) -> FindCoordinatorResponse:
    """Waits until the coordinator is loaded. Without this wait, the client would get COORDINATOR_LOAD_IN_PROGRESS and
    retry only after seconds."""
    await _shards(context, topic).wait_until_loaded(partitions, READY_SECONDS)
    return await finished(_find(context, request, topic))


def _beginning(
    context: BrokerContext, request: FindCoordinatorRequest, topic: InternalTopic
) -> Steps[tuple[int, ...]]:
    """Returns the partitions that belong to the requested keys, that this broker leads, and that it has not loaded
    yet.
    """
    shards = _shards(context, topic)
    asked = set()
    for key in _keys(context.api_version, request):
        asked.add(shards.partition_of(key))
        yield from _steps_of(key)
    image = context.ports.metadata
    return tuple(
        partition
        for partition in sorted(asked)
        if not shards.is_loaded(partition)
        and (found := image.partition(topic.name, partition)) is not None
        and found.leader == context.ports.node_id
    )


def _shards(context: BrokerContext, topic: InternalTopic) -> _Shards:
    return context.ports.groups.shards if topic is GROUP_TOPIC else context.ports.transactions.shards


def _find(
    context: BrokerContext, request: FindCoordinatorRequest, topic: InternalTopic
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    located = run_in_turns(_located(context, request, topic), KEYS_PER_TURN)
    return then(located, lambda found: _response(context.api_version, found))


def _located(
    context: BrokerContext, request: FindCoordinatorRequest, topic: InternalTopic
) -> Steps[tuple[Coordinator, ...]]:
    image = context.ports.metadata  # one image for all turns
    found = []
    for key in _keys(context.api_version, request):
        found.append(_locate(context, image, topic, key))
        yield from _steps_of(key)
    return tuple(found)


def _steps_of(key: str) -> Steps[None]:
    """Yields once for each step that a key counts as. In one iteration, the event loop does a fixed number of steps. A
    long key counts as several steps, because its hash code (as in Java) takes 50 ns for each character.
    """
    for _ in range(1 + len(key) // CHARACTERS_PER_STEP):
        yield


def _locate(context: BrokerContext, image: MetadataImage, topic: InternalTopic, key: str) -> Coordinator:
    found = image.topics.topic(topic.name)
    if found is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    # The existing topic gives the number of partitions, because all brokers must use the same number even if their
    # configurations differ.
    partition = found.partitions.get(partition_for(key, len(found.partitions)))
    broker = None if partition is None else image.brokers.get(partition.leader)
    endpoint = None if broker is None or broker.fenced else broker.endpoints.get(context.listener)
    if broker is None or endpoint is None:
        return _nowhere(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=broker.id, host=endpoint.host, port=endpoint.port)


def _keys(version: int, request: FindCoordinatorRequest) -> tuple[str, ...]:
    return request.coordinator_keys if version >= _BATCHED_FROM else (request.key,)


def _failed(
    version: int, request: FindCoordinatorRequest, code: ErrorCode
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    failed = in_turns(_keys(version, request), lambda key: _nowhere(key, code), REFUSALS_PER_TURN)
    return then(failed, lambda found: _response(version, tuple(found)))


def _nowhere(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=_NO_NODE, port=_NO_PORT, error_code=code)


def _response(version: int, found: tuple[Coordinator, ...]) -> FindCoordinatorResponse:
    if version >= _BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
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
