"""DeleteTopics (key 20, versions 1-6): asks the controller. The rules are in controller/topics.py.

The request contains topic names. From version 6 on it may contain names or ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.api import DELETE_TOPICS
from kcli.controller.decision import ApiError
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
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, in_turns

ACCESS = per_resource(DELETE_CLUSTER, DESCRIBE_TOPIC, DELETE_TOPIC)


async def handle(context: NodeContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    return await ask_controller(context, DELETE_TOPICS, request)


def error_response(
    context: NodeContext, request: DeleteTopicsRequest, error: KafkaError
) -> DeleteTopicsResponse | Awaitable[DeleteTopicsResponse]:
    def refused(state: DeleteTopicState) -> DeletableTopicResult:
        return DeletableTopicResult(
            name=state.name,
            topic_id=state.topic_id,
            error_code=error.code,
            error_message=ApiError.of(error).message,
        )

    if context.api_version >= DELETE_BY_ID_SINCE:
        results = in_turns(request.topics, refused, REFUSALS_PER_TURN)
    else:
        results = in_turns(
            request.topic_names, lambda name: refused(DeleteTopicState(name=name)), REFUSALS_PER_TURN
        )
    return then(results, lambda responses: DeleteTopicsResponse(responses=tuple(responses)))
