"""The settings of a connector or a task: parsed keys, the names of topics, and the properties of clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kcli.config.definition import ConfigDef, ConfigValue
from kcli.connectors.interface import Config
from kcli.connectors.keys import names, number, text
from kcli.connectors.mirror.filters import NameFilter
from kcli.connectors.mirror.keys import CLIENT_KEYS, IDENTITY_POLICY, TASK_INDEX
from kcli.connectors.mirror.policy import (
    DEFAULT_SEPARATOR,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    InternalNames,
    ReplicationPolicy,
)

Side = Literal["source", "target"]
Kind = Literal["admin", "consumer", "producer"]

_log = logging.getLogger("kcli.connectors.mirror")

_EFFECTIVE_KEYS = CLIENT_KEYS | {
    "client.id", "request.timeout.ms", "default.api.timeout.ms", "socket.connection.setup.timeout.ms",
    "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    # The rest of the connector's own keys consumer.poll.timeout.ms and admin.timeout.ms.
    "poll.timeout.ms", "timeout.ms",
}  # fmt: skip
"""The keys that every client of a connector reads."""
_CONSUMER_KEYS = frozenset({
    "isolation.level", "auto.offset.reset", "max.poll.records", "fetch.max.wait.ms", "fetch.max.bytes",
    "fetch.min.bytes", "max.partition.fetch.bytes",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    config: Config
    values: Mapping[str, ConfigValue]
    policy: ReplicationPolicy
    source: str
    """The alias of the source cluster."""
    target: str
    is_task: bool

    @classmethod
    def of(cls, keys: ConfigDef, config: Config, *, is_task: bool = False) -> Settings:
        """Raises ConfigError."""
        values = keys.parse(config)
        source, target = text(values, "source.cluster.alias"), text(values, "target.cluster.alias")
        separator = text(values, "replication.policy.separator")
        own_separator = values["replication.policy.internal.topic.separator.enabled"]
        internal = InternalNames(separator if own_separator else DEFAULT_SEPARATOR)
        policy: ReplicationPolicy = DefaultReplicationPolicy(separator, internal)
        if values["replication.policy.class"] == IDENTITY_POLICY:
            policy = IdentityReplicationPolicy(source, DefaultReplicationPolicy(separator, internal))
        return cls(config, values, policy, source, target, is_task)

    @property
    def label(self) -> str:
        """The name of the connector or the task in client ids and logs."""
        name = f"{self.source}->{self.target}|{self.config.get('name', '')}"
        return f"{name}-{self.config.get(TASK_INDEX, '?')}" if self.is_task else name

    @property
    def is_enabled(self) -> bool:
        return self.flag("enabled")

    @property
    def admin_timeout_s(self) -> float:
        return self.number("admin.timeout.ms") / 1000

    @property
    def poll_timeout_s(self) -> float:
        return self.number("consumer.poll.timeout.ms") / 1000

    @property
    def syncs_side(self) -> Side:
        """The cluster that has the topic of offset syncs."""
        return "source" if self.values["offset-syncs.topic.location"] == "source" else "target"

    @property
    def syncs_topic(self) -> str:
        return self.policy.names.offset_syncs(self.target if self.syncs_side == "source" else self.source)

    @property
    def checkpoints_topic(self) -> str:
        return self.policy.names.checkpoints(self.source)

    def topic_filter(self) -> NameFilter:
        return NameFilter.of(names(self.values, "topics"), names(self.values, "topics.exclude"))

    def number(self, key: str) -> int:
        return number(self.values, key)

    def flag(self, key: str) -> bool:
        return bool(self.values[key])

    def interval_s(self, name: str) -> float | None:
        """How often something happens, or None if it does not happen."""
        seconds = self.number(f"{name}.interval.seconds")
        return seconds if self.flag(f"{name}.enabled") and seconds >= 0 else None

    def client(self, side: Side, kind: Kind, role: str) -> dict[str, str]:
        """The properties of one of the clients. Later prefixes take precedence."""
        cluster = _with_prefix(self.config, f"{side}.cluster.")
        properties = {key: value for key, value in cluster.items() if key in CLIENT_KEYS}
        properties |= _with_prefix(self.config, f"{kind}.")
        properties |= _with_prefix(self.config, f"{side}.{kind}.")
        without_effect = sorted(
            properties.keys() - _EFFECTIVE_KEYS - (_CONSUMER_KEYS if kind == "consumer" else set())
        )
        if without_effect:
            _log.warning("These keys of the %s client have no effect: %s", role, ", ".join(without_effect))
        user_id = properties.get("client.id")
        properties["client.id"] = "|".join(part for part in (user_id, self.label, role) if part is not None)
        return properties


def _with_prefix(config: Config, prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
