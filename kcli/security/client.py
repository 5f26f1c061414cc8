"""Reads the security settings of a client from the properties that Kafka's own clients take.

Spark's options have the prefix `kafka.` before the property names. If the caller passes this prefix, errors show the
names with the prefix. Errors and the `repr` of the settings contain no secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.model.java_text import trim

if TYPE_CHECKING:
    # A client without TLS and SASL starts faster without these modules.
    from kcli.security.allowed_sources import AllowedSources
    from kcli.security.mechanisms.client import ClientCredentials
    from kcli.security.tls.contexts import ClientTls

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

PROPERTIES = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.login.read.timeout.ms",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The properties that `client_security` reads."""

WITHOUT_EFFECT = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "security.providers",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)
"""Keys of Java's clients that have no effect here. Some name Java classes or algorithms, some set when Java repeats or
renews a login, and some are used only on brokers. A client of kcli renews a token at 80 % of its lifetime."""

_INLINE = {
    "ssl.keystore.type": "ssl.keystore.key",
    "ssl.truststore.type": "ssl.truststore.certificates",
}
"""The key with the type of each store, and the key that contains a PEM text instead of a file."""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The TLS and SASL settings of a client. `None` in a field means that the client does not use TLS, or does not use
    SASL."""

    tls: ClientTls | None = None
    sasl: ClientCredentials | None = None


def client_security(
    properties: Mapping[str, str],
    prefix: str = "",
    *,
    is_strict: bool = False,
    allowed: AllowedSources | None = None,
) -> ClientSecurity:
    """Reads the security settings of a client. Raises ValueError, with the name of the property, if a value is invalid.

    Java ignores properties of TLS or SASL that the security protocol does not need. With `is_strict`, such a property
    is an error. `allowed` contains the URLs and files that OAUTHBEARER may use. If `allowed` is None, these lists come
    from the environment.
    """
    protocol = trim(properties.get(f"{prefix}security.protocol", "PLAINTEXT")).upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"{prefix}security.protocol is {protocol}; {', '.join(PROTOCOLS)} are known")
    tls = _tls(properties, prefix) if protocol.endswith("SSL") else None
    sasl = _sasl(properties, prefix, allowed) if protocol.startswith("SASL") else None
    for name in properties if is_strict else ():
        if (name.startswith(f"{prefix}ssl.") and tls is None) or (
            name.startswith(f"{prefix}sasl.") and sasl is None
        ):
            raise ValueError(f"{name} has no effect while {prefix}security.protocol is {protocol}")
    return ClientSecurity(tls, sasl)


def unused_settings(properties: Mapping[str, str]) -> list[str]:
    """The keys in the properties that have no effect here, sorted. A key with an empty value is left out."""
    return sorted(name for name in WITHOUT_EFFECT if properties.get(name))


def _tls(properties: Mapping[str, str], prefix: str) -> ClientTls:
    def look_up(name: str) -> str | None:
        if name in _INLINE and f"{prefix}{name}" not in properties:
            # The type need not be set for PEM text, and for a file with the suffix of PEM.
            location = properties.get(f"{prefix}{name.removesuffix('.type')}.location", "")
            if f"{prefix}{_INLINE[name]}" in properties or location.endswith(".pem"):
                return "PEM"
        return properties.get(f"{prefix}{name}")

    from kcli.security.tls.contexts import client_tls

    return client_tls(look_up)


def _sasl(properties: Mapping[str, str], prefix: str, allowed: AllowedSources | None) -> ClientCredentials:
    from kcli.security.client_login import client_credentials

    return client_credentials(properties, prefix, allowed)
