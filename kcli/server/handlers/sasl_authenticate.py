"""SaslAuthenticate (key 36, versions 0-2): refuses every request, because this listener has no SASL."""

from __future__ import annotations

from kcli.errors import IllegalSaslStateException
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.server.requests.context import RequestContext


async def handle(
    _context: RequestContext[object], _request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    raise IllegalSaslStateException("SaslAuthenticate request received after successful authentication")
