"""Keys of Debezium that this connector does not have: those that it refuses, and those that have no effect here."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.connectors.cdc.column_rules import is_rule
from kcli.connectors.cdc.keys import KEYS

_NOT_BUILT = "kcli has no such feature"
_CLASSES = "classes of Java are not supported"
_REFUSED_PREFIXES: Mapping[str, str] = {
    "database.": "only the keys of docs/connect-postgresql.md are passed to the driver",
    "signal.": "signals and incremental snapshots are not supported",
    "incremental.snapshot.": "incremental snapshots are not supported",
    "read.only": "incremental snapshots are not supported",
    "notification.": "notifications are not supported",
    "snapshot.select.statement.overrides": _NOT_BUILT,
    "snapshot.mode.configuration.based.": "expected another snapshot.mode",
    "snapshot.mode.custom.": _CLASSES,
    "snapshot.query.mode": _NOT_BUILT,
    "snapshot.include.collection.list": _NOT_BUILT,
    "snapshot.tables.order.by.row.count": _NOT_BUILT,
    "column.mask.": "expected column.mask.with.N.chars or column.mask.hash.ALGORITHM.with.salt.SALT",
    "column.truncate.": "expected column.truncate.to.N.chars",
    "snapshot.delay.ms": _NOT_BUILT,
    "streaming.delay.ms": _NOT_BUILT,
    "replica.identity.autoset.values": "set the replica identity with ALTER TABLE … REPLICA IDENTITY",
    "slot.stream.params": _NOT_BUILT,
    "slot.failover": _NOT_BUILT,
    "flush.lsn.source": "the position is always reported after the offsets are stored",
    "lsn.flush.": "the position is always reported after the offsets are stored",
    "offset.mismatch.strategy": _NOT_BUILT,
    "xmin.fetch.interval.ms": "the field xmin is always null",
    "money.fraction.digits": "money always has two digits after the point",
    "schema.history.internal": "PostgreSQL needs no schema history",
    "schema.refresh.mode": _NOT_BUILT,
    "event.processing.failure.handling.mode": "an event that cannot be made always fails the task",
    "custom.metric.tags": _NOT_BUILT,
    "openlineage.": _NOT_BUILT,
    "topic.cache.size": "all tables are remembered",
    "topic.delimiter": "the delimiter is always a point",
}
_REFUSED_UNLESS: Mapping[str, tuple[str, str]] = {
    "include.schema.changes": ("false", "PostgreSQL has no topic of schema changes"),
    "include.schema.comments": ("false", _NOT_BUILT),
    "include.unknown.datatypes": ("true", "a column of an unknown type is always a text"),
    "schema.name.adjustment.mode": ("none", _NOT_BUILT),
    "field.name.adjustment.mode": ("none", _NOT_BUILT),
    "sanitize.field.names": ("false", _NOT_BUILT),
    "snapshot.locking.mode": ("shared", "a snapshot locks its tables against ALTER TABLE, as shared does"),
    "snapshot.isolation.mode": ("repeatable_read", "a snapshot always is repeatable read"),
    "snapshot.max.threads": ("1", "one connection reads a snapshot"),
    "topic.naming.strategy": ("io.debezium.schema.SchemaTopicNamingStrategy", _CLASSES),
    "converters": ("", _CLASSES),
    "post.processors": ("", _CLASSES),
    "guardrail.collections.max": ("0", _NOT_BUILT),
}
"""For each key, its only valid value, and the reason."""
WITHOUT_EFFECT: Mapping[str, str] = {
    "max.queue.size": "a poll reads the stream itself, without a queue",
    "max.queue.size.in.bytes": "a poll reads the stream itself, without a queue",
    "snapshot.lock.timeout.ms": "the lock of a snapshot waits only for ALTER TABLE and the like",
    "connection.validation.timeout.ms": "the validation of a configuration waits for up to 30 s",
    "executor.shutdown.timeout.ms": "a stop waits for up to 10 s",
    "query.fetch.size": "the catalogs are read at once",
}


def refused_keys(config: Mapping[str, str]) -> dict[str, list[str]]:
    """The errors of keys that the connector does not have, by key."""
    errors = {}
    for key, value in config.items():
        if key in KEYS or is_rule(key):
            continue
        reason = _refusal(key, value)
        if reason:
            errors[key] = [f"Invalid value {value} for configuration {key}: {reason}"]
    return errors


def _refusal(key: str, value: str) -> str | None:
    if key in _REFUSED_UNLESS:
        valid, reason = _REFUSED_UNLESS[key]
        return None if value.lower() == valid.lower() else f"{reason}. The only value is {valid!r}"
    return next((reason for prefix, reason in _REFUSED_PREFIXES.items() if key.startswith(prefix)), None)


def keys_without_effect(config: Mapping[str, str]) -> dict[str, str]:
    """The keys that are accepted and do nothing, with the reasons."""
    return {key: reason for key, reason in WITHOUT_EFFECT.items() if key in config}
