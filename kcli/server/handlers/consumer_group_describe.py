"""ConsumerGroupDescribe (key 69, versions 0-1): the state, epochs and members of consumer groups (KIP-848).

A group that is missing or has another type gets GROUP_ID_NOT_FOUND. Version 1 adds the type of each member.
"""

from __future__ import annotations

from collections.abc import Awaitable
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
from kcli.server.requests.answers import then
from kcli.server.requests.operations import GROUP_OPERATIONS, NOT_REQUESTED
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns

ACCESS = per_resource(DESCRIBE_GROUP, DESCRIBE_TOPIC)


MEMBERS_PER_TURN = 100
"""Groups and members that are described in one turn of the loop. A member takes 10 to 20 µs."""


def handle(
    context: BrokerContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    if not context.ports.groups.serves_consumer_protocol:
        raise UnsupportedVersionException
    return run_in_turns(_all(context, request), MEMBERS_PER_TURN)


def _all(
    context: BrokerContext, request: ConsumerGroupDescribeRequest
) -> Steps[ConsumerGroupDescribeResponse]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED
    groups = []
    for group_id in request.group_ids:
        group = yield from _described(context, group_id)
        if group.error_code is ErrorCode.NONE and operations != NOT_REQUESTED:
            group = replace(group, authorized_operations=operations)
        groups.append(group)
        yield
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


def error_response(
    _context: BrokerContext, request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    groups = in_turns(request.group_ids, lambda group_id: _failed(group_id, error), REFUSALS_PER_TURN)
    return then(groups, lambda failed: ConsumerGroupDescribeResponse(groups=tuple(failed)))


def _described(context: BrokerContext, group_id: str) -> Steps[DescribedGroup]:
    try:
        require_group_id(group_id)
        runner = context.ports.groups.runner(group_id)
    except KafkaError as error:
        return _failed(group_id, error)
    return (yield from runner.ask(lambda shard, _: shard.describe_consumer_group(group_id)))


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
