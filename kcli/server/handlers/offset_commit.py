"""OffsetCommit (key 8, versions 2-9): a group remembers how far it got. KIP-211, 320, 345, 848.

The group id may be empty: consumers that only keep offsets did that once. Partitions that do not exist are refused one
by one with UNKNOWN_TOPIC_OR_PARTITION, the rest go to the group; an error of the group is that of every partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kcli.controller.image import Topics
from kcli.coordinator.group.failure import fail_offset_commit
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.server.context import RequestContext

Commit = Callable[[OffsetCommitRequest], object]
"""Has the group do it: the response, or an awaitable of it."""


def handle(context: RequestContext, request: OffsetCommitRequest) -> object:
    version = context.api_version
    return commit_existing(
        context,
        request,
        lambda known: context.broker.groups.call(
            known.group_id, lambda shard, token, now_ms: shard.commit_offsets(known, version, token, now_ms)
        ),
    )


def commit_existing(context: RequestContext, request: OffsetCommitRequest, commit: Commit) -> object:
    """Commits what exists and refuses the rest."""
    topics = context.broker.metadata.topics
    if all(_exists(topics, topic) for topic in request.topics):
        return commit(request)
    known, refused = _split(topics, request)
    if not known.topics:
        return refused
    return _merged(request, known, refused, commit)


def error_response(
    _context: RequestContext, request: OffsetCommitRequest, error: KafkaError
) -> OffsetCommitResponse:
    return fail_offset_commit(request, error.code)


async def _merged(
    request: OffsetCommitRequest,
    known: OffsetCommitRequest,
    refused: OffsetCommitResponse,
    commit: Commit,
) -> OffsetCommitResponse:
    """The group's answer with the refused partitions put in, in the order of the request."""
    try:
        answer = commit(known)
        accepted = answer if isinstance(answer, OffsetCommitResponse) else await answer  # type: ignore[misc]
    except KafkaError as error:
        accepted = fail_offset_commit(known, error.code)
    codes = {
        (topic.name, partition.partition_index): partition.error_code
        for response in (accepted, refused)
        for topic in response.topics
        for partition in topic.partitions
    }
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=codes[topic.name, partition.partition_index],
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _exists(topics: Topics, topic: OffsetCommitRequestTopic) -> bool:
    image = topics.topic(topic.name)
    return image is not None and all(
        partition.partition_index in image.partitions for partition in topic.partitions
    )


def _split(topics: Topics, request: OffsetCommitRequest) -> tuple[OffsetCommitRequest, OffsetCommitResponse]:
    """The part of the request whose partitions exist, and the refusal of the rest."""
    known, unknown = [], []
    for topic in request.topics:
        image = topics.topic(topic.name)
        partitions = () if image is None else image.partitions
        there = tuple(each for each in topic.partitions if each.partition_index in partitions)
        missing = tuple(each for each in topic.partitions if each.partition_index not in partitions)
        if there:
            known.append(replace(topic, partitions=there))
        if missing:
            unknown.append(replace(topic, partitions=missing))
    refused = fail_offset_commit(
        replace(request, topics=tuple(unknown)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
    return replace(request, topics=tuple(known)), refused
