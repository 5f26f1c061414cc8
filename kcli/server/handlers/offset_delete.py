"""OffsetDelete (key 47, version 0): deletes offsets of topics to which a group does not subscribe any more (KIP-496).

Partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, unless the group refuses the whole request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container
from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.server.coordinators.group_ids import decisions, existing, merged_codes, require_group_id
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DELETE_GROUP, READ_TOPIC
from kcli.server.requests.answers import finished, then
from kcli.server.requests.turns import next_turn, run_in_turns

PARTITIONS_PER_TURN = 500
"""Partitions that are checked or merged in one iteration of the event loop. A partition takes 1 to 2 µs."""


def handle(
    context: BrokerContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    context.rights.require_on(DELETE_GROUP, request.group_id)
    require_group_id(request.group_id)
    allowed = context.rights.allowed_in_turns(READ_TOPIC, (topic.name for topic in request.topics))
    return then(allowed, lambda names: _delete_existing(context, request, names))


def _delete_existing(
    context: BrokerContext, request: OffsetDeleteRequest, allowed: Container[str]
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    known = run_in_turns(
        existing(context.ports.metadata.topics, request.topics, allowed), PARTITIONS_PER_TURN
    )
    return then(known, lambda topics: _delete(context, request, topics, allowed))


async def _delete(
    context: BrokerContext,
    request: OffsetDeleteRequest,
    known: tuple[OffsetDeleteRequestTopic, ...],
    allowed: Container[str],
) -> OffsetDeleteResponse:
    """Deletes the offsets in several parts, and merges the group's answers with the refused partitions. The result has
    the order of the request. Even if no partition is left, the group gets the request, because it may refuse the whole
    request.
    """
    answered: list[OffsetDeleteResponseTopic] = []
    for topics in tuple(decisions(known)) or ((),):
        await next_turn()
        response = await finished(_decided(context, replace(request, topics=topics)))
        if response.error_code is not ErrorCode.NONE:
            return response
        answered += response.topics
    merging = merged_codes(request.topics, answered, allowed, _partition, _topic)
    return OffsetDeleteResponse(topics=await finished(run_in_turns(merging, PARTITIONS_PER_TURN)))


def _decided(
    context: BrokerContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    return context.ports.groups.shards.runner(request.group_id).call(
        lambda shard, token, now_ms: shard.delete_offsets(request, token, now_ms),
    )


def _partition(number: int, code: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=number, error_code=code)


def _topic(name: str, partitions: tuple[OffsetDeleteResponsePartition, ...]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)
