"""ConsumerGroupDescribe (key 69, versions 0-1): the state, epochs and members of consumer groups (KIP-848).

A group that is missing or has another type gets GROUP_ID_NOT_FOUND. Version 1 adds the type of each member.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.coordinator.group.consumer.requests import DESCRIBE_CONSUMER_GROUP
from kcli.coordinator.group.requests import Describe
from kcli.errors import ErrorCode, KafkaError, UnsupportedVersionException
from kcli.model.acl import ResourceType
from kcli.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from kcli.server.coordinators.group_ids import require_group_id
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."

MEMBER_COST = 10
"""The cost of a group or of a member. A member takes 10 to 20 µs."""


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    if not context.ports.groups.serves_consumer_protocol:
        raise UnsupportedVersionException
    rights = context.rights
    groups = []
    for group_id in request.group_ids:
        await context.pace(MEMBER_COST)
        if not rights.allows(DESCRIBE_GROUP, group_id):
            # Kafka's answer has no text.
            groups.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        group = await _described(context, group_id)
        if group.error_code is ErrorCode.NONE and request.include_authorized_operations:
            group = replace(group, authorized_operations=rights.operations(ResourceType.GROUP, group_id))
        groups.append(group if rights.is_open else await _visible(context, group))
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def error_response(
    context: Context, request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse:
    groups = []
    for group_id in request.group_ids:
        await context.pace(REFUSAL_COST)
        groups.append(_failed(group_id, error))
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def _visible(context: Context, group: DescribedGroup) -> DescribedGroup:
    """The group, or an error if the client may not describe a topic of its members."""
    names: dict[str, None] = {}
    for member in group.members:
        await context.pace(MEMBER_COST)
        for assignment in (member.assignment, member.target_assignment):
            names.update(dict.fromkeys([topic.topic_name for topic in assignment.topic_partitions]))
    allowed = await context.allowed(DESCRIBE_TOPIC, names)
    if all(name in allowed for name in names):
        return group
    return DescribedGroup(
        group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=HIDDEN_TOPICS
    )


async def _described(context: Context, group_id: str) -> DescribedGroup:
    try:
        require_group_id(group_id)
        runner = context.ports.groups.shards.runner(group_id)
    except KafkaError as error:
        return _failed(group_id, error)
    question = Describe(group_id, context.api_version)
    members = runner.ask(lambda shard, now_ms: shard.ask(DESCRIBE_CONSUMER_GROUP, question, now_ms))
    while True:
        await context.pace(MEMBER_COST)
        try:
            next(members)
        except StopIteration as end:
            group: DescribedGroup = end.value
            return group


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
