"""OffsetFetch (key 9, versions 1-9): the offsets of one group, or of several from version 8 on (KIP-709).

Null topics (v2+) ask for every partition with an offset. A missing offset is -1 without an error. With require_stable
(v7+, KIP-447) a partition with an offset in an open transaction gets UNSTABLE_OFFSET_COMMIT, and the response waits
until earlier writes are committed. The error of a group is in the group's entry (v8+), at the top (v2-7) or in each
partition (v1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_GROUP, DESCRIBE_TOPIC, per_resource

ACCESS = per_resource(DESCRIBE_GROUP, DESCRIBE_TOPIC)

_BATCHED_FROM = 8
_TOP_LEVEL_ERROR_FROM = 2
_NO_OFFSET = -1


def handle(
    context: BrokerContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    groups = _groups(context.api_version, request)
    if request.require_stable:
        barriers = _barriers(context, groups)
        if barriers:
            return _answer_after(barriers, context, request, groups)
    return _answer(context, request, groups)


def error_response(
    context: BrokerContext, request: OffsetFetchRequest, error: KafkaError
) -> OffsetFetchResponse:
    groups = _groups(context.api_version, request)
    failed = tuple(
        OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code) for group in groups
    )
    return _lowered(context.api_version, groups, failed)


def _groups(version: int, request: OffsetFetchRequest) -> tuple[OffsetFetchRequestGroup, ...]:
    """The request of any version in the form of version 8."""
    if version >= _BATCHED_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        )
    return (OffsetFetchRequestGroup(group_id=request.group_id, topics=topics),)


def _barriers(
    context: BrokerContext, groups: tuple[OffsetFetchRequestGroup, ...]
) -> list[asyncio.Future[None]]:
    barriers = []
    for group in groups:
        try:
            barrier = context.ports.groups.runner(group.group_id).when_written()
        except KafkaError:
            continue  # the answer reports it
        if barrier is not None:
            barriers.append(barrier)
    return barriers


async def _answer_after(
    barriers: list[asyncio.Future[None]],
    context: BrokerContext,
    request: OffsetFetchRequest,
    groups: tuple[OffsetFetchRequestGroup, ...],
) -> OffsetFetchResponse:
    await asyncio.gather(*barriers, return_exceptions=True)  # the answer has the error
    return _answer(context, request, groups)


def _answer(
    context: BrokerContext, request: OffsetFetchRequest, groups: tuple[OffsetFetchRequestGroup, ...]
) -> OffsetFetchResponse:
    fetched = tuple(_fetch(context, group, request.require_stable) for group in groups)
    return _lowered(context.api_version, groups, fetched)


def _fetch(
    context: BrokerContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    topics = None
    if group.topics is not None:
        topics = tuple((topic.name, topic.partition_indexes) for topic in group.topics)
    try:
        runner = context.ports.groups.runner(group.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    return runner.ask(
        lambda shard, _: shard.fetch_offsets(
            group.group_id,
            topics,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            require_stable=require_stable,
        )
    )


def _lowered(
    version: int,
    groups: tuple[OffsetFetchRequestGroup, ...],
    fetched: tuple[OffsetFetchResponseGroup, ...],
) -> OffsetFetchResponse:
    if version >= _BATCHED_FROM:
        return OffsetFetchResponse(groups=fetched)
    (asked,), (found,) = groups, fetched
    if found.error_code is not ErrorCode.NONE and version < _TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(topics=_failed_partitions(asked, found.error_code))
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ),
            )
            for topic in found.topics
        ),
    )


def _failed_partitions(
    asked: OffsetFetchRequestGroup, code: ErrorCode
) -> tuple[OffsetFetchResponseTopic, ...]:
    return tuple(
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=tuple(
                OffsetFetchResponsePartition(
                    partition_index=partition, committed_offset=_NO_OFFSET, error_code=code
                )
                for partition in topic.partition_indexes
            ),
        )
        for topic in asked.topics or ()
    )
