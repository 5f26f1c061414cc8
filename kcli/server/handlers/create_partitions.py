"""CreatePartitions (key 37, versions 0-3): forwards the request to the controller, which adds partitions to topics
(KIP-195). The rules are in controller/topics.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import replace

from kcli.controller.api import CREATE_PARTITIONS
from kcli.controller.decision import ApiError
from kcli.errors import ErrorCode, KafkaError
from kcli.model.pace import mapped
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.access import ALTER_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import EVERY_NAME

Context = RequestContext[Ports]


async def handle(context: Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    # The controller refuses duplicates, whatever the rights of the client are.
    counts = Counter([topic.name for topic in request.topics])
    names = [name for name, count in counts.items() if count == 1]
    allowed = await context.allowed(ALTER_TOPIC, names)
    if allowed is EVERY_NAME:
        return await ask_controller(context, CREATE_PARTITIONS, request)
    accepted, refused = await _divided(context, request, counts, allowed)
    response = await ask_controller(context, CREATE_PARTITIONS, replace(request, topics=accepted))
    return replace(response, results=response.results + refused)


async def _divided(
    context: Context, request: CreatePartitionsRequest, counts: Mapping[str, int], allowed: Container[str]
) -> tuple[tuple[CreatePartitionsTopic, ...], tuple[CreatePartitionsTopicResult, ...]]:
    """Divides the topics into topics for the controller and refused topics."""
    accepted = []
    refused = []
    for topic in request.topics:
        await context.pace(REFUSAL_COST)
        if counts[topic.name] > 1 or topic.name in allowed:
            accepted.append(topic)
        else:
            refused.append(
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None
                )
            )
    return tuple(accepted), tuple(refused)


async def error_response(
    context: Context, request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse:
    message = ApiError.of(error).message
    results = await mapped(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: CreatePartitionsTopicResult(
            name=topic.name, error_code=error.code, error_message=message
        ),
    )
    return CreatePartitionsResponse(results=results)
