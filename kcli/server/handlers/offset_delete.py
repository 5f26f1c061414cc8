"""OffsetDelete (key 47, version 0): a group forgets offsets of topics it no longer subscribes. KIP-496."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.server.context import RequestContext
from kcli.server.group_ids import require_group_id


def handle(context: RequestContext, request: OffsetDeleteRequest) -> object:
    require_group_id(request.group_id)
    topics = context.broker.metadata.topics
    known = tuple(topic for topic in request.topics if topic.name in topics)
    answer = context.broker.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.delete_offsets(replace(request, topics=known), token, now_ms),
    )
    unknown = tuple(_refused(topic) for topic in request.topics if topic.name not in topics)
    if not unknown:
        return answer
    return _with_unknown(answer, unknown)


async def _with_unknown(
    answer: object, unknown: tuple[OffsetDeleteResponseTopic, ...]
) -> OffsetDeleteResponse:
    response = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(response, OffsetDeleteResponse)
    if response.error_code is not ErrorCode.NONE:
        return response
    return replace(response, topics=unknown + response.topics)


def _refused(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=tuple(
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ),
    )
