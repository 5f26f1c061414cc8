"""CreateTopics (key 19, versions 2-7): forwards the request to the controller, which creates the topics. The rules are
in controller/topics.py.

From version 4 on, -1 partitions or replicas mean the controller's defaults (KIP-464). The response contains the
effective configuration from version 5 on (KIP-525) and the topic id from version 7 on (KIP-516). If the whole request
is refused, every topic gets the error, because the response has no top-level error field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Container
from dataclasses import replace

from kcli.controller.api import CREATE_TOPICS
from kcli.controller.decision import ApiError
from kcli.controller.topics import MAX_PARTITIONS_PER_REQUEST, too_many_partitions
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller, controller_context
from kcli.server.requests.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC
from kcli.server.requests.answers import finished, then
from kcli.server.requests.rights import EVERY_NAME
from kcli.server.requests.turns import REFUSALS_PER_TURN, in_turns


async def handle(context: NodeContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    # The controller would refuse so many topics too, but only after it has counted their partitions.
    if len(request.topics) > MAX_PARTITIONS_PER_REQUEST:
        raise too_many_partitions()
    rights = context.rights
    if rights.is_open:
        return await ask_controller(context, CREATE_TOPICS, request)
    # The controller refuses duplicates, whatever the rights of the client are.
    counts = Counter(topic.name for topic in request.topics)
    names = tuple(name for name, count in counts.items() if count == 1)
    allowed: Container[str] = EVERY_NAME
    if not rights.allows(CREATE_CLUSTER, traced=True):
        allowed = await finished(rights.allowed_in_turns(CREATE_TOPIC, names))
    described = await finished(rights.allowed_in_turns(DESCRIBE_CONFIGS_TOPIC, names, traced=True))
    asked = tuple(topic for topic in request.topics if counts[topic.name] > 1 or topic.name in allowed)
    response = await context.ports.channel.send(
        CREATE_TOPICS,
        replace(request, topics=asked),
        replace(controller_context(context), describable=described.__contains__),
    )
    refused = tuple(_refused(name) for name in names if name not in allowed)
    return replace(response, topics=response.topics + refused)


def _refused(name: str) -> CreatableTopicResult:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(name=name, error_code=code, error_message="Authorization failed.")


def error_response(
    _context: NodeContext, request: CreateTopicsRequest, error: KafkaError
) -> CreateTopicsResponse | Awaitable[CreateTopicsResponse]:
    topics = in_turns(
        request.topics,
        lambda topic: CreatableTopicResult(
            name=topic.name, error_code=error.code, error_message=ApiError.of(error).message
        ),
        REFUSALS_PER_TURN,
    )
    return then(topics, lambda refused: CreateTopicsResponse(topics=tuple(refused)))
