"""TLS and SASL of a blocking connection, from the `kafka.` options that Kafka's own clients take.

Stores are PEM files or PEM text (KIP-651), since Java's key stores cannot be read without Java. PLAIN (RFC 4616) and
SCRAM (RFC 5802) are spoken. A secret is never part of a message or of a value's text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kcli.errors import KafkaError, SaslAuthenticationException
from kcli.security.scram import MAX_ITERATIONS, MECHANISMS, salted_password, server_keys

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN = "PLAIN"

OPTIONS = (
    "kafka.security.protocol",
    "kafka.sasl.mechanism",
    "kafka.sasl.jaas.config",
    "kafka.ssl.truststore.type",
    "kafka.ssl.truststore.location",
    "kafka.ssl.truststore.certificates",
    "kafka.ssl.keystore.type",
    "kafka.ssl.keystore.location",
    "kafka.ssl.keystore.certificate.chain",
    "kafka.ssl.keystore.key",
    "kafka.ssl.key.password",
    "kafka.ssl.endpoint.identification.algorithm",
)

Ask = Callable[[bytes], bytes]
"""One round of SaslAuthenticate: our bytes, then the server's."""


@dataclass(frozen=True, slots=True)
class Credentials:
    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files, or text where it begins with dashes; `certificates` None trusts what the system trusts."""

    certificates: str | None = None
    chain: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_name: bool = True

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self.certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if _is_pem(self.certificates):
                context.load_verify_locations(cadata=self.certificates)
            else:
                context.load_verify_locations(cafile=self.certificates)
        context.check_hostname = self.checks_name
        if self.chain is not None:
            self._load_chain(context, self.chain)
        return context

    def _load_chain(self, context: ssl.SSLContext, chain: str) -> None:
        if not _is_pem(chain):
            context.load_cert_chain(chain, password=self.key_password)
            return
        with tempfile.NamedTemporaryFile(
            "w", suffix=".pem"
        ) as file:  # the module takes files only; mode 0600
            file.write(f"{chain}\n{self.key or ''}\n")
            file.flush()
            context.load_cert_chain(file.name, password=self.key_password)


@dataclass(frozen=True, slots=True)
class Security:
    tls: Tls | None = None
    sasl: Credentials | None = None


def security_options(options: Mapping[str, str]) -> Security:
    """ValueError names the option that is wrong. Keys are in lower case."""
    protocol = options.get("kafka.security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"kafka.security.protocol is {protocol}; {', '.join(PROTOCOLS)} are known")
    tls = _tls(options) if protocol.endswith("SSL") else None
    sasl = _credentials(options) if protocol.startswith("SASL") else None
    for name in options:
        if (name.startswith("kafka.ssl.") and tls is None) or (
            name.startswith("kafka.sasl.") and sasl is None
        ):
            raise ValueError(f"{name} has no effect while kafka.security.protocol is {protocol}")
    return Security(tls, sasl)


def _tls(options: Mapping[str, str]) -> Tls:
    for store in ("truststore", "keystore"):
        kind = options.get(
            f"kafka.ssl.{store}.type", "PEM" if _is_pem_given(options, store) else "JKS"
        ).upper()
        if kind != "PEM" and f"kafka.ssl.{store}.location" in options:
            raise ValueError(
                f"kafka.ssl.{store}.type is {kind}: a {store} must be PEM (set kafka.ssl.{store}.type=PEM and name a "
                "PEM file)"
            )
    algorithm = options.get("kafka.ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", ""):
        raise ValueError(
            f"kafka.ssl.endpoint.identification.algorithm is {algorithm!r}; https, or nothing (any name), is meant"
        )
    chain = options.get("kafka.ssl.keystore.certificate.chain")
    return Tls(
        certificates=options.get("kafka.ssl.truststore.certificates")
        or options.get("kafka.ssl.truststore.location"),
        chain=chain or options.get("kafka.ssl.keystore.location"),
        key=options.get("kafka.ssl.keystore.key"),
        key_password=options.get("kafka.ssl.key.password"),
        checks_name=bool(algorithm),
    )


def _is_pem_given(options: Mapping[str, str], store: str) -> bool:
    return options.get(f"kafka.ssl.{store}.location", "").endswith(".pem")


def _is_pem(text: str) -> bool:
    return text.lstrip().startswith("-----BEGIN")


def _credentials(options: Mapping[str, str]) -> Credentials:
    mechanism = options.get("kafka.sasl.mechanism", "GSSAPI")
    if mechanism != PLAIN and mechanism not in MECHANISMS:
        known = ", ".join((PLAIN, *MECHANISMS))
        raise ValueError(f"kafka.sasl.mechanism is {mechanism}; {known} can be used from Spark")
    jaas = options.get("kafka.sasl.jaas.config", "")
    found = {
        name: re.search(rf'\b{name}\s*=\s*("(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s;]+))', jaas)
        for name in ("username", "password")
    }
    values = {}
    for name, match in found.items():
        if match is None:
            raise ValueError(
                f'kafka.sasl.jaas.config has no {name}: … required username="…" password="…"; is meant'
            )
        quoted = match["quoted"]
        values[name] = match["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    return Credentials(mechanism, values["username"], values["password"])


def authenticate(credentials: Credentials, ask: Ask) -> None:
    """Log in. SaslAuthenticationException where the server refuses, or does not know the password itself."""
    if credentials.mechanism == PLAIN:
        ask(b"\0".join((b"", credentials.username.encode(), credentials.password.encode())))
    else:
        _scram(credentials, ask, secrets.token_urlsafe(24))


def _scram(credentials: Credentials, ask: Ask, nonce: str) -> None:
    mechanism = MECHANISMS[credentials.mechanism]
    name = credentials.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    challenge = ask(f"n,,{first}".encode()).decode()
    fields = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
    try:
        salt, iterations, both = base64.b64decode(fields["s"]), int(fields["i"]), fields["r"]
    except (KeyError, ValueError):
        raise _refused(credentials, "the server's challenge is not one of SCRAM") from None
    if not both.startswith(nonce) or not 0 < iterations <= MAX_ITERATIONS * 100:
        raise _refused(credentials, "the server's challenge does not answer ours")
    salted = salted_password(mechanism, credentials.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    last = f"c=biws,r={both}"
    said = f"{first},{challenge},{last}".encode()
    signature = hmac.digest(stored_key, said, mechanism.hash_name)
    proof = bytes(mine ^ signed for mine, signed in zip(client_key, signature, strict=True))
    answer = ask(f"{last},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(server_keys(mechanism, salted).server_key, said, mechanism.hash_name)
    if answer.split(",")[0] != f"v={base64.b64encode(expected).decode()}":
        raise _refused(credentials, "the server does not know the password either")


def _refused(credentials: Credentials, why: str) -> KafkaError:
    return SaslAuthenticationException(f"{credentials.mechanism} as {credentials.username}: {why}")
