"""DescribeGroups (key 15, versions 0-6): the state and members of classic groups.

A group that is missing or has another type is reported as "Dead". From version 6 on it also gets GROUP_ID_NOT_FOUND
(KIP-1043).
"""

from __future__ import annotations

from dataclasses import replace

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_GROUP, per_resource
from kcli.server.requests.operations import GROUP_OPERATIONS

ACCESS = per_resource(DESCRIBE_GROUP)


def handle(context: BrokerContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = tuple(_described(context, group_id) for group_id in request.groups)
    if request.include_authorized_operations:
        groups = tuple(
            replace(group, authorized_operations=GROUP_OPERATIONS)
            if group.error_code is ErrorCode.NONE
            else group
            for group in groups
        )
    return DescribeGroupsResponse(groups=groups)


def error_response(
    _context: BrokerContext, request: DescribeGroupsRequest, error: KafkaError
) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=tuple(_failed(group_id, error) for group_id in request.groups))


def _described(context: BrokerContext, group_id: str) -> DescribedGroup:
    try:
        runner = context.ports.groups.runner(group_id)
    except KafkaError as error:
        return _failed(group_id, error)
    return runner.ask(lambda shard, _: shard.describe_group(group_id, context.api_version))


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
