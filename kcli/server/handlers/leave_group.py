"""LeaveGroup (key 13, versions 0-5): removes one member, or several members from version 3 on (KIP-345, KIP-800).

If a request has many members, the group removes them in several decisions, so that other requests are served between
two decisions.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace

from kcli.coordinator.group.classic.requests import LEAVE_GROUP
from kcli.coordinator.group.requests import Call
from kcli.errors import ErrorCode
from kcli.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from kcli.runtime.turns import next_turn
from kcli.server.coordinators.group_ids import caller_of, require_group_id
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import READ_GROUP
from kcli.server.requests.context import RequestContext

MEMBERS_PER_DECISION = 200
"""Members that a group removes in one decision. A member takes about 10 µs."""


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: LeaveGroupRequest) -> LeaveGroupResponse:
    context.rights.require_on(READ_GROUP, request.group_id)
    require_group_id(request.group_id)
    if len(request.members) <= MEMBERS_PER_DECISION:
        context.wait_only()
        return await _leave(context, request)
    return await _leave_in_parts(context, request)


async def _leave_in_parts(context: Context, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Removes the members in several decisions. If one decision fails, the answer has its error, and the members of
    later decisions stay in the group.
    """
    members: list[MemberResponse] = []
    for begin in range(0, len(request.members), MEMBERS_PER_DECISION):
        await next_turn()
        part = request.members[begin : begin + MEMBERS_PER_DECISION]
        response = await _leave(context, replace(request, members=part))
        if response.error_code is not ErrorCode.NONE:
            return response
        members += response.members
    return LeaveGroupResponse(members=tuple(members))


def _leave(context: Context, request: LeaveGroupRequest) -> Awaitable[LeaveGroupResponse]:
    caller = caller_of(context)
    return context.ports.groups.shards.runner(request.group_id).call(
        lambda shard, token, now_ms: shard.serve(LEAVE_GROUP, Call(request, caller, token), now_ms)
    )
