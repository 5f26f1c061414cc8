"""OffsetFetch (key 9, versions 1-9): the offsets of one group, or of several from version 8 on (KIP-709).

If `topics` is null (v2+), the response has every partition with an offset. A missing offset is -1 without an error.
With require_stable (v7+, KIP-447), the response is sent after earlier writes are committed. If an open transaction has
an offset for a partition, the partition gets UNSTABLE_OFFSET_COMMIT. The error of a group is in the group's entry
(v8+), at the top of the response (v2-7) or in each partition (v1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kcli.coordinator.group.shard import GroupShard
from kcli.errors import ErrorCode, KafkaError
from kcli.model.ids import NO_OFFSET
from kcli.model.pace import nested
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import EVERY_NAME

_BATCHED_FROM = 8
_TOP_LEVEL_ERROR_FROM = 2

PARTITION_COST = 5
PARTITIONS_PER_QUESTION = 200
"""The most partitions for which the group is asked together. A partition takes 3 µs."""
GROUP_COST = 10


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]
Topics = list[tuple[str, list[OffsetFetchResponsePartitions]]]


async def handle(context: Context, request: OffsetFetchRequest) -> OffsetFetchResponse:
    groups = await _groups(context, request)
    # The rights come first: a client without rights must not wait for the writes of a group.
    allowed = await context.allowed(DESCRIBE_GROUP, (group.group_id for group in groups))
    if request.require_stable:
        await _wait_for_writes(context, groups, allowed)
    fetched = []
    for group in groups:
        await context.pace(PARTITION_COST)
        if group.group_id in allowed:
            fetched.append(await _fetch(context, group, request.require_stable))
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            fetched.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
    return await _lowered(context, groups, tuple(fetched))


async def error_response(
    context: Context, request: OffsetFetchRequest, error: KafkaError
) -> OffsetFetchResponse:
    groups = await _groups(context, request)
    failed = []
    for group in groups:
        await context.pace(REFUSAL_COST)
        failed.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code))
    return await _lowered(context, groups, tuple(failed))


async def _groups(context: Context, request: OffsetFetchRequest) -> tuple[OffsetFetchRequestGroup, ...]:
    """Returns the groups of the request in the form of version 8, for any version of the request."""
    if context.api_version >= _BATCHED_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        request_topics = []
        for topic in request.topics:
            await context.pace(PARTITION_COST)
            request_topics.append(
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            )
        topics = tuple(request_topics)
    return (OffsetFetchRequestGroup(group_id=request.group_id, topics=topics),)


async def _wait_for_writes(
    context: Context, groups: tuple[OffsetFetchRequestGroup, ...], allowed: Container[str]
) -> None:
    """Waits until the present writes of the groups are committed or have failed."""
    barriers = []
    for group in groups:
        await context.pace(GROUP_COST)
        if group.group_id not in allowed:
            continue
        try:
            barrier = context.ports.groups.shards.runner(group.group_id).when_written()
        except KafkaError:
            continue  # the answer for this group has the error
        if barrier is not None:
            barriers.append(barrier)
    if barriers:
        await asyncio.gather(*barriers, return_exceptions=True)  # the answer has the error


async def _fetch(
    context: Context, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """The offsets of one group. If there are many partitions, they are read in several parts, and other requests are
    served between the parts.

    So if the group commits during the request, the answer may contain offsets from before and from after this commit.
    """
    try:
        runner = context.ports.groups.shards.runner(group.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    if group.topics is None:
        candidates = runner.ask(lambda shard, _: shard.partitions_with_offsets(group.group_id))
    else:
        candidates = tuple([(topic.name, topic.partition_indexes) for topic in group.topics])
    allowed = await context.allowed(DESCRIBE_TOPIC, (name for name, _ in candidates))
    visible = (
        candidates if allowed is EVERY_NAME else tuple([topic for topic in candidates if topic[0] in allowed])
    )
    rows: Topics = []
    for question in _questions(visible):
        await context.pace(sum([1 + len(part.partitions) for part in question]) * PARTITION_COST)
        answer = runner.ask(partial(_ask, group=group, question=question, require_stable=require_stable))
        if answer.error_code is not ErrorCode.NONE:
            return answer
        for part, topic in zip(question, answer.topics, strict=True):
            if part.continues:
                rows[-1][1].extend(topic.partitions)
            else:
                rows.append((topic.name, list(topic.partitions)))
    if group.topics is not None and len(visible) < len(candidates):
        rows += await _refused(context, [topic for topic in candidates if topic[0] not in allowed])
    topics = []
    for name, parts in rows:
        await context.pace(REFUSAL_COST)
        topics.append(OffsetFetchResponseTopics(name=name, partitions=tuple(parts)))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=tuple(topics))


async def _refused(context: Context, topics: list[tuple[str, tuple[int, ...]]]) -> Topics:
    """The answer for topics that the client may not describe."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = []
    for name, partitions in topics:
        parts = []
        for index in partitions:
            await context.pace(REFUSAL_COST)
            parts.append(
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=NO_OFFSET, error_code=code
                )
            )
        refused.append((name, parts))
    return refused


class _Part(NamedTuple):
    """Some partitions of a topic. `continues` is True if the previous part contains other partitions of the
    same topic.
    """

    topic: str
    partitions: tuple[int, ...]
    continues: bool


def _questions(topics: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[list[_Part]]:
    """Divides the requested partitions into parts of limited size. Yields at least one part, which may be empty."""
    question: list[_Part] = []
    room = PARTITIONS_PER_QUESTION
    for topic, partitions in topics:
        begin = 0
        while True:
            some = partitions[begin : begin + room]
            question.append(_Part(topic, some, begin > 0))
            begin += len(some)
            room -= 1 + len(some)
            if room <= 0:
                yield question
                question, room = [], PARTITIONS_PER_QUESTION
            if begin >= len(partitions):
                break
    if question or room == PARTITIONS_PER_QUESTION:
        yield question


def _ask(
    shard: GroupShard,
    _now_ms: int,
    *,
    group: OffsetFetchRequestGroup,
    question: list[_Part],
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    return shard.fetch_offsets(
        group.group_id,
        tuple([(part.topic, part.partitions) for part in question]),
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        require_stable=require_stable,
    )


async def _lowered(
    context: Context,
    groups: tuple[OffsetFetchRequestGroup, ...],
    fetched: tuple[OffsetFetchResponseGroup, ...],
) -> OffsetFetchResponse:
    """The response in the form of the client's version."""
    if context.api_version >= _BATCHED_FROM:
        return OffsetFetchResponse(groups=fetched)
    (group,), (answer,) = groups, fetched
    if answer.error_code is not ErrorCode.NONE and context.api_version < _TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(topics=await _failed_partitions(context, group, answer.error_code))
    topics = await nested(
        context.pace,
        PARTITION_COST,
        answer.topics,
        lambda topic: topic.partitions,
        lambda _, part: OffsetFetchResponsePartition(
            partition_index=part.partition_index,
            committed_offset=part.committed_offset,
            committed_leader_epoch=part.committed_leader_epoch,
            metadata=part.metadata,
            error_code=part.error_code,
        ),
        lambda topic, parts: OffsetFetchResponseTopic(name=topic.name, partitions=parts),
    )
    return OffsetFetchResponse(error_code=answer.error_code, topics=topics)


async def _failed_partitions(
    context: Context, group: OffsetFetchRequestGroup, code: ErrorCode
) -> tuple[OffsetFetchResponseTopic, ...]:
    return await nested(
        context.pace,
        REFUSAL_COST,
        group.topics or (),
        lambda topic: topic.partition_indexes,
        lambda _, partition: OffsetFetchResponsePartition(
            partition_index=partition, committed_offset=NO_OFFSET, error_code=code
        ),
        lambda topic, parts: OffsetFetchResponseTopic(name=topic.name, partitions=parts),
    )
