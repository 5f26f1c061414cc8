"""The configuration keys of workers: names, types, defaults and valid values."""
# ruff: noqa: E501  (a table reads best with one key to a line)

from __future__ import annotations

from collections.abc import Iterable

from kcli.config.client_common import (
    BOOLEAN,
    CLASS,
    COMMON,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    SHORT,
    STRING,
    key,
)
from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigValue,
    Matching,
    OneOf,
    Range,
    invalid_value,
)

INT_MAX = 2147483647
MAC_ALGORITHMS = ("HmacMD5", "HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512")
"""The algorithms that can sign requests between workers. Java's names."""


class _Listeners:
    """A list of URLs. `admin.listeners` may be null or empty."""

    def check(self, key: str, value: ConfigValue) -> None:
        is_admin = key.startswith("admin.")
        if is_admin and not value:
            return
        if not isinstance(value, tuple) or not value:
            raise ConfigError(
                f"Invalid value for {key}, at least one URL is expected, "
                "ex: http://localhost:8080,https://localhost:8443.",
                key=key,
            )
        if not all(value):
            raise ConfigError(f"Empty URL found when parsing {key} list.", key=key)

    def __str__(self) -> str:
        return "List of comma-separated URLs, ex: http://localhost:8080,https://localhost:8443."


class _Algorithms:
    """One algorithm or a list of algorithms for signatures."""

    def check(self, key: str, value: ConfigValue) -> None:
        names = value if isinstance(value, tuple) else (value,)
        if not names:
            raise invalid_value(key, value, "At least one signature verification algorithm must be provided")
        for name in names:
            if name not in MAC_ALGORITHMS:
                known = ", ".join(MAC_ALGORITHMS)
                raise invalid_value(
                    key,
                    name,
                    f"the algorithm is not supported by this worker; the supported algorithms are: {known}",
                )

    def __str__(self) -> str:
        return "MAC algorithms that the worker supports"


def _is_count(value: ConfigValue) -> bool:
    return isinstance(value, int) and (value == -1 or value > 0)


REPLICATION_FACTOR = Matching(
    _is_count,
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, or -1 to "
    "use the broker's default",
    "Positive number not larger than the number of brokers in the Kafka cluster, or -1 to use the broker's default",
)
PARTITIONS = Matching(
    _is_count,
    "Number of partitions must be positive, or -1 to use the broker's default",
    "Positive number, or -1 to use the broker's default",
)

# fmt: off
_ALL_WORKERS = (
    key("access.control.allow.methods", STRING, "", None, LOW),
    key("access.control.allow.origin", STRING, "", None, LOW),
    key("admin.listeners", LIST, None, _Listeners(), LOW),
    key("bootstrap.servers", LIST, None, None, HIGH, required=True),
    key("connector.client.config.override.policy", STRING, "All", None, MEDIUM),
    key("header.converter", CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", None, LOW),
    key("header.converter.plugin.version", STRING, None, None, LOW),
    key("key.converter", CLASS, None, None, HIGH, required=True),
    key("key.converter.plugin.version", STRING, None, None, LOW),
    key("listeners", LIST, "http://:8083", _Listeners(), LOW),
    key("metrics.recording.level", STRING, "INFO", OneOf(("INFO", "DEBUG")), LOW),
    key("offset.flush.interval.ms", LONG, "60000", None, LOW),
    key("offset.flush.timeout.ms", LONG, "5000", None, LOW),
    key("plugin.discovery", STRING, "hybrid_warn", OneOf(("ONLY_SCAN", "SERVICE_LOAD", "HYBRID_WARN", "HYBRID_FAIL"), ignore_case=True), LOW),
    key("plugin.path", LIST, None, None, LOW),
    key("response.http.headers.config", STRING, "", None, LOW),
    key("rest.advertised.host.name", STRING, None, None, LOW),
    key("rest.advertised.listener", STRING, None, None, LOW),
    key("rest.advertised.port", INT, None, None, LOW),
    key("rest.extension.classes", LIST, "", None, LOW),
    key("ssl.client.auth", STRING, "none", OneOf(("required", "requested", "none")), LOW),
    key("kcli.metrics.listener", STRING, None, None, LOW),
    key("kcli.task.memory.max.bytes", LONG, "0", Range(0), LOW),
    key("task.shutdown.graceful.timeout.ms", LONG, "5000", None, LOW),
    key("topic.creation.enable", BOOLEAN, "true", None, LOW),
    key("topic.tracking.allow.reset", BOOLEAN, "true", None, LOW),
    key("topic.tracking.enable", BOOLEAN, "true", None, LOW),
    key("value.converter", CLASS, None, None, HIGH, required=True),
    key("value.converter.plugin.version", STRING, None, None, LOW),
)
_STANDALONE = (key("offset.storage.file.filename", STRING, None, None, HIGH, required=True),)
_DISTRIBUTED = (
    key("client.id", STRING, "", None, LOW),
    key("config.storage.replication.factor", SHORT, "3", REPLICATION_FACTOR, LOW),
    key("config.storage.topic", STRING, None, None, HIGH, required=True),
    key("connect.protocol", STRING, "sessioned", OneOf(("eager", "compatible", "sessioned")), LOW),
    key("connections.max.idle.ms", LONG, "540000", None, MEDIUM),
    key("exactly.once.source.support", STRING, "disabled", OneOf(("DISABLED", "ENABLED", "PREPARING"), ignore_case=True), HIGH),
    key("group.id", STRING, None, None, HIGH, required=True),
    key("heartbeat.interval.ms", INT, "3000", None, HIGH),
    key("inter.worker.key.generation.algorithm", STRING, "HmacSHA256", _Algorithms(), LOW),
    key("inter.worker.key.size", INT, None, None, LOW),
    key("inter.worker.key.ttl.ms", INT, "3600000", Range(0, INT_MAX), LOW),
    key("inter.worker.signature.algorithm", STRING, "HmacSHA256", _Algorithms(), LOW),
    key("inter.worker.verification.algorithms", LIST, "HmacSHA256", _Algorithms(), LOW),
    key("offset.storage.partitions", INT, "25", PARTITIONS, LOW),
    key("offset.storage.replication.factor", SHORT, "3", REPLICATION_FACTOR, LOW),
    key("offset.storage.topic", STRING, None, None, HIGH, required=True),
    key("rebalance.timeout.ms", INT, "60000", None, HIGH),
    key("receive.buffer.bytes", INT, "32768", Range(-1), MEDIUM),
    key("request.timeout.ms", INT, "40000", Range(0), MEDIUM),
    key("scheduled.rebalance.max.delay.ms", INT, "300000", Range(0, INT_MAX), LOW),
    key("session.timeout.ms", INT, "10000", None, HIGH),
    key("socket.connection.setup.timeout.max.ms", LONG, "30000", Range(0), LOW),
    key("socket.connection.setup.timeout.ms", LONG, "10000", Range(0), LOW),
    key("status.storage.partitions", INT, "5", PARTITIONS, LOW),
    key("status.storage.replication.factor", SHORT, "3", REPLICATION_FACTOR, LOW),
    key("status.storage.topic", STRING, None, None, HIGH, required=True),
    key("worker.sync.timeout.ms", INT, "3000", None, MEDIUM),
    key("worker.unsync.backoff.ms", INT, "300000", None, MEDIUM),
)
# fmt: on

# A standalone worker declares few keys of clients, but its clients read the others too.
_CLIENT_KEYS_OF_ALL = ("client.dns.lookup", "config.providers", "metric.reporters", "metrics.num.samples")
_CLIENT_KEYS_OF_DISTRIBUTED = tuple(entry for entry in COMMON if entry.name != "security.providers")
_CLIENT_KEYS_OF_STANDALONE = tuple(
    entry
    for entry in COMMON
    if entry.name in (*_CLIENT_KEYS_OF_ALL, "metrics.sample.window.ms") or entry.name.startswith("ssl.")
)


def _table(*parts: Iterable[ConfigKey]) -> ConfigDef:
    """The keys of all parts by name. A later part replaces keys of an earlier one."""
    keys = {entry.name: entry for part in parts for entry in part}
    return ConfigDef(keys[name] for name in sorted(keys))


STANDALONE = _table(_CLIENT_KEYS_OF_STANDALONE, _ALL_WORKERS, _STANDALONE)
DISTRIBUTED = _table(_CLIENT_KEYS_OF_DISTRIBUTED, _ALL_WORKERS, _DISTRIBUTED)
