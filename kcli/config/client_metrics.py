"""The configuration keys of client-metrics subscriptions (KIP-714, `kafka-client-metrics`)."""

from __future__ import annotations

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, UpdateMode

_MODE = UpdateMode.CLUSTER_WIDE

CLIENT_METRICS = ConfigDef(
    (
        ConfigKey(
            "interval.ms",
            ConfigType.INT,
            "300000",
            None,
            Importance.MEDIUM,
            "Time between two pushes of a client's metrics.",
            _MODE,
        ),
        ConfigKey(
            "match",
            ConfigType.LIST,
            "",
            None,
            Importance.MEDIUM,
            "Selectors key=regex; a client must match all of them. An empty list matches every client.",
            _MODE,
        ),
        ConfigKey(
            "metrics",
            ConfigType.LIST,
            "",
            None,
            Importance.MEDIUM,
            "Prefixes of the metrics that clients push; an empty list means no metrics, * means all.",
            _MODE,
        ),
    )
)
