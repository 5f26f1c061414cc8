"""ConsumerGroupDescribe (key 69, versions 0-1): the state, epochs and members of consumer groups (KIP-848).

A group that is missing or has another type gets GROUP_ID_NOT_FOUND. Version 1 adds the type of each member.
"""

from __future__ import annotations

from dataclasses import replace

from kcli.errors import ErrorCode, KafkaError, UnsupportedVersionException
from kcli.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kcli.server.coordinators.group_ids import require_group_id
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, per_resource
from kcli.server.requests.operations import GROUP_OPERATIONS

ACCESS = per_resource(DESCRIBE_GROUP, DESCRIBE_TOPIC)


def handle(context: BrokerContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    if not context.ports.groups.serves_consumer_protocol:
        raise UnsupportedVersionException
    groups = tuple(_described(context, group_id) for group_id in request.group_ids)
    if request.include_authorized_operations:
        groups = tuple(
            replace(group, authorized_operations=GROUP_OPERATIONS)
            if group.error_code is ErrorCode.NONE
            else group
            for group in groups
        )
    return ConsumerGroupDescribeResponse(groups=groups)


def error_response(
    _context: BrokerContext, request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=tuple(_failed(group_id, error) for group_id in request.group_ids)
    )


def _described(context: BrokerContext, group_id: str) -> DescribedGroup:
    try:
        require_group_id(group_id)
        runner = context.ports.groups.runner(group_id)
    except KafkaError as error:
        return _failed(group_id, error)
    return runner.ask(lambda shard, _: shard.describe_consumer_group(group_id))


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
