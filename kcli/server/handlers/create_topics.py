"""CreateTopics (key 19, versions 2-7): asks the controller; the rules are in controller/topics.py.

KIP-464 (-1 = the controller's defaults, v4), KIP-525 (answers with the effective configuration, v5), KIP-516 (topic id,
v7). If the whole request is refused, every topic has the error, because the response has no other field for it.
"""

from __future__ import annotations

from kcli.controller.api import CREATE_TOPICS
from kcli.errors import KafkaError
from kcli.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC, per_resource

ACCESS = per_resource(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC)


async def handle(context: NodeContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    return await ask_controller(context, CREATE_TOPICS, request)


def error_response(
    _context: NodeContext, request: CreateTopicsRequest, error: KafkaError
) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        )
    )
