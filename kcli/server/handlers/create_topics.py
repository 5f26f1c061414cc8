"""CreateTopics (key 19, versions 2-7): asks the controller. The rules are in controller/topics.py.

From version 4 on, -1 means the controller's defaults (KIP-464). The response contains the effective configuration from
version 5 on (KIP-525) and the topic id from version 7 on (KIP-516). If the whole request is refused, every topic gets
the error, because the response has no top-level error field.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.api import CREATE_TOPICS
from kcli.controller.decision import ApiError
from kcli.controller.topics import MAX_PARTITIONS_PER_REQUEST, too_many_partitions
from kcli.errors import KafkaError
from kcli.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC, per_resource
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, in_turns

ACCESS = per_resource(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC)


async def handle(context: NodeContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    # The controller would refuse them too, but only after counting.
    if len(request.topics) > MAX_PARTITIONS_PER_REQUEST:
        raise too_many_partitions()
    return await ask_controller(context, CREATE_TOPICS, request)


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
