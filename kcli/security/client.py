"""Reads the security settings of a client from the properties that Kafka's own clients take.

Spark's option names have the prefix `kafka.` before the property names. A caller with such a prefix passes it, and
errors then contain the names with the prefix. Errors and the `repr` of these values contain no secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.security.jaas import JaasError, login_options
from kcli.security.mechanisms.client import CLIENT_MECHANISMS, Credentials
from kcli.security.tls import ClientTls

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

PROPERTIES = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
"""The properties that `client_security` reads."""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The TLS and SASL settings of a client. `None` in a field means that the client does not use TLS, or does not use
    SASL."""

    tls: ClientTls | None = None
    sasl: Credentials | None = None


def client_security(
    properties: Mapping[str, str], prefix: str = "", *, is_strict: bool = False
) -> ClientSecurity:
    """Reads the properties. Raises ValueError, with the name of the property, if a value is invalid.

    Java ignores properties of TLS or SASL that the security protocol does not need. With `is_strict`, such a property
    is an error.
    """
    protocol = properties.get(f"{prefix}security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"{prefix}security.protocol is {protocol}; {', '.join(PROTOCOLS)} are known")
    tls = _tls(properties, prefix) if protocol.endswith("SSL") else None
    sasl = _credentials(properties, prefix) if protocol.startswith("SASL") else None
    for name in properties if is_strict else ():
        if (name.startswith(f"{prefix}ssl.") and tls is None) or (
            name.startswith(f"{prefix}sasl.") and sasl is None
        ):
            raise ValueError(f"{name} has no effect while {prefix}security.protocol is {protocol}")
    return ClientSecurity(tls, sasl)


def _tls(properties: Mapping[str, str], prefix: str) -> ClientTls:
    for store in ("truststore", "keystore"):
        location = f"{prefix}ssl.{store}.location"
        likely = "PEM" if properties.get(location, "").endswith(".pem") else "JKS"
        kind = properties.get(f"{prefix}ssl.{store}.type", likely).upper()
        if kind != "PEM" and location in properties:
            raise ValueError(
                f"{prefix}ssl.{store}.type is {kind}: a {store} must be PEM (set {prefix}ssl.{store}.type=PEM and "
                "name a PEM file)"
            )
    algorithm = properties.get(f"{prefix}ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", ""):
        raise ValueError(
            f"{prefix}ssl.endpoint.identification.algorithm is {algorithm!r}; expected https, or nothing to accept "
            "any name"
        )
    text = properties.get(f"{prefix}ssl.keystore.certificate.chain")
    return ClientTls(
        certificates=properties.get(f"{prefix}ssl.truststore.certificates")
        or properties.get(f"{prefix}ssl.truststore.location"),
        chain=text or properties.get(f"{prefix}ssl.keystore.location"),
        key=properties.get(f"{prefix}ssl.keystore.key"),
        key_password=properties.get(f"{prefix}ssl.key.password"),
        checks_name=bool(algorithm),
    )


def _credentials(properties: Mapping[str, str], prefix: str) -> Credentials:
    mechanism = properties.get(f"{prefix}sasl.mechanism", "GSSAPI")
    if mechanism not in CLIENT_MECHANISMS:
        raise ValueError(f"{prefix}sasl.mechanism is {mechanism}; {', '.join(CLIENT_MECHANISMS)} can be used")
    text = properties.get(f"{prefix}sasl.jaas.config")
    try:
        found = login_options(text) if text is not None else {}
    except JaasError as error:
        raise ValueError(f"{prefix}sasl.jaas.config: {error}") from None
    for name in ("username", "password"):
        if name not in found:
            raise ValueError(
                f'{prefix}sasl.jaas.config has no {name}: expected … required username="…" password="…";'
            )
    is_token = found.get("tokenauth", "").lower() == "true"
    return Credentials(mechanism, found["username"], found["password"], is_token)
