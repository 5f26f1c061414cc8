"""LeaveGroup (key 13, versions 0-5): removes one member, or several members from version 3 on (KIP-345, KIP-800)."""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kcli.server.coordinators.group_ids import require_group_id
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_GROUP, per_resource

ACCESS = per_resource(READ_GROUP)


def handle(
    context: BrokerContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    context.rights.require_on(READ_GROUP, request.group_id)
    require_group_id(request.group_id)
    version = context.api_version
    return context.ports.groups.call(
        request.group_id, lambda shard, token, now_ms: shard.leave_group(request, version, token, now_ms)
    )
