"""DeleteGroups (key 42, versions 0-2): deletes empty groups and their offsets (KIP-229).

The groups of a shard are deleted with one write, or with several writes if there are many groups. The response is sent
when all writes are committed. It has the order of the request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container

from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DELETE_GROUP, per_resource
from kcli.server.requests.answers import finished
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, in_turns, next_turn, run_in_turns

ACCESS = per_resource(DELETE_GROUP)


GROUPS_PER_TURN = 200
"""Groups that are deleted in one write. A group takes 5 µs, and 3 µs more for each of its offsets."""


async def handle(context: BrokerContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    allowed = await finished(context.rights.allowed_in_turns(DELETE_GROUP, request.groups_names))
    codes: dict[str, ErrorCode] = {}
    for group_ids in await finished(run_in_turns(_writes(context, request, allowed), GROUPS_PER_TURN)):
        part = DeleteGroupsRequest(groups_names=tuple(group_ids))
        response = await _delete(context, part)
        codes.update({result.group_id: result.error_code for result in response.results})
        await next_turn()
    results = in_turns(
        tuple(dict.fromkeys(request.groups_names)),
        lambda group_id: DeletableGroupResult(
            group_id=group_id, error_code=codes.get(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        ),
        REFUSALS_PER_TURN,
    )
    return DeleteGroupsResponse(results=tuple(await finished(results)))


def _writes(
    context: BrokerContext, request: DeleteGroupsRequest, allowed: Container[str]
) -> Steps[list[list[str]]]:
    """The allowed group ids of each write. All groups of a write are in the same shard, and the size of a write is
    bounded."""
    by_partition: dict[int, list[list[str]]] = {}
    for group_id in dict.fromkeys(request.groups_names):
        yield
        if group_id not in allowed:
            continue
        writes = by_partition.setdefault(context.ports.groups.partition_of(group_id), [[]])
        if len(writes[-1]) >= GROUPS_PER_TURN:
            writes.append([])
        writes[-1].append(group_id)
    return [group_ids for writes in by_partition.values() for group_ids in writes]


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
