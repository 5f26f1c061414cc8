"""SaslHandshake (key 17, versions 0-1): on a listener without SASL the client hears that it asked the wrong port."""

from __future__ import annotations

from kcli.errors import IllegalSaslStateException
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.server.requests.access import OPEN
from kcli.server.requests.context import RequestContext

ACCESS = OPEN


def handle(_context: RequestContext, _request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    raise IllegalSaslStateException
