"""CreatePartitions (key 37, versions 0-3): forwards the request to the controller, which adds partitions to topics
(KIP-195). The rules are in controller/topics.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Container, Mapping
from dataclasses import replace

from kcli.controller.api import CREATE_PARTITIONS
from kcli.controller.decision import ApiError
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import ALTER_TOPIC
from kcli.server.requests.answers import finished, then
from kcli.server.requests.rights import EVERY_NAME
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns


async def handle(context: NodeContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    # The controller refuses duplicates, whatever the rights of the client are.
    counts = Counter([topic.name for topic in request.topics])
    names = [name for name, count in counts.items() if count == 1]
    allowed = await finished(context.rights.allowed_in_turns(ALTER_TOPIC, names))
    if allowed is EVERY_NAME:
        return await ask_controller(context, CREATE_PARTITIONS, request)
    divided = run_in_turns(_divided(request, counts, allowed), REFUSALS_PER_TURN)
    asked, refused = await finished(divided)
    response = await ask_controller(context, CREATE_PARTITIONS, replace(request, topics=asked))
    return replace(response, results=response.results + refused)


def _divided(
    request: CreatePartitionsRequest, counts: Mapping[str, int], allowed: Container[str]
) -> Steps[tuple[tuple[CreatePartitionsTopic, ...], tuple[CreatePartitionsTopicResult, ...]]]:
    """Divides the topics into topics for the controller and refused topics."""
    asked = []
    refused = []
    for topic in request.topics:
        if counts[topic.name] > 1 or topic.name in allowed:
            asked.append(topic)
        else:
            refused.append(
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None
                )
            )
        yield
    return tuple(asked), tuple(refused)


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
