"""OffsetCommit (key 8, versions 2-9): stores the offsets of a group (KIP-211, KIP-320, KIP-345, KIP-848).

The group id may be empty, for old consumers that only store offsets. Partitions that do not exist get
UNKNOWN_TOPIC_OR_PARTITION. The offsets of the other partitions go to the group. If the group refuses the offsets, each
of these partitions gets the error of the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kcli.errors import ErrorCode, KafkaError
from kcli.model.pace import nested
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.runtime.turns import next_turn
from kcli.server.coordinators.group_ids import decisions, existing, is_one_decision, merged_codes
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import READ_GROUP, READ_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext

Commit = Callable[[OffsetCommitRequest], Awaitable[OffsetCommitResponse]]
"""Sends the offsets to the group."""


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator
    loader: MetadataLoader


class HasMetadata(Protocol):
    @property
    def loader(self) -> MetadataLoader: ...


Context = RequestContext[Ports]


async def handle(context: Context, request: OffsetCommitRequest) -> OffsetCommitResponse:
    version = context.api_version
    context.rights.require_on(READ_GROUP, request.group_id)

    def commit(known: OffsetCommitRequest) -> Awaitable[OffsetCommitResponse]:
        if known is request:  # otherwise, other parts of the request must still be committed
            context.wait_only()
        return context.ports.groups.shards.runner(known.group_id).call(
            lambda shard, token, now_ms: shard.commit_offsets(known, version, token, now_ms)
        )

    return await commit_allowed(context, request, commit)


async def commit_allowed(
    context: RequestContext[HasMetadata], request: OffsetCommitRequest, commit: Commit
) -> OffsetCommitResponse:
    """Commits the offsets of existing partitions that the client may read, and refuses the other partitions.

    A large request is committed in several parts, and the event loop serves other clients between the parts. If one
    part fails, the partitions of later parts get the same error. The result has the order of the request.
    """
    allowed = await context.allowed(READ_TOPIC, (topic.name for topic in request.topics))
    known = await existing(context.ports.loader.image.topics, request.topics, allowed, context.pace)
    if known and known is request.topics and is_one_decision(known):
        return await commit(request)
    answered: list[OffsetCommitResponseTopic] = []
    failure: KafkaError | None = None
    for topics in decisions(known):
        await next_turn()
        part = replace(request, topics=topics)
        if failure is None:
            try:
                answered += (await commit(part)).topics
                continue
            except KafkaError as error:
                failure = error
        answered += await _failed(context, part, failure)
    merged = await merged_codes(request.topics, answered, allowed, _partition, _topic, context.pace)
    return OffsetCommitResponse(topics=merged)


async def error_response(
    context: Context, request: OffsetCommitRequest, error: KafkaError
) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=await _failed(context, request, error))


async def _failed(
    context: RequestContext[object], request: OffsetCommitRequest, error: KafkaError
) -> tuple[OffsetCommitResponseTopic, ...]:
    return await nested(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: _partition(part.partition_index, error.code),
        lambda topic, partitions: _topic(topic.name, partitions),
    )


def _partition(number: int, code: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=number, error_code=code)


def _topic(name: str, partitions: tuple[OffsetCommitResponsePartition, ...]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(name=name, partitions=partitions)
