"""CreateTopics (key 19, versions 2-7): forwards the request to the controller, which creates the topics. The rules are
in controller/topics.py.

From version 4 on, -1 partitions or replicas mean the controller's defaults (KIP-464). The response contains the
effective configuration from version 5 on (KIP-525) and the topic id from version 7 on (KIP-516). If the whole request
is refused, every topic gets the error, because the response has no top-level error field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace

from kcli.controller.api import CREATE_TOPICS
from kcli.controller.decision import ApiError
from kcli.controller.topics import MAX_PARTITIONS_PER_REQUEST, too_many_partitions
from kcli.errors import ErrorCode, KafkaError
from kcli.model.pace import mapped
from kcli.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller, controller_context
from kcli.server.requests.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import EVERY_NAME

Context = RequestContext[Ports]


async def handle(context: Context, request: CreateTopicsRequest) -> CreateTopicsResponse:
    # The controller would refuse so many topics too, but only after it has counted their partitions.
    if len(request.topics) > MAX_PARTITIONS_PER_REQUEST:
        raise too_many_partitions()
    if context.rights.is_open:
        return await ask_controller(context, CREATE_TOPICS, request)
    # The controller refuses duplicates, whatever the rights of the client are.
    counts = Counter(topic.name for topic in request.topics)
    names = tuple(name for name, count in counts.items() if count == 1)
    creatable = await _creatable(context, names)
    describable = await context.allowed(DESCRIBE_CONFIGS_TOPIC, names, traced=True)
    topics = tuple(topic for topic in request.topics if counts[topic.name] > 1 or topic.name in creatable)
    response = await context.ports.channel.send(
        CREATE_TOPICS,
        replace(request, topics=topics),
        replace(controller_context(context), describable=describable.__contains__),
    )
    refused = tuple(_refused(name) for name in names if name not in creatable)
    return replace(response, topics=response.topics + refused)


async def _creatable(context: Context, names: Sequence[str]) -> Container[str]:
    """Returns the names of the topics that the client may create."""
    if context.rights.allows(CREATE_CLUSTER, traced=True):
        return EVERY_NAME
    return await context.allowed(CREATE_TOPIC, names)


def _refused(name: str) -> CreatableTopicResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(name=name, error_code=code, error_message="Authorization failed.")


async def error_response(
    context: Context, request: CreateTopicsRequest, error: KafkaError
) -> CreateTopicsResponse:
    message = ApiError.of(error).message
    topics = await mapped(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: CreatableTopicResult(name=topic.name, error_code=error.code, error_message=message),
    )
    return CreateTopicsResponse(topics=topics)
