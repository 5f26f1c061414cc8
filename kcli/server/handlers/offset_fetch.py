"""OffsetFetch (key 9, versions 1-9): the offsets of one group, or of several from version 8 on (KIP-709).

If `topics` is null (v2+), the response has every partition with an offset. A missing offset is -1 without an error.
With require_stable (v7+, KIP-447), the response is sent after earlier writes are committed. If an open transaction has
an offset for a partition, the partition gets UNSTABLE_OFFSET_COMMIT. The error of a group is in the group's entry
(v8+), at the top of the response (v2-7) or in each partition (v1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kcli.coordinator.group.shard import GroupShard
from kcli.errors import ErrorCode, KafkaError
from kcli.model.ids import NO_OFFSET
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
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_GROUP, DESCRIBE_TOPIC
from kcli.server.requests.answers import finished, then
from kcli.server.requests.rights import EVERY_NAME
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns

_BATCHED_FROM = 8
_TOP_LEVEL_ERROR_FROM = 2

PARTITIONS_PER_TURN = 200
"""Partitions that are answered in one iteration of the event loop. A partition takes 3 µs."""
GROUPS_PER_TURN = 100


def handle(
    context: BrokerContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    return then(
        run_in_turns(_groups(context.api_version, request), PARTITIONS_PER_TURN),
        lambda groups: _fetch_groups(context, request, groups),
    )


def _fetch_groups(
    context: BrokerContext, request: OffsetFetchRequest, groups: tuple[OffsetFetchRequestGroup, ...]
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    # The rights come first: a client without rights must not wait for the writes of a group.
    checks = context.rights.allowed_steps(DESCRIBE_GROUP, (group.group_id for group in groups))
    return then(
        run_in_turns(checks, GROUPS_PER_TURN),
        lambda allowed: _fetch_allowed(context, request, groups, allowed),
    )


def _fetch_allowed(
    context: BrokerContext,
    request: OffsetFetchRequest,
    groups: tuple[OffsetFetchRequestGroup, ...],
    allowed: Container[str],
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    """Answers for the groups whose ids are `allowed`, and refuses the others."""

    def answer() -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
        return run_in_turns(_fetch_all(context, request, groups, allowed), PARTITIONS_PER_TURN)

    if not request.require_stable:
        return answer()
    barriers = run_in_turns(_barriers(context, groups, allowed), GROUPS_PER_TURN)
    return then(barriers, lambda found: _answer_after(found, answer) if found else answer())


def error_response(
    context: BrokerContext, request: OffsetFetchRequest, error: KafkaError
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    return run_in_turns(_failed(context.api_version, request, error), REFUSALS_PER_TURN)


def _failed(version: int, request: OffsetFetchRequest, error: KafkaError) -> Steps[OffsetFetchResponse]:
    groups = yield from _groups(version, request)
    failed = []
    for group in groups:
        failed.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code))
        yield
    return (yield from _lowered(version, groups, tuple(failed)))


def _groups(version: int, request: OffsetFetchRequest) -> Steps[tuple[OffsetFetchRequestGroup, ...]]:
    """Returns the groups of the request in the form of version 8, for any version of the request."""
    if version >= _BATCHED_FROM:
        return request.groups
    topics = None
    if request.topics is not None:
        asked = []
        for topic in request.topics:
            asked.append(OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes))
            yield
        topics = tuple(asked)
    return (OffsetFetchRequestGroup(group_id=request.group_id, topics=topics),)


def _barriers(
    context: BrokerContext, groups: tuple[OffsetFetchRequestGroup, ...], allowed: Container[str]
) -> Steps[list[asyncio.Future[None]]]:
    barriers = []
    for group in groups:
        yield
        if group.group_id not in allowed:
            continue
        try:
            barrier = context.ports.groups.shards.runner(group.group_id).when_written()
        except KafkaError:
            continue  # the answer for this group has the error
        if barrier is not None:
            barriers.append(barrier)
    return barriers


async def _answer_after(
    barriers: list[asyncio.Future[None]],
    answer: Callable[[], OffsetFetchResponse | Awaitable[OffsetFetchResponse]],
) -> OffsetFetchResponse:
    await asyncio.gather(*barriers, return_exceptions=True)  # the answer has the error
    return await finished(answer())


def _fetch_all(
    context: BrokerContext,
    request: OffsetFetchRequest,
    groups: tuple[OffsetFetchRequestGroup, ...],
    allowed: Container[str],
) -> Steps[OffsetFetchResponse]:
    fetched = []
    for group in groups:
        if group.group_id in allowed:
            fetched.append((yield from _fetch(context, group, request.require_stable)))
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            fetched.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
        yield
    return (yield from _lowered(context.api_version, groups, tuple(fetched)))


def _fetch(
    context: BrokerContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> Steps[OffsetFetchResponseGroup]:
    """The offsets of one group. If there are many partitions, they are read in several parts, and other requests are
    served between the parts.

    So if the group commits during the request, the answer may contain offsets from before and from after this commit.
    """
    rights = context.rights
    try:
        runner = context.ports.groups.shards.runner(group.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    if group.topics is None:
        asked = runner.ask(lambda shard, _: shard.partitions_with_offsets(group.group_id))
    else:
        asked = tuple([(topic.name, topic.partition_indexes) for topic in group.topics])
    seen = yield from rights.allowed_steps(DESCRIBE_TOPIC, (name for name, _ in asked))
    wanted = asked if seen is EVERY_NAME else tuple([each for each in asked if each[0] in seen])
    found: list[tuple[str, list[OffsetFetchResponsePartitions]]] = []
    for question in _questions(wanted):
        answer = runner.ask(partial(_ask, group=group, question=question, require_stable=require_stable))
        if answer.error_code is not ErrorCode.NONE:
            return answer
        for part, topic in zip(question, answer.topics, strict=True):
            if part.continues:
                found[-1][1].extend(topic.partitions)
            else:
                found.append((topic.name, list(topic.partitions)))
            for _ in range(1 + len(topic.partitions)):
                yield
    if group.topics is not None and len(wanted) < len(asked):
        found += yield from _refused([each for each in asked if each[0] not in seen])
    topics = []
    for name, parts in found:
        topics.append(OffsetFetchResponseTopics(name=name, partitions=tuple(parts)))
        yield
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=tuple(topics))


def _refused(
    asked: list[tuple[str, tuple[int, ...]]],
) -> Steps[list[tuple[str, list[OffsetFetchResponsePartitions]]]]:
    """The answer for topics that the client may not describe."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refused = []
    for name, partitions in asked:
        parts = []
        for index in partitions:
            parts.append(
                OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=NO_OFFSET, error_code=code
                )
            )
            yield
        refused.append((name, parts))
    return refused


class _Part(NamedTuple):
    """Some partitions of a topic. `continues` is True if the previous part contains other partitions of the
    same topic.
    """

    topic: str
    partitions: tuple[int, ...]
    continues: bool


def _questions(wanted: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[list[_Part]]:
    """Divides the requested partitions into parts of limited size. Yields at least one part, which may be empty."""
    question: list[_Part] = []
    room = PARTITIONS_PER_TURN
    for topic, partitions in wanted:
        begin = 0
        while True:
            some = partitions[begin : begin + room]
            question.append(_Part(topic, some, begin > 0))
            begin += len(some)
            room -= 1 + len(some)
            if room <= 0:
                yield question
                question, room = [], PARTITIONS_PER_TURN
            if begin >= len(partitions):
                break
    if question or room == PARTITIONS_PER_TURN:
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


def _lowered(
    version: int,
    groups: tuple[OffsetFetchRequestGroup, ...],
    fetched: tuple[OffsetFetchResponseGroup, ...],
) -> Steps[OffsetFetchResponse]:
    if version >= _BATCHED_FROM:
        return OffsetFetchResponse(groups=fetched)
    (asked,), (found,) = groups, fetched
    if found.error_code is not ErrorCode.NONE and version < _TOP_LEVEL_ERROR_FROM:
        return OffsetFetchResponse(topics=(yield from _failed_partitions(asked, found.error_code)))
    topics = yield from nested_steps(
        found.topics,
        lambda topic: topic.partitions,
        lambda _, each: OffsetFetchResponsePartition(
            partition_index=each.partition_index,
            committed_offset=each.committed_offset,
            committed_leader_epoch=each.committed_leader_epoch,
            metadata=each.metadata,
            error_code=each.error_code,
        ),
        lambda topic, parts: OffsetFetchResponseTopic(name=topic.name, partitions=parts),
    )
    return OffsetFetchResponse(error_code=found.error_code, topics=topics)


def _failed_partitions(
    asked: OffsetFetchRequestGroup, code: ErrorCode
) -> Steps[tuple[OffsetFetchResponseTopic, ...]]:
    return (
        yield from nested_steps(
            asked.topics or (),
            lambda topic: topic.partition_indexes,
            lambda _, partition: OffsetFetchResponsePartition(
                partition_index=partition, committed_offset=NO_OFFSET, error_code=code
            ),
            lambda topic, parts: OffsetFetchResponseTopic(name=topic.name, partitions=parts),
        )
    )
