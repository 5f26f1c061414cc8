"""ElectLeaders (key 43, versions 0-2): asks the controller (KIP-183, KIP-460). Version 0 elects preferred replicas."""

from __future__ import annotations

from kcli.controller.api import ELECT_LEADERS
from kcli.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.requests.access import ALTER_CLUSTER, whole_request

ACCESS = whole_request(ALTER_CLUSTER)


async def handle(context: NodeContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    return await ask_controller(context, ELECT_LEADERS, request)
