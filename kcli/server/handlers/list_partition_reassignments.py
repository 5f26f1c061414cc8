"""ListPartitionReassignments (key 46, version 0): the reassignments in progress (KIP-455)."""

from __future__ import annotations

from kcli.controller.api import LIST_PARTITION_REASSIGNMENTS
from kcli.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return await ask_controller(context, LIST_PARTITION_REASSIGNMENTS, request)
