"""Hides the secrets in the configuration of a connector.

A worker returns passwords as they are stored. A page gets `[hidden]` in their place, and sends `[hidden]` back for a
value that stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kcli.runtime.hidden_arguments import holds_secret

HIDDEN = "[hidden]"

_SECRET = re.compile(r"password|secret|token|credential|jaas|private.?key", re.IGNORECASE)
"""Names of secrets, because the types of keys are unknown if the worker does not have the class of the connector, and
because keys of clients have no types."""

_VARIABLE = re.compile(r"\$\{[^}]*\}")


def secrets_of(config: Mapping[str, str], password_keys: Iterable[str]) -> dict[str, str]:
    """The secrets of a configuration by key. A variable such as ${file:…} is no secret."""
    passwords = frozenset(password_keys)

    def is_secret(key: str, value: str) -> bool:
        if key in passwords or _SECRET.search(key):
            return not _VARIABLE.fullmatch(value)
        # The URL of a database may have a password, and a header may be a login.
        return holds_secret(f"{key}={_VARIABLE.sub('', value)}")

    return {key: value for key, value in config.items() if value and is_secret(key, value)}


def hidden(config: Mapping[str, str], secrets: Mapping[str, str]) -> dict[str, str]:
    """The configuration for a page."""
    return {key: HIDDEN if key in secrets else value for key, value in config.items()}


def restored(config: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """The configuration of a page, with the stored values in place of `[hidden]`."""
    return {key: stored.get(key, value) if value == HIDDEN else value for key, value in config.items()}


def without(text: str, secrets: Mapping[str, str]) -> str:
    """A text of a worker in which no secret is left, such as an error that quotes an invalid value."""
    for value in secrets.values():
        text = text.replace(value, HIDDEN)
    return text
