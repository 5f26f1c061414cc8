"""Finds the login in URLs, so that logs, errors and lists of processes do not show it."""

from __future__ import annotations

import re
from collections.abc import Iterator

HIDDEN = "***"

_SCHEME_END = "://"
_URL = re.compile(_SCHEME_END + r"\S*")
"""Matches the rest of a URL after its scheme. A password may contain quotes, so the URL ends only at white space.

The expression has no part that could match in two ways. Clients choose texts of a log, and the time must not grow
faster than the length of a text."""


def logins(text: str) -> Iterator[tuple[int, int]]:
    """Yields the begin and the end of the user and the password of each URL.

    They end at the last @ of the URL, because a password may contain / and @, if it is not encoded.
    """
    for url in _URL.finditer(text):
        end = url[0].rfind("@")
        if end >= 0:
            yield url.start() + len(_SCHEME_END), url.start() + end


def without_logins(text: str) -> str:
    """Returns a text in which the user and the password of each URL are replaced by `***`."""
    if _SCHEME_END not in text:
        return text
    parts: list[str] = []
    at = 0
    for begin, end in logins(text):
        parts += (text[at:begin], HIDDEN)
        at = end
    return "".join((*parts, text[at:]))
