"""The keys of clients that a connector may override (KIP-458): connector.client.config.override.policy."""

from __future__ import annotations

from enum import StrEnum

from kcli.config.definition import ConfigError

KEY = "connector.client.config.override.policy"
_PACKAGE = "org.apache.kafka.connect.connector.policy."
_SUFFIX = "ConnectorClientConfigOverridePolicy"
_PRINCIPAL_KEYS = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


class OverridePolicy(StrEnum):
    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"

    @property
    def java_class(self) -> str:
        return f"{_PACKAGE}{self}{_SUFFIX}"

    def refusal(self, key: str) -> str | None:
        """The error of a connector that overrides `key`, such as `acks`. None if it may."""
        if self is OverridePolicy.ALL or (self is OverridePolicy.PRINCIPAL and key in _PRINCIPAL_KEYS):
            return None
        return f"The '{self}' policy does not allow '{key}' to be overridden in the connector configuration."


def override_policy(name: str) -> OverridePolicy:
    """The policy of a Java class or of its alias. Raises ConfigError if there is no such policy."""
    alias = name.removeprefix(_PACKAGE).removesuffix(_SUFFIX)
    try:
        return OverridePolicy(alias)
    except ValueError:
        known = ", ".join(OverridePolicy)
        raise ConfigError(
            f"Failed to find a policy with the name '{name}' for {KEY}; known are {known}", key=KEY
        ) from None
