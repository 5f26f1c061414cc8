"""CreateDelegationToken (key 38, versions 1-3): refuses every request, as Kafka does on a PLAINTEXT listener
(KIP-48)."""

from __future__ import annotations

from kcli.errors import UnsupportedByAuthenticationException
from kcli.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kcli.server.handlers.ports import NodeContext
from kcli.server.requests.access import CREATE_TOKENS, per_resource

ACCESS = per_resource(CREATE_TOKENS)


def handle(_context: NodeContext, _request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    raise UnsupportedByAuthenticationException
