"""Checks requests of the group APIs before a coordinator handles them, and merges partial answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from kcli.errors import ErrorCode, InvalidGroupIdException
from kcli.metadata.image import Topics
from kcli.protocol.messages.offset_commit import OffsetCommitRequestTopic, OffsetCommitResponseTopic
from kcli.protocol.messages.offset_delete import OffsetDeleteRequestTopic, OffsetDeleteResponseTopic
from kcli.server.requests.context import RequestContext

TopicT = TypeVar("TopicT", OffsetCommitRequestTopic, OffsetDeleteRequestTopic)


def require_group_id(group_id: str) -> None:
    """Raises InvalidGroupIdException for the empty group id. Offset APIs, describe and delete accept it."""
    if not group_id:
        raise InvalidGroupIdException


def client_host(context: RequestContext[object]) -> str:
    """Returns the client's address in Java's form, because tools show members with it."""
    return f"/{context.peer_host}"


def existing(topics: Topics, asked: tuple[TopicT, ...]) -> tuple[TopicT, ...]:
    """Returns the requested partitions that exist. If all exist, returns `asked` itself."""
    known = tuple(topic for topic in (_existing(topics, topic) for topic in asked) if topic.partitions)
    return asked if known == asked else known


def _existing(topics: Topics, asked: TopicT) -> TopicT:
    image = topics.topic(asked.name)
    numbers = () if image is None else image.partitions
    there = tuple(each for each in asked.partitions if each.partition_index in numbers)
    return asked if len(there) == len(asked.partitions) else replace(asked, partitions=there)


def merged_codes(
    asked: tuple[TopicT, ...], answered: Sequence[OffsetCommitResponseTopic | OffsetDeleteResponseTopic]
) -> Iterator[tuple[str, list[tuple[int, ErrorCode]]]]:
    """Yields each requested topic with pairs (partition, code). The code is that of the group, or
    UNKNOWN_TOPIC_OR_PARTITION if the group was not asked about the partition."""
    codes = {
        (topic.name, each.partition_index): each.error_code for topic in answered for each in topic.partitions
    }
    for topic in asked:
        numbers = [each.partition_index for each in topic.partitions]
        yield (
            topic.name,
            [
                (number, codes.get((topic.name, number), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                for number in numbers
            ],
        )
