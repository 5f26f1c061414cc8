"""ElectLeaders (key 43, versions 0-2): asks the controller (KIP-183, KIP-460). Version 0 is always preferred."""

from __future__ import annotations

from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kcli.server.requests.access import ALTER_CLUSTER, whole_request
from kcli.server.requests.context import RequestContext

ACCESS = whole_request(ALTER_CLUSTER)


async def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    return await context.broker.quorum.elect_leaders(request, context)
