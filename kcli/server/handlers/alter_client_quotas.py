"""AlterClientQuotas (key 49, versions 0-1): forwards the request to the controller, which changes the quotas of clients
(KIP-546). The rules are in controller/client_quotas.py.

If an entity is a host name, a thread looks up its IP address before the controller decides, because the look-up blocks.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from dataclasses import replace

from kcli.controller.api import ALTER_CLIENT_QUOTAS
from kcli.controller.client_quotas import entity_of
from kcli.errors import KafkaError
from kcli.metadata.image import IP
from kcli.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.handlers.shared.controller_requests import controller_context
from kcli.server.requests.access import ALTER_CONFIGS_CLUSTER, whole_request
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, in_turns

ACCESS = whole_request(ALTER_CONFIGS_CLUSTER)


async def handle(context: NodeContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    addresses = {
        part.entity_name
        for entry in request.entries
        for part in entry.entity
        if part.entity_type == IP and part.entity_name
    }
    resolved = await asyncio.to_thread(_resolved, sorted(addresses)) if addresses else ()
    asked = replace(controller_context(context), resolvable=lambda address: address in resolved)
    return await context.ports.channel.send(ALTER_CLIENT_QUOTAS, request, asked)


def error_response(
    _context: NodeContext, request: AlterClientQuotasRequest, error: KafkaError
) -> AlterClientQuotasResponse | Awaitable[AlterClientQuotasResponse]:
    def refused(entry: RequestEntryData) -> ResponseEntryData:
        return ResponseEntryData(
            error_code=error.code,
            error_message=error.message,
            entity=tuple(
                ResponseEntityData(entity_type=kind, entity_name=name)
                for kind, name in entity_of(entry.entity)
            ),
        )

    entries = in_turns(request.entries, refused, REFUSALS_PER_TURN)
    return then(entries, lambda each: AlterClientQuotasResponse(entries=tuple(each)))


def _resolved(addresses: list[str]) -> frozenset[str]:
    return frozenset(address for address in addresses if _is_resolvable(address))


def _is_resolvable(address: str) -> bool:
    try:
        socket.getaddrinfo(address, None)
    except (OSError, UnicodeError):
        return False
    return True
