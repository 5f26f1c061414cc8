"""Reads the settings of signed tokens on a listener: where the key set is, and which values the claims must have.

The default validator of Kafka 4.1 accepts every token (CVE-2026-33557). A node of kcli does not start without a key
set, an issuer and an audience. As in later releases of Kafka, `sasl.oauthbearer.allow.unverified.issuer` and
`sasl.oauthbearer.allow.unverified.audience` switch the checks of issuer and audience off.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.model.secret_text import without_logins
from kcli.security.allowed_sources import (
    ALLOWED_FILES,
    ALLOWED_URLS,
    AllowedSources,
    SourceNotAllowed,
    sources_of_environment,
)
from kcli.security.bearer.signed import SignedTokenSettings

_NAME = "OAUTHBEARER"
_PREFIX = "sasl.oauthbearer."
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLERS = frozenset(
    {
        f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
        # Its name before Kafka 4.0.
        f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
    }
)
"""The names of the handler that checks signed tokens."""
_VALIDATORS = frozenset({f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySetSettings:
    """Where a key set is, and how often it is fetched.

    `path` is set if the key set is a file. Otherwise the key set comes from `url`. `module_options` has the options of
    the login module. Its options `ssl.…` configure the TLS connection to the URL.
    """

    url: str
    path: str | None
    refresh_seconds: float
    backoff_seconds: float
    backoff_max_seconds: float
    timeout_seconds: float | None
    module_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def signed_token_settings(config: ListenerConfig) -> SignedTokenSettings:
    """Reads the settings of a listener. Raises ConfigError if the check of issuer or audience is neither configured nor
    switched off.
    """
    validator = config.text(f"{_PREFIX}jwt.validator.class", _NAME)
    if validator not in _VALIDATORS:
        raise _refused(
            config,
            "jwt.validator.class",
            f"{validator} is not supported; expected {' or '.join(sorted(_VALIDATORS))}",
        )
    issuer = config.text(f"{_PREFIX}expected.issuer", _NAME)
    audiences = config.listed(f"{_PREFIX}expected.audience", _NAME)
    for what, is_set in (("issuer", bool(issuer)), ("audience", bool(audiences))):
        if not is_set and not config.boolean(f"{_PREFIX}allow.unverified.{what}", _NAME):
            raise _refused(
                config,
                f"expected.{what}",
                f"is not set, so a token of another {what} would be valid. Set it, or set "
                f"{_PREFIX}allow.unverified.{what}=true to accept this",
            )
    return SignedTokenSettings(
        issuer=issuer or None,
        audiences=audiences,
        clock_skew_seconds=config.integer(f"{_PREFIX}clock.skew.seconds", _NAME),
        scope_claim=config.text(f"{_PREFIX}scope.claim.name", _NAME) or "scope",
        subject_claim=config.text(f"{_PREFIX}sub.claim.name", _NAME) or "sub",
    )


def key_set_settings(config: ListenerConfig, module_options: Mapping[str, str]) -> KeySetSettings:
    """Reads the URL of the key set, and the intervals of its refresh. Raises ConfigError if the URL is missing,
    invalid, or not allowed.
    """
    name = "jwks.endpoint.url"
    url = config.text(f"{_PREFIX}{name}", _NAME)
    if not url:
        raise _refused(
            config, name, "is not set. Without the keys of the token server no token can be checked"
        )
    parts = urlsplit(url)
    is_file = parts.scheme.lower() == "file"
    if not is_file and not (parts.scheme.lower() in ("http", "https") and parts.hostname):
        raise _refused(config, name, f"is {without_logins(url)}; expected a URL with http, https or file")
    try:
        allowed_sources(config.listed).check_url(f"{_PREFIX}{name}", url)
    except SourceNotAllowed as error:
        raise config.refusal(f"{_PREFIX}{name}", str(error), _NAME) from None
    timeout = config.value("sasl.login.read.timeout.ms")
    return KeySetSettings(
        url=url,
        path=unquote(parts.path) if is_file else None,
        refresh_seconds=config.integer(f"{_PREFIX}jwks.endpoint.refresh.ms", _NAME) / 1000,
        backoff_seconds=config.integer(f"{_PREFIX}jwks.endpoint.retry.backoff.ms", _NAME) / 1000,
        backoff_max_seconds=config.integer(f"{_PREFIX}jwks.endpoint.retry.backoff.max.ms", _NAME) / 1000,
        timeout_seconds=timeout / 1000 if isinstance(timeout, int) else None,
        module_options=module_options,
    )


def allowed_sources(listed: Callable[[str], Sequence[str]]) -> AllowedSources:
    """The URLs and files that a node may use, from its properties and from its environment."""
    return sources_of_environment().with_more(listed(ALLOWED_URLS), listed(ALLOWED_FILES))


def _refused(config: ListenerConfig, name: str, message: str) -> ConfigError:
    return config.refusal(_PREFIX + name, f"{_PREFIX}{name} {message}", _NAME)
