"""ControllerRegistration (key 70, version 0): a controller reports its endpoints and features (KIP-919).

The rules are in controller/controllers.py.
"""

from __future__ import annotations

from kcli.controller.api import CONTROLLER_REGISTRATION
from kcli.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from kcli.server.handlers.shared.controller_requests import Ports, ask_controller
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: ControllerRegistrationRequest
) -> ControllerRegistrationResponse:
    return await ask_controller(context, CONTROLLER_REGISTRATION, request)
