"""ConsumerGroupHeartbeat (key 68, versions 0-1): a member joins, stays in or leaves a consumer group (KIP-848).

In version 1 the client makes its own member id (KIP-1082), and may subscribe with a regular expression. If
group.coordinator.rebalance.protocols or the finalized group.version does not allow consumer groups, the client gets
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kcli.coordinator.group.consumer.requests import CONSUMER_HEARTBEAT
from kcli.coordinator.group.requests import Call
from kcli.coordinator.group.topics import VisibleTopics
from kcli.errors import ErrorCode, UnsupportedVersionException
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kcli.server.coordinators.group_ids import caller_of
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.coordinators.regex_search import compile_in_a_turn
from kcli.server.requests.access import DESCRIBE_TOPIC, READ_GROUP
from kcli.server.requests.context import RequestContext
from kcli.server.requests.rights import EVERY_NAME


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    groups = context.ports.groups
    if not groups.serves_consumer_protocol:
        raise UnsupportedVersionException
    if not context.rights.allows(READ_GROUP, request.group_id):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = request.subscribed_topic_names or ()
    allowed = await context.allowed(DESCRIBE_TOPIC, names)
    if allowed is not EVERY_NAME and any(name not in allowed for name in names):
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if request.subscribed_topic_regex:
        await compile_in_a_turn(request.subscribed_topic_regex)
    caller = caller_of(context, _visible(context))
    context.wait_only()
    return await groups.shards.runner(request.group_id).call(
        lambda shard, token, now_ms: shard.serve(CONSUMER_HEARTBEAT, Call(request, caller, token), now_ms),
        shows_writes=True,
    )


def _refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """The error for a client without permission. As in Kafka, the error has no text."""
    return ConsumerGroupHeartbeatResponse(error_code=code)


def _visible(context: Context) -> VisibleTopics | None:
    """Returns the topics that match the client's regular expression and that the client may describe."""
    rights = context.rights
    return None if rights.is_open else partial(rights.checked, DESCRIBE_TOPIC, traced=True)
