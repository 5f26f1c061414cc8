"""OffsetCommit (key 8, versions 2-9): stores the offsets of a group (KIP-211, KIP-320, KIP-345, KIP-848).

The group id may be empty, for old consumers that only store offsets. Partitions that do not exist get
UNKNOWN_TOPIC_OR_PARTITION. The offsets of the other partitions go to the group. If the group refuses them, each of
these partitions gets the error of the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.server.coordinators.group_ids import existing, merged_codes
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_GROUP, READ_TOPIC, per_resource
from kcli.server.requests.answers import finished, then
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns

ACCESS = per_resource(READ_GROUP, READ_TOPIC)

PARTITIONS_PER_TURN = 500
"""Partitions that are checked or merged in one turn of the loop. A partition takes 1 to 2 µs."""

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
    """Commits the offsets of existing partitions, and refuses missing partitions.

    The checks and the merging run in turns. The commit itself is one decision of the group.
    """
    known = run_in_turns(existing(context.ports.metadata.topics, request.topics), PARTITIONS_PER_TURN)
    return then(known, lambda topics: _commit_known(request, topics, commit))


def error_response(
    _context: BrokerContext, request: OffsetCommitRequest, error: KafkaError
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    return run_in_turns(_failed(request, error), REFUSALS_PER_TURN)


def _commit_known(
    request: OffsetCommitRequest, topics: tuple[OffsetCommitRequestTopic, ...], commit: Commit
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if topics and topics is request.topics:
        return commit(request)
    return _merged(request, replace(request, topics=topics), commit)


async def _merged(
    request: OffsetCommitRequest, known: OffsetCommitRequest, commit: Commit
) -> OffsetCommitResponse:
    """Merges the refused partitions into the group's answer, in the order of the request."""
    accepted = OffsetCommitResponse()
    if known.topics:
        try:
            accepted = await finished(commit(known))
        except KafkaError as error:
            accepted = await finished(run_in_turns(_failed(known, error), REFUSALS_PER_TURN))
    merging = merged_codes(request.topics, accepted.topics, _partition, _topic)
    return OffsetCommitResponse(topics=await finished(run_in_turns(merging, PARTITIONS_PER_TURN)))


def _failed(request: OffsetCommitRequest, error: KafkaError) -> Steps[OffsetCommitResponse]:
    topics = yield from nested_steps(
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: _partition(part.partition_index, error.code),
        lambda topic, partitions: _topic(topic.name, partitions),
    )
    return OffsetCommitResponse(topics=topics)


def _partition(number: int, code: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=number, error_code=code)


def _topic(name: str, partitions: tuple[OffsetCommitResponsePartition, ...]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(name=name, partitions=partitions)
