"""OffsetDelete (key 47, version 0): deletes offsets of topics to which a group does not subscribe any more (KIP-496).

Partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, unless the group refuses the whole request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.server.coordinators.group_ids import existing, merged_codes, require_group_id
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DELETE_GROUP, READ_TOPIC, per_resource
from kcli.server.requests.answers import then
from kcli.server.requests.turns import run_in_turns

ACCESS = per_resource(DELETE_GROUP, READ_TOPIC)


PARTITIONS_PER_TURN = 500
"""Partitions that are checked or merged in one turn of the loop. A partition takes 1 to 2 µs. The group deletes all
offsets in one decision."""


def handle(
    context: BrokerContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    require_group_id(request.group_id)
    known = run_in_turns(existing(context.ports.metadata.topics, request.topics), PARTITIONS_PER_TURN)
    return then(known, lambda topics: _delete(context, request, topics))


def _delete(
    context: BrokerContext, request: OffsetDeleteRequest, known: tuple[OffsetDeleteRequestTopic, ...]
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    answer: OffsetDeleteResponse | Awaitable[OffsetDeleteResponse] = context.ports.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.delete_offsets(replace(request, topics=known), token, now_ms),
    )
    return answer if known is request.topics else then(answer, lambda response: _merged(request, response))


def _merged(
    request: OffsetDeleteRequest, response: OffsetDeleteResponse
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    """Merges the refused partitions into the group's answer, in the order of the request."""
    if response.error_code is not ErrorCode.NONE:
        return response
    merging = merged_codes(request.topics, response.topics, _partition, _topic)
    return then(
        run_in_turns(merging, PARTITIONS_PER_TURN), lambda topics: OffsetDeleteResponse(topics=topics)
    )


def _partition(number: int, code: ErrorCode) -> OffsetDeleteResponsePartition:
    return OffsetDeleteResponsePartition(partition_index=number, error_code=code)


def _topic(name: str, partitions: tuple[OffsetDeleteResponsePartition, ...]) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)
