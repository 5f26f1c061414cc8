"""Admin calls about delegation tokens (KIP-48)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.client.client import Destination, raise_for
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client

UserName = tuple[str, str]
"""The type and the name of a principal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token. Principals have the form `Type:name`. Times are in milliseconds since the Unix epoch.

    The Base64 text of `hmac` is the password of the token.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    hmac: bytes = field(repr=False)


async def create_delegation_token(
    client: Client,
    *,
    renewers: Iterable[UserName] = (),
    owner: UserName | None = None,
    max_lifetime_ms: int = -1,
) -> DelegationToken:
    """Creates a token for the owner, or for the client's own user. If `max_lifetime_ms` is -1, the broker decides."""
    from kcli.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest

    allowed = list(renewers)
    owner_type, owner_name = owner or ("", "")
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=tuple(CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in allowed),
        max_lifetime_ms=max_lifetime_ms,
    )

    async def attempt() -> DelegationToken:
        response = await client.send(
            request, ApiKey.CREATE_DELEGATION_TOKEN, to=Destination.CONTROLLER, at_least=3 if owner else 0
        )
        raise_for(response.error_code)
        # Older versions of the response have no requester. In this case, the requester is the client's user, who is
        # also the owner.
        owner_text = f"{response.principal_type}:{response.principal_name}"
        requester = f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"
        return DelegationToken(
            token_id=response.token_id,
            owner=owner_text,
            requester=owner_text if requester == ":" else requester,
            renewers=tuple(f"{kind}:{name}" for kind, name in allowed),
            issue_timestamp_ms=response.issue_timestamp_ms,
            expiry_timestamp_ms=response.expiry_timestamp_ms,
            max_timestamp_ms=response.max_timestamp_ms,
            hmac=response.hmac,
        )

    return await client.call("createDelegationToken", attempt)


async def renew_delegation_token(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Renews a token. Returns its new expiry time. If `period_ms` is negative, the broker decides."""
    from kcli.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)

    async def attempt() -> int:
        response = await client.send(request, ApiKey.RENEW_DELEGATION_TOKEN, to=Destination.CONTROLLER)
        raise_for(response.error_code)
        expiry_ms: int = response.expiry_timestamp_ms
        return expiry_ms

    return await client.call("renewDelegationToken", attempt)


async def expire_delegation_token(client: Client, hmac: bytes, period_ms: int = -1) -> int:
    """Makes a token expire after the period, or immediately if the period is negative. Returns the expiry time."""
    from kcli.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest

    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)

    async def attempt() -> int:
        response = await client.send(request, ApiKey.EXPIRE_DELEGATION_TOKEN, to=Destination.CONTROLLER)
        raise_for(response.error_code)
        expiry_ms: int = response.expiry_timestamp_ms
        return expiry_ms

    return await client.call("expireDelegationToken", attempt)


async def describe_delegation_tokens(
    client: Client, owners: Iterable[UserName] | None = None
) -> list[DelegationToken]:
    """Returns the tokens of the owners, or of all owners if no owners are given. Tokens that the client may not see are
    left out."""
    from kcli.protocol.messages.describe_delegation_token import (
        DescribeDelegationTokenOwner,
        DescribeDelegationTokenRequest,
    )

    owner_filters = None
    if owners is not None:
        owner_filters = tuple(
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in owners
        )
    request = DescribeDelegationTokenRequest(owners=owner_filters)

    async def attempt() -> list[DelegationToken]:
        response = await client.send(request, ApiKey.DESCRIBE_DELEGATION_TOKEN)
        raise_for(response.error_code)
        return [
            DelegationToken(
                token_id=token.token_id,
                owner=f"{token.principal_type}:{token.principal_name}",
                requester=f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
                renewers=tuple(
                    f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers
                ),
                issue_timestamp_ms=token.issue_timestamp,
                expiry_timestamp_ms=token.expiry_timestamp,
                max_timestamp_ms=token.max_timestamp,
                hmac=token.hmac,
            )
            for token in response.tokens
        ]

    return await client.call("describeDelegationToken", attempt)
