"""UnregisterBroker (key 64, version 0): removes the registration of a broker from the metadata (KIP-500)."""

from __future__ import annotations

from kcli.controller.api import UNREGISTER_BROKER
from kcli.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    return await ask_controller(context, UNREGISTER_BROKER, request)
