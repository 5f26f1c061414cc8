"""Translates the security properties of Java's clients to librdkafka's configuration.

kcli reads the stores itself (PEM, PKCS12, JKS) and gives librdkafka PEM texts, because librdkafka cannot read most of
Java's stores. Secrets stay in the memory of the process.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigError
from kcli.model.java_text import trim
from kcli.rdkafka.errors import ConfigurationError
from kcli.rdkafka.log import logger
from kcli.security.client import ClientSecurity, client_security, unused_settings
from kcli.security.mechanisms.client import BearerCredentials, ClientCredentials, KerberosCredentials
from kcli.security.tls.contexts import TLS13_SUITES, ClientTls, older_names
from kcli.security.tls.served_chain import served_chain
from kcli.security.tls.stores import certificates_text, load_key_store, load_trust_store
from kcli.security.token_sources import expiry

PREFIXES = ("ssl.", "sasl.")
"""The prefixes of the Java properties that this module translates. It also translates security.protocol."""

OPAQUE_LIFETIME_S = 60.0
"""The time after which librdkafka requests a new token, if the old token does not contain its time of expiry."""

# librdkafka's own names, which a user may also give. They are passed on unchanged.
_OWN_NAMES = frozenset(
    {
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
        "ssl.key.pem", "ssl.crl.location", "ssl.curves.list", "ssl.sigalgs.list", "ssl.providers",
        "ssl.ca.certificate.stores", "sasl.username", "sasl.password", "sasl.mechanisms",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config", "sasl.oauthbearer.extensions",
    }
)  # fmt: skip

_OWN_CREDENTIALS = frozenset({"sasl.username", "sasl.oauthbearer.method", "sasl.oauthbearer.config"})
"""Properties with librdkafka's own names. If one of them is set, the credentials are not read from sasl.jaas.config."""


def is_security(key: str) -> bool:
    """Whether this module translates a property."""
    return key == "security.protocol" or (key.startswith(PREFIXES) and key not in _OWN_NAMES)


def translate_security(properties: Mapping[str, str]) -> dict[str, object]:
    """Returns librdkafka's configuration for the security properties of Java's clients.

    As in Java, properties of TLS or SASL have no effect if security.protocol does not need them. Raises
    ConfigurationError for a property that cannot be used.
    """
    protocol = trim(properties.get("security.protocol", "PLAINTEXT")).upper()
    if protocol == "PLAINTEXT":
        return {"security.protocol": "plaintext"} if "security.protocol" in properties else {}
    own_credentials = not _OWN_CREDENTIALS.isdisjoint(properties)
    try:
        security = _without_login(properties, protocol) if own_credentials else client_security(properties)
        config: dict[str, object] = {"security.protocol": protocol.lower()}
        if security.tls is not None:
            config |= _tls(security.tls)
    except (ValueError, ConfigError) as error:
        raise ConfigurationError(str(error)) from error
    if security.sasl is not None:
        config |= _login(security.sasl)
    elif own_credentials and "sasl.mechanism" in properties:
        config["sasl.mechanisms"] = properties["sasl.mechanism"]
    _warn(properties)
    return config


def _without_login(properties: Mapping[str, str], protocol: str) -> ClientSecurity:
    """Reads the TLS settings of a client whose credentials are set by properties with librdkafka's own names."""
    return client_security({**properties, "security.protocol": "SSL" if "SSL" in protocol else "PLAINTEXT"})


def _tls(tls: ClientTls) -> dict[str, object]:
    config: dict[str, object] = {
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_name else "none"
    }
    trusted = load_trust_store(tls.stores)
    if trusted is not None:
        config["ssl.ca.pem"] = trusted.text
    keys = load_key_store(tls.stores)
    if keys is not None:
        chain = certificates_text(served_chain(keys.entries[0], trusted))
        config |= {"ssl.certificate.pem": chain, "ssl.key.pem": keys.key_text}
    if tls.ciphers:
        config["ssl.cipher.suites"] = ":".join(_ciphers(tls.ciphers))
    if tls.protocols != ClientTls().protocols:
        logger().warning(
            "ssl.enabled.protocols=%s has no effect on records: librdkafka has no such setting.",
            ",".join(tls.protocols),
        )
    return config


def _ciphers(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of the cipher suites. librdkafka uses these suites for TLS 1.2. With TLS 1.3, it uses every
    suite.
    """
    newer = TLS13_SUITES.intersection(suites)
    names = older_names(suites)
    if newer and newer != TLS13_SUITES:
        missing = ", ".join(sorted(TLS13_SUITES - newer))
        raise ConfigurationError(
            f"ssl.cipher.suites leaves out {missing}: librdkafka cannot choose among the suites of TLS 1.3. Name all "
            f"of them, or only suites of TLS 1.2"
        )
    if not names:
        raise ConfigurationError(
            "ssl.cipher.suites has no suite of TLS 1.2: librdkafka would use its default suites. Name at least one"
        )
    return names


def _login(credentials: ClientCredentials) -> dict[str, object]:
    """Translates the SASL credentials to librdkafka's configuration.

    librdkafka has neither Kerberos nor logins with delegation tokens. For these logins, the tools of kcli connect
    through a relay (`kcli/client/relay.py`). Only programs that do not use the relay get an error here.
    """
    if isinstance(credentials, BearerCredentials):
        return {"sasl.mechanisms": credentials.mechanism, "oauth_cb": Tokens(credentials)}
    if isinstance(credentials, KerberosCredentials):
        raise ConfigurationError(
            "sasl.mechanism=GSSAPI: librdkafka has no Kerberos here. Use another mechanism in this program, or a tool "
            "of kcli, which connects through a relay"
        )
    if credentials.is_token:
        raise ConfigurationError(
            "tokenauth=true: librdkafka cannot log in with a delegation token. Use a user of SCRAM in this program, or "
            "a tool of kcli, which connects through a relay"
        )
    return {
        "sasl.mechanisms": credentials.mechanism,
        "sasl.username": credentials.username,
        "sasl.password": credentials.password,
    }


@dataclass(frozen=True, slots=True)
class Tokens:
    """The callback from which librdkafka gets a token whenever it needs one."""

    credentials: BearerCredentials

    def __call__(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """Returns the token, the time of its expiry (in seconds), a name for logs, and SASL extensions."""
        token = self.credentials.source.token()
        now = time.time()
        ends_at = max(expiry(token, now), now + OPAQUE_LIFETIME_S)
        return token, ends_at, self.credentials.username, dict(self.credentials.extensions)


def _warn(properties: Mapping[str, str]) -> None:
    for key in unused_settings(properties):
        logger().warning("%s has no effect in kcli.", key)
