"""The keys of the three connectors, with the names and defaults of MirrorMaker 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.config.admin import ADMIN
from kcli.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    OneOf,
    invalid_value,
)
from kcli.connectors.interface import Config
from kcli.model.java_regex import JavaRegexError, compile_java
from kcli.model.java_text import trim

PACKAGE = "org.apache.kafka.connect.mirror."
DEFAULT_POLICY = f"{PACKAGE}DefaultReplicationPolicy"
IDENTITY_POLICY = f"{PACKAGE}IdentityReplicationPolicy"
ENABLED = "enabled"
EMIT_CHECKPOINTS = "emit.checkpoints"
EMIT_HEARTBEATS = "emit.heartbeats"
EMIT_OFFSET_SYNCS = "emit.offset-syncs.enabled"
SOURCE, TARGET = "source", "target"
TASK_PARTITIONS = "task.assigned.partitions"
TASK_GROUPS = "task.assigned.groups"
TASK_INDEX = "task.index"

_BOOLEAN, _CLASS, _INT, _LIST = ConfigType.BOOLEAN, ConfigType.CLASS, ConfigType.INT, ConfigType.LIST
_LONG, _SHORT, _STRING = ConfigType.LONG, ConfigType.SHORT, ConfigType.STRING
_HIGH, _LOW = Importance.HIGH, Importance.LOW


class Expressions:
    """A list of Java's regular expressions, which are joined to one."""

    def check(self, key: str, value: ConfigValue) -> None:
        assert value is None or isinstance(value, tuple)
        try:
            compile_java("|".join(value or ()))
        except JavaRegexError as error:
            raise invalid_value(key, value, f"Invalid regex: {error}") from None

    def __str__(self) -> str:
        return "list of regular expressions"


def _one_of(*names: str) -> Callable[[str], str | None]:
    """Finds classes by their full names."""
    return lambda name: name if name in names else None


def _every(name: str, default_s: int, text: str, *, enabled: bool = True) -> tuple[ConfigKey, ConfigKey]:
    """The two keys of something that happens again and again."""
    return (
        ConfigKey(f"{name}.enabled", _BOOLEAN, str(enabled).lower(), None, _LOW, f"Whether to {text}."),
        ConfigKey(
            f"{name}.interval.seconds", _LONG, str(default_s), None, _LOW, f"How often to {text}, in seconds."
        ),
    )


def _class(name: str, text: str, *classes: str) -> ConfigKey:
    """The key of a class. The first class is the default."""
    return ConfigKey(name, _CLASS, classes[0], None, _LOW, text, find_class=_one_of(*classes))


_TOPIC_FILTER = _class(
    "topic.filter.class", "Class that selects the topics to copy.", f"{PACKAGE}DefaultTopicFilter"
)
_TOPICS = (
    ConfigKey("topics", _LIST, ".*", Expressions(), _HIGH, "Topics to copy: names and regular expressions."),
    ConfigKey(
        "topics.exclude", _LIST, r"mm2.*\.internal, .*\.replica, __.*", Expressions(), _HIGH,
        "Topics to leave out: names and regular expressions. This key takes precedence over topics.",
    ),
)  # fmt: skip
_POLL_TIMEOUT = ConfigKey(
    "consumer.poll.timeout.ms", _LONG, "1000", None, _LOW, "Longest wait for records of the source, in ms."
)
_SYNCS_LOCATION = ConfigKey(
    "offset-syncs.topic.location", _STRING, SOURCE, OneOf((SOURCE, TARGET)), _LOW,
    "Cluster that has the topic of offset syncs.",
)  # fmt: skip
_EMIT_SYNCS = ConfigKey(
    EMIT_OFFSET_SYNCS, _BOOLEAN, "true", None, _LOW,
    "Whether to record which offset of the target belongs to an offset of the source. Checkpoints need these records.",
)  # fmt: skip
_SECURITY = tuple(
    key for name, key in ADMIN.items() if name.startswith(("ssl.", "sasl.")) or name == "security.protocol"
)
CLIENT_KEYS = frozenset({"bootstrap.servers", *(key.name for key in _SECURITY)})
"""The keys of a client that may follow the prefix `source.cluster.` or `target.cluster.`."""

_COMMON = (
    ConfigKey(ENABLED, _BOOLEAN, "true", None, _LOW, "Whether to copy from the source to the target."),
    ConfigKey(
        "source.cluster.alias", _STRING, None, None, _HIGH, "Alias of the source cluster.", required=True
    ),
    ConfigKey("target.cluster.alias", _STRING, TARGET, None, _HIGH, "Alias of the target cluster."),
    ConfigKey("admin.timeout.ms", _LONG, "60000", None, _LOW, "Longest time of an admin task, in ms."),
    _class("replication.policy.class", "Class that names remote topics.", DEFAULT_POLICY, IDENTITY_POLICY),
    ConfigKey("replication.policy.separator", _STRING, ".", None, _LOW, "Separator in names of remote topics."),
    ConfigKey(
        "replication.policy.internal.topic.separator.enabled", _BOOLEAN, "true", None, _LOW,
        "Whether the names of MirrorMaker's own topics have the separator too, and not a dot.",
    ),
    _class(
        "forwarding.admin.class", "Class of the admin client.",
        "org.apache.kafka.clients.admin.ForwardingAdmin",
    ),
    ConfigKey(
        "metric.reporters", _LIST, "org.apache.kafka.common.metrics.JmxReporter",
        OneOf(("org.apache.kafka.common.metrics.JmxReporter",)), _LOW, "Classes that report metrics.",
    ),
    *_SECURITY,
)  # fmt: skip

SOURCE_KEYS = ConfigDef(
    (
        *_COMMON,
        *_TOPICS,
        _TOPIC_FILTER,
        ConfigKey(
            "config.properties.exclude", _LIST,
            r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
            r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, "
            r"unclean\.leader\.election\.enable, min\.insync\.replicas",
            Expressions(), _HIGH, "Configs of topics that are not copied: names and regular expressions.",
        ),
        _class(
            "config.property.filter.class", "Class that selects the configs to copy.",
            f"{PACKAGE}DefaultConfigPropertyFilter",
        ),
        _POLL_TIMEOUT,
        *_every("refresh.topics", 600, "look for new topics and partitions"),
        *_every("sync.topic.configs", 600, "copy the configs of topics"),
        *_every("sync.topic.acls", 600, "copy the ACLs of topics"),
        ConfigKey("replication.factor", _INT, "2", None, _LOW, "Replication factor of new remote topics."),
        ConfigKey(
            "offset-syncs.topic.replication.factor", _SHORT, "3", None, _LOW,
            "Replication factor of the topic of offset syncs.",
        ),
        ConfigKey(
            "offset.lag.max", _LONG, "100", None, _LOW, "Records after which a new offset sync is written."
        ),
        _SYNCS_LOCATION,
        _EMIT_SYNCS,
        ConfigKey(
            "heartbeats.replication.enabled", _BOOLEAN, "true", None, _LOW,
            "Whether to copy the topics of heartbeats, which topics need not select.",
        ),
    )
)  # fmt: skip
CHECKPOINT_KEYS = ConfigDef(
    (
        *_COMMON,
        _POLL_TIMEOUT,
        ConfigKey("groups", _LIST, ".*", Expressions(), _HIGH, "Groups to copy: names and regular expressions."),
        ConfigKey(
            "groups.exclude", _LIST, "console-consumer-.*, connect-.*, __.*", Expressions(), _HIGH,
            "Groups to leave out: names and regular expressions. This key takes precedence over groups.",
        ),
        _class("group.filter.class", "Class that selects the groups to copy.", f"{PACKAGE}DefaultGroupFilter"),
        *_every("refresh.groups", 600, "look for new groups"),
        *_every(EMIT_CHECKPOINTS, 60, "write translated offsets of groups to the topic of checkpoints"),
        *_every("sync.group.offsets", 60, "commit translated offsets for idle groups", enabled=False),
        ConfigKey(
            "checkpoints.topic.replication.factor", _SHORT, "3", None, _LOW,
            "Replication factor of the topic of checkpoints.",
        ),
        _SYNCS_LOCATION,
        _TOPIC_FILTER,
    )
)  # fmt: skip
HEARTBEAT_KEYS = ConfigDef(
    (
        *_COMMON,
        *_every(EMIT_HEARTBEATS, 1, "write a heartbeat"),
        ConfigKey(
            "heartbeats.topic.replication.factor", _SHORT, "3", None, _LOW,
            "Replication factor of the topic of heartbeats.",
        ),
    )
)  # fmt: skip

_NEEDS_READ_COMMITTED = (
    "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with "
    "isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted transactions will be "
    "replicated from the source cluster to the target cluster."
)

_DEFAULTS_FROM = ConfigKey(
    "use.defaults.from", _STRING, TARGET, OneOf((SOURCE, TARGET)), _LOW,
    "Cluster whose default is used for a config that a topic of the source does not set.",
)  # fmt: skip

# The filters read these keys too. They are no keys of the connectors in Kafka, so MirrorMaker's program does not pass
# them on from the top of its file, and validations do not list them.
SOURCE_SETTINGS = ConfigDef((*SOURCE_KEYS.values(), _DEFAULTS_FROM))
CHECKPOINT_SETTINGS = ConfigDef((*CHECKPOINT_KEYS.values(), *_TOPICS))


def is_false(config: Config, key: str) -> bool:
    return trim(config.get(key) or "").lower() == "false"


def source_errors(config: Config) -> Mapping[str, list[str]]:
    """The errors that concern several keys of the source connector, with Java's texts."""
    errors: dict[str, list[str]] = {}
    if config.get("exactly.once.support") == "required" and not reads_committed(config):
        errors["exactly.once.support"] = [_NEEDS_READ_COMMITTED]
    has_topic_keys = any(key.startswith(("offset-syncs-", "offset-syncs.topic.")) for key in config)
    if is_false(config, EMIT_OFFSET_SYNCS) and has_topic_keys:
        errors[EMIT_OFFSET_SYNCS] = [
            f"MirrorSourceConnector can't setup offset-syncs feature while {EMIT_OFFSET_SYNCS} set to false"
        ]
    return errors


def checkpoint_errors(config: Config) -> Mapping[str, list[str]]:
    """The errors that concern several keys of the checkpoint connector, with Java's texts."""
    if is_false(config, ENABLED):
        return {}
    errors = {}
    emit = f"{EMIT_CHECKPOINTS}.enabled"
    if is_false(config, emit):
        errors[emit] = [f"MirrorCheckpointConnector can't run with {emit} set to false"]
    if is_false(config, EMIT_OFFSET_SYNCS):
        errors[EMIT_OFFSET_SYNCS] = ["MirrorCheckpointConnector can't run without offset syncs"]
    return errors


def reads_committed(config: Config) -> bool:
    """Whether the consumer of the source leaves out the records of open and aborted transactions."""
    key = "consumer.isolation.level"
    return config.get(f"source.{key}", config.get(key)) == "read_committed"
