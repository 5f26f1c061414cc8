"""AlterPartitionReassignments (key 45, versions 0-1): forwards the request to the controller, which begins or cancels
reassignments (KIP-455, KIP-860).
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.controller.api import ALTER_PARTITION_REASSIGNMENTS
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, nested_steps, run_in_turns


async def handle(
    context: NodeContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return await ask_controller(context, ALTER_PARTITION_REASSIGNMENTS, request)


def error_response(
    _context: NodeContext, request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse | Awaitable[AlterPartitionReassignmentsResponse]:
    """The response with the error at the top and in every partition of the request."""
    message = ApiError.of(error).message
    topics = nested_steps(
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: ReassignablePartitionResponse(
            partition_index=part.partition_index, error_code=error.code, error_message=message
        ),
        lambda topic, parts: ReassignableTopicResponse(name=topic.name, partitions=parts),
    )
    return then(
        run_in_turns(topics, REFUSALS_PER_TURN),
        lambda responses: AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_code=error.code,
            error_message=message,
            responses=responses,
        ),
    )
