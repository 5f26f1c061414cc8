"""The configuration keys of Kafka's Java admin client: names, types, defaults and valid values."""

from __future__ import annotations

from kcli.config.client_common import BOOLEAN, COMMON, HIGH, INT, LIST, LONG, LOW, MEDIUM, STRING, key
from kcli.config.definition import ConfigDef, Range

# fmt: off
_OWN = (
    key("bootstrap.controllers", LIST, "", None, HIGH),
    key("bootstrap.servers", LIST, "", None, HIGH),
    key("client.id", STRING, "", None, MEDIUM),
    key("connections.max.idle.ms", LONG, "300000", None, MEDIUM),
    key("default.api.timeout.ms", INT, "60000", Range(0), MEDIUM),
    key("enable.metrics.push", BOOLEAN, "false", None, LOW),
    key("receive.buffer.bytes", INT, "65536", Range(-1), MEDIUM),
    key("retries", INT, "2147483647", Range(0, 2147483647), LOW),
)
# fmt: on

ADMIN = ConfigDef(sorted((*COMMON, *_OWN), key=lambda entry: entry.name))
