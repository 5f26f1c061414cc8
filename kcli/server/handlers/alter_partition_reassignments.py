"""AlterPartitionReassignments (key 45, versions 0-1): asks the controller (KIP-455, KIP-860)."""

from __future__ import annotations

from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kcli.server.requests.access import ALTER_CLUSTER, whole_request
from kcli.server.requests.context import RequestContext

ACCESS = whole_request(ALTER_CLUSTER)


async def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return await context.broker.quorum.alter_partition_reassignments(request, context)
