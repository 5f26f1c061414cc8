"""BrokerHeartbeat (key 63, versions 0-1): a broker reports that it is alive (KIP-631, KIP-841, KIP-858).

The rules are in controller/brokers.py.
"""

from __future__ import annotations

from kcli.controller.api import BROKER_HEARTBEAT
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(context: RequestContext[Ports], request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    return await ask_controller(context, BROKER_HEARTBEAT, request)
