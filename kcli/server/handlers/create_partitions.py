"""CreatePartitions (key 37, versions 0-3): asks the controller (KIP-195); the rules are in controller/topics.py."""

from __future__ import annotations

from kcli.controller.api import CREATE_PARTITIONS
from kcli.errors import KafkaError
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import ALTER_TOPIC, per_resource

ACCESS = per_resource(ALTER_TOPIC)


async def handle(context: NodeContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    return await ask_controller(context, CREATE_PARTITIONS, request)


def error_response(
    _context: NodeContext, request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=tuple(
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        )
    )
