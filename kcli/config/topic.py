"""Topic configuration: the keys of Kafka 4.1, the broker keys that supply their defaults, and `LogConfig`.

A topic key has three sources: the topic's own overrides, a broker key of `SERVER_SYNONYMS`, the default in the table.
The value comes from the first source in this order that has a value. If several of the broker keys are set, the value
of the first of these keys is used. This value is converted to the unit of the topic key.
"""
# ruff: noqa: E501  (a table reads best with one key to a line)

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

from kcli.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Matching,
    OneOf,
    Range,
    RangeOr,
    UpdateMode,
    Validator,
    parse_type,
)
from kcli.model.java_text import parse_int, trim

MAX_LONG = (1 << 63) - 1

_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?", re.ASCII)


def _is_throttled_replicas(value: ConfigValue) -> bool:
    assert isinstance(value, tuple)
    return value == ("*",) or all(map(_is_throttled_replica, value))


def _is_throttled_replica(item: str) -> bool:
    if not _THROTTLED_REPLICA.fullmatch(trim(item)):
        return False
    try:
        return all(parse_int(number) >= 0 for number in trim(item).split(":") if number)
    except ValueError:
        return False  # the brokers could not read a number of this size


THROTTLED_REPLICAS = Matching(
    _is_throttled_replicas,
    "{key} must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
)
COMPRESSION_TYPES = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
TIMESTAMP_TYPES = OneOf(("CreateTime", "LogAppendTime"))
CLEANUP_POLICIES = OneOf(("compact", "delete"))

BOOLEAN, DOUBLE, INT, LIST, LONG, STRING = (
    ConfigType.BOOLEAN,
    ConfigType.DOUBLE,
    ConfigType.INT,
    ConfigType.LIST,
    ConfigType.LONG,
    ConfigType.STRING,
)


def _key(
    name: str,
    kind: ConfigType,
    default: str | None,
    validator: Validator | None,
    documentation: str,
    *,
    internal: bool = False,
) -> ConfigKey:
    return ConfigKey(
        name,
        kind,
        default,
        validator,
        Importance.MEDIUM,
        documentation,
        UpdateMode.CLUSTER_WIDE,
        internal=internal,
    )


_AT_LEAST_0, _AT_LEAST_1, _FROM_MINUS_2 = Range(0), Range(1), Range(-2)

# fmt: off
TOPIC = ConfigDef((
    _key("cleanup.policy", LIST, "delete", CLEANUP_POLICIES, "What happens to old segments: delete them, compact them by key, or both."),
    _key("compression.gzip.level", INT, "-1", RangeOr(1, 9, -1), "Gzip level used when the broker compresses; -1 is gzip's own default."),
    _key("compression.lz4.level", INT, "9", Range(1, 17), "LZ4 level used when the broker compresses."),
    _key("compression.type", STRING, "producer", COMPRESSION_TYPES, "Codec of batches on disk; with producer, a batch keeps the codec of its producer."),
    _key("compression.zstd.level", INT, "3", Range(-131072, 22), "Zstandard level used when the broker compresses."),
    _key("delete.retention.ms", LONG, "86400000", _AT_LEAST_0, "How long a compacted topic keeps a tombstone after it was cleaned."),
    _key("file.delete.delay.ms", LONG, "60000", _AT_LEAST_0, "Time for which a deleted segment stays on disk, with the suffix .deleted."),
    _key("flush.messages", LONG, "9223372036854775807", _AT_LEAST_1, "Force a sync to disk after this many records."),
    _key("flush.ms", LONG, "9223372036854775807", _AT_LEAST_0, "Force a sync to disk after this time."),
    _key("follower.replication.throttled.replicas", LIST, "", THROTTLED_REPLICAS, "Replicas that fetch with a throttle, as partition:broker pairs, or * for all."),
    _key("index.interval.bytes", INT, "4096", _AT_LEAST_0, "Bytes of records between two entries of the offset index."),
    _key("leader.replication.throttled.replicas", LIST, "", THROTTLED_REPLICAS, "Replicas that serve followers with a throttle, as partition:broker pairs, or * for all."),
    _key("local.retention.bytes", LONG, "-2", _FROM_MINUS_2, "Bytes that a tiered partition keeps on local disk; -2 means retention.bytes."),
    _key("local.retention.ms", LONG, "-2", _FROM_MINUS_2, "Time for which a tiered partition keeps records locally; -2 means retention.ms."),
    _key("max.compaction.lag.ms", LONG, "9223372036854775807", _AT_LEAST_1, "Longest time a record may stay uncompacted."),
    _key("max.message.bytes", INT, "1048588", _AT_LEAST_0, "Largest record batch accepted, after compression."),
    _key("message.timestamp.after.max.ms", LONG, "3600000", _AT_LEAST_0, "How far the timestamp of a record may be ahead of the broker's clock."),
    _key("message.timestamp.before.max.ms", LONG, "9223372036854775807", _AT_LEAST_0, "How far the timestamp of a record may be behind the broker's clock."),
    _key("message.timestamp.type", STRING, "CreateTime", TIMESTAMP_TYPES, "Whether a record keeps the timestamp of its producer, or gets the broker's time."),
    _key("min.cleanable.dirty.ratio", DOUBLE, "0.5", Range(0, 1), "Smallest share of uncompacted bytes with which a log is compacted."),
    _key("min.compaction.lag.ms", LONG, "0", _AT_LEAST_0, "Shortest time a record stays uncompacted."),
    _key("min.insync.replicas", INT, "1", _AT_LEAST_1, "In-sync replicas that a Produce request with acks=all needs."),
    _key("preallocate", BOOLEAN, "false", None, "Create segment files at their full size."),
    _key("remote.log.copy.disable", BOOLEAN, "false", None, "Stop copying records to tiered storage, but still read from it."),
    _key("remote.log.delete.on.disable", BOOLEAN, "false", None, "Delete tiered data when tiered storage is turned off."),
    _key("remote.storage.enable", BOOLEAN, "false", None, "Keep this topic's older segments in tiered storage."),
    _key("retention.bytes", LONG, "-1", None, "Size of a partition above which the oldest segments are deleted; -1 is no limit."),
    _key("retention.ms", LONG, "604800000", Range(-1), "Time for which records are kept before their segments are deleted; -1 is no limit."),
    _key("segment.bytes", INT, "1073741824", Range(1048576), "Size at which a new segment begins."),
    _key("segment.index.bytes", INT, "10485760", Range(4), "Largest size of one index file."),
    _key("segment.jitter.ms", LONG, "0", _AT_LEAST_0, "Random time by which segment.ms is reduced, so that segments do not all roll at the same time."),
    _key("segment.ms", LONG, "604800000", _AT_LEAST_1, "Age at which a new segment begins."),
    _key("unclean.leader.election.enable", BOOLEAN, "false", None, "Let a replica that is not in sync lead, although records may be lost."),
    _key("internal.segment.bytes", INT, None, None, "Segment size for tests, which may be smaller than segment.bytes allows.", internal=True),
))
# fmt: on


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key that supplies a topic key's default. `unit_ms` is the number of milliseconds in the unit of
    the broker key."""

    name: str
    unit_ms: int = 1


def _plain(*names: str) -> tuple[Synonym, ...]:
    return tuple(Synonym(name) for name in names)


_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000

SERVER_SYNONYMS: Mapping[str, tuple[Synonym, ...]] = {
    "cleanup.policy": _plain("log.cleanup.policy"),
    "compression.gzip.level": _plain("compression.gzip.level"),
    "compression.lz4.level": _plain("compression.lz4.level"),
    "compression.type": _plain("compression.type"),
    "compression.zstd.level": _plain("compression.zstd.level"),
    "delete.retention.ms": _plain("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _plain("log.segment.delete.delay.ms"),
    "flush.messages": _plain("log.flush.interval.messages"),
    "flush.ms": _plain("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": _plain("log.index.interval.bytes"),
    "local.retention.bytes": _plain("log.local.retention.bytes"),
    "local.retention.ms": _plain("log.local.retention.ms"),
    "max.compaction.lag.ms": _plain("log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _plain("message.max.bytes"),
    "message.timestamp.after.max.ms": _plain("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _plain("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _plain("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _plain("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _plain("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _plain("min.insync.replicas"),
    "preallocate": _plain("log.preallocate"),
    "retention.bytes": _plain("log.retention.bytes"),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": _plain("log.segment.bytes"),
    "segment.index.bytes": _plain("log.index.size.max.bytes"),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
    "unclean.leader.election.enable": _plain("unclean.leader.election.enable"),
}


def server_default(name: str, broker: Mapping[str, ConfigValue]) -> ConfigValue:
    """The broker's value for topic key `name`, or the default in the table if the broker sets no such key.

    `broker` maps broker keys to parsed values or to texts. A missing or null key counts as not set.
    """
    key = TOPIC[name]
    for synonym in SERVER_SYNONYMS.get(name, ()):
        value = broker.get(synonym.name)
        if isinstance(value, str):
            value = parse_type(synonym.name, value, key.type)
        if value is None:
            continue
        if name == "retention.ms":
            assert isinstance(value, int)
            # A negative duration means no limit, in any unit.
            return max(value * synonym.unit_ms, -1)
        if synonym.unit_ms > 1:
            assert isinstance(value, int)
            return value * synonym.unit_ms
        return value
    return TOPIC.default(name)


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The topic configuration that a partition's log needs. Each field has the name of its key, with underscores."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = MAX_LONG
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    internal_segment_bytes: int | None = None

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def segment_size_bytes(self) -> int:
        """The size at which a new segment begins. internal.segment.bytes takes precedence over segment.bytes, because
        tests need segments smaller than segment.bytes allows."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @classmethod
    def resolve(cls, topic_overrides: Mapping[str, str], broker: Mapping[str, ConfigValue]) -> Self:
        """The configuration of a topic. A value comes from the topic's own overrides, then from the broker's values,
        then from Kafka's defaults.

        Raises ConfigError for an invalid value.
        """
        defaults = {_field_name(name): server_default(name, broker) for name in TOPIC}
        # A test checks that each field has the type of its key.
        return cls(**defaults).overridden(topic_overrides)  # type: ignore[arg-type]

    def overridden(self, overrides: Mapping[str, str]) -> Self:
        """This configuration with the overrides of a topic. Topics without overrides share one object.

        Unknown overrides are ignored, as in Kafka, because a newer release may have written them. Another module
        refuses unknown overrides in a client's request. Raises ConfigError for an invalid value.
        """
        values = {
            _field_name(name): TOPIC[name].parse(text) for name, text in overrides.items() if name in TOPIC
        }
        return replace(self, **values) if values else self  # type: ignore[arg-type]  # as above


def _field_name(name: str) -> str:
    return name.replace(".", "_")


KAFKA_DEFAULTS = LogConfig.resolve({}, {})
"""The configuration of a topic without overrides, on a broker whose file sets no key."""

FIELD_NAMES = tuple(field.name for field in fields(LogConfig))
