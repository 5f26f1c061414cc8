"""ListPartitionReassignments (key 46, version 0): the reassignments in progress (KIP-455)."""

from __future__ import annotations

from kcli.controller.api import LIST_PARTITION_REASSIGNMENTS
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller


async def handle(
    context: NodeContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return await ask_controller(context, LIST_PARTITION_REASSIGNMENTS, request)
