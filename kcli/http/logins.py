"""Users of an HTTP server: their passwords, and the check of an Authorization header (HTTP Basic, RFC 7617)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping

REALM = "kcli"

CREDENTIALS_MAX_BYTES = 1024
"""The longest user and password together. A longer header is refused before it is decoded."""


class Logins:
    """The users of a server, who log in with a password."""

    def __init__(self, users: Mapping[str, str]) -> None:
        """`users` has the password of each user."""
        self._passwords = {name.encode(): password.encode() for name, password in users.items()}

    def __repr__(self) -> str:
        return f"Logins({len(self._passwords)} users)"

    def accepts(self, header: str | None) -> bool:
        """Whether the value of an Authorization header has a user with the correct password. The time of the check does
        not depend on the position of the first wrong character, or on the name of the user.
        """
        name, password = _credentials(header)
        expected = self._passwords.get(name)
        is_equal = hmac.compare_digest(password, b"" if expected is None else expected)
        return is_equal and expected is not None


def _credentials(header: str | None) -> tuple[bytes, bytes]:
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic" or len(encoded) > CREDENTIALS_MAX_BYTES * 4 // 3:
        return b"", b""
    try:
        decoded = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b"", b""
    name, _, password = decoded.partition(b":")
    return name, password
