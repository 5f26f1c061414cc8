"""SaslHandshake (key 17, versions 0-1): refuses every request, because this listener has no SASL."""

from __future__ import annotations

from kcli.errors import IllegalSaslStateException
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.server.handlers.ports import NodeContext


def handle(_context: NodeContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    raise IllegalSaslStateException
