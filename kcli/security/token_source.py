"""The interface that every source of tokens for OAUTHBEARER implements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kcli.errors import SaslAuthenticationException
from kcli.model.java_text import trim

TOKEN_BYTES_MAX = 1 << 20
"""The most characters that are read from a token file. Tokens have a few thousand characters."""

LookUp = Callable[[str], str | None]
"""Returns the value of a property without a prefix, or None if it is not set."""


class TokenSource(Protocol):
    """A source of tokens."""

    def token(self) -> str:
        """Returns a token for a login. Raises SaslAuthenticationException if the source cannot get a token."""


def read_text(path: str, key: str) -> str:
    """Reads a small text file that a property names. Raises SaslAuthenticationException if the file cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(TOKEN_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise SaslAuthenticationException(
            f"{key}: {path} cannot be read ({error.__class__.__name__})"
        ) from None
    if len(text) > TOKEN_BYTES_MAX:
        raise SaslAuthenticationException(f"{key}: {path} has more than {TOKEN_BYTES_MAX} characters")
    return trim(text)
