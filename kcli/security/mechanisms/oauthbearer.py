"""The OAUTHBEARER mechanism (RFC 7628, KIP-255): the client sends a bearer token, such as a JWT, in one message.

    n,[a=<name>],^A *( key=value ^A ) ^A

The key `auth` has the token. The other keys are SASL extensions (KIP-342). If the server refuses the token, it sends
the reason as JSON. The client answers with the byte ^A. Then the server ends the login with an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.errors import SaslAuthenticationException
from kcli.security.mechanisms.server import Challenge, InThread, LoginRefused, Outcome, Success

NAME = "OAUTHBEARER"

TOKEN_CHARACTERS_MAX = 65_536
"""The longest token that a server examines, in characters. Usual tokens have a few thousand characters."""

ATTEMPTS_MAX = 3
"""The most tokens that a client can try in one login. Kafka has no limit. Without one, a client could try any number of
tokens, and they would count as one failed login."""

_SEPARATOR = "\x01"
_CONFIRMATION = b"\x01"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_KEY, _VALUE = r"[A-Za-z]+", r"[\x21-\x7e \t\r\n]+"
_MESSAGE = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_EXTENSION = re.compile(rf"{_KEY}")
_EXTENSION_VALUE = re.compile(_VALUE)


@dataclass(frozen=True, slots=True)
class BearerToken:
    """The content of a valid token. `expires_at_ms` is in milliseconds since the Unix epoch."""

    principal: str
    expires_at_ms: int


class TokenRefused(LoginRefused):
    """Raised for an invalid token. The message is for the log of the broker. The client learns only `status` and
    `scope`.
    """

    def __init__(self, reason: str, *, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope

    @property
    def client_text(self) -> str:
        """The JSON that the client gets."""
        scope = "" if self.scope is None else f', "scope":{json.dumps(self.scope)}'
        return f'{{"status":{json.dumps(self.status)}{scope}}}'


TokenCheck = Callable[[str, Mapping[str, str]], BearerToken]
"""Checks a token, and returns its content. The arguments are the token and the SASL extensions. Raises TokenRefused."""


class BearerClient:
    """The client's side of one login (see `ClientExchange`)."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """Raises ValueError if an extension has an invalid name or value."""
        for name, value in (extensions or {}).items():
            if name == "auth" or not _EXTENSION.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
                raise ValueError(f"the SASL extension {name} has an invalid name or value")
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        self._message: bytes | None = (
            f"n,,{_SEPARATOR}"
            + "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs.items())
            + _SEPARATOR
        ).encode()
        self._refusal: bytes | None = None

    def respond(self, received: bytes) -> bytes | None:
        """Returns the client's message at the first call. If the server refuses the token, the second call returns the
        confirmation that the server expects.
        """
        if self._message is not None:
            message, self._message = self._message, None
            return message
        if self._refusal is not None:
            raise SaslAuthenticationException(self._refusal.decode(errors="replace"))
        if not received:
            return None
        self._refusal = received
        return _CONFIRMATION


class BearerServer:
    """The server's side of one login (see `ServerExchange`). If `in_thread` is True, the check runs in a thread,
    because it may wait for another server.
    """

    def __init__(
        self,
        check: TokenCheck,
        *,
        in_thread: bool = False,
    ) -> None:
        self._check = check
        self._in_thread = in_thread
        self._refusal: TokenRefused | None = None
        self._attempts = 0

    def step(self, token: bytes) -> Outcome | InThread:
        refusal, self._refusal = self._refusal, None
        if refusal is not None and token == _CONFIRMATION:
            raise SaslAuthenticationException(refusal.client_text) from refusal
        self._attempts += 1
        if self._attempts > ATTEMPTS_MAX:
            raise refusal or LoginRefused("too many tokens")
        authorization_id, bearer, extensions = _parsed(token)
        if len(bearer) > TOKEN_CHARACTERS_MAX:
            return self._refused(TokenRefused(f"the token has more than {TOKEN_CHARACTERS_MAX} characters"))
        if self._in_thread:
            return InThread(lambda: self._checked(authorization_id, bearer, extensions))
        return self._checked(authorization_id, bearer, extensions)

    def _checked(self, authorization_id: str, bearer: str, extensions: Mapping[str, str]) -> Outcome:
        try:
            token = self._check(bearer, extensions)
        except TokenRefused as refused:
            return self._refused(refused)
        if authorization_id not in ("", token.principal):
            raise SaslAuthenticationException(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is different "
                f"from the token's principal name ({token.principal})"
            )
        return Success(token.principal, expires_at_ms=token.expires_at_ms)

    def _refused(self, refusal: TokenRefused) -> Outcome:
        self._refusal = refusal
        return Challenge(refusal.client_text.encode())


def invalid_extensions(extensions: Mapping[str, str]) -> SaslAuthenticationException:
    """Makes the error for a login with invalid SASL extensions. `extensions` maps invalid extensions to reasons."""
    listed = "; ".join(f"{name}: {reason}" for name, reason in extensions.items())
    return SaslAuthenticationException(
        f"Authentication failed: {len(extensions)} extensions are invalid! They are: {listed}"
    )


def _parsed(message: bytes) -> tuple[str, str, dict[str, str]]:
    try:
        match = _MESSAGE.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise LoginRefused("Invalid OAUTHBEARER client first message")
    pairs = {}
    for pair in filter(None, match["pairs"].split(_SEPARATOR)):
        key, _, value = pair.partition("=")
        pairs[key] = value
    auth = _AUTH.fullmatch(pairs.pop("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise LoginRefused("Invalid OAUTHBEARER client first message: invalid or missing 'auth'")
    name = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, auth["token"], pairs
