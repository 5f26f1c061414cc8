"""SCRAM (RFC 5802, RFC 7677): the keys derived from a password, and the client's side of a login.

`salted_password` computes the salted password from a password, and `server_keys` computes from it the keys that a
server stores. Only these keys are written to the metadata log. A client cannot log in with these keys.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.errors import SaslAuthenticationException

MIN_ITERATIONS, MAX_ITERATIONS, DEFAULT_ITERATIONS = 4096, 16384, 4096
# The size of a random salt, 160 bits. Kafka's salts have 130 random bits.
SALT_BYTES = 20
NONCE_BYTES = 24
CHALLENGE_ITERATIONS_MAX = 100 * MAX_ITERATIONS
"""The most iterations that a client accepts from a server. Without a limit, a server could make a client compute for
hours. The limit is 100 times the largest number that Kafka allows for a credential. So many iterations take about a
second."""

HIDDEN = "[hidden]"
"""The text that is shown in place of a secret."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A SCRAM mechanism. `number` is its code on the wire and in the metadata log."""

    name: str
    number: int
    hash_name: str

    @property
    def java_name(self) -> str:
        """The name of Kafka's enum constant, which some messages show."""
        return self.name.replace("-", "_")


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (Mechanism("SCRAM-SHA-256", 1, "sha256"), Mechanism("SCRAM-SHA-512", 2, "sha512"))
}
BY_NUMBER = {mechanism.number: mechanism for mechanism in MECHANISMS.values()}


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The keys that a server stores for a user: StoredKey and ServerKey of RFC 5802."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


class ScramClient:
    """The client's side of one login (see `ClientExchange`). Each login needs a new nonce."""

    def __init__(
        self, mechanism: Mechanism, username: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._mechanism = mechanism
        self._username = username
        self._password = password
        self._nonce = nonce
        # Kafka's extension of SCRAM: the user name is the id of a delegation token (KIP-48).
        self._first = f"n={name},r={nonce}" + (",tokenauth=true" if is_token else "")
        self._next: Callable[[bytes], bytes | None] = self._begin

    def respond(self, received: bytes) -> bytes | None:
        """Returns the client-first message at the first call, and the client-final message with the proof at the second
        call. The third call checks the server's signature and returns None."""
        return self._next(received)

    def _begin(self, _received: bytes) -> bytes | None:
        self._next = self._prove
        return f"n,,{self._first}".encode()

    def _prove(self, received: bytes) -> bytes | None:
        try:
            challenge = received.decode()
            fields = dict(part.split("=", 1) for part in challenge.split(",") if "=" in part)
            salt, iterations, both = base64.b64decode(fields["s"]), int(fields["i"]), fields["r"]
        except (KeyError, ValueError):
            raise self._refused("the server's challenge is not one of SCRAM") from None
        if not both.startswith(self._nonce) or not 0 < iterations <= CHALLENGE_ITERATIONS_MAX:
            raise self._refused("the server's challenge does not answer ours")
        hash_name = self._mechanism.hash_name
        salted = salted_password(self._mechanism, self._password.encode(), salt, iterations)
        keys = server_keys(self._mechanism, salted)
        last = f"c=biws,r={both}"  # biws is the Base64 form of "n,,": no channel binding
        said = f"{self._first},{challenge},{last}".encode()
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        signature = hmac.digest(keys.stored_key, said, hash_name)
        proof = bytes(mine ^ signed for mine, signed in zip(client_key, signature, strict=True))
        self._expected = hmac.digest(keys.server_key, said, hash_name)
        self._next = self._check
        return f"{last},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, received: bytes) -> bytes | None:
        if received.split(b",")[0] != b"v=" + base64.b64encode(self._expected):
            raise self._refused("the server does not know the password either")
        return None

    def _refused(self, why: str) -> SaslAuthenticationException:
        return SaslAuthenticationException(f"{self._mechanism.name} as {self._username}: {why}")


def new_nonce() -> str:
    import secrets  # imported here, because the start of a broker does not need it

    return secrets.token_urlsafe(NONCE_BYTES)


def new_salt() -> bytes:
    import secrets  # imported here, because the start of a broker does not need it

    return secrets.token_bytes(SALT_BYTES)


def salted_password(mechanism: Mechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The salted password: Hi(password, salt, i) of RFC 5802. As in Kafka, the password is its UTF-8 bytes, without
    SASLprep."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def server_keys(mechanism: Mechanism, salted: bytes) -> ServerKeys:
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    return ServerKeys(
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.hash_name),
    )
