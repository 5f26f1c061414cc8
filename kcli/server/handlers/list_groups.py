"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates.

Filters by state (v4+, KIP-518) and type (v5+, KIP-848) ignore case.
"""

from __future__ import annotations

from kcli.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kcli.server.handlers.ports import BrokerContext
from kcli.server.requests.access import DESCRIBE_CLUSTER, DESCRIBE_GROUP, per_resource

ACCESS = per_resource(DESCRIBE_CLUSTER, DESCRIBE_GROUP)


def handle(context: BrokerContext, request: ListGroupsRequest) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    return ListGroupsResponse(
        groups=tuple(
            group
            for runner in context.ports.groups.runners()
            for group in runner.ask(lambda shard, _: shard.list_groups())
            if (not states or group.group_state.lower() in states)
            and (not types or group.group_type.lower() in types)
        )
    )
