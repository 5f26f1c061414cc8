"""OffsetCommit (key 8, versions 2-9): stores the offsets of a group (KIP-211, KIP-320, KIP-345, KIP-848).

The group id may be empty, for old consumers that only store offsets. Partitions that do not exist get
UNKNOWN_TOPIC_OR_PARTITION. The others are passed to the group. If the group refuses the request, each of them gets this
error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from kcli.coordinator.group.offsets.requests import fail_offset_commit
from kcli.errors import KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.server.coordinators.group_ids import existing, merged_codes
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_GROUP, READ_TOPIC, per_resource

ACCESS = per_resource(READ_GROUP, READ_TOPIC)

Commit = Callable[[OffsetCommitRequest], OffsetCommitResponse | Awaitable[OffsetCommitResponse]]
"""Sends the offsets to the group."""


def handle(
    context: BrokerContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    version = context.api_version
    return commit_existing(
        context,
        request,
        lambda known: context.ports.groups.call(
            known.group_id, lambda shard, token, now_ms: shard.commit_offsets(known, version, token, now_ms)
        ),
    )


def commit_existing(
    context: BrokerContext, request: OffsetCommitRequest, commit: Commit
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commits the offsets of existing partitions and refuses the others."""
    known = existing(context.ports.metadata.topics, request.topics)
    if known and known is request.topics:
        return commit(request)
    return _merged(request, replace(request, topics=known), commit)


def error_response(
    _context: BrokerContext, request: OffsetCommitRequest, error: KafkaError
) -> OffsetCommitResponse:
    return fail_offset_commit(request, error.code)


async def _merged(
    request: OffsetCommitRequest, known: OffsetCommitRequest, commit: Commit
) -> OffsetCommitResponse:
    """Merges the refused partitions into the group's answer, in the order of the request."""
    accepted = OffsetCommitResponse()
    if known.topics:
        try:
            answer = commit(known)
            accepted = answer if isinstance(answer, OffsetCommitResponse) else await answer
        except KafkaError as error:
            accepted = fail_offset_commit(known, error.code)
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=name,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=number, error_code=code)
                    for number, code in codes
                ),
            )
            for name, codes in merged_codes(request.topics, accepted.topics)
        )
    )
