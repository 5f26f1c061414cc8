"""AlterPartitionReassignments (key 45, versions 0-1): forwards the request to the controller, which begins or cancels
reassignments (KIP-455, KIP-860).
"""

from __future__ import annotations

from kcli.controller.api import ALTER_PARTITION_REASSIGNMENTS
from kcli.controller.decision import ApiError
from kcli.errors import KafkaError
from kcli.model.pace import nested
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import REFUSAL_COST, RequestContext

Context = RequestContext[Ports]


async def handle(
    context: Context, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return await ask_controller(context, ALTER_PARTITION_REASSIGNMENTS, request)


async def error_response(
    context: Context, request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    """The response with the error at the top and in every partition of the request."""
    message = ApiError.of(error).message
    responses = await nested(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: ReassignablePartitionResponse(
            partition_index=part.partition_index, error_code=error.code, error_message=message
        ),
        lambda topic, parts: ReassignableTopicResponse(name=topic.name, partitions=parts),
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error.code,
        error_message=message,
        responses=responses,
    )
