"""OffsetCommit (key 8, versions 2-9): stores the offsets of a group (KIP-211, KIP-320, KIP-345, KIP-848).

The group id may be empty, for old consumers that only store offsets. Partitions that do not exist get
UNKNOWN_TOPIC_OR_PARTITION. The offsets of the other partitions go to the group. If the group refuses the offsets, each
of these partitions gets the error of the group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from dataclasses import replace

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kcli.server.coordinators.group_ids import decisions, existing, is_one_decision, merged_codes
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import READ_GROUP, READ_TOPIC
from kcli.server.requests.answers import finished, then
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, next_turn, run_in_turns

PARTITIONS_PER_TURN = 500
"""Partitions that are checked or merged in one iteration of the event loop. A partition takes 1 to 2 µs."""

Commit = Callable[[OffsetCommitRequest], OffsetCommitResponse | Awaitable[OffsetCommitResponse]]
"""Sends the offsets to the group."""


def handle(
    context: BrokerContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    version = context.api_version
    context.rights.require_on(READ_GROUP, request.group_id)
    return commit_allowed(
        context,
        request,
        lambda known: context.ports.groups.shards.runner(known.group_id).call(
            lambda shard, token, now_ms: shard.commit_offsets(known, version, token, now_ms)
        ),
    )


def commit_allowed(
    context: BrokerContext, request: OffsetCommitRequest, commit: Commit
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commits the offsets of existing partitions that the client may read, and refuses the other partitions.

    A large request is committed in several parts, and the event loop serves other clients between the parts.
    """
    allowed = context.rights.allowed_in_turns(READ_TOPIC, (topic.name for topic in request.topics))
    return then(allowed, lambda names: commit_existing(context, request, names, commit))


def commit_existing(
    context: BrokerContext, request: OffsetCommitRequest, allowed: Container[str], commit: Commit
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Does the same as `commit_allowed` after the check of the permissions. `allowed` are the topics of the request
    that the client may read.
    """
    known = run_in_turns(
        existing(context.ports.metadata.topics, request.topics, allowed), PARTITIONS_PER_TURN
    )
    return then(known, lambda topics: _commit_known(request, topics, allowed, commit))


def error_response(
    _context: BrokerContext, request: OffsetCommitRequest, error: KafkaError
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    return run_in_turns(_failed(request, error), REFUSALS_PER_TURN)


def _commit_known(
    request: OffsetCommitRequest,
    known: tuple[OffsetCommitRequestTopic, ...],
    allowed: Container[str],
    commit: Commit,
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if known and known is request.topics and is_one_decision(known):
        return commit(request)
    return _merged(request, known, allowed, commit)


async def _merged(
    request: OffsetCommitRequest,
    known: tuple[OffsetCommitRequestTopic, ...],
    allowed: Container[str],
    commit: Commit,
) -> OffsetCommitResponse:
    """Merges the group's answers for all parts with the refused partitions. The result has the order of the request. If
    one part fails, the partitions of later parts get the same error.
    """
    answered: list[OffsetCommitResponseTopic] = []
    failure: KafkaError | None = None
    for topics in decisions(known):
        await next_turn()
        part = replace(request, topics=topics)
        if failure is None:
            try:
                answered += (await finished(commit(part))).topics
                continue
            except KafkaError as error:
                failure = error
        answered += (await finished(run_in_turns(_failed(part, failure), REFUSALS_PER_TURN))).topics
    merging = merged_codes(request.topics, answered, allowed, _partition, _topic)
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
