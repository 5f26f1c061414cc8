"""Quotas of users, clients and addresses (`kafka-configs --entity-type users|clients|ips`), and SCRAM credentials."""

from __future__ import annotations

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Range, UpdateMode, Validator


def _key(
    name: str, kind: ConfigType, default: str | None, documentation: str, validator: Validator | None = None
) -> ConfigKey:
    return ConfigKey(
        name, kind, default, validator, Importance.MEDIUM, documentation, UpdateMode.CLUSTER_WIDE
    )


_NO_LIMIT = "9223372036854775807"
_NO_RATE = "2.147483647E9"

_CLIENT_KEYS = (
    _key("consumer_byte_rate", ConfigType.LONG, _NO_LIMIT, "Bytes a second that may be fetched."),
    _key("controller_mutation_rate", ConfigType.DOUBLE, _NO_RATE, "Partitions a second created or deleted."),
    _key("producer_byte_rate", ConfigType.LONG, _NO_LIMIT, "Bytes a second that may be produced."),
    _key(
        "request_percentage", ConfigType.DOUBLE, _NO_RATE, "Share of the request threads' time, in percent."
    ),
)

CLIENTS = ConfigDef(_CLIENT_KEYS)
USERS = ConfigDef(
    (
        _key("SCRAM-SHA-256", ConfigType.STRING, None, "Credential for SCRAM-SHA-256."),
        _key("SCRAM-SHA-512", ConfigType.STRING, None, "Credential for SCRAM-SHA-512."),
        *_CLIENT_KEYS,
    )
)
IPS = ConfigDef(
    (
        _key(
            "connection_creation_rate",
            ConfigType.INT,
            "2147483647",
            "Connections a second accepted from an address.",
            Range(0),
        ),
    )
)
