"""SCRAM (RFC 5802, RFC 7677): the keys derived from a password, and both sides of a login.

`salted_password` computes the salted password from a password. `server_keys` computes from it the keys that a server
stores. Only the keys are written to the metadata log. The keys are not enough to log in as a client.

For an unknown user, the server sends the same messages as for a known user (scram_decoys.py). So a client cannot find
out which users exist.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kcli.errors import SaslAuthenticationException
from kcli.metadata.image import ScramCredential
from kcli.model.java_text import parse_int
from kcli.security.mechanisms.scram_decoys import DEFAULT_ITERATIONS as DEFAULT_ITERATIONS
from kcli.security.mechanisms.scram_decoys import SALT_BITS, Decoys, java_salt
from kcli.security.mechanisms.server import (
    DIFFERENT_AUTHORIZATION_ID,
    Challenge,
    InThread,
    LoginRefused,
    Outcome,
    Success,
)
from kcli.security.principal import Principal

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
NONCE_BYTES = 24
CHALLENGE_ITERATIONS_MAX = 100 * MAX_ITERATIONS
"""The most iterations that a client accepts from a server. Without a limit, a server could make a client compute for
hours. The limit is 100 times the largest number that Kafka allows for a credential. This number of iterations takes
about a second.
"""
MESSAGE_BYTES_MAX = 4096
"""The longest message of a client that a server examines. Between the first and the second message of the client, a
server keeps the first message in several forms. A first message of 512 KB would need 1.25 MB of memory before the
login. Names and nonces of usual clients have less than 300 characters."""

# The grammar of RFC 5802. As in Kafka, values have only 7-bit characters. The patterns are compiled at the first login,
# because the start of a node does not need them.
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{2}==|[a-zA-Z0-9/+]{3}=)?"
_CLIENT_FIRST = (
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})"
    rf"{_EXTENSIONS})"
)
_CLIENT_FINAL = (
    rf"(?P<said>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_BY_TOKEN = "tokenauth"

HIDDEN = "[hidden]"
"""The text that tools and logs show in place of a secret."""


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
            salt, iterations, both = base64.b64decode(fields["s"]), parse_int(fields["i"]), fields["r"]
        except (KeyError, ValueError):
            raise self._refused("the server's challenge is not one of SCRAM") from None
        if iterations < MIN_ITERATIONS:
            # A false server could ask for few iterations, to guess the password from the proof at little cost.
            raise self._refused(
                f"the server's challenge has {iterations} iterations (minimum {MIN_ITERATIONS})"
            )
        if not both.startswith(self._nonce) or iterations > CHALLENGE_ITERATIONS_MAX:
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
        if not hmac.compare_digest(received.split(b",")[0], b"v=" + base64.b64encode(self._expected)):
            raise self._refused("the server cannot prove that it knows the password")
        return None

    def _refused(self, why: str) -> SaslAuthenticationException:
        return SaslAuthenticationException(f"{self._mechanism.name} as {self._username}: {why}")


class TokenLogin(Protocol):
    """The credential of a delegation token (KIP-48). A client that logs in with a token uses the token id as its user
    name.
    """

    @property
    def owner(self) -> Principal: ...

    @property
    def expires_at_ms(self) -> int: ...

    @property
    def scram(self) -> ScramCredential: ...


@dataclass(frozen=True, slots=True)
class ScramUsers:
    """Finds the SCRAM credentials of users and delegation tokens on a server.

    `credential_of` returns the credential of a user. `token_of` returns the credential of a delegation token.
    `token_of` may take milliseconds, so it is called in a thread. The credentials of unknown users and tokens are
    derived from `secret`. `decoys_of` makes them look like those of the known users.
    """

    credential_of: Callable[[str, Mechanism], ScramCredential | None]
    token_of: Callable[[str, Mechanism], TokenLogin | None] | None = None
    secret: bytes = field(default=b"", repr=False)
    decoys_of: Callable[[Mechanism], Decoys] | None = None

    def no_credential(self, name: str, mechanism: Mechanism, *, is_token: bool = False) -> ScramCredential:
        """Makes a credential for an unknown user or token, which no password matches. The same name always gets the
        same credential.
        """
        of_users = None if is_token else self.decoys_of
        decoys = Decoys(self.secret) if of_users is None else of_users(mechanism)
        return decoys.credential(name, mechanism.name, mechanism.hash_name)


@dataclass(frozen=True, slots=True)
class _Challenged:
    """The state of a login between the two messages of its client. `is_known` is False if the user is unknown, so that
    the login will fail.
    """

    header: str
    nonce: str
    said: str
    """The client's first message without its header, and the server's challenge."""
    credential: ScramCredential
    is_known: bool
    name: str
    token: TokenLogin | None
    refusal: str
    """The reason in the log if the login fails."""


class ScramServer:
    """The server's side of one login (see `ServerExchange`). Each login needs a new nonce."""

    def __init__(self, mechanism: Mechanism, users: ScramUsers, nonce: str) -> None:
        self._mechanism = mechanism
        self._users = users
        self._nonce = nonce
        self._has_begun = False
        self._state: _Challenged | None = None

    def step(self, token: bytes) -> Outcome | InThread:
        if len(token) > MESSAGE_BYTES_MAX:
            raise LoginRefused(f"the message has more than {MESSAGE_BYTES_MAX} bytes")
        try:
            text = token.decode("ascii")
        except UnicodeDecodeError:
            raise LoginRefused("the message has characters that are not ASCII") from None
        if not self._has_begun:
            self._has_begun = True
            return self._first(text)
        state, self._state = self._state, None
        if state is None:
            raise LoginRefused("the login has already ended")
        return self._final(text, state)

    def _first(self, text: str) -> Challenge | InThread:
        match = re.fullmatch(_CLIENT_FIRST, text)
        if match is None:
            raise LoginRefused("Invalid SCRAM client first message format")
        name = _unescaped(match["name"])
        if match["authzid"] is not None and _unescaped(match["authzid"]) != name:
            raise SaslAuthenticationException(DIFFERENT_AUTHORIZATION_ID)
        if _extensions(match["extensions"]).get(_BY_TOKEN, "").lower() != "true":
            credential = self._users.credential_of(name, self._mechanism)
            return self._challenge(match, name, credential)
        token_of = self._users.token_of
        if token_of is None:
            return self._challenge(match, name, None, is_token=True)

        def look_up() -> Challenge:
            token = token_of(name, self._mechanism)
            credential = None if token is None else token.scram
            return self._challenge(match, name, credential, token, is_token=True)

        return InThread(look_up)

    def _challenge(
        self,
        match: re.Match[str],
        name: str,
        credential: ScramCredential | None,
        token: TokenLogin | None = None,
        *,
        is_token: bool = False,
    ) -> Challenge:
        refusal = "Invalid client credentials"
        if credential is not None and credential.iterations < MIN_ITERATIONS:
            # The client is answered as if the user were unknown, because another answer would show that it exists.
            refusal = f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS}"
            credential = None
        # Computed for a known user too, so that logins of known and unknown users take the same time.
        no_credential = self._users.no_credential(name, self._mechanism, is_token=is_token)
        used = no_credential if credential is None else credential
        nonce = match["nonce"] + self._nonce
        challenge = f"r={nonce},s={base64.b64encode(used.salt).decode()},i={used.iterations}"
        self._state = _Challenged(
            match["header"],
            nonce,
            f"{match['bare']},{challenge}",
            used,
            credential is not None,
            name,
            token,
            refusal,
        )
        return Challenge(challenge.encode())

    def _final(self, text: str, state: _Challenged) -> Success:
        match = re.fullmatch(_CLIENT_FINAL, text)
        if match is None:
            raise LoginRefused("Invalid SCRAM client final message format")
        if match["nonce"] != state.nonce:
            raise LoginRefused("Invalid client nonce in the final client message.")
        if base64.b64decode(match["binding"]) != state.header.encode():
            raise LoginRefused("the channel binding differs from the header of the first message")
        hash_name = self._mechanism.hash_name
        said = f"{state.said},{match['said']}".encode()
        signature = hmac.digest(state.credential.stored_key, said, hash_name)
        proof = base64.b64decode(match["proof"])
        if len(proof) != len(signature):
            raise LoginRefused("Invalid client credentials")
        client_key = bytes(mine ^ signed for mine, signed in zip(proof, signature, strict=True))
        stored_key = hashlib.new(hash_name, client_key).digest()
        is_right = hmac.compare_digest(stored_key, state.credential.stored_key)
        if not (is_right and state.is_known):
            raise LoginRefused(state.refusal)
        verifier = hmac.digest(state.credential.server_key, said, hash_name)
        last = b"v=" + base64.b64encode(verifier)
        if state.token is None:
            return Success(state.name, last)
        owner = state.token.owner
        return Success(owner.name, last, state.token.expires_at_ms, owner)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _extensions(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(",") if part)}


def new_nonce() -> str:
    import secrets  # imported here, because the start of a broker does not need it

    return secrets.token_urlsafe(NONCE_BYTES)


def new_salt() -> bytes:
    """A random salt in Kafka's form, so that a salt does not show which tool has made it."""
    import secrets  # imported here, because the start of a broker does not need it

    return java_salt(secrets.randbits(SALT_BITS))


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
