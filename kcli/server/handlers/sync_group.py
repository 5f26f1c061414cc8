"""SyncGroup (key 14, versions 0-5): receives the assignment from the leader of the group, and returns to each member
its part (KIP-345, KIP-559).

From version 5 on the request contains the protocol type and name, so that a member with the protocol of another
generation gets an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.coordinator.group.classic.requests import SYNC_GROUP
from kcli.coordinator.group.requests import Call
from kcli.errors import InconsistentGroupProtocolException
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kcli.server.coordinators.group_ids import caller_of, require_group_id
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import READ_GROUP
from kcli.server.requests.context import RequestContext

_PROTOCOL_REQUIRED_FROM = 5


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: SyncGroupRequest) -> SyncGroupResponse:
    context.rights.require_on(READ_GROUP, request.group_id)
    if context.api_version >= _PROTOCOL_REQUIRED_FROM and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise InconsistentGroupProtocolException
    require_group_id(request.group_id)
    caller = caller_of(context)
    context.wait_only()
    return await context.ports.groups.shards.runner(request.group_id).call(
        lambda shard, token, now_ms: shard.serve(SYNC_GROUP, Call(request, caller, token), now_ms)
    )
