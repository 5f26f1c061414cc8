"""OffsetDelete (key 47, version 0): deletes offsets of topics to which a group does not subscribe any more (KIP-496).

Partitions that do not exist get UNKNOWN_TOPIC_OR_PARTITION, unless the group refuses the whole request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kcli.server.coordinators.group_ids import existing, merged_codes, require_group_id
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DELETE_GROUP, READ_TOPIC, per_resource
from kcli.server.requests.answers import then

ACCESS = per_resource(DELETE_GROUP, READ_TOPIC)


def handle(
    context: BrokerContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    require_group_id(request.group_id)
    known = existing(context.ports.metadata.topics, request.topics)
    answer: OffsetDeleteResponse | Awaitable[OffsetDeleteResponse] = context.ports.groups.call(
        request.group_id,
        lambda shard, token, now_ms: shard.delete_offsets(replace(request, topics=known), token, now_ms),
    )
    return answer if known is request.topics else then(answer, lambda response: _merged(request, response))


def _merged(request: OffsetDeleteRequest, response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    """Merges the refused partitions into the group's answer, in the order of the request."""
    if response.error_code is not ErrorCode.NONE:
        return response
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(partition_index=number, error_code=code)
                    for number, code in codes
                ),
            )
            for name, codes in merged_codes(request.topics, response.topics)
        )
    )
