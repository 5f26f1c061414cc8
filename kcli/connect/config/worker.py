"""The configuration of a worker, made from its properties and checked as Kafka checks it at the start."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kcli.config.admin import ADMIN
from kcli.config.consumer import CONSUMER
from kcli.config.definition import ConfigDef, ConfigError, invalid_value
from kcli.config.producer import PRODUCER
from kcli.config.properties import Properties
from kcli.config.providers import resolve
from kcli.config.values import Values
from kcli.connect.config.clients import ClientProperties, with_prefix
from kcli.connect.config.key_checks import ClassOf
from kcli.connect.config.override_policy import KEY as OVERRIDE_POLICY
from kcli.connect.config.override_policy import OverridePolicy, override_policy
from kcli.connect.config.plugin import Plugins, PluginType
from kcli.connect.config.rest_listeners import RestConfig, rest_config
from kcli.connect.config.versions import InvalidVersion
from kcli.connect.config.worker_keys import DISTRIBUTED, STANDALONE
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import trim

CONVERTERS = ("key.converter", "value.converter", "header.converter")

NO_EFFECT: Mapping[str, str] = {
    "plugin.discovery": "plugins are found by entry points and in the files of plugin.path",
    "metric.reporters": "metrics reporters are Java classes",
    "auto.include.jmx.reporter": "metrics reporters are Java classes",
    "metrics.num.samples": "metrics have one window of 30 seconds",
    "metrics.sample.window.ms": "metrics have one window of 30 seconds",
    "metrics.recording.level": "metrics reporters are Java classes",
    "ssl.keymanager.algorithm": "it chooses a class of Java",
    "ssl.trustmanager.algorithm": "it chooses a class of Java",
    "ssl.secure.random.implementation": "it chooses a class of Java",
    "internal.key.converter": "Kafka has ignored it since 3.0",
    "internal.value.converter": "Kafka has ignored it since 3.0",
}
"""Keys that are accepted and have no effect, with the reason. A worker warns about them if they are set."""

_PREFIXES = (
    "producer.",
    "consumer.",
    "admin.",
    "config.providers.",
    "config.storage.",
    "offset.storage.",
    "status.storage.",
    "listeners.https.",
    "admin.listeners.https.",
    "metrics.context.",
    *(f"{converter}." for converter in CONVERTERS),
)


class ConnectProtocol(StrEnum):
    """The protocol of rebalances. The text is the value of connect.protocol."""

    EAGER = "eager"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"


class ExactlyOnceSource(StrEnum):
    """exactly.once.source.support (KIP-618)."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"

    @property
    def leader_writes_in_transactions(self) -> bool:
        """Whether the leader's producer of the config topic is transactional."""
        return self is not ExactlyOnceSource.DISABLED


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic of a group of workers. `settings` are the topic's own configs, without cleanup.policy.

    `partitions` and `replication_factor` may be -1, which stands for the default of the broker.
    """

    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InterWorkerKeys:
    """The keys that sign requests between workers (KIP-507). `key_size` is in bits."""

    generation_algorithm: str
    key_size: int | None
    ttl_ms: int
    signature_algorithm: str
    verification_algorithms: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of a worker that is a member of a group."""

    group_id: str
    client_id: str
    protocol: ConnectProtocol
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    scheduled_rebalance_max_delay_ms: int
    worker_sync_timeout_ms: int
    worker_unsync_backoff_ms: int
    config_topic: InternalTopic
    offset_topic: InternalTopic
    status_topic: InternalTopic
    exactly_once_source: ExactlyOnceSource
    inter_worker: InterWorkerKeys


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """`group` is None for a standalone worker, and `offsets_file` is None for a worker of a group."""

    texts: Mapping[str, str]
    """All properties, with all variables resolved."""
    bootstrap_servers: Sequence[str]
    key_converter: str
    value_converter: str
    header_converter: str
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    task_shutdown_graceful_timeout_ms: int
    task_memory_max_bytes: int
    """The most private memory of the process of a task or a connector. 0 means no limit."""
    topic_creation_enable: bool
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    plugin_path: Sequence[str]
    rest: RestConfig
    override_policy: OverridePolicy
    group: GroupConfig | None
    offsets_file: str | None
    warnings: Sequence[str]
    """Texts for the log: keys that are unknown or have no effect."""

    @property
    def clients(self) -> ClientProperties:
        return ClientProperties(self.texts, self.override_policy)

    @property
    def is_exactly_once(self) -> bool:
        """Whether source tasks write in transactions."""
        return self.group is not None and self.group.exactly_once_source is ExactlyOnceSource.ENABLED

    def converter_class(self, key: str) -> str:
        """The class of `key.converter`, `value.converter` or `header.converter`."""
        return {
            "key.converter": self.key_converter,
            "value.converter": self.value_converter,
            "header.converter": self.header_converter,
        }[key]

    def converter_config(self, key: str) -> dict[str, str]:
        """The configuration of the worker's own converter `key`, without the prefix."""
        return with_prefix(self.texts, f"{key}.")


def distributed_config(properties: Mapping[str, str]) -> WorkerConfig:
    """The configuration of a worker of a group. Raises ConfigError with Kafka's text, if Kafka has this error."""
    return _worker_config(properties, DISTRIBUTED)


def standalone_config(properties: Mapping[str, str]) -> WorkerConfig:
    """The configuration of a worker alone. Raises ConfigError with Kafka's text, if Kafka has this error."""
    return _worker_config(properties, STANDALONE)


def check_converters(config: WorkerConfig, plugins: Plugins) -> None:
    """Checks that the worker's converters are plugins. Raises ConfigError with Kafka's text."""
    for key in CONVERTERS:
        name = trim(config.converter_class(key))
        class_name = plugins.class_named(name)
        if class_name is None:
            raise invalid_value(key, name, f"Class {name} could not be found.")
        kind = PluginType.HEADER_CONVERTER if key == "header.converter" else PluginType.CONVERTER
        ClassOf(plugins, kind).check(key, class_name)
        try:
            plugins.find(name, kind, version=config.texts.get(f"{key}.plugin.version"))
        except (ConnectException, InvalidVersion) as error:
            raise ConfigError(str(error), key=f"{key}.plugin.version") from None


def _worker_config(properties: Mapping[str, str], definition: ConfigDef) -> WorkerConfig:
    texts = Properties()
    texts.update_from(properties, where="")
    resolve(texts)
    try:
        return _checked(dict(texts), Values(definition.parse(texts)), definition)
    except ConfigError as error:
        raise texts.blamed(error) from None


def _checked(texts: Mapping[str, str], values: Values, definition: ConfigDef) -> WorkerConfig:
    is_distributed = definition is DISTRIBUTED
    return WorkerConfig(
        texts=texts,
        bootstrap_servers=values.names("bootstrap.servers"),
        key_converter=values.text("key.converter"),
        value_converter=values.text("value.converter"),
        header_converter=values.text("header.converter"),
        offset_flush_interval_ms=values.integer("offset.flush.interval.ms"),
        offset_flush_timeout_ms=values.integer("offset.flush.timeout.ms"),
        task_shutdown_graceful_timeout_ms=values.integer("task.shutdown.graceful.timeout.ms"),
        task_memory_max_bytes=values.integer("kcli.task.memory.max.bytes"),
        topic_creation_enable=values.boolean("topic.creation.enable"),
        topic_tracking_enable=values.boolean("topic.tracking.enable"),
        topic_tracking_allow_reset=values.boolean("topic.tracking.allow.reset"),
        plugin_path=tuple(path for path in values.names("plugin.path") if path),
        rest=rest_config(texts, values.values),
        override_policy=override_policy(trim(values.text(OVERRIDE_POLICY))),
        group=_group(texts, values) if is_distributed else None,
        offsets_file=None if is_distributed else values.text("offset.storage.file.filename"),
        warnings=tuple(_warnings(texts, definition)),
    )


def _group(texts: Mapping[str, str], values: Values) -> GroupConfig:
    return GroupConfig(
        group_id=values.text("group.id"),
        client_id=values.text("client.id"),
        protocol=ConnectProtocol(values.text("connect.protocol")),
        session_timeout_ms=values.integer("session.timeout.ms"),
        heartbeat_interval_ms=values.integer("heartbeat.interval.ms"),
        rebalance_timeout_ms=values.integer("rebalance.timeout.ms"),
        scheduled_rebalance_max_delay_ms=values.integer("scheduled.rebalance.max.delay.ms"),
        worker_sync_timeout_ms=values.integer("worker.sync.timeout.ms"),
        worker_unsync_backoff_ms=values.integer("worker.unsync.backoff.ms"),
        config_topic=_internal_topic("config", 1, texts, values),
        offset_topic=_internal_topic("offset", values.integer("offset.storage.partitions"), texts, values),
        status_topic=_internal_topic("status", values.integer("status.storage.partitions"), texts, values),
        exactly_once_source=ExactlyOnceSource(values.text("exactly.once.source.support").lower()),
        inter_worker=_inter_worker_keys(values),
    )


def _internal_topic(name: str, partitions: int, texts: Mapping[str, str], values: Values) -> InternalTopic:
    prefix = f"{name}.storage."
    others = ("topic", "partitions", "replication.factor", "cleanup.policy")
    settings = {key: text for key, text in with_prefix(texts, prefix).items() if key not in others}
    return InternalTopic(
        values.text(f"{prefix}topic"), partitions, values.integer(f"{prefix}replication.factor"), settings
    )


def _inter_worker_keys(values: Values) -> InterWorkerKeys:
    keys = InterWorkerKeys(
        generation_algorithm=values.text("inter.worker.key.generation.algorithm"),
        key_size=values.optional_integer("inter.worker.key.size"),
        ttl_ms=values.integer("inter.worker.key.ttl.ms"),
        signature_algorithm=values.text("inter.worker.signature.algorithm"),
        verification_algorithms=values.names("inter.worker.verification.algorithms"),
    )
    if keys.key_size is not None and keys.key_size < MIN_KEY_BITS:
        raise ConfigError(
            f"Unable to create key generator with algorithm {keys.generation_algorithm} and key size "
            f"{keys.key_size}: Key length must be at least {MIN_KEY_BITS} bits",
            key="inter.worker.key.size",
        )
    if keys.signature_algorithm not in keys.verification_algorithms:
        raise invalid_value(
            "inter.worker.signature.algorithm",
            keys.signature_algorithm,
            "Signature algorithm must be present in inter.worker.verification.algorithms list",
        )
    return keys


MIN_KEY_BITS = 40
"""The shortest key that signs requests. Java's key generators of HMAC have the same limit."""


def _warnings(texts: Mapping[str, str], definition: ConfigDef) -> list[str]:
    """Reports keys that are ignored, because a mistyped key would otherwise be noticed late."""
    warnings = [f"{key} has no effect: {reason}" for key, reason in NO_EFFECT.items() if key in texts]
    for topic in ("config", "offset", "status"):
        policy = texts.get(f"{topic}.storage.cleanup.policy")
        if policy is not None:
            warnings.append(
                f"Ignoring '{topic}.storage.cleanup.policy={policy}' setting, since compaction is always used"
            )
    partitions = texts.get("config.storage.partitions")
    if partitions is not None:
        warnings.append(
            f"Ignoring 'config.storage.partitions={partitions}' setting, since config topic partitions is always 1"
        )
    known = {*definition, *PRODUCER, *CONSUMER, *ADMIN, *NO_EFFECT}
    for key in texts:
        if key not in known and not key.startswith(_PREFIXES):
            near = difflib.get_close_matches(key, definition, n=1, cutoff=0.85)
            hint = f". Did you mean {near[0]}?" if near else ""
            warnings.append(f"{key} is not a configuration key of this worker{hint}")
    return warnings
