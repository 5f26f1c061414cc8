"""SaslHandshake (key 17, versions 0-1): refuses every request, because this listener has no SASL."""

from __future__ import annotations

from kcli.errors import IllegalSaslStateException
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.server.requests.context import RequestContext


async def handle(_context: RequestContext[object], _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    raise IllegalSaslStateException
