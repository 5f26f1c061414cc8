"""Unsecured tokens: JWTs without a signature (KIP-255). Every client can write such a token, so unsecured tokens are
only for tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.model.java_text import natural, split_blanks
from kcli.security.bearer import claims
from kcli.security.mechanisms.oauthbearer import BearerToken, TokenRefused

OPTION_PREFIX = "unsecuredValidator"

_PRINCIPAL_CLAIM = "unsecuredValidatorPrincipalClaimName"
_SCOPE_CLAIM = "unsecuredValidatorScopeClaimName"
_REQUIRED_SCOPE = "unsecuredValidatorRequiredScope"
_SKEW_MS = "unsecuredValidatorAllowableClockSkewMs"


class UnsecuredCheck:
    """Makes the same checks as Kafka's default handler. The settings are options of OAuthBearerLoginModule in the
    listener's JAAS entry.
    """

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        """Raises ValueError if an option is invalid."""
        self._now_ms = now_ms
        self._principal_claim = options.get(_PRINCIPAL_CLAIM) or "sub"
        self._scope_claim = options.get(_SCOPE_CLAIM) or "scope"
        self._required_scope = tuple(split_blanks(options.get(_REQUIRED_SCOPE, "")))
        skew = options.get(_SKEW_MS) or "0"
        skew_ms = natural(skew)
        if skew_ms is None:
            raise ValueError(f"{_SKEW_MS} is {skew}; expected a number of milliseconds from 0 on")
        self._skew_ms = skew_ms

    def __call__(self, token: str, _extensions: Mapping[str, str]) -> BearerToken:
        header, payload, signature = claims.sections(token)
        if claims.decoded(header, "header").get("alg") != "none" or signature:
            raise TokenRefused('an unsecured token has the algorithm "none" and no signature')
        token_claims = claims.decoded(payload, "payload")
        principal = claims.text(token_claims, self._principal_claim)
        now_ms = self._now_ms()
        issued_ms = claims.time_ms(token_claims, "iat")
        expires_ms = claims.required_time_ms(token_claims, "exp")
        if issued_ms is not None and issued_ms > now_ms + self._skew_ms:
            raise TokenRefused("the token was issued in the future")
        if now_ms - self._skew_ms >= expires_ms:
            raise TokenRefused("the token has expired")
        if issued_ms is not None and expires_ms <= issued_ms:
            raise TokenRefused("the token expires before it was issued")
        self._check_scope(token_claims)
        return BearerToken(principal, expires_ms)

    def _check_scope(self, token_claims: claims.Claims) -> None:
        if not self._required_scope:
            return
        value = token_claims.get(self._scope_claim)
        has = (
            set(split_blanks(value))
            if isinstance(value, str)
            else set(claims.texts(token_claims, self._scope_claim))
        )
        if not has.issuperset(self._required_scope):
            raise TokenRefused(
                "a required scope is missing",
                status="insufficient_scope",
                scope=f"[{', '.join(self._required_scope)}]",
            )
