"""DeleteTopics (key 20, versions 1-6): asks the controller; the rules are in controller/topics.py.

The request has topic names, from version 6 on names or ids (KIP-516).
"""

from __future__ import annotations

from kcli.controller.api import DELETE_TOPICS
from kcli.controller.topics import DELETE_BY_ID_SINCE
from kcli.errors import KafkaError
from kcli.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import DELETE_CLUSTER, DELETE_TOPIC, DESCRIBE_TOPIC, per_resource

ACCESS = per_resource(DELETE_CLUSTER, DESCRIBE_TOPIC, DELETE_TOPIC)


async def handle(context: NodeContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    return await ask_controller(context, DELETE_TOPICS, request)


def error_response(
    context: NodeContext, request: DeleteTopicsRequest, error: KafkaError
) -> DeleteTopicsResponse:
    by_id = context.api_version >= DELETE_BY_ID_SINCE
    states = request.topics if by_id else tuple(DeleteTopicState(name=name) for name in request.topic_names)
    return DeleteTopicsResponse(
        responses=tuple(
            DeletableTopicResult(
                name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message
            )
            for state in states
        )
    )
