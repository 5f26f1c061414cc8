"""Who may do what: the users of HTTP Basic, and the rules of access to subjects."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping

from kcli.config.definition import ConfigError
from kcli.config.environment import KAFKA_OPTS
from kcli.formats.registry.contexts import normalized
from kcli.http.logins import Logins, user_of
from kcli.http.rest.routing import Call
from kcli.http.rest.users import users_of_section
from kcli.model.java_text import trim
from kcli.registry.config.access_rules import AccessRules, Operation
from kcli.registry.config.settings import LoginSettings
from kcli.registry.decisions.errors import RegistryError

REGISTRY_OPTS = "SCHEMA_REGISTRY_OPTS"
"""The variable in which Confluent's script expects the JAAS file. KAFKA_OPTS also names it."""

_MD5 = "MD5:"
_UNREADABLE = ("OBF:", "CRYPT:")
"""Prefixes of stored passwords that Jetty reads too. A password without a prefix is plain text."""

EVERY_ROLE = "*"
ALL_SUBJECTS = ""
"""The subject in rules for requests that concern the whole registry."""


class Access:
    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules

    def check(self, call: Call, operation: Operation, subject: str | None) -> None:
        """Raises RegistryError if the user of a request may not do this. The subject None means the whole registry."""
        name = ALL_SUBJECTS if subject is None else normalized(subject)
        user = user_of(call.headers.get("Authorization"))
        if not self._rules.permit(user, operation, name):
            place = f"subject '{name}'" if name else "the whole registry"
            raise RegistryError(403, f"User may not {operation.name.lower()} {place}")

    def readable(self, call: Call, subjects: Iterable[str]) -> list[str]:
        """The subjects that the user of a request may read."""
        user = user_of(call.headers.get("Authorization"))
        return [name for name in subjects if self._rules.permit(user, Operation.READ, name)]

    @property
    def is_limited(self) -> bool:
        return self._rules.are_set


def logins(settings: LoginSettings, environment: Mapping[str, str] | None = None) -> Logins:
    """The users of the JAAS file that have one of the roles. Raises ConfigError."""
    variables = os.environ if environment is None else environment
    options = " ".join(filter(None, (variables.get(KAFKA_OPTS), variables.get(REGISTRY_OPTS))))
    lines = users_of_section(settings.realm, {**variables, KAFKA_OPTS: options})
    users = {}
    for name, line in lines.items():
        password, *roles = (trim(part) for part in line.split(","))
        if password.startswith(_UNREADABLE):
            raise ConfigError(
                f"the password of user {name} begins with {' or '.join(_UNREADABLE)}: expected plain text or {_MD5}"
            )
        if EVERY_ROLE in settings.roles or not settings.roles or set(roles) & set(settings.roles):
            users[name] = password

    def are_needed(method: str, path: str) -> bool:
        return not (method == "OPTIONS" and settings.skips_options) and path not in settings.open_paths

    return Logins(users, matches=_matches, are_needed=are_needed)


def _matches(stored: bytes, given: bytes) -> bool:
    prefix = _MD5.encode()
    if stored.startswith(prefix):
        stored, given = stored.removeprefix(prefix).lower(), hashlib.md5(given).hexdigest().encode()
    return hmac.compare_digest(stored, given)
