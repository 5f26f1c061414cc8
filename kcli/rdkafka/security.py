"""Translates the security properties of Java's clients to librdkafka's configuration.

kcli reads the stores itself (PEM, PKCS12, JKS) and gives librdkafka PEM texts, because librdkafka cannot read most of
Java's stores. Secrets stay in the memory of the process.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.definition import ConfigError
from kcli.rdkafka.errors import ConfigurationError
from kcli.rdkafka.log import logger
from kcli.security.client import ClientSecurity, client_security
from kcli.security.mechanisms.client import Credentials
from kcli.security.tls.contexts import ClientTls, openssl_name
from kcli.security.tls.stores import load_key_store, load_trust_store

PREFIXES = ("ssl.", "sasl.")
"""The properties of Java's clients that this module translates, beside security.protocol."""

# librdkafka's own names, which a user may also give. They are passed on.
_OWN_NAMES = frozenset(
    {
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
        "ssl.key.pem", "ssl.crl.location", "ssl.curves.list", "ssl.sigalgs.list", "ssl.providers",
        "ssl.ca.certificate.stores", "sasl.username", "sasl.password", "sasl.mechanisms",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config", "sasl.oauthbearer.extensions",
    }
)  # fmt: skip

# Java's keys that concern only Java's own code.
_JAVA_ONLY = ("ssl.provider", "ssl.secure.random.implementation", "ssl.engine.factory.class")


def is_security(key: str) -> bool:
    """Whether this module translates a property."""
    return key == "security.protocol" or (key.startswith(PREFIXES) and key not in _OWN_NAMES)


def translate_security(properties: Mapping[str, str]) -> dict[str, object]:
    """Returns librdkafka's configuration for the security properties of Java's clients.

    As in Java, properties of TLS or SASL have no effect if security.protocol does not need them. Raises
    ConfigurationError for a property that cannot be used.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol == "PLAINTEXT":
        return {"security.protocol": "plaintext"} if "security.protocol" in properties else {}
    own_credentials = "sasl.username" in properties
    try:
        known = dict(properties)
        if own_credentials:
            known.pop("sasl.jaas.config", None)
        security = client_security(known) if not own_credentials else _without_login(known, protocol)
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
    """Reads the TLS of a client whose user and password have librdkafka's names."""
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
        config |= {"ssl.certificate.pem": keys.chain_text, "ssl.key.pem": keys.key_text}
    ciphers = [name for name in map(openssl_name, tls.ciphers) if name is not None]
    if ciphers:
        config["ssl.cipher.suites"] = ":".join(ciphers)
    if tls.protocols != ClientTls().protocols:
        logger().warning(
            "ssl.enabled.protocols=%s has no effect on records: librdkafka has no such setting.",
            ",".join(tls.protocols),
        )
    return config


def _login(credentials: Credentials) -> dict[str, object]:
    return {
        "sasl.mechanisms": credentials.mechanism,
        "sasl.username": credentials.username,
        "sasl.password": credentials.password,
    }


def _warn(properties: Mapping[str, str]) -> None:
    for key in _JAVA_ONLY:
        if properties.get(key):
            logger().warning("%s has no effect here: it names a Java class or provider.", key)
