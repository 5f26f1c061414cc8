"""DeleteGroups (key 42, versions 0-2): deletes empty groups and their offsets (KIP-229).

The groups of each shard are one write. The answer comes when all writes are committed, in the order of the request.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DELETE_GROUP, per_resource

ACCESS = per_resource(DELETE_GROUP)


async def handle(context: BrokerContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    codes: dict[str, ErrorCode] = {}
    by_partition: dict[int, list[str]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        by_partition.setdefault(context.ports.groups.partition_of(group_id), []).append(group_id)
    for group_ids in by_partition.values():
        part = DeleteGroupsRequest(groups_names=tuple(group_ids))
        response = await _delete(context, part)
        codes.update({result.group_id: result.error_code for result in response.results})
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=group_id, error_code=codes[group_id])
            for group_id in dict.fromkeys(request.groups_names)
        )
    )


def error_response(
    _context: BrokerContext, request: DeleteGroupsRequest, error: KafkaError
) -> DeleteGroupsResponse:
    return _failed(request, error.code)


def _failed(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.groups_names
        )
    )


async def _delete(context: BrokerContext, part: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Deletes groups of one shard."""
    try:
        answer: DeleteGroupsResponse | Awaitable[DeleteGroupsResponse] = context.ports.groups.call(
            part.groups_names[0], lambda shard, token, now_ms: shard.delete_groups(part, token, now_ms)
        )
        return await answer if isinstance(answer, Awaitable) else answer
    except KafkaError as error:
        return _failed(part, error.code)
