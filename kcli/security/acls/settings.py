"""The settings of the StandardAuthorizer: super.users and allow.everyone.if.no.acl.found.

These keys are not in Kafka's list of broker configs, because only the authorizer reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.definition import ConfigError
from kcli.model.java_text import trim

SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"


@dataclass(frozen=True, slots=True)
class AclSettings:
    """The principals that may do everything, as `User:name`, and whether a resource without ACLs is open to all."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


def acl_settings(texts: Mapping[str, str]) -> AclSettings:
    """Reads the settings of a node. Raises ConfigError if a super user has no type."""
    users = [trim(user) for user in texts.get(SUPER_USERS, "").split(";")]
    return AclSettings(
        frozenset(_principal(user) for user in users if user),
        trim(texts.get(ALLOW_EVERYONE, "")).lower() == "true",
    )


def _principal(text: str) -> str:
    if ":" not in text:
        raise ConfigError(
            f"expected a string in format principalType:principalName but got {text}", key=SUPER_USERS
        )
    return text
