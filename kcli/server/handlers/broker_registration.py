"""BrokerRegistration (key 62, versions 0-4): a broker registers itself (KIP-631, KIP-858).

The rules are in controller/brokers.py.
"""

from __future__ import annotations

from kcli.controller.api import BROKER_REGISTRATION
from kcli.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: BrokerRegistrationRequest
) -> BrokerRegistrationResponse:
    return await ask_controller(context, BROKER_REGISTRATION, request)
