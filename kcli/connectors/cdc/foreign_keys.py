"""Keys of Debezium that this connector does not have: those that it refuses, and those that have no effect here."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.connectors.cdc.column_rules import is_rule
from kcli.connectors.cdc.keys import KEYS
from kcli.model.java_text import trim

_NOT_BUILT = "kcli has no such feature"
_CLASSES = "classes of Java are not supported"
_SIGNALS = "signals and incremental snapshots are not supported"
_REPORTED = "the position is always reported after the offsets are stored"
_SNAPSHOT_LOCK = "a snapshot always locks its tables against ALTER TABLE, and against nothing else"
_REFUSED_PREFIXES: Mapping[str, str] = {
    "database.": "only the keys of docs/connect-postgresql.md are passed to the driver",
    "signal.": _SIGNALS,
    "incremental.snapshot.": _SIGNALS,
    "notification.": "notifications are not supported",
    "snapshot.mode.custom.": _CLASSES,
    "snapshot.query.mode.custom.": _CLASSES,
    "snapshot.locking.mode.custom.": _CLASSES,
    "column.mask.": "expected column.mask.with.N.chars or column.mask.hash.ALGORITHM.with.salt.SALT",
    "column.truncate.": "expected column.truncate.to.N.chars",
    "slot.stream.params": _NOT_BUILT,
    "schema.history.internal": "PostgreSQL needs no schema history",
    "custom.metric.tags": _NOT_BUILT,
    "openlineage.": _NOT_BUILT,
    "internal.": "keys of Debezium's own tests have no meaning here",
    "heartbeat.topics.prefix": "expected topic.heartbeat.prefix",
}
_REFUSED_UNLESS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "signal.enabled.channels": (("source",), _SIGNALS),
    "incremental.snapshot.chunk.size": (("1024",), _SIGNALS),
    "incremental.snapshot.watermarking.strategy": (("insert_insert",), _SIGNALS),
    "read.only": (("false",), _SIGNALS),
    "snapshot.tables.order.by.row.count": (("disabled",), "tables are read in the order of their names"),
    "include.schema.changes": (("false",), "PostgreSQL has no topic of schema changes"),
    "include.schema.comments": (("false",), _NOT_BUILT),
    "sanitize.field.names": (("false",), "expected field.name.adjustment.mode"),
    "snapshot.isolation.mode": (
        ("repeatable_read", "serializable"),
        "a snapshot reads all rows in one state, which is repeatable_read",
    ),
    "snapshot.locking.mode": (("shared", "none"), _SNAPSHOT_LOCK),
    "snapshot.query.mode": (("select_all",), _CLASSES),
    "snapshot.max.threads": (("1",), "one connection reads a snapshot"),
    "topic.naming.strategy": (("io.debezium.schema.SchemaTopicNamingStrategy",), _CLASSES),
    "transaction.metadata.factory": (
        ("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory",),
        _CLASSES,
    ),
    "sourceinfo.struct.maker": (
        ("io.debezium.connector.postgresql.PostgresSourceInfoStructMaker",),
        _CLASSES,
    ),
    "converters": (("",), _CLASSES),
    "post.processors": (("",), _CLASSES),
    "slot.failover": (("false",), _NOT_BUILT),
    "flush.lsn.source": (("true",), _REPORTED),
    "lsn.flush.mode": (("connector",), _REPORTED),
    "offset.mismatch.strategy": (("no_validation",), _NOT_BUILT),
    "xmin.fetch.interval.ms": (("0",), "the field xmin is always null"),
    "money.fraction.digits": (("2",), "money always has two digits after the point"),
    "event.processing.failure.handling.mode": (
        ("fail",),
        "an event that cannot be made always fails the task",
    ),
    "openlineage.integration.enabled": (("false",), _NOT_BUILT),
    "table.ignore.builtin": (("true",), "tables of PostgreSQL itself cannot be captured"),
}
"""For each key, its only valid values, and the reason."""
WITHOUT_EFFECT: Mapping[str, str] = {
    "max.queue.size": "a poll reads the stream itself, without a queue",
    "max.queue.size.in.bytes": "a poll reads the stream itself, without a queue",
    "snapshot.lock.timeout.ms": "the lock of a snapshot waits only for ALTER TABLE and the like",
    "snapshot.locking.mode": _SNAPSHOT_LOCK,
    "connection.validation.timeout.ms": "the validation of a configuration waits for up to 30 s",
    "executor.shutdown.timeout.ms": "a stop waits for up to 10 s",
    "snapshot.mode.configuration.based.snapshot.schema": "PostgreSQL has no history of schemas",
    "snapshot.mode.configuration.based.snapshot.on.schema.error": "PostgreSQL has no history of schemas",
    "query.fetch.size": "the catalogs are read at once",
    "lsn.flush.timeout.ms": "the task does not wait for the server after it has reported its position",
    "lsn.flush.timeout.action": "the task does not wait for the server after it has reported its position",
    "include.unknown.datatypes": "a column of an unknown type is always a text",
    "schema.refresh.mode": "the server describes a table before its first change, and after each change of its columns",
    "signal.poll.interval.ms": _SIGNALS,
    "topic.cache.size": "the topics of all tables are remembered",
    "database.query.timeout.ms": "statements of the task run as long as they need, because a snapshot may take hours",
}


def refused_keys(config: Mapping[str, str]) -> dict[str, list[str]]:
    """The errors of keys that the connector does not have, by key."""
    errors = {}
    for key, value in config.items():
        if key in KEYS or is_rule(key) or key.startswith("snapshot.select.statement.overrides."):
            continue
        reason = _refusal(key, value)
        if reason:
            errors[key] = [f"Invalid value {value} for configuration {key}: {reason}"]
    return errors


def _refusal(key: str, value: str) -> str | None:
    if key in _REFUSED_UNLESS:
        valid, reason = _REFUSED_UNLESS[key]
        is_valid = trim(value).lower() in map(str.lower, valid)
        return None if is_valid else f"{reason}. Expected {' or '.join(map(repr, valid))}"
    if key in WITHOUT_EFFECT:
        return None
    return next((reason for prefix, reason in _REFUSED_PREFIXES.items() if key.startswith(prefix)), None)


def keys_without_effect(config: Mapping[str, str]) -> dict[str, str]:
    """The keys that are accepted and do nothing, with the reasons."""
    return {key: reason for key, reason in WITHOUT_EFFECT.items() if key in config}
