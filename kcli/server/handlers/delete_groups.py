"""DeleteGroups (key 42, versions 0-2): deletes empty groups and their offsets (KIP-229).

The groups of a shard are deleted with one write, or with several writes if there are many groups. If a group has many
offsets, its offsets are first deleted with several writes. The response is sent when all writes are committed. The
response has the groups in the order of the request.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from kcli.coordinator.group.offsets.deletion import OffsetsDeleted
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kcli.runtime.turns import next_turn
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import DELETE_GROUP
from kcli.server.requests.context import REFUSAL_COST, RequestContext

GROUP_COST = 5
GROUPS_PER_WRITE = 200
"""The most groups that are deleted in one write. A group without its offsets takes 5 µs."""

OFFSETS_PER_WRITE = 250
"""Offsets that are deleted in one write. An offset takes about 8 µs."""

_HAS_MEMBERS_NOW = (ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND)
"""If a group whose offsets are deleted gets one of these errors, a member has joined meanwhile, or the group has
expired. The answer then has no error, as if the member had joined after the deletion."""


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    allowed = await context.allowed(DELETE_GROUP, request.groups_names)
    codes: dict[str, ErrorCode] = {}
    for group_ids in await _writes(context, request, allowed):
        large = [group_id for group_id in group_ids if _offset_count(context, group_id) > OFFSETS_PER_WRITE]
        for group_id in large:
            codes[group_id] = await _delete_offsets(context, group_id)
        names = tuple(group_id for group_id in group_ids if not codes.get(group_id))
        for result in (await _delete(context, names)).results if names else ():
            is_done = result.group_id in large and result.error_code in _HAS_MEMBERS_NOW
            codes[result.group_id] = ErrorCode.NONE if is_done else result.error_code
        await next_turn()
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        await context.pace(REFUSAL_COST)
        code = codes.get(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    return DeleteGroupsResponse(results=tuple(results))


async def error_response(
    _context: Context, request: DeleteGroupsRequest, error: KafkaError
) -> DeleteGroupsResponse:
    return _failed(request, error.code)


async def _writes(context: Context, request: DeleteGroupsRequest, allowed: Container[str]) -> list[list[str]]:
    """Divides the allowed group ids into one list for each write. All groups of a write are in the same shard, and the
    size of a write is limited."""
    by_partition: dict[int, list[list[str]]] = {}
    offsets: dict[int, int] = {}
    for group_id in dict.fromkeys(request.groups_names):
        await context.pace(GROUP_COST)
        if group_id not in allowed:
            continue
        partition = context.ports.groups.shards.partition_of(group_id)
        count = _offset_count(context, group_id)
        if count > OFFSETS_PER_WRITE:
            count = 0  # the offsets of this group are deleted first, with other writes
        writes = by_partition.setdefault(partition, [[]])
        offsets[partition] = offsets.get(partition, 0) + count
        if len(writes[-1]) >= GROUPS_PER_WRITE or offsets[partition] > OFFSETS_PER_WRITE:
            writes.append([])
            offsets[partition] = count
        writes[-1].append(group_id)
    return [group_ids for writes in by_partition.values() for group_ids in writes]


def _offset_count(context: Context, group_id: str) -> int:
    """The number of offsets of a group. If another broker coordinates the group, the result is 0, and the deletion of
    the group fails later.
    """
    try:
        return context.ports.groups.shards.runner(group_id).ask(
            lambda shard, _: shard.offset_count_of(group_id)
        )
    except KafkaError:
        return 0


async def _delete_offsets(context: Context, group_id: str) -> ErrorCode:
    """Deletes the offsets of a large group with several writes, if the group may be deleted."""
    try:
        deleted = await _delete_slice(context, group_id, None)
        while not deleted.is_last:
            await next_turn()
            deleted = await _delete_slice(context, group_id, deleted.before)
        return deleted.error_code
    except KafkaError as error:
        return error.code


async def _delete_slice(context: Context, group_id: str, before: int | None) -> OffsetsDeleted:
    return await context.ports.groups.shards.runner(group_id).call(
        lambda shard, token, now_ms: shard.delete_offsets_of_group(group_id, before, token, now_ms)
    )


def _failed(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=group_id, error_code=code) for group_id in request.groups_names
        )
    )


async def _delete(context: Context, names: tuple[str, ...]) -> DeleteGroupsResponse:
    """Deletes groups of one shard."""
    part = DeleteGroupsRequest(groups_names=names)
    try:
        return await context.ports.groups.shards.runner(names[0]).call(
            lambda shard, token, now_ms: shard.delete_groups(part, token, now_ms)
        )
    except KafkaError as error:
        return _failed(part, error.code)
