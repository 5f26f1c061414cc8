"""OffsetDelete (key 47, version 0): deletes offsets of topics to which a group does not subscribe any more (KIP-496).

Partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, unless the group refuses the whole request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.runtime.turns import next_turn
from kcli.server.coordinators.group_ids import decisions, existing, merged_codes, require_group_id
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import DELETE_GROUP, READ_TOPIC
from kcli.server.requests.context import RequestContext


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(context: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Deletes the offsets in several parts, and merges the group's answers with the refused partitions. The result has
    the order of the request. Even if no partition is left, the group gets the request, because it may refuse the whole
    request.
    """
    context.rights.require_on(DELETE_GROUP, request.group_id)
    require_group_id(request.group_id)
    allowed = await context.allowed(READ_TOPIC, (topic.name for topic in request.topics))
    known = await existing(context.ports.loader.image.topics, request.topics, allowed, context.pace)
    answered: list[OffsetDeleteResponseTopic] = []
    for topics in tuple(decisions(known)) or ((),):
        await next_turn()
        response = await _delete(context, replace(request, topics=topics))
        if response.error_code is not ErrorCode.NONE:
            return response
        answered += response.topics
    merged = await merged_codes(request.topics, answered, allowed, _partition, _topic, context.pace)
    return OffsetDeleteResponse(topics=merged)


async def _delete(context: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    return await context.ports.groups.shards.runner(request.group_id).call(
        lambda shard, token, now_ms: shard.delete_offsets(request, token, now_ms)
    )


def _partition(number: int, code: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=number, error_code=code)


def _topic(name: str, partitions: tuple[OffsetDeleteResponsePartition, ...]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)
