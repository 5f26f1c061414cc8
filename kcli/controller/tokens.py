"""Creates, renews, expires and removes delegation tokens (KIP-48, KIP-900).

The metadata log has the times and principals of a token, but not the HMAC. The HMAC is computed from the token id
(security/tokens.py). Before the call, the caller has checked that the client may request tokens on its connection.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from kcli.config.features import DELEGATION_TOKENS_FROM
from kcli.controller.controller import Controller
from kcli.controller.decision import Decision
from kcli.errors import (
    DelegationTokenDisabledException,
    DelegationTokenExpiredException,
    DelegationTokenNotFoundException,
    DelegationTokenOwnerMismatchException,
    InvalidPrincipalTypeException,
    UnsupportedVersionException,
)
from kcli.metadata.image import DelegationToken
from kcli.metadata.snapshot import delegation_token_record
from kcli.model.uuids import uuid_to_text
from kcli.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kcli.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kcli.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kcli.protocol.records.metadata import RemoveDelegationTokenRecord
from kcli.security.principal import Principal
from kcli.security.tokens import has_expired, may_renew, token_hmac

USER = "User"

REMOVED_AT_ONCE = 1_000
"""The limit of the expired tokens that one batch removes, as in Kafka."""


def create_delegation_token(
    controller: Controller, request: CreateDelegationTokenRequest, requester: Principal, now_ms: int
) -> Decision[CreateDelegationTokenResponse]:
    """Creates a token. Raises KafkaError if tokens are disabled, if a renewer is not a user, or if a principal has no
    name or type. (Kafka accepts a principal without a name.)"""
    secret_key = _secret_key(controller)
    if any(renewer.principal_type != USER or not renewer.principal_name for renewer in request.renewers):
        raise InvalidPrincipalTypeException
    settings = controller.settings.tokens
    lifetime_ms = _shorter(settings.max_lifetime_ms, request.max_lifetime_ms)
    owner = token_owner(request, requester)
    if not owner.type:
        raise InvalidPrincipalTypeException
    token = DelegationToken(
        token_id=uuid_to_text(controller.rng.uuid()),
        owner=str(owner),
        requester=str(requester),
        renewers=tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers),
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms + lifetime_ms,
        expiration_timestamp_ms=now_ms + min(lifetime_ms, settings.renewal_ms),
    )
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=token.issue_timestamp_ms,
        expiry_timestamp_ms=token.expiration_timestamp_ms,
        max_timestamp_ms=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=token_hmac(secret_key, token.token_id),
    )
    return Decision((delegation_token_record(token),), response)


def token_owner(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The owner of the token that a client asks for. If the request names no owner, the client itself is the owner."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def renew_delegation_token(
    controller: Controller, request: RenewDelegationTokenRequest, requester: Principal, now_ms: int
) -> Decision[RenewDelegationTokenResponse]:
    """Moves the expiry of a token, at most to the end of its maximal lifetime. Raises KafkaError if the token is
    unknown or has expired, or if the client may not renew it."""
    token = _token_of(controller, request.hmac)
    if has_expired(token, now_ms):
        raise DelegationTokenExpiredException
    _check_renewer(token, requester)
    period_ms = _shorter(controller.settings.tokens.renewal_ms, request.renew_period_ms)
    renewed = _expiring_at(token, now_ms + period_ms)
    return Decision(
        (delegation_token_record(renewed),),
        RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiration_timestamp_ms),
    )


def expire_delegation_token(
    controller: Controller, request: ExpireDelegationTokenRequest, requester: Principal, now_ms: int
) -> Decision[ExpireDelegationTokenResponse]:
    """Moves the expiry of a token, or removes the token if the period is negative. Raises KafkaError if the token is
    unknown, or if the client may not renew it. Also raises KafkaError if the token has expired and the period is not
    negative."""
    token = _token_of(controller, request.hmac)
    _check_renewer(token, requester)
    if request.expiry_time_period_ms < 0:
        return Decision(
            (RemoveDelegationTokenRecord(token_id=token.token_id),),
            ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms),
        )
    if has_expired(token, now_ms):
        raise DelegationTokenExpiredException
    changed = _expiring_at(token, now_ms + request.expiry_time_period_ms)
    return Decision(
        (delegation_token_record(changed),),
        ExpireDelegationTokenResponse(expiry_timestamp_ms=changed.expiration_timestamp_ms),
    )


def remove_expired_tokens(controller: Controller, now_ms: int) -> Decision[bool]:
    """Removes a limited number of expired tokens. The response is True if more expired tokens may be left."""
    tokens = controller.image.delegation_tokens.values()
    expired = list(islice((token for token in tokens if has_expired(token, now_ms)), REMOVED_AT_ONCE))
    records = tuple(RemoveDelegationTokenRecord(token_id=token.token_id) for token in expired)
    return Decision(records, len(expired) == REMOVED_AT_ONCE)


def _secret_key(controller: Controller) -> str:
    secret_key = controller.settings.tokens.secret_key
    if secret_key is None:
        raise DelegationTokenDisabledException
    if controller.image.metadata_version < DELEGATION_TOKENS_FROM.level:
        raise UnsupportedVersionException("The current metadata version does not support delegation tokens")
    return secret_key


def _token_of(controller: Controller, hmac: bytes) -> DelegationToken:
    _secret_key(controller)
    token = controller.token_finder.find(controller.image.delegation_tokens, hmac)
    if token is None:
        raise DelegationTokenNotFoundException
    return token


def _check_renewer(token: DelegationToken, principal: Principal) -> None:
    if not may_renew(token, principal):
        raise DelegationTokenOwnerMismatchException


def _shorter(limit_ms: int, asked_ms: int) -> int:
    """The period that the client requests, but at most the limit. If the requested period is not positive, the limit is
    used."""
    return min(limit_ms, asked_ms) if asked_ms > 0 else limit_ms


def _expiring_at(token: DelegationToken, at_ms: int) -> DelegationToken:
    return replace(token, expiration_timestamp_ms=min(token.max_timestamp_ms, at_ms))
