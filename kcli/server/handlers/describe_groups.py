"""DescribeGroups (key 15, versions 0-6): the state and members of classic groups.

A group that is missing or has another type is reported as "Dead". From version 6 on it also gets GROUP_ID_NOT_FOUND
(KIP-1043).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from kcli.coordinator.group.classic.requests import DESCRIBE_CLASSIC_GROUP
from kcli.coordinator.group.requests import Describe
from kcli.errors import ErrorCode, KafkaError
from kcli.model.acl import ResourceType
from kcli.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_GROUP
from kcli.server.requests.answers import then
from kcli.server.requests.rights import STEPS_OF_REFUSAL
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns

MEMBERS_PER_TURN = 400
"""Groups and members that are described in one iteration of the event loop. A group takes 4 µs, and a member 1 to 3 µs.
A group is never divided: 5,000 members take 5 ms."""


def handle(
    context: BrokerContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    return run_in_turns(_all(context, request), MEMBERS_PER_TURN)


def _all(context: BrokerContext, request: DescribeGroupsRequest) -> Steps[DescribeGroupsResponse]:
    rights = context.rights
    groups = []
    for group_id in request.groups:
        if not rights.allows(DESCRIBE_GROUP, group_id):
            # Kafka's answer has no text.
            groups.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            for _ in range(STEPS_OF_REFUSAL):
                yield
            continue
        group = _described(context, group_id)
        for _ in range(1 + len(group.members)):
            yield
        if group.error_code is ErrorCode.NONE and request.include_authorized_operations:
            group = replace(group, authorized_operations=rights.operations(ResourceType.GROUP, group_id))
        groups.append(group)
    return DescribeGroupsResponse(groups=tuple(groups))


def error_response(
    _context: BrokerContext, request: DescribeGroupsRequest, error: KafkaError
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    groups = in_turns(request.groups, lambda group_id: _failed(group_id, error), REFUSALS_PER_TURN)
    return then(groups, lambda failed: DescribeGroupsResponse(groups=tuple(failed)))


def _described(context: BrokerContext, group_id: str) -> DescribedGroup:
    try:
        runner = context.ports.groups.shards.runner(group_id)
    except KafkaError as error:
        return _failed(group_id, error)
    question = Describe(group_id, context.api_version)
    return runner.ask(lambda shard, now_ms: shard.ask(DESCRIBE_CLASSIC_GROUP, question, now_ms))


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
