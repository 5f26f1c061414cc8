"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates.

Filters by state (v4+, KIP-518) and type (v5+, KIP-848) ignore case.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.server.coordinators.groups import GroupCoordinator
from kcli.server.requests.access import DESCRIBE_CLUSTER, DESCRIBE_GROUP
from kcli.server.requests.context import RequestContext
from kcli.server.requests.rights import CHECK_COST

GROUP_COST = 2
"""The cost of a group. The groups of one shard are listed together."""


@dataclass(frozen=True, slots=True)
class Ports:
    groups: GroupCoordinator


Context = RequestContext[Ports]


async def handle(context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    states = await _in_lower_case(context, request.states_filter)
    types = await _in_lower_case(context, request.types_filter)
    rights = context.rights
    sees_all = rights.allows(DESCRIBE_CLUSTER, traced=True)
    groups = []
    for runner in tuple(context.ports.groups.shards.runners()):
        for group in runner.ask(lambda shard, _: shard.list_groups()):
            await context.pace(GROUP_COST if sees_all else CHECK_COST)
            if (
                (not states or group.group_state.lower() in states)
                and (not types or group.group_type.lower() in types)
                and (sees_all or rights.allows(DESCRIBE_GROUP, group.group_id, traced=True))
            ):
                groups.append(group)
    return ListGroupsResponse(groups=tuple(groups))


async def _in_lower_case(context: Context, names: Iterable[str]) -> set[str]:
    lowered = set()
    for name in names:
        await context.pace(GROUP_COST)
        lowered.add(name.lower())
    return lowered
