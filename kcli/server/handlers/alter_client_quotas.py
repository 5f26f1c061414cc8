"""AlterClientQuotas (key 49, versions 0-1): forwards the request to the controller, which changes the quotas of clients
(KIP-546). The rules are in controller/client_quotas.py.

If an entity is a host name, a thread looks up its IP address before the controller decides, because the look-up blocks.
"""

from __future__ import annotations

import socket
from dataclasses import replace

from kcli.controller.api import ALTER_CLIENT_QUOTAS
from kcli.controller.client_quotas import entity_data, entity_of
from kcli.errors import KafkaError
from kcli.metadata.image import IP
from kcli.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from kcli.runtime.threads import LOOKUPS
from kcli.security.java_address import parse_literal
from kcli.server.handlers.shared.controller_requests import Ports, controller_context
from kcli.server.requests.context import REFUSAL_COST, RequestContext

Context = RequestContext[Ports]


async def handle(context: Context, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    addresses = await _addresses(context, request)
    resolved = await LOOKUPS.run(_resolved, addresses) if addresses else ()
    client = replace(controller_context(context), resolvable=lambda address: address in resolved)
    return await context.ports.channel.send(ALTER_CLIENT_QUOTAS, request, client)


async def error_response(
    context: Context, request: AlterClientQuotasRequest, error: KafkaError
) -> AlterClientQuotasResponse:
    entries = []
    for entry in request.entries:
        await context.pace(REFUSAL_COST)
        entity = await entity_of(entry.entity, context.pace, REFUSAL_COST)
        data = await entity_data(entity, context.pace, REFUSAL_COST)
        entries.append(ResponseEntryData(error_code=error.code, error_message=error.message, entity=data))
    return AlterClientQuotasResponse(entries=tuple(entries))


async def _addresses(context: Context, request: AlterClientQuotasRequest) -> set[str]:
    """The names of the IP entities of a request."""
    addresses = set()
    for entry in request.entries:
        await context.pace(REFUSAL_COST)
        for part in entry.entity:
            await context.pace(REFUSAL_COST)
            if part.entity_type == IP and part.entity_name:
                addresses.add(part.entity_name)
    return addresses


def _resolved(addresses: set[str]) -> frozenset[str]:
    return frozenset(address for address in sorted(addresses) if _is_resolvable(address))


def _is_resolvable(address: str) -> bool:
    try:
        if parse_literal(address) is None:
            socket.getaddrinfo(address, None)
    except (OSError, ValueError):  # ValueError: neither an address nor the name of a host
        return False
    return True
