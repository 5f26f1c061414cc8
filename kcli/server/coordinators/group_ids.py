"""Checks requests of the group APIs before a coordinator handles them, and merges partial answers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.topics import VisibleTopics
from kcli.errors import ErrorCode, InvalidGroupIdException
from kcli.metadata.image import Topics
from kcli.model.pace import Pace, nested
from kcli.protocol.messages.offset_commit import OffsetCommitRequestTopic, OffsetCommitResponseTopic
from kcli.protocol.messages.offset_delete import OffsetDeleteRequestTopic, OffsetDeleteResponseTopic
from kcli.server.requests.context import RequestContext

PartT = TypeVar("PartT")
ShapedT = TypeVar("ShapedT")
TopicT = TypeVar("TopicT", OffsetCommitRequestTopic, OffsetDeleteRequestTopic)

PARTITION_COST = 2
"""The cost to check or to merge a partition."""

PARTITIONS_PER_DECISION = 500
"""The most partitions whose offsets a group commits or deletes in one decision. A partition takes about 9 µs: half for
the decision, and half for the write. A larger request is divided into several decisions, so that other requests are
served between them."""


def require_group_id(group_id: str) -> None:
    """Raises InvalidGroupIdException for the empty group id. APIs that accept an empty group id (offsets, describe,
    delete) do not call this function."""
    if not group_id:
        raise InvalidGroupIdException


def caller_of(context: RequestContext[object], visible: VisibleTopics | None = None) -> Caller:
    """Returns the client of a request. Its address has Java's form, because tools show the host of a member in this
    form."""
    return Caller(
        api_version=context.api_version,
        client_id=context.client_id or "",
        client_host=f"/{context.peer_host}",
        visible=visible,
    )


async def existing(
    topics: Topics, request_topics: tuple[TopicT, ...], allowed: Container[str], pace: Pace
) -> tuple[TopicT, ...]:
    """Returns the requested partitions that exist and whose topic is in `allowed`. If no requested partition is left
    out, returns the object `request_topics` itself."""
    known: list[TopicT] = []
    are_all = True
    for topic in request_topics:
        await pace(PARTITION_COST)
        image = topics.topic(topic.name) if topic.name in allowed else None
        numbers = () if image is None else image.partitions
        there = []
        for part in topic.partitions:
            await pace(PARTITION_COST)
            if part.partition_index in numbers:
                there.append(part)
        if len(there) == len(topic.partitions) > 0:
            known.append(topic)
        else:
            are_all = False
            if there:
                known.append(replace(topic, partitions=tuple(there)))
    return request_topics if are_all else tuple(known)


def decisions(topics: tuple[TopicT, ...]) -> Iterator[tuple[TopicT, ...]]:
    """Divides the partitions of a request into parts that the group decides about one after another. Topics without
    partitions are left out.
    """
    some: list[TopicT] = []
    room = PARTITIONS_PER_DECISION
    for topic in topics:
        begin = 0
        while begin < len(topic.partitions):
            partitions = topic.partitions[begin : begin + room]
            some.append(replace(topic, partitions=partitions))
            begin += len(partitions)
            room -= len(partitions)
            if not room:
                yield tuple(some)
                some, room = [], PARTITIONS_PER_DECISION
    if some:
        yield tuple(some)


def is_one_decision(topics: tuple[TopicT, ...]) -> bool:
    return sum(len(topic.partitions) for topic in topics) <= PARTITIONS_PER_DECISION


async def merged_codes(
    request_topics: tuple[TopicT, ...],
    answered: Sequence[OffsetCommitResponseTopic | OffsetDeleteResponseTopic],
    allowed: Container[str],
    part: Callable[[int, ErrorCode], PartT],
    shape: Callable[[str, tuple[PartT, ...]], ShapedT],
    pace: Pace,
) -> tuple[ShapedT, ...]:
    """Returns a result for each requested topic and partition. If the group has answered for a partition, the result
    has the error code of this answer. If the partition does not exist, the code is UNKNOWN_TOPIC_OR_PARTITION. If its
    topic is not allowed, the code is TOPIC_AUTHORIZATION_FAILED.

    `part` makes the result of a partition, and `shape` makes the result of a topic.
    """
    codes: dict[tuple[str, int], ErrorCode] = {}
    for topic in answered:
        for answer in topic.partitions:
            await pace(PARTITION_COST)
            codes[topic.name, answer.partition_index] = answer.error_code

    def result(topic: TopicT, number: int) -> PartT:
        default = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic.name in allowed
            else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        return part(number, codes.get((topic.name, number), default))

    return await nested(
        pace,
        PARTITION_COST,
        request_topics,
        lambda topic: (partition.partition_index for partition in topic.partitions),
        result,
        lambda topic, parts: shape(topic.name, parts),
    )
