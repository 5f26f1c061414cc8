"""Finds the login in URLs, so that logs, errors and lists of processes do not show it."""

from __future__ import annotations

import re

HIDDEN = "***"

USER_OF_URL = re.compile(r"://([^\s\"']*)@")
"""Matches the user and the password of a URL, up to the last @. A password may contain / and @, if it is not encoded.
"""


def without_logins(text: str) -> str:
    """Returns a text in which the user and the password of each URL are replaced by `***`."""
    return USER_OF_URL.sub(f"://{HIDDEN}@", text) if "://" in text else text
