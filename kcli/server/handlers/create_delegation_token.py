"""CreateDelegationToken (key 38, versions 1-3): forwards the request to the controller, which creates a token (KIP-48).
The rules are in controller/tokens.py."""

from __future__ import annotations

from kcli.controller.api import CREATE_DELEGATION_TOKEN
from kcli.controller.tokens import token_owner
from kcli.errors import DelegationTokenAuthorizationException, KafkaError
from kcli.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kcli.server.handlers.shared.controller_requests import ask_controller
from kcli.server.handlers.shared.token_requests import Ports, check_may_ask
from kcli.server.requests.access import CREATE_TOKENS
from kcli.server.requests.context import RequestContext


async def handle(
    context: RequestContext[Ports], request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """A client needs no permission for its own token. For a token of another owner, the client needs the permission
    CreateTokens on this user (KIP-373).
    """
    check_may_ask(context)
    requester = context.session.principal
    owner = token_owner(request, requester)
    if owner != requester and not context.rights.allows(CREATE_TOKENS, str(owner)):
        raise DelegationTokenAuthorizationException
    return await ask_controller(context, CREATE_DELEGATION_TOKEN, request)


async def error_response(
    context: RequestContext[Ports], request: CreateDelegationTokenRequest, error: KafkaError
) -> CreateDelegationTokenResponse:
    """The response with the error. As in Kafka, it names the owner and the requester of the token."""
    requester = context.session.principal
    owner = token_owner(request, requester)
    return CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
