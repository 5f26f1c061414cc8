"""PLAIN (RFC 4616): the user name and the password in one message."""

from __future__ import annotations

NAME = "PLAIN"


class PlainClient:
    """The client's side. The server answers with an empty message, or refuses."""

    def __init__(self, username: str, password: str) -> None:
        # The first part, the identity to act as, is empty: the server takes the user's own.
        self._message: bytes | None = b"\0".join((b"", username.encode(), password.encode()))

    def respond(self, received: bytes) -> bytes | None:
        """Returns the one message, then None. See `ClientExchange`."""
        message, self._message = self._message, None
        return message
