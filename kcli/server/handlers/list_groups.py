"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates.

Filters by state (v4+, KIP-518) and type (v5+, KIP-848) ignore case.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_CLUSTER, DESCRIBE_GROUP
from kcli.server.requests.turns import Steps, run_in_turns

GROUPS_PER_TURN = 500
"""Groups that are listed in one iteration of the event loop. A group takes 2 µs. The groups of one shard are listed
together."""


def handle(
    context: BrokerContext, request: ListGroupsRequest
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    return run_in_turns(_listed(context, request), GROUPS_PER_TURN)


def _listed(context: BrokerContext, request: ListGroupsRequest) -> Steps[ListGroupsResponse]:
    states = yield from _in_lower_case(request.states_filter)
    types = yield from _in_lower_case(request.types_filter)
    rights = context.rights
    sees_all = rights.allows(DESCRIBE_CLUSTER, traced=True)
    groups = []
    for runner in tuple(context.ports.groups.shards.runners()):
        for group in runner.ask(lambda shard, _: shard.list_groups()):
            if (
                (not states or group.group_state.lower() in states)
                and (not types or group.group_type.lower() in types)
                and (sees_all or rights.allows(DESCRIBE_GROUP, group.group_id, traced=True))
            ):
                groups.append(group)
            yield
    return ListGroupsResponse(groups=tuple(groups))


def _in_lower_case(names: Iterable[str]) -> Steps[set[str]]:
    lowered = set()
    for name in names:
        lowered.add(name.lower())
        yield
    return lowered
