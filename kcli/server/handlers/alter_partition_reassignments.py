"""AlterPartitionReassignments (key 45, versions 0-1): asks the controller (KIP-455, KIP-860)."""

from __future__ import annotations

from kcli.controller.api import ALTER_PARTITION_REASSIGNMENTS
from kcli.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import ALTER_CLUSTER, whole_request

ACCESS = whole_request(ALTER_CLUSTER)


async def handle(
    context: NodeContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    return await ask_controller(context, ALTER_PARTITION_REASSIGNMENTS, request)
