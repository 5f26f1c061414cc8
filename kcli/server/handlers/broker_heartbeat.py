"""BrokerHeartbeat (key 63, versions 0-1): a broker reports that it is alive (KIP-631, KIP-841, KIP-858).

The rules are in controller/brokers.py.
"""

from __future__ import annotations

from kcli.controller.api import BROKER_HEARTBEAT
from kcli.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import ask_controller


async def handle(context: NodeContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    return await ask_controller(context, BROKER_HEARTBEAT, request)
