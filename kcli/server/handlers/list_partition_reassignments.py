"""ListPartitionReassignments (key 46, version 0): what the controller is moving (KIP-455)."""

from __future__ import annotations

from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kcli.server.requests.access import DESCRIBE_CLUSTER, whole_request
from kcli.server.requests.context import RequestContext

ACCESS = whole_request(DESCRIBE_CLUSTER)


async def handle(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return await context.broker.quorum.list_partition_reassignments(request, context)
