"""ConsumerGroupDescribe (key 69, versions 0-1): the state, epochs and members of consumer groups (KIP-848).

A group that is missing or has another type gets GROUP_ID_NOT_FOUND. Version 1 adds the type of each member.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

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
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from kcli.server.requests.answers import then
from kcli.server.requests.rights import Rights
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, run_in_turns

HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."

MEMBERS_PER_TURN = 100
"""Groups and members that are described in one iteration of the event loop. A member takes 10 to 20 µs."""


def handle(
    context: BrokerContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    if not context.ports.groups.serves_consumer_protocol:
        raise UnsupportedVersionException
    return run_in_turns(_all(context, request), MEMBERS_PER_TURN)


def _all(
    context: BrokerContext, request: ConsumerGroupDescribeRequest
) -> Steps[ConsumerGroupDescribeResponse]:
    rights = context.rights
    groups = []
    for group_id in request.group_ids:
        if not rights.allows(DESCRIBE_GROUP, group_id):
            # Kafka's answer has no text.
            groups.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
            yield
            continue
        group = yield from _described(context, group_id)
        if group.error_code is ErrorCode.NONE and request.include_authorized_operations:
            group = replace(group, authorized_operations=rights.operations(ResourceType.GROUP, group_id))
        if not rights.is_open:
            group = yield from _visible(rights, group)
        groups.append(group)
        yield
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


def error_response(
    _context: BrokerContext, request: ConsumerGroupDescribeRequest, error: KafkaError
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    groups = in_turns(request.group_ids, lambda group_id: _failed(group_id, error), REFUSALS_PER_TURN)
    return then(groups, lambda failed: ConsumerGroupDescribeResponse(groups=tuple(failed)))


def _visible(rights: Rights, group: DescribedGroup) -> Steps[DescribedGroup]:
    """The group, or an error if the client may not describe a topic of its members."""
    names = []
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            names += [topic.topic_name for topic in assignment.topic_partitions]
        yield
    unique = dict.fromkeys(names)
    seen = yield from rights.allowed_steps(DESCRIBE_TOPIC, unique)
    if all(name in seen for name in unique):
        return group
    return DescribedGroup(
        group_id=group.group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=HIDDEN_TOPICS
    )


def _described(context: BrokerContext, group_id: str) -> Steps[DescribedGroup]:
    try:
        require_group_id(group_id)
        runner = context.ports.groups.shards.runner(group_id)
    except KafkaError as error:
        return _failed(group_id, error)
    question = Describe(group_id, context.api_version)
    return (yield from runner.ask(lambda shard, now_ms: shard.ask(DESCRIBE_CONSUMER_GROUP, question, now_ms)))


def _failed(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
