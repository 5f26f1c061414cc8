"""DescribeDelegationToken (key 41, versions 1-3): the tokens that the client may see, with their HMACs (KIP-48).

A node answers from its own metadata. Controllers answer too. Kafka 4.1 lists the API on controllers, but does not
answer it there.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.errors import DelegationTokenDisabledException
from kcli.metadata.image import DelegationToken
from kcli.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kcli.security.tokens import parties, party, token_hmac
from kcli.server.handlers.shared.token_requests import check_may_ask
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS
from kcli.server.requests.context import RequestContext

TOKEN_COST = 10
"""The cost to describe a token, in microseconds: its HMAC and two authorizations."""


@dataclass(frozen=True, slots=True)
class Ports:
    config: BrokerConfig
    loader: MetadataLoader


Context = RequestContext[Ports]


async def handle(
    context: Context, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Describes all tokens if the request has no list of owners. An empty list selects no token."""
    check_may_ask(context)
    secret_key = context.ports.config.text("delegation.token.secret.key") or None
    if secret_key is None:
        raise DelegationTokenDisabledException
    owners: set[str] = set()
    for owner in request.owners or ():
        await context.pace(TOKEN_COST)
        owners.add(f"{owner.principal_type}:{owner.principal_name}")
    selects_all = request.owners is None
    described = []
    for token in context.ports.loader.image.delegation_tokens.values() if selects_all or owners else ():
        await context.pace(TOKEN_COST)
        if (selects_all or not owners.isdisjoint(parties(token))) and _may_see(context, token):
            described.append(_description(token, secret_key))
    return DescribeDelegationTokenResponse(tokens=tuple(described))


def _may_see(context: Context, token: DelegationToken) -> bool:
    return (
        str(context.session.principal) in parties(token)
        or context.rights.allows(DESCRIBE_DELEGATION_TOKEN, token.token_id)
        or context.rights.allows(DESCRIBE_TOKENS, token.owner)
    )


def _description(token: DelegationToken, secret_key: str) -> DescribedDelegationToken:
    owner, requester = party(token.owner), party(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiration_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=token_hmac(secret_key, token.token_id),
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in map(party, token.renewers)
        ),
    )
