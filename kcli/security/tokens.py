"""Delegation tokens (KIP-48): computes their HMACs and SCRAM credentials, and decides which principals may use a token.

HMACs are not stored. Every node computes the HMAC of a token from the token id and the key
`delegation.token.secret.key`, which must be the same on all nodes. The Base64 text of the HMAC is the password of the
token for a login with SCRAM.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kcli.metadata.image import DelegationToken, ScramCredential
from kcli.security.mechanisms.scram import (
    DEFAULT_ITERATIONS,
    Mechanism,
    salted_password,
    server_keys,
)
from kcli.security.mechanisms.scram_decoys import Decoys
from kcli.security.principal import Principal, principal_from_text

HASH = "sha512"

CACHED_CREDENTIALS = 10_000
"""The most SCRAM credentials of tokens that a node keeps. A credential has about 500 bytes, so this is 5 MB. When this
number is reached, the node drops all of them, and computes each one again at the next login with its token."""


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """The SCRAM credential of a token. A client that logs in with it has the principal of the owner until
    `expires_at_ms`.
    """

    owner: Principal
    expires_at_ms: int
    """The time at which the token expires, in milliseconds since the Unix epoch."""
    scram: ScramCredential = field(repr=False)


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """The HMAC of a token id. As in Kafka, the key of the HMAC is the secret key as UTF-8."""
    return hmac.digest(secret_key.encode(), token_id.encode(), HASH)


def token_password(secret_key: str, token_id: str) -> str:
    """The password for a SCRAM login with a token."""
    return base64.b64encode(token_hmac(secret_key, token_id)).decode("ascii")


def may_renew(token: DelegationToken, principal: Principal) -> bool:
    """Whether the principal may renew and expire the token. A principal that has only requested the token for another
    owner may not do this.
    """
    return str(principal) in (token.owner, *token.renewers)


def parties(token: DelegationToken) -> tuple[str, ...]:
    """The principals that may describe the token: the owner, the requester and the renewers."""
    return (token.owner, token.requester, *token.renewers)


def party(text: str) -> Principal:
    """The principal in a stored token. The name of the principal may be empty, because Kafka stores such tokens."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def has_expired(token: DelegationToken, now_ms: int) -> bool:
    return min(token.expiration_timestamp_ms, token.max_timestamp_ms) < now_ms


class TokenFinder:
    """Finds a token by its HMAC. Each token's HMAC is computed only once."""

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key
        self._indexed: Mapping[str, DelegationToken] = {}
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"TokenFinder({len(self._ids)} tokens)"

    def find(self, tokens: Mapping[str, DelegationToken], hmac_of_token: bytes) -> DelegationToken | None:
        """The token whose HMAC is `hmac_of_token`, or None. `tokens` are the tokens of a metadata image."""
        if tokens is not self._indexed:
            self._index(tokens)
        token_id = self._ids.get(hmac_of_token)
        if token_id is None or not hmac.compare_digest(self._hmacs[token_id], hmac_of_token):
            return None
        return tokens[token_id]

    def _index(self, tokens: Mapping[str, DelegationToken]) -> None:
        for gone in [token_id for token_id in self._hmacs if token_id not in tokens]:
            del self._ids[self._hmacs.pop(gone)]
        for token_id in tokens:
            if token_id not in self._hmacs:
                own_hmac = self._hmacs[token_id] = token_hmac(self._secret_key, token_id)
                self._ids[own_hmac] = token_id
        self._indexed = tokens


class TokenCredentials:
    """Makes and caches the SCRAM credentials of tokens, for logins on one node.

    The salt of a credential is the salt that an unknown token with the same id would get. So it is the same on all
    nodes, and does not show whether the token exists. Threads may call the methods at the same time.
    """

    def __init__(self, secret_key: str | None, tokens: Callable[[], Mapping[str, DelegationToken]]) -> None:
        """`tokens` returns the tokens of the newest metadata image, by token id. Without a secret key, no login with a
        token is possible.
        """
        self._secret_key = secret_key
        self._tokens = tokens
        self._known: dict[tuple[str, str], ScramCredential] = {}

    def credential_of(self, token_id: str, mechanism: Mechanism) -> TokenCredential | None:
        """The credential for a login with this token, or None if the token does not exist.

        The first call for a token and a mechanism takes some milliseconds, so call it in a thread unless `is_cached`.
        An expired token that the controller has not removed yet still has a credential, as in Kafka. The session of
        such a login ends immediately.
        """
        token = self._tokens().get(token_id)
        if token is None or self._secret_key is None:
            return None
        key = (token_id, mechanism.name)
        scram = self._known.get(key)
        if scram is None:
            if len(self._known) >= CACHED_CREDENTIALS:
                self._known.clear()
            # Another thread may have computed the credential meanwhile. All logins must see the same salt.
            scram = self._known.setdefault(key, _credential(self._secret_key, token_id, mechanism))
        owner = principal_from_text(token.owner, token_authenticated=True)
        return TokenCredential(owner, min(token.expiration_timestamp_ms, token.max_timestamp_ms), scram)

    def is_cached(self, token_id: str, mechanism: Mechanism) -> bool:
        """Whether `credential_of` returns immediately."""
        cached = (token_id, mechanism.name) in self._known
        return cached or self._secret_key is None or token_id not in self._tokens()


def _credential(secret_key: str, token_id: str, mechanism: Mechanism) -> ScramCredential:
    salt = Decoys(decoy_secret(secret_key)).credential(token_id, mechanism.name, mechanism.hash_name).salt
    password = token_password(secret_key, token_id).encode()
    keys = server_keys(mechanism, salted_password(mechanism, password, salt, DEFAULT_ITERATIONS))
    return ScramCredential(
        salt=salt, stored_key=keys.stored_key, server_key=keys.server_key, iterations=DEFAULT_ITERATIONS
    )


def decoy_secret(secret_key: str) -> bytes:
    """The secret from which nodes derive the credentials of unknown users and tokens of SCRAM. No client has it."""
    # The HMAC of a token is made from its id with the same key. No token has this text as its id.
    return hmac.digest(secret_key.encode(), b"kcli: salts of unknown users of SCRAM", "sha256")
