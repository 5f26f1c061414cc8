"""Rules for the access to subjects: which user may read, write or administer the subjects with a prefix.

`kcli.access.rules` is a list such as `*:read:; ann:write:orders-; ops:admin:`. A rule is USER:OPERATION:PREFIX, where
`*` stands for every user. An empty prefix stands for all subjects, also for those of other contexts. Without rules,
everybody may do everything. Rules that name users need logins, because a name without a password proves nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigError
from kcli.model.java_text import trim

KEY = "kcli.access.rules"
EVERY_USER = "*"


class Operation(enum.IntEnum):
    """What a user does with a subject. A permission includes the permissions with smaller numbers."""

    READ = 1
    """Look up schemas, configurations and modes, and check the compatibility of a schema."""
    WRITE = 2
    """Register and delete schemas."""
    ADMIN = 3
    """Change configurations and modes, and delete contexts."""


@dataclass(frozen=True, slots=True)
class AccessRule:
    user: str
    operation: Operation
    prefix: str


@dataclass(frozen=True, slots=True)
class AccessRules:
    """`rules` is None if everybody may do everything."""

    rules: Sequence[AccessRule] | None = None

    def permit(self, user: str, operation: Operation, subject: str) -> bool:
        """Whether a user may do this with a subject. The empty subject stands for all subjects together."""
        return self.rules is None or any(
            rule.user in (user, EVERY_USER)
            and rule.operation >= operation
            and subject.startswith(rule.prefix)
            for rule in self.rules
        )

    @property
    def are_set(self) -> bool:
        return self.rules is not None

    @property
    def name_users(self) -> bool:
        """Whether a rule is for one user, whom a registry must then be able to recognise."""
        return any(rule.user != EVERY_USER for rule in self.rules or ())


def access_rules(text: str) -> AccessRules:
    """Parses the value of `kcli.access.rules`. Raises ConfigError."""
    items = [trim(item) for item in text.split(";")]
    return AccessRules(tuple(_rule(item) for item in items if item) if any(items) else None)


def _rule(text: str) -> AccessRule:
    user, _, rest = text.partition(":")
    name, colon, prefix = rest.partition(":")
    operation = Operation.__members__.get(trim(name).upper())
    if not trim(user) or not colon or operation is None:
        names = ", ".join(member.lower() for member in Operation.__members__)
        raise ConfigError(
            f"{KEY} has the rule {text}: expected USER:OPERATION:PREFIX, where OPERATION is one of {names}",
            key=KEY,
        )
    return AccessRule(trim(user), operation, trim(prefix))
