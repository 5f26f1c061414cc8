"""CreatePartitions (key 37, versions 0-3): asks the controller (KIP-195). The rules are in controller/topics.py."""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.api import CREATE_PARTITIONS
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import ALTER_TOPIC, per_resource
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, in_turns

ACCESS = per_resource(ALTER_TOPIC)


async def handle(context: NodeContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    return await ask_controller(context, CREATE_PARTITIONS, request)


def error_response(
    _context: NodeContext, request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse | Awaitable[CreatePartitionsResponse]:
    results = in_turns(
        request.topics,
        lambda topic: CreatePartitionsTopicResult(
            name=topic.name, error_code=error.code, error_message=ApiError.of(error).message
        ),
        REFUSALS_PER_TURN,
    )
    return then(results, lambda refused: CreatePartitionsResponse(results=tuple(refused)))
