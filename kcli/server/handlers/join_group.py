"""JoinGroup (key 11, versions 0-9): a member joins the next generation (KIPs 62, 345, 389, 394, 559, 800, 814)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.coordinator.group.classic.requests import JOIN_GROUP, fail_join
from kcli.coordinator.group.requests import Call
from kcli.errors import InconsistentGroupProtocolException, KafkaError
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.server.coordinators.group_ids import caller_of, require_group_id
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import READ_GROUP
from kcli.server.requests.context import RequestContext

PROTOCOLS_MAX = 1000
"""The maximum number of protocols of one member. The decision about a join compares all protocols in one step, without
a pause. Usual clients send up to four protocols."""

_NULL_PROTOCOL_FROM = 7


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: JoinGroupRequest) -> JoinGroupResponse:
    context.rights.require_on(READ_GROUP, request.group_id)
    require_group_id(request.group_id)
    if len(request.protocols) > PROTOCOLS_MAX:
        raise InconsistentGroupProtocolException
    caller = caller_of(context)
    context.wait_only()
    joined: JoinGroupResponse = await context.ports.groups.shards.runner(request.group_id).call(
        lambda shard, token, now_ms: shard.serve(JOIN_GROUP, Call(request, caller, token), now_ms)
    )
    return _with_protocol(context, joined)


async def error_response(context: Context, request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return _with_protocol(context, fail_join(request, error.code))


def _with_protocol(context: Context, response: JoinGroupResponse) -> JoinGroupResponse:
    """Returns the response. If the group has no protocol name, the name in the response is null from version 7 on, and
    empty in older versions.
    """
    missing = None if context.api_version >= _NULL_PROTOCOL_FROM else ""
    if response.protocol_name or response.protocol_name == missing:
        return response
    return replace(response, protocol_name=missing)
