"""AlterClientQuotas (key 49, versions 0-1): forwards the request to the controller, which changes the quotas of clients
(KIP-546). The rules are in controller/client_quotas.py.

If an entity is a host name, a thread looks up its IP address before the controller decides, because the look-up blocks.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable
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
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import controller_context
from kcli.server.requests.answers import finished
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, run_in_turns


async def handle(context: NodeContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    addresses = await finished(run_in_turns(_addresses(request), REFUSALS_PER_TURN))
    resolved = await LOOKUPS.run(_resolved, addresses) if addresses else ()
    asked = replace(controller_context(context), resolvable=lambda address: address in resolved)
    return await context.ports.channel.send(ALTER_CLIENT_QUOTAS, request, asked)


def error_response(
    _context: NodeContext, request: AlterClientQuotasRequest, error: KafkaError
) -> AlterClientQuotasResponse | Awaitable[AlterClientQuotasResponse]:
    return run_in_turns(_refused(request, error), REFUSALS_PER_TURN)


def _refused(request: AlterClientQuotasRequest, error: KafkaError) -> Steps[AlterClientQuotasResponse]:
    entries = []
    for entry in request.entries:
        entity = yield from entity_of(entry.entity)
        data = yield from entity_data(entity)
        entries.append(ResponseEntryData(error_code=error.code, error_message=error.message, entity=data))
        yield
    return AlterClientQuotasResponse(entries=tuple(entries))


def _addresses(request: AlterClientQuotasRequest) -> Steps[set[str]]:
    """The names of the IP entities of a request."""
    addresses = set()
    for entry in request.entries:
        for part in entry.entity:
            if part.entity_type == IP and part.entity_name:
                addresses.add(part.entity_name)
            yield
        yield
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
