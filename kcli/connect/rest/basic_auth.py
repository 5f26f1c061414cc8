"""HTTP Basic authentication, as Kafka's BasicAuthSecurityRestExtension with its PropertyFileLoginModule (KIP-285)."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from http import HTTPStatus

from kcli.connect.errors import RestError
from kcli.http.rest.routing import Call, Reply
from kcli.model.java_text import trim

_INTERNAL = (
    (re.compile(r"/connectors/[^/]+/tasks/?"), "POST"),
    (re.compile(r"/connectors/[^/]+/fence/?"), "PUT"),
)
"""Requests of other workers. They have a signature instead of a password."""

DENIED = Reply(b"User cannot access the resource.", HTTPStatus.UNAUTHORIZED)
"""Java answers with this text, although the type of the response is JSON."""


class BasicAuth:
    """Checks the Authorization header. Without users, each login is accepted, as in Java's login module."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    async def check(self, call: Call) -> Reply | None:
        """Returns the refusal of a request, or None if the request is accepted."""
        if any(path.fullmatch(call.path) and method == call.method for path, method in _INTERNAL):
            return None
        login = call.headers.get("Authorization")
        scheme, _, credentials = (login or "").partition(" ")
        if not credentials or scheme.lower() != "basic":
            return DENIED
        try:
            decoded = base64.b64decode(trim(credentials), validate=True).decode()
        except (binascii.Error, ValueError):
            illegal = next((c for c in credentials if not (c.isalnum() or c in "+/=")), "=")
            raise RestError(f"Illegal base64 character {ord(illegal):x}") from None
        user, colon, password = decoded.partition(":")
        return None if colon and self._accepts(user, password) else DENIED

    def _accepts(self, user: str, password: str) -> bool:
        if not self._users:
            return True
        expected = self._users.get(user)
        given = hmac.compare_digest((expected or "").encode(), password.encode())
        return expected is not None and given
