"""The names of the keys in mm2.properties, by the place where they have an effect."""

from __future__ import annotations

from kcli.config.client_common import BOOLEAN, COMMON, HIGH, LIST, LOW, key
from kcli.config.definition import ConfigDef
from kcli.connect.config.worker_keys import DISTRIBUTED

CLUSTERS = "clusters"
INTERNAL_REST = "dedicated.mode.enable.internal.rest"
EMIT_HEARTBEATS = "emit.heartbeats.enabled"
ENABLED = "enabled"
METRICS_LISTENER = "kcli.metrics.listener"

_SECURITY = tuple(
    entry for entry in COMMON if entry.name == "security.protocol" or entry.name.startswith(("ssl.", "sasl."))
)

CLIENT_KEYS = frozenset({"bootstrap.servers", *(entry.name for entry in _SECURITY)})
"""Keys of a cluster that every client of this cluster has. Without the alias, they are for all clusters."""

REST_KEYS = (
    "access.control.allow.methods",
    "access.control.allow.origin",
    "listeners",
    "response.http.headers.config",
    "rest.advertised.host.name",
    "rest.advertised.listener",
    "rest.advertised.port",
    "ssl.client.auth",
)
"""Keys of the internal REST server. They have an effect only if this server is on."""

DRIVER = ConfigDef(
    (
        key(CLUSTERS, LIST, None, None, HIGH, required=True),
        key(INTERNAL_REST, BOOLEAN, "false", None, HIGH),
        key("config.providers", LIST, "", None, LOW),
        *_SECURITY,
        *(DISTRIBUTED[name] for name in (*REST_KEYS, METRICS_LISTENER)),
    )
)
"""Keys of the driver itself."""

_COMMON_CONNECTOR_KEYS = (
    "config.action.reload",
    "connector.class",
    "connector.plugin.version",
    "errors.log.enable",
    "errors.log.include.messages",
    "errors.retry.delay.max.ms",
    "errors.retry.timeout",
    "errors.tolerance",
    "header.converter",
    "header.converter.plugin.version",
    "key.converter",
    "key.converter.plugin.version",
    "name",
    "predicates",
    "tasks.max",
    "tasks.max.enforce",
    "transforms",
    "value.converter",
    "value.converter.plugin.version",
)
_MIRROR_KEYS = (
    "admin.timeout.ms",
    "checkpoints.topic.replication.factor",
    "config.properties.exclude",
    "config.property.filter.class",
    "consumer.poll.timeout.ms",
    "emit.checkpoints.enabled",
    "emit.checkpoints.interval.seconds",
    EMIT_HEARTBEATS,
    "emit.heartbeats.interval.seconds",
    "emit.offset-syncs.enabled",
    ENABLED,
    "forwarding.admin.class",
    "group.filter.class",
    "groups",
    "groups.exclude",
    "heartbeats.replication.enabled",
    "heartbeats.topic.replication.factor",
    "metric.reporters",
    "offset-syncs.topic.location",
    "offset-syncs.topic.replication.factor",
    "offset.lag.max",
    "refresh.groups.enabled",
    "refresh.groups.interval.seconds",
    "refresh.topics.enabled",
    "refresh.topics.interval.seconds",
    "replication.factor",
    "replication.policy.class",
    "replication.policy.internal.topic.separator.enabled",
    "replication.policy.separator",
    "source.cluster.alias",
    "sync.group.offsets.enabled",
    "sync.group.offsets.interval.seconds",
    "sync.topic.acls.enabled",
    "sync.topic.acls.interval.seconds",
    "sync.topic.configs.enabled",
    "sync.topic.configs.interval.seconds",
    "target.cluster.alias",
    "topic.filter.class",
    "topics",
    "topics.exclude",
)
CONNECTOR_KEYS = frozenset({*_COMMON_CONNECTOR_KEYS, *_MIRROR_KEYS, *CLIENT_KEYS - {"bootstrap.servers"}})
"""Keys that every connector of every flow takes from the top level."""

WORKER_PREFIXES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
)
"""The beginnings of keys that the worker of every flow takes from the top level."""

PROVIDERS_PREFIX = "config.providers"
POLICY_PREFIX = "replication.policy"
CLIENT_PREFIXES = ("consumer", "producer", "admin")
"""The beginnings of a cluster's keys that concern one kind of client."""
