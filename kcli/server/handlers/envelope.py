"""Envelope (key 58, version 0): a request of a client that a broker forwards to the active controller (KIP-590).

The sender of an Envelope needs the permissions of a broker. The request inside is served with the principal and the
address of the client. The response inside has the correlation id of the client's request.
"""

from __future__ import annotations

import ipaddress

from kcli.errors import InvalidRequestException
from kcli.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kcli.security.principal import Session
from kcli.security.principal_bytes import decode_principal
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.forwarding import ForwardedCaller


async def handle(context: NodeContext, request: EnvelopeRequest) -> EnvelopeResponse:
    principal = decode_principal(request.request_principal or b"")
    try:
        host = str(ipaddress.ip_address(request.client_host_address))
    except ValueError as error:
        raise InvalidRequestException(f"Failed to parse client address from envelope: {error}") from error
    client = ForwardedCaller(context.listener, host, Session(principal))
    return EnvelopeResponse(response_data=await context.ports.serve_forwarded(request.request_data, client))
