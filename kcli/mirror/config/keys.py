"""The names of the keys in mm2.properties, by the place where they have an effect."""

from __future__ import annotations

from kcli.config.client_common import BOOLEAN, COMMON, HIGH, LIST, LOW, key
from kcli.config.definition import ConfigDef
from kcli.connect.config.worker_keys import DISTRIBUTED
from kcli.connectors.mirror.keys import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS

CLUSTERS = "clusters"
INTERNAL_REST = "dedicated.mode.enable.internal.rest"
EMIT_HEARTBEATS = "emit.heartbeats.enabled"
ENABLED = "enabled"
METRICS_LISTENER = "kcli.metrics.listener"

_SECURITY = tuple(
    entry for entry in COMMON if entry.name == "security.protocol" or entry.name.startswith(("ssl.", "sasl."))
)

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

CONNECTOR_KEYS = frozenset({*_COMMON_CONNECTOR_KEYS, *SOURCE_KEYS, *CHECKPOINT_KEYS, *HEARTBEAT_KEYS})
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
