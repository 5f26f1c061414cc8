"""Heartbeat (key 12, versions 0-4): keeps a member's session alive and reports a rebalance (KIP-345).

While the group is being loaded, every heartbeat succeeds, because the sessions of all members begin again after the
load.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.group.classic.requests import HEARTBEAT
from kcli.errors import CoordinatorLoadInProgressException, ErrorCode
from kcli.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kcli.server.coordinators.group_ids import require_group_id
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import READ_GROUP
from kcli.server.requests.context import RequestContext

_FINE = HeartbeatResponse()


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: HeartbeatRequest) -> HeartbeatResponse:
    context.rights.require_on(READ_GROUP, request.group_id)
    require_group_id(request.group_id)
    try:
        runner = context.ports.groups.shards.runner(request.group_id)
    except CoordinatorLoadInProgressException:
        return _FINE
    code = runner.ask(lambda shard, now_ms: shard.ask(HEARTBEAT, request, now_ms))
    return _FINE if code is ErrorCode.NONE else HeartbeatResponse(error_code=code)
