"""Reads the options of the source and the sink. The options have the same names as in Spark's own Kafka connector.

Spark passes the options as a dictionary of strings whose keys ignore case. For an invalid option, an error with its
name is raised. An unknown option is only logged, because Spark also passes options that are not for the connector.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.config.environment import JAAS_FILE
from kcli.model.java_json import json_int, json_long, parse_json
from kcli.model.java_text import parse_int, parse_long, trim
from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.compression import Codec, codec_named
from kcli.security.client import PROPERTIES as SECURITY_PROPERTIES
from kcli.security.client import WITHOUT_EFFECT, client_security
from kcli.spark.client.cluster import ClientSettings, parse_servers

if TYPE_CHECKING:
    from kcli.spark.registry_values import RegistrySpec
    from kcli.spark.traces import SparkTraces

_log = logging.getLogger("kcli.spark")

TRACE_OPTION = "kcli.trace"

SECURITY_OPTIONS = tuple(f"kafka.{name}" for name in SECURITY_PROPERTIES)
CLIENT_OPTIONS = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    *SECURITY_OPTIONS,
    f"kafka.{JAAS_FILE}",
)
VALUE_OPTIONS = (
    "valueFormat",
    "schemaRegistry",
    "valueSchema",
    "valueSubject",
    "valueMessage",
    "includeValueErrors",
)
"""The options of values that the source decodes."""

SOURCE_OPTIONS = (
    *CLIENT_OPTIONS,
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafka.isolation.level",
    "kafka.max.partition.fetch.bytes",
    "kafkaConsumer.pollTimeoutMs",
    "path",
    "paths",
    "readUpTo",
    TRACE_OPTION,
    *VALUE_OPTIONS,
)
REGISTRY_PREFIX = "schemaRegistry."
"""The prefix of the keys of Confluent's clients, such as schemaRegistry.basic.auth.user.info."""

REFUSED = {
    "kafka.auto.offset.reset": "use startingOffsets to choose the start",
    "kafka.enable.auto.commit": "offsets are in Spark's checkpoint",
    "kafka.key.deserializer": "keys are binary: cast them in the query",
    "kafka.value.deserializer": "values are binary: cast them in the query",
    "kafka.key.serializer": "keys are written as they are: make them binary or string in the query",
    "kafka.value.serializer": "values are written as they are: make them binary or string in the query",
    "kafka.interceptor.classes": "kcli runs no Java classes",
}
"""Options that kcli refuses, with the reasons.

Spark's own connector does not support them either.
"""

POLL_TIMEOUT_MS = 120_000
"""The default of kafkaConsumer.pollTimeoutMs, as in Spark: the milliseconds for which a task waits for records."""

MAX_TRIGGER_DELAY_MS = 900_000
"""The default of maxTriggerDelay, as in Spark: 15 minutes."""

_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
"""The units of a duration in Spark, in milliseconds."""

SINK_OPTIONS = (
    *CLIENT_OPTIONS,
    "topic",
    "kafka.acks",
    "kafka.enable.idempotence",
    "kafka.compression.type",
    "kafka.compression.gzip.level",
    "kafka.compression.lz4.level",
    "kafka.compression.zstd.level",
    "kafka.transactional.id",
    "kafka.transaction.timeout.ms",
    "kcli.transactional",
    "kcli.batch.id",
    TRACE_OPTION,
)

TRANSACTION_TIMEOUT_MS = 900_000
"""The default of kafka.transaction.timeout.ms. It is the default of transaction.max.timeout.ms on brokers.

A micro-batch must not take longer.
"""

SINK_COLUMNS = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
"""The columns that a row for the sink may have, with their types. `value` is required.

`topic` is required too, unless the option `topic` is set.
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Selects the topics or partitions to read. Exactly one field is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Position:
    """The position where reading starts or ends.

    `offsets` and `timestamps` contain values for single partitions. An offset may also be EARLIEST or LATEST.
    `timestamp` applies to every partition. `default` (EARLIEST or LATEST) applies to partitions without a value.
    """

    default: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamps: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp: int | None = None

    @property
    def by_time(self) -> bool:
        """Whether the position is given by timestamps, not by offsets."""
        return bool(self.timestamps) or self.timestamp is not None

    def named(self) -> set[TopicPartition]:
        """Returns the partitions for which an offset or a timestamp is given."""
        return {*self.offsets, *self.timestamps}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of the source."""

    client: ClientSettings
    subscription: Subscription
    start: Position
    end: Position
    fail_on_data_loss: bool = True
    include_headers: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: float = MAX_TRIGGER_DELAY_MS
    max_bytes_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    latest_if_no_offset: bool = False
    """Whether a partition that has no record at or after the timestamp is read from its end.

    This is startingOffsetsByTimestampStrategy=latest.
    """
    poll_timeout_ms: int = POLL_TIMEOUT_MS
    log_directories: tuple[str, ...] = ()
    """The log directories that are read instead of a cluster."""
    to_log_end: bool = False
    traces: SparkTraces | None = None


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of the sink."""

    client: ClientSettings
    topic: str | None = None
    codec: Codec = Codec.NONE
    level: int | None = None
    transactional: bool | None = None
    """Whether rows are written in transactions.

    None selects the default: transactions for streams, and for batches that have a transactional id.
    """
    transactional_id: str | None = None
    """The prefix of the tasks' transactional ids, or None for a generated prefix."""
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    batch_id: int | None = None
    traces: SparkTraces | None = None


def source_options(raw: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Reads the options of the source. Raises ValueError for an invalid option."""
    options = _known(raw, SOURCE_OPTIONS)
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if name.lower() in options:
                raise ValueError(f"{name} is not valid in a streaming query: a stream has no end")
    start = _position(options, "starting", LATEST if streaming else EARLIEST)
    end = _position(options, "ending", LATEST)
    if not streaming:
        _refuse_end(start, "startingOffsets", LATEST, "latest")
    _refuse_end(end, "endingOffsets", EARLIEST, "earliest")
    least, most = _positive(options, "minOffsetsPerTrigger"), _positive(options, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise ValueError(f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
    directories = _directories(options)
    return SourceOptions(
        client=_client(options, is_needed=not directories),
        subscription=_subscription(options, all_by_default=bool(directories)),
        start=start,
        end=end,
        fail_on_data_loss=_boolean(options, "failOnDataLoss", True),
        include_headers=_boolean(options, "includeHeaders", False),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration_ms(options, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        max_bytes_per_trigger=_positive(options, "maxBytesPerTrigger"),
        min_partitions=_positive(options, "minPartitions"),
        max_records_per_partition=_positive(options, "maxRecordsPerPartition"),
        latest_if_no_offset=_choice(options, "startingOffsetsByTimestampStrategy", ("error", "latest"))
        == "latest",
        poll_timeout_ms=_positive(options, "kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        log_directories=directories,
        to_log_end=_choice(options, "readUpTo", ("highwatermark", "logend")) == "logend",
        traces=_traces(options),
    )


def value_spec(raw: Mapping[str, str]) -> RegistrySpec | None:
    """Reads the options of values with schemas of a registry, or returns None if values are not decoded.

    Raises ValueError for an invalid option.
    """
    options = {name.lower(): value for name, value in raw.items()}
    if "valueformat" not in options:
        idle = {name.lower() for name in VALUE_OPTIONS}
        for name in raw:
            if name.lower() in idle or name.lower().startswith(REGISTRY_PREFIX.lower()):
                raise ValueError(f"{name} needs valueFormat")
        return None
    _boolean(options, "includeValueErrors", False)
    if not options.get("schemaregistry"):
        raise ValueError("valueFormat needs schemaRegistry, the URL of a schema registry")
    # Only this option needs the modules of the registry, and each worker imports this module.
    from kcli.formats.registry.serde_settings import SerdeSettings, is_registry_key, unused_registry_keys
    from kcli.formats.registry.settings import URL, RegistrySettings
    from kcli.spark.registry_values import TYPES, RegistrySpec

    prefix = REGISTRY_PREFIX.lower()
    texts = {name.removeprefix(prefix): text for name, text in options.items() if name.startswith(prefix)}
    for name in texts:
        if not is_registry_key(name):
            raise ValueError(f"{REGISTRY_PREFIX}{name}: the clients of a schema registry have no key {name}")
    for sentence in unused_registry_keys(texts):
        _log.warning("option %s%s", REGISTRY_PREFIX, sentence)
    texts[URL] = options["schemaregistry"]
    return RegistrySpec(
        settings=RegistrySettings.of(texts),
        type=TYPES[_choice(options, "valueFormat", tuple(TYPES))],
        schema=options.get("valueschema"),
        subject=options.get("valuesubject"),
        message=options.get("valuemessage"),
        serde=SerdeSettings.of(texts),
    )


def single_topic(raw: Mapping[str, str]) -> str | None:
    """Returns the topic that the options of the source name, or None if they may select several."""
    chosen = _subscription({name.lower(): value for name, value in raw.items()}, all_by_default=True)
    topics = {*chosen.topics, *(part.topic for part in chosen.partitions)}
    return topics.pop() if len(topics) == 1 else None


def sink_options(raw: Mapping[str, str]) -> SinkOptions:
    """Reads the options of the sink. Raises ValueError for an invalid option."""
    options = _known(raw, SINK_OPTIONS)
    acks = options.get("kafka.acks", "all")
    if acks not in ("all", "-1"):
        raise ValueError(f"kafka.acks is {acks}: this sink always uses all")
    if not _boolean(options, "kafka.enable.idempotence", True):
        raise ValueError("kafka.enable.idempotence is false: this sink's producers are always idempotent")
    codec = codec_named(options.get("kafka.compression.type", "none"))
    level = options.get(f"kafka.compression.{codec.label}.level")
    batch = options.get("kcli.batch.id")
    return SinkOptions(
        client=_client(options),
        topic=options.get("topic"),
        codec=codec,
        level=None if level is None else _integer(level, f"kafka.compression.{codec.label}.level"),
        transactional=_boolean(options, "kcli.transactional", True)
        if "kcli.transactional" in options
        else None,
        transactional_id=options.get("kafka.transactional.id"),
        transaction_timeout_ms=_positive(options, "kafka.transaction.timeout.ms") or TRANSACTION_TIMEOUT_MS,
        batch_id=None if batch is None else _integer(batch, "kcli.batch.id"),
        traces=_traces(options),
    )


def are_traced(raw: Mapping[str, str]) -> bool:
    """Whether a source or sink with these options exports traces."""
    return _traces({name.lower(): value for name, value in raw.items()}) is not None


def _traces(options: Mapping[str, str]) -> SparkTraces | None:
    """Returns the settings of traces, or None. Imports the module for traces only if the environment or an option may
    turn traces on."""
    option = options.get(TRACE_OPTION)
    if option is None and not any(name.startswith("OTEL_") for name in os.environ):
        return None
    from kcli.spark.traces import spark_traces

    return spark_traces(option)


SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})
"""Options of a stream that Spark itself reads, and also passes to the source."""


def _known(raw: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    options = {name.lower(): value for name, value in raw.items()}
    known = {name.lower() for name in names}
    for name in options:
        if name in REFUSED:
            raise ValueError(f"{name} is not supported: {REFUSED[name]}")
        if name.removeprefix("kafka.") in WITHOUT_EFFECT:
            _log.warning("option %s has no effect in kcli", name)
            continue
        if name.startswith(("kafka.ssl.", "kafka.sasl.")) and name not in known:
            raise ValueError(
                f"{name} is not supported; the security options are {', '.join(SECURITY_OPTIONS)}"
            )
        if name.startswith(REGISTRY_PREFIX.lower()) and "schemaregistry" in known:
            continue  # `value_spec` checks these keys
        if name not in known and name not in SPARKS_OWN:
            _log.warning("option %s is unknown to the kcli format and has no effect", name)
    return options


def _directories(options: Mapping[str, str]) -> tuple[str, ...]:
    listed = json.loads(options.get("paths", "[]"))  # the form in which Spark passes load([…])
    paths = (*filter(None, (trim(path) for path in options.get("path", "").split(","))), *listed)
    if paths and "kafka.bootstrap.servers" in options:
        raise ValueError("path (log directories) and kafka.bootstrap.servers (a cluster) exclude each other")
    if "readupto" in options and not paths:
        raise ValueError("readUpTo needs log directories: load(path)")
    for path in paths:
        if "://" in path:
            raise ValueError(f"path {path}: expected a directory of this machine or a shared file system")
    return paths


def _client(options: Mapping[str, str], *, is_needed: bool = True) -> ClientSettings:
    servers = options.get("kafka.bootstrap.servers", "")
    if servers or is_needed:
        if not servers:
            raise ValueError("Option 'kafka.bootstrap.servers' must be specified (host:port,…)")
        parse_servers(servers)
    levels = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
    level = _choice(options, "kafka.isolation.level", tuple(levels))
    usual = ClientSettings(servers)
    return ClientSettings(
        bootstrap_servers=servers,
        client_id=options.get("kafka.client.id", usual.client_id),
        isolation_level=levels[level],
        request_timeout_ms=_positive(options, "kafka.request.timeout.ms") or usual.request_timeout_ms,
        api_timeout_ms=_positive(options, "kafka.default.api.timeout.ms") or usual.api_timeout_ms,
        max_partition_fetch_bytes=_positive(options, "kafka.max.partition.fetch.bytes")
        or usual.max_partition_fetch_bytes,
        security=client_security(options, "kafka.", is_strict=True),
    )


def _subscription(options: Mapping[str, str], *, all_by_default: bool) -> Subscription:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in options]
    if not names and all_by_default:
        return Subscription(pattern=".*")
    if len(names) != 1:
        raise ValueError(
            "One of 'subscribe', 'subscribePattern', 'assign' must be specified"
            + (f"; found {' and '.join(names)}" if names else "")
        )
    text = options[names[0].lower()]
    if names[0] == "subscribe":
        topics = tuple(filter(None, (trim(topic) for topic in text.split(","))))
        if not topics:
            raise ValueError("subscribe names no topic (expected topic1,topic2)")
        return Subscription(topics=topics)
    if names[0] == "subscribePattern":
        from kcli.model.java_regex import JavaRegexError, compile_java

        try:
            compile_java(text, ascii_only=True)
        except JavaRegexError as error:
            raise ValueError(f"subscribePattern {text!r} is not a regular expression: {error}") from None
        return Subscription(pattern=text)
    assignment = _json(options, "assign", '{"topic":[0,1]}')
    try:
        parts = [
            TopicPartition(topic, json_int(part)) for topic, parts in assignment.items() for part in parts
        ]
    except (TypeError, ValueError):
        raise ValueError(f'assign is {text!r}; expected {{"topic":[0,1]}}') from None
    if not parts:
        raise ValueError("assign names no partition")
    return Subscription(partitions=tuple(sorted(parts)))


def _position(options: Mapping[str, str], side: str, default: int) -> Position:
    """Reads the options for the start (`side` is "starting") or the end ("ending").

    As in Spark, a single timestamp takes precedence over timestamps by partition, and these take precedence over
    offsets.
    """
    if (text := options.get(f"{side}timestamp")) is not None:
        return Position(default, timestamp=_integer(text, f"{side}Timestamp"))
    if f"{side}offsetsbytimestamp" in options:
        return Position(default, timestamps=_by_partition(options, f"{side}OffsetsByTimestamp"))
    text = options.get(f"{side}offsets")
    if text is None:
        return Position(default)
    match trim(text).lower():
        case "earliest":
            return Position(EARLIEST)
        case "latest":
            return Position(LATEST)
    return Position(default, offsets=_checked(_by_partition(options, f"{side}Offsets")))


def _checked(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Checks offsets. As in a ListOffsets request, Spark writes -2 for earliest and -1 for latest.

    Offsets below -2 are invalid.
    """
    for part, offset in offsets.items():
        if offset < EARLIEST:
            raise ValueError(f"offset {offset} of {part}: expected -2 (earliest), -1 (latest) or an offset")
    return offsets


def _refuse_end(position: Position, name: str, end: int, word: str) -> None:
    named = any(offset == end for offset in position.offsets.values())
    if named or (not position.by_time and not position.offsets and position.default == end):
        raise ValueError(f"{name} can't be {word} in a batch query")


def _by_partition(options: Mapping[str, str], name: str) -> dict[TopicPartition, int]:
    expected = '{"topic":{"0":23,"1":-1}}'
    offsets = _json(options, name, expected)
    try:
        return {
            TopicPartition(topic, _partition(part)): json_long(value)
            for topic, values in offsets.items()
            for part, value in values.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"{name} is {options[name.lower()]!r}; expected {expected}") from None


def _json(options: Mapping[str, str], name: str, expected: str) -> dict[str, dict[str, int]]:
    text = options[name.lower()]
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {text!r}; expected {expected}")
    return value


def _boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = trim(options.get(name.lower(), str(default))).lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} is {text!r}; expected true or false")
    return text == "true"


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    value = _integer(text, name)
    if value < 1:
        raise ValueError(f"{name} is {value}; expected a positive number")
    return value


def _duration_ms(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name.lower())
    if text is None:
        return default
    match = re.fullmatch(r"([0-9]{1,18})\s*([a-z]*)", trim(text).lower(), re.ASCII)
    if match is None or (match[2] or "ms") not in _UNITS_MS:
        raise ValueError(f"{name} is {text!r}; expected a duration like 30s or 15m")
    return parse_long(match[1]) * _UNITS_MS[match[2] or "ms"]


def _integer(text: str, name: str) -> int:
    try:
        return parse_long(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}; expected a whole number") from None


def _partition(text: str) -> int:
    number = parse_int(text)
    if number < 0:
        raise ValueError(f"partition {text}")
    return number


def _choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """Reads an option that must be one of `values`. The first value is the default."""
    text = trim(options.get(name.lower(), values[0])).lower()
    if text not in values:
        raise ValueError(f"{name} is {text!r}; expected {' or '.join(values)}")
    return text
