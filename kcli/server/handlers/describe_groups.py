"""DescribeGroups (key 15, versions 0-6): the state and members of classic groups.

A group that is missing or has another type is reported as "Dead". From version 6 on it also gets GROUP_ID_NOT_FOUND
(KIP-1043).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.coordinator.group.classic.requests import DESCRIBE_CLASSIC_GROUP
from kcli.coordinator.group.requests import Describe
from kcli.errors import ErrorCode, KafkaError
from kcli.model.acl import ResourceType
from kcli.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import DESCRIBE_GROUP
from kcli.server.requests.context import REFUSAL_COST, RequestContext

GROUP_COST = 5
REFUSED_COST = 25
"""The cost of a group that the client may not describe, because its line in the log takes long."""
MEMBER_COST = 3
"""The cost of a member. A group is never divided: 5,000 members take 5 ms."""


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    rights = context.rights
    groups = []
    for group_id in request.groups:
        await context.pace(GROUP_COST)
        if not rights.allows(DESCRIBE_GROUP, group_id):
            # Kafka's answer has no text.
            groups.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            await context.pace(REFUSED_COST)
            continue
        group = _described(context, group_id)
        await context.pace(len(group.members) * MEMBER_COST)
        if group.error_code is ErrorCode.NONE and request.include_authorized_operations:
            group = replace(group, authorized_operations=rights.operations(ResourceType.GROUP, group_id))
        groups.append(group)
    return DescribeGroupsResponse(groups=tuple(groups))


async def error_response(
    context: Context, request: DescribeGroupsRequest, error: KafkaError
) -> DescribeGroupsResponse:
    groups = []
    for group_id in request.groups:
        await context.pace(REFUSAL_COST)
        groups.append(_failed(group_id, error))
    return DescribeGroupsResponse(groups=tuple(groups))


def _described(context: Context, group_id: str) -> DescribedGroup:
    try:
        runner = context.ports.groups.shards.runner(group_id)
    except KafkaError as error:
        return _failed(group_id, error)
    question = Describe(group_id, context.api_version)
    return runner.ask(lambda shard, now_ms: shard.ask(DESCRIBE_CLASSIC_GROUP, question, now_ms))


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
