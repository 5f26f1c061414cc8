"""RenewDelegationToken (key 39, versions 1-2): moves the expiry of a token (KIP-48). The rules are in
controller/tokens.py.

The broker checks no permission. The controller accepts the request only from the owner or a renewer of the token.
"""

from __future__ import annotations

from kcli.controller.api import RENEW_DELEGATION_TOKEN
from kcli.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.handlers.shared.token_requests import Ports, check_may_ask
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    check_may_ask(context)
    return await ask_controller(context, RENEW_DELEGATION_TOKEN, request)
