"""The PLAIN mechanism (RFC 4616): the client sends user name and password in one message."""

from __future__ import annotations

NAME = "PLAIN"


class PlainClient:
    """The client's side of one login. The server answers with an empty message or an error."""

    def __init__(self, username: str, password: str) -> None:
        # The first part is the identity for authorization. It is empty, so the server uses the user name.
        self._message: bytes | None = b"\0".join((b"", username.encode(), password.encode()))

    def respond(self, received: bytes) -> bytes | None:
        """Returns the message at the first call, then None. See `ClientExchange`."""
        message, self._message = self._message, None
        return message
