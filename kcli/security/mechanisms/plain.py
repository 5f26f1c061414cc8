"""The PLAIN mechanism (RFC 4616): the client sends user name and password in one message."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from kcli.errors import SaslAuthenticationException
from kcli.model.java_utf8 import decode_utf8
from kcli.security.mechanisms.server import DIFFERENT_AUTHORIZATION_ID, InThread, Success

NAME = "PLAIN"

_PARTS = 3  # authorization id, user name, password
_USER_PREFIX = "user_"

PasswordCheck = Callable[[str, str], bool]
"""Returns True if this is the password of this user. The arguments are user name and password."""


class PlainClient:
    """The client's side of one login. The server answers with an empty message or an error."""

    def __init__(self, username: str, password: str) -> None:
        # The first part is the identity for authorization. It is empty, so the server uses the user name.
        self._message: bytes | None = b"\0".join((b"", username.encode(), password.encode()))

    def respond(self, received: bytes) -> bytes | None:
        """Returns the client's message at the first call, and None at the second call. See `ClientExchange`."""
        message, self._message = self._message, None
        return message


class Passwords:
    """The passwords in the options `user_<name>="<password>"` of a login module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._passwords = {
            name.removeprefix(_USER_PREFIX): password.encode()
            for name, password in options.items()
            if name.startswith(_USER_PREFIX)
        }

    def __call__(self, username: str, password: str) -> bool:
        known = self._passwords.get(username)
        # An unknown user costs a comparison too, so that the time does not show which users exist.
        is_equal = hmac.compare_digest(password.encode() if known is None else known, password.encode())
        return is_equal and known is not None


class PlainServer:
    """The server's side of one login. If `in_thread` is True, the password check runs in a thread, because it may wait
    for another server.
    """

    def __init__(self, check: PasswordCheck, *, in_thread: bool = False) -> None:
        self._check = check
        self._in_thread = in_thread

    def step(self, token: bytes) -> Success | InThread:
        # As in Kafka, at most four parts are counted.
        parts = decode_utf8(token).split("\0", _PARTS)
        if len(parts) != _PARTS:
            raise SaslAuthenticationException(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        authorization_id, username, password = parts
        if not username:
            raise SaslAuthenticationException("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationException("Authentication failed: password not specified")
        if self._in_thread:
            return InThread(lambda: self._verified(authorization_id, username, password))
        return self._verified(authorization_id, username, password)

    def _verified(self, authorization_id: str, username: str, password: str) -> Success:
        try:
            is_right = self._check(username, password)
        except Exception as error:
            raise SaslAuthenticationException(
                "Authentication failed: credentials for user could not be verified"
            ) from error
        if (
            is_right is not True
        ):  # a check of an operator may return another value, which can be true by mistake
            raise SaslAuthenticationException("Authentication failed: Invalid username or password")
        if authorization_id not in ("", username):
            raise SaslAuthenticationException(DIFFERENT_AUTHORIZATION_ID)
        return Success(username)
