"""Reads the configuration with which a node starts, and checks that its keys fit together.

If Kafka has the same rule, the error has Kafka's text.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.config.broker import DYNAMIC_ONLY, BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.group import consumer_group_keys
from kcli.config.listeners import WILDCARD_HOST
from kcli.config.properties import Properties
from kcli.config.providers import resolve
from kcli.model.java_text import parse_int, split_list, trim

REMOVED: Mapping[str, str] = {
    "zookeeper.connect": "process.roles, node.id, controller.listener.names and controller.quorum.bootstrap.servers: "
    "a cluster keeps its metadata itself (KRaft)",
    "inter.broker.protocol.version": "the feature metadata.version, chosen by `kcli storage format --release-version`",
    "log.message.format.version": "nothing, as there is one record format",
    "log.message.timestamp.difference.max.ms": "log.message.timestamp.before.max.ms and "
    "log.message.timestamp.after.max.ms",
    "log.message.downconversion.enable": "nothing, as records are sent in the one format",
    "delegation.token.master.key": "delegation.token.secret.key",
    "host.name": "listeners",
    "port": "listeners",
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
}
"""Keys that Kafka 4 no longer has, and their replacements."""

CONTROLLER_KEYS = (
    "create.topic.policy.class.name",
    "alter.config.policy.class.name",
    "num.partitions",
    "default.replication.factor",
)
"""The keys of the controller role. A node without this role ignores them."""

REPLICA_SELECTORS = (
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
"""The supported values of replica.selector.class. Other Java classes cannot run here."""

MIN_DEDUPE_BUFFER_BYTES_PER_THREAD = 1 << 20
NEWEST_CODEC = 4
"""The highest codec id. The ids are: 0 no compression, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""


def node_config(properties: Mapping[str, str], overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    """The configuration of a node that is about to start.

    `overrides` (from `--override key=value`) take precedence over `properties`. Raises ConfigError for every
    configuration with which Kafka refuses to start. The error names file, line and key.
    """
    texts = Properties()
    texts.update_from(properties, where="")
    texts.update_from(overrides or {}, where="--override")
    check_removed(texts)
    resolve(texts)
    _derive_node_id(texts)
    config = BrokerConfig(texts)
    try:
        check(config)
    except ConfigError as error:
        raise texts.blamed(error) from None
    return config


def _derive_node_id(texts: Properties) -> None:
    """Sets node.id from its old name broker.id, or the reverse, if only one of them is set."""
    for present, absent in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if present in texts and absent not in texts:
            texts.update_from({absent: texts[present]}, where=texts.where(present))


def check_removed(texts: Mapping[str, str]) -> None:
    """Raises ConfigError if the file is for Kafka with ZooKeeper. The error names the key that replaces
    zookeeper.connect. Call this function before missing keys are reported."""
    if "zookeeper.connect" in texts and "process.roles" not in texts:
        raise ConfigError(
            f"zookeeper.connect was removed in Kafka 4.0. Set instead {REMOVED['zookeeper.connect']}",
            key="zookeeper.connect",
        )


def check(config: BrokerConfig) -> None:
    """Checks that the keys fit together. Raises ConfigError for the first rule that is broken."""
    _check_node_id(config)
    _check_roles(config)
    _check_durations(config)
    _check_log_dirs(config)
    _check_replication(config)
    _check_quorum(config)
    _check_inter_broker(config)
    if config.is_controller:
        _check_controller(config)
        if not config.is_broker:
            _check_controller_only(config)
    else:
        _check_broker_only(config)
    if config.is_broker:
        _check_broker_listeners(config)
        _check_groups(config)
        _check_replica_selector(config)
    _check_limits(config)
    for throttle in DYNAMIC_ONLY:
        config.throttle(throttle)  # raises ConfigError if the rate is invalid
    _ = config.metrics_address  # raises ConfigError if the address is invalid


def warnings(config: BrokerConfig) -> list[str]:
    """Warnings about probable mistakes that do not prevent a start."""
    sentences = []
    heartbeat, session = (
        config.integer("broker.heartbeat.interval.ms"),
        config.integer("broker.session.timeout.ms"),
    )
    if heartbeat * 2 > session:
        sentences.append(
            f"broker.heartbeat.interval.ms ({heartbeat} ms) must be less than or equal to half of the "
            f"broker.session.timeout.ms ({session} ms): one late heartbeat fences the broker"
        )
    if not config.is_controller:
        sentences.extend(
            f"{config.texts.where(name)}: {name} belongs to controllers; a broker does not read it"
            for name in CONTROLLER_KEYS
            if config.is_set(name)
        )
    return sentences


def _require(condition: bool, message: str, key: str) -> None:
    if not condition:
        raise ConfigError(message, key=key)


def _check_node_id(config: BrokerConfig) -> None:
    _require(
        config.integer("broker.id") == config.node_id,
        f"You must set `node.id` to the same value as `broker.id`: they are {config.node_id} "
        f"and {config.integer('broker.id')}",
        "broker.id",
    )


def _check_roles(config: BrokerConfig) -> None:
    roles = config.listed("process.roles")
    _require(bool(roles), "process.roles must be broker, controller, or broker,controller", "process.roles")
    _require(
        len(set(roles)) == len(roles),
        f"Duplicate role names found in `process.roles`: {','.join(roles)}",
        "process.roles",
    )


def _check_replica_selector(config: BrokerConfig) -> None:
    selector = config.text("replica.selector.class")
    _require(
        selector in ("", *REPLICA_SELECTORS),
        f"replica.selector.class: expected {' or '.join(REPLICA_SELECTORS)}, found {selector}",
        "replica.selector.class",
    )


def _check_durations(config: BrokerConfig) -> None:
    _require(config.log_roll_ms >= 1, "log.roll.ms must be greater than or equal to 1", "log.roll.ms")
    _require(
        config.log_roll_jitter_ms >= 0,
        "log.roll.jitter.ms must be greater than or equal to 0",
        "log.roll.jitter.ms",
    )
    _require(
        config.log_retention_ms >= 1 or config.log_retention_ms == -1,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        "log.retention.ms",
    )


def _check_log_dirs(config: BrokerConfig) -> None:
    _require(
        bool(config.log_dirs),
        "At least one log directory must be defined via log.dirs or log.dir.",
        "log.dirs",
    )
    buffer, threads = config.integer("log.cleaner.dedupe.buffer.size"), config.integer("log.cleaner.threads")
    _require(
        threads == 0 or buffer / threads > MIN_DEDUPE_BUFFER_BYTES_PER_THREAD,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        "log.cleaner.dedupe.buffer.size",
    )


def _check_replication(config: BrokerConfig) -> None:
    wait = config.integer("replica.fetch.wait.max.ms")
    _require(
        wait <= config.integer("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms "
        "to prevent unnecessary socket timeouts",
        "replica.fetch.wait.max.ms",
    )
    _require(
        wait <= config.integer("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
        "to prevent frequent changes in ISR",
        "replica.fetch.wait.max.ms",
    )


def _check_quorum(config: BrokerConfig) -> None:
    _require(
        bool(config.quorum_voters or config.quorum_bootstrap_servers),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
        "controllers or controller.quorum.voters must contain a parseable set of controllers.",
        "process.roles",
    )
    _require(
        bool(config.controller_listener_names),
        "controller.listener.names must contain at least one value",
        "controller.listener.names",
    )


def _check_inter_broker(config: BrokerConfig) -> None:
    key = "inter.broker.listener.name"
    if not config.text(key):
        return
    _require(
        not config.is_set("security.inter.broker.protocol"),
        f"Only one of {key} and security.inter.broker.protocol should be set.",
        key,
    )
    name = config.inter_broker_listener_name
    _require(
        name in config.security_protocols,
        f"Listener with name {name} defined in {key} not found in listener.security.protocol.map.",
        key,
    )
    mechanism = config.text("sasl.mechanism.inter.broker.protocol")
    enabled = config.of_listener(name, "sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    _require(
        mechanism in enabled or not config.security_protocols[name].startswith("SASL_"),
        "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms "
        f"when SASL is used for inter-broker communication: {mechanism} is not",
        "sasl.mechanism.inter.broker.protocol",
    )


def _check_controller(config: BrokerConfig) -> None:
    voters = config.quorum_voters
    _require(
        not voters or config.node_id in voters,
        "If process.roles contains the 'controller' role, the node id "
        f"{config.node_id} must be included in the set of voters controller.quorum.voters={sorted(voters)}",
        "controller.quorum.voters",
    )
    listening = {listener.name for listener in config.listeners}
    missing = [name for name in config.controller_listener_names if name not in listening]
    _require(
        not missing,
        "controller.listener.names must contain at least one value appearing in the 'listeners' configuration "
        f"when running the KRaft controller role, and no other: {', '.join(missing)} not in listeners",
        "controller.listener.names",
    )


def _check_controller_only(config: BrokerConfig) -> None:
    others = [listener.name for listener in config.broker_listeners]
    _require(
        not others,
        "The listeners config must only contain KRaft controller listeners from controller.listener.names "
        f"when process.roles=controller: {', '.join(others)} is not one",
        "listeners",
    )
    name = config.text("inter.broker.listener.name").upper()
    _require(
        not name or name not in config.controller_listener_names,
        f"inter.broker.listener.name={name} must not be a controller listener",
        "inter.broker.listener.name",
    )


def _check_broker_only(config: BrokerConfig) -> None:
    _require(
        config.node_id not in config.quorum_voters,
        "If process.roles contains just the 'broker' role, the node id "
        f"{config.node_id} must not be included in the set of voters controller.quorum.voters",
        "controller.quorum.voters",
    )
    listening = {listener.name for listener in config.listeners}
    for name in config.controller_listener_names:
        _require(
            name not in listening,
            "controller.listener.names must not contain a value appearing in the 'listeners' configuration "
            f"when running KRaft with just the broker role: {name}",
            "controller.listener.names",
        )
        _require(
            name in config.security_protocols,
            f"Controller listener with name {name} defined in controller.listener.names "
            "not found in listener.security.protocol.map",
            "controller.listener.names",
        )


def _check_broker_listeners(config: BrokerConfig) -> None:
    _require(
        bool(config.broker_listeners),
        "There must be at least one broker listener: listeners names only those of controller.listener.names",
        "listeners",
    )
    names = {listener.name for listener in config.listeners}
    advertised = [
        item for item in config.all_advertised_listeners if item.name not in config.controller_listener_names
    ]
    for listener in advertised:
        _require(
            listener.host != WILDCARD_HOST,
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address.",
            "advertised.listeners" if config.is_set("advertised.listeners") else "listeners",
        )
    foreign = [listener.name for listener in advertised if listener.name not in names]
    _require(
        not foreign,
        "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. "
        f"Found {','.join(foreign)}, valid are {','.join(sorted(names))}",
        "advertised.listeners",
    )
    options = [listener.name for listener in advertised]
    _require(
        config.inter_broker_listener_name in options,
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
        f"The valid options based on currently configured listeners are {','.join(options)}",
        "inter.broker.listener.name",
    )


def _check_groups(config: BrokerConfig) -> None:
    consumer_group_keys(config)  # raises ConfigError if the keys contradict each other
    codec = config.integer("offsets.topic.compression.codec")
    _require(
        0 <= codec <= NEWEST_CODEC, f"Unknown compression type id: {codec}", "offsets.topic.compression.codec"
    )


def parse_per_ip_overrides(text: str) -> dict[str, int]:
    """Parses the value `host:count,…` of max.connections.per.ip.overrides. Raises ConfigError."""
    key = "max.connections.per.ip.overrides"
    overrides = {}
    for item in split_list(text):
        host, _, count = item.rpartition(":")
        try:
            overrides[trim(host)] = parse_int(trim(count))
        except ValueError:
            overrides[""] = -1
        _require(
            "" not in overrides and min(overrides.values()) >= 0, f"{key}: '{item}' is not address:count", key
        )
    return overrides


def _check_limits(config: BrokerConfig) -> None:
    queued, largest = config.integer("queued.max.request.bytes"), config.integer("socket.request.max.bytes")
    _require(
        queued <= 0 or queued >= largest,
        "queued.max.request.bytes must be unlimited (-1) or at least socket.request.max.bytes",
        "queued.max.request.bytes",
    )
    _require(
        config.integer("max.connections.per.ip") > 0 or bool(config.text("max.connections.per.ip.overrides")),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        "max.connections.per.ip",
    )
    overrides = parse_per_ip_overrides(config.text("max.connections.per.ip.overrides"))
    _require(
        config.integer("max.connections.per.ip") > 0 or any(overrides.values()),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides lets an address in.",
        "max.connections.per.ip",
    )
    delay, idle = (
        config.integer("connection.failed.authentication.delay.ms"),
        config.integer("connections.max.idle.ms"),
    )
    _require(
        idle < 0 or delay < idle,
        f"connection.failed.authentication.delay.ms={delay} should always be less than "
        f"connections.max.idle.ms={idle} to prevent failed authentication responses from timing out",
        "connection.failed.authentication.delay.ms",
    )
