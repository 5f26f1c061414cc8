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


def handle(context: NodeContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    """Names the owner and the requester of the token, as Kafka does also in a refusal."""
    requester = context.session.principal
    owner_type, owner_name = request.owner_principal_type, request.owner_principal_name
    return CreateDelegationTokenResponse(
        error_code=UnsupportedByAuthenticationException.code,
        principal_type=(owner_name and owner_type) or requester.type,
        principal_name=owner_name or requester.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
