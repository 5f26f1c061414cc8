"""CreatePartitions (key 37, versions 0-3): asks the controller (KIP-195); the rules are in controller/topics.py."""

from __future__ import annotations

from kcli.errors import KafkaError
from kcli.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kcli.server.requests.access import ALTER_TOPIC, per_resource
from kcli.server.requests.context import RequestContext

ACCESS = per_resource(ALTER_TOPIC)


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    return await context.broker.quorum.create_partitions(request, context)


def error_response(
    _context: RequestContext, request: CreatePartitionsRequest, error: KafkaError
) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=tuple(
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        )
    )
