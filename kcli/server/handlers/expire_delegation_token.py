"""ExpireDelegationToken (key 40, versions 1-2): ends a token, or moves its expiry (KIP-48). The rules are in
controller/tokens.py.

The broker checks no permission. The controller accepts the request only from the owner or a renewer of the token.
"""

from __future__ import annotations

from kcli.controller.api import EXPIRE_DELEGATION_TOKEN
from kcli.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.handlers.shared.token_requests import Ports, check_may_ask
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    check_may_ask(context)
    return await ask_controller(context, EXPIRE_DELEGATION_TOKEN, request)
