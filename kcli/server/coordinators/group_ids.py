"""Checks requests of the group APIs before a coordinator handles them, and merges partial answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from kcli.errors import ErrorCode, InvalidGroupIdException
from kcli.metadata.image import Topics
from kcli.protocol.messages.offset_commit import OffsetCommitRequestTopic, OffsetCommitResponseTopic
from kcli.protocol.messages.offset_delete import OffsetDeleteRequestTopic, OffsetDeleteResponseTopic
from kcli.server.requests.context import RequestContext
from kcli.server.requests.turns import Steps, nested_steps

PartT = TypeVar("PartT")
ShapedT = TypeVar("ShapedT")
TopicT = TypeVar("TopicT", OffsetCommitRequestTopic, OffsetDeleteRequestTopic)


def require_group_id(group_id: str) -> None:
    """Raises InvalidGroupIdException for the empty group id. APIs that accept an empty group id (offsets, describe,
    delete) do not call this function."""
    if not group_id:
        raise InvalidGroupIdException


def client_host(context: RequestContext[object]) -> str:
    """Returns the client's address in Java's form, because tools show the host of a member in this form."""
    return f"/{context.peer_host}"


def existing(topics: Topics, asked: tuple[TopicT, ...]) -> Steps[tuple[TopicT, ...]]:
    """Returns the requested partitions that exist. If all exist, returns `asked` itself.

    Yields after each partition.
    """
    known: list[TopicT] = []
    are_all = True
    for topic in asked:
        image = topics.topic(topic.name)
        numbers = () if image is None else image.partitions
        there = []
        for each in topic.partitions:
            if each.partition_index in numbers:
                there.append(each)
            yield
        if len(there) == len(topic.partitions) > 0:
            known.append(topic)
        else:
            are_all = False
            if there:
                known.append(replace(topic, partitions=tuple(there)))
        yield
    return asked if are_all else tuple(known)


def merged_codes(
    asked: tuple[TopicT, ...],
    answered: Sequence[OffsetCommitResponseTopic | OffsetDeleteResponseTopic],
    part: Callable[[int, ErrorCode], PartT],
    shape: Callable[[str, tuple[PartT, ...]], ShapedT],
) -> Steps[tuple[ShapedT, ...]]:
    """Returns each requested topic with its partitions. The code of a partition is the group's code. If the partition
    does not exist, the group was not asked, and the code is UNKNOWN_TOPIC_OR_PARTITION.

    Yields after each partition. `part` makes the result of a partition, and `shape` makes the result of a topic.
    """
    codes: dict[tuple[str, int], ErrorCode] = {}
    for topic in answered:
        for each in topic.partitions:
            codes[topic.name, each.partition_index] = each.error_code
            yield

    def result(topic: TopicT, number: int) -> PartT:
        return part(number, codes.get((topic.name, number), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    return (
        yield from nested_steps(
            asked,
            lambda topic: (each.partition_index for each in topic.partitions),
            result,
            lambda topic, parts: shape(topic.name, parts),
        )
    )
