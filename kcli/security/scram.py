"""What SCRAM (RFC 5802, RFC 7677) makes of a password: the salted password, and the keys that a server keeps of it.

The client salts (`salted_password`), the server derives (`server_keys`): so neither the password nor anything that
could be used to log in ever reaches the metadata log.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

MIN_ITERATIONS, MAX_ITERATIONS, DEFAULT_ITERATIONS = 4096, 16384, 4096
# Kafka's own salts carry 130 random bits; these 160.
SALT_BYTES = 20
# Shown where a secret would be.
HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """`number` is its code on the wire and in the metadata log."""

    name: str
    number: int
    hash_name: str

    @property
    def java_name(self) -> str:
        """As Kafka's enum constant, which some messages show."""
        return self.name.replace("-", "_")


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (Mechanism("SCRAM-SHA-256", 1, "sha256"), Mechanism("SCRAM-SHA-512", 2, "sha512"))
}
BY_NUMBER = {mechanism.number: mechanism for mechanism in MECHANISMS.values()}


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """StoredKey and ServerKey of RFC 5802."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def new_salt() -> bytes:
    import secrets  # wanted only by who makes credentials; a broker starts without

    return secrets.token_bytes(SALT_BYTES)


def salted_password(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Hi(password, salt, i). Like Kafka, the UTF-8 bytes as they are, without SASLprep."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def server_keys(mechanism: Mechanism, salted: bytes) -> ServerKeys:
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    return ServerKeys(
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.hash_name),
    )
