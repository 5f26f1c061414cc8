"""Envelope (key 58, version 0): a request of a client that a broker forwards to the active controller (KIP-590).

The sender of an Envelope needs the permissions of a broker. The request inside is served with the principal and the
address of the client. The response inside has the correlation id of the client's request.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kcli.errors import InvalidRequestException
from kcli.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kcli.security.principal import Session
from kcli.security.principal_bytes import decode_principal
from kcli.server.requests.context import RequestContext
from kcli.server.requests.forwarding import ForwardedCaller


@dataclass(frozen=True, slots=True)
class Ports:
    serve_forwarded: Callable[[bytes, ForwardedCaller], Awaitable[bytes]]
    """Serves the request of an Envelope."""


async def handle(context: RequestContext[Ports], request: EnvelopeRequest) -> EnvelopeResponse:
    principal = decode_principal(request.request_principal or b"")
    try:
        host = str(ipaddress.ip_address(request.client_host_address))
    except ValueError as error:
        raise InvalidRequestException(f"Failed to parse client address from envelope: {error}") from error
    client = ForwardedCaller(context.listener, host, Session(principal))
    return EnvelopeResponse(response_data=await context.ports.serve_forwarded(request.request_data, client))
