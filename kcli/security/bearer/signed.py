"""Signed tokens: JWTs that a token server has signed with a key of its key set (KIP-768)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kcli.model.java_text import trim
from kcli.security.bearer import claims
from kcli.security.bearer.key_set import ALGORITHMS, VerificationKey
from kcli.security.mechanisms.oauthbearer import BearerToken, TokenRefused


class Keys(Protocol):
    """The current keys of a token server."""

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """The key with this id for this algorithm, or None. If the id is unknown, the key set may be fetched again, so
        that a later token finds its key.
        """


@dataclass(frozen=True, slots=True)
class SignedTokenSettings:
    """The settings `sasl.oauthbearer.…` of a listener. If the issuer is None, the issuer of a token is not checked. If
    there is no audience, the audience of a token is not checked.
    """

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_seconds: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"


class SignedCheck:
    """Makes the same checks as Kafka's OAuthBearerValidatorCallbackHandler with BrokerJwtValidator."""

    def __init__(self, settings: SignedTokenSettings, keys: Keys, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._keys = keys
        self._now_ms = now_ms

    def __call__(self, token: str, _extensions: Mapping[str, str]) -> BearerToken:
        token_claims = self._verified(token)
        expires_ms = self._check_times(token_claims)
        settings = self._settings
        if settings.audiences and not set(settings.audiences) & set(claims.texts(token_claims, "aud")):
            raise TokenRefused("the token is for another audience")
        if settings.issuer is not None and token_claims.get("iss") != settings.issuer:
            raise TokenRefused("the token is of another issuer")
        self._check_scopes(token_claims)
        return BearerToken(claims.text(token_claims, settings.subject_claim), expires_ms)

    def _verified(self, token: str) -> claims.Claims:
        """Returns the claims of a token if its signature is valid. Raises TokenRefused otherwise."""
        encoded_header, payload, _signature = claims.sections(token)
        header = claims.decoded(encoded_header, "header")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenRefused(f"the algorithm is not one of {', '.join(ALGORITHMS)}")
        if "crit" in header:
            raise TokenRefused("the header has a critical extension, and no extension is known")
        if not (key_id is None or isinstance(key_id, str)):
            raise TokenRefused("the key id is not a string")
        key = self._keys.find(key_id, algorithm)
        if key is None:
            raise TokenRefused("the key of the signature is unknown")
        import jwt  # imported late, because few nodes need this slow library

        try:
            jwt.PyJWS(algorithms=[algorithm]).decode(token, key.key, algorithms=[algorithm])  # type: ignore[arg-type]
        except jwt.PyJWTError:
            raise TokenRefused("the signature is invalid") from None
        return claims.decoded(payload, "payload")

    def _check_times(self, token_claims: claims.Claims) -> int:
        now_ms, skew_ms = self._now_ms(), self._settings.clock_skew_seconds * 1000
        expires_ms = claims.required_time_ms(token_claims, "exp")
        issued_ms = claims.required_time_ms(token_claims, "iat")
        begins_ms = claims.time_ms(token_claims, "nbf")
        if expires_ms + skew_ms <= now_ms:
            raise TokenRefused("the token has expired")
        if issued_ms - skew_ms > now_ms:
            raise TokenRefused("the token was issued in the future")
        if begins_ms is not None and begins_ms - skew_ms > now_ms:
            raise TokenRefused("the token is not valid yet")
        return expires_ms

    def _check_scopes(self, token_claims: claims.Claims) -> None:
        """Checks the scopes of a token, because Kafka refuses tokens with invalid scopes. A string counts as one scope.
        Scopes have no other effect.
        """
        scopes = claims.texts(token_claims, self._settings.scope_claim)
        if len(set(scopes)) != len(scopes) or not all(trim(scope) for scope in scopes):
            raise TokenRefused(f"the claim {self._settings.scope_claim} has an empty or repeated scope")
