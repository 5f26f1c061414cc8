"""JoinGroup (key 11, versions 0-9): a member joins the next generation (KIPs 62, 345, 389, 394, 559, 800, 814)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

from kcli.coordinator.group.classic.requests import JOIN_GROUP, fail_join
from kcli.coordinator.group.requests import Call
from kcli.errors import InconsistentGroupProtocolException, KafkaError
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kcli.server.coordinators.group_ids import caller_of, require_group_id
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_GROUP
from kcli.server.requests.answers import then

PROTOCOLS_MAX = 1000
"""The maximum number of protocols of one member. The decision about a join compares all protocols in one step, without
a pause. Usual clients send up to four protocols."""

_NULL_PROTOCOL_FROM = 7


def handle(
    context: BrokerContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    context.rights.require_on(READ_GROUP, request.group_id)
    require_group_id(request.group_id)
    if len(request.protocols) > PROTOCOLS_MAX:
        raise InconsistentGroupProtocolException
    caller = caller_of(context)
    runner = context.ports.groups.shards.runner(request.group_id)
    answer: JoinGroupResponse | Awaitable[JoinGroupResponse] = runner.call(
        lambda shard, token, now_ms: shard.serve(JOIN_GROUP, Call(request, caller, token), now_ms)
    )
    return then(answer, partial(_with_protocol, context))


def error_response(context: BrokerContext, request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return _with_protocol(context, fail_join(request, error.code))


def _with_protocol(context: BrokerContext, response: JoinGroupResponse) -> JoinGroupResponse:
    """Returns the response. If the group has no protocol name, the name in the response is null from version 7 on, and
    empty in older versions.
    """
    missing = None if context.api_version >= _NULL_PROTOCOL_FROM else ""
    if response.protocol_name or response.protocol_name == missing:
        return response
    return replace(response, protocol_name=missing)
