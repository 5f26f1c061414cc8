"""Group configs of Kafka 4.1 (`kafka-configs --entity-type groups`), and the broker keys that supply their defaults and
limits."""
# ruff: noqa: E501  (a table reads best with one key to a line)

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Matching,
    OneOf,
    Range,
    UpdateMode,
    Validator,
)

if TYPE_CHECKING:
    from kcli.config.broker import BrokerConfig

_DURATION = re.compile(
    r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.ASCII | re.IGNORECASE
)


def _offset_reset(*words: str) -> Matching:
    def accepts(value: ConfigValue) -> bool:
        return isinstance(value, str) and (value.lower() in words or _DURATION.fullmatch(value) is not None)

    quoted = ", ".join(f"'{word}'" for word in words)
    return Matching(
        accepts,
        f"Invalid value `{{value}}` for configuration {{key}}. The value must be either {quoted} "
        "or of the format 'by_duration:<PnDTnHnMn.nS.>'.",
        f"[{', '.join(words)}, by_duration:PnDTnHnMn.nS]",
    )


OFFSET_RESET = _offset_reset("earliest", "latest")
OFFSET_RESET_OR_NONE = _offset_reset("earliest", "latest", "none")


def _key(
    name: str, kind: ConfigType, default: str, validator: Validator | None, documentation: str
) -> ConfigKey:
    mode = UpdateMode.CLUSTER_WIDE
    return ConfigKey(name, kind, default, validator, Importance.MEDIUM, documentation, mode)


INT, STRING = ConfigType.INT, ConfigType.STRING

# fmt: off
GROUP = ConfigDef((
    _key("consumer.heartbeat.interval.ms", INT, "5000", Range(1), "Time between heartbeats of a consumer group's members."),
    _key("consumer.session.timeout.ms", INT, "45000", Range(1), "Time without a heartbeat after which a member of a consumer group is removed."),
    _key("share.auto.offset.reset", STRING, "latest", OFFSET_RESET, "Where a share group starts in a partition that it has not read before."),
    _key("share.heartbeat.interval.ms", INT, "5000", Range(1), "Time between heartbeats of a share group's members."),
    _key("share.isolation.level", STRING, "read_uncommitted", OneOf(("read_committed", "read_uncommitted")), "Whether a share group sees records of open and aborted transactions."),
    _key("share.record.lock.duration.ms", INT, "30000", Range(1000), "How long a share group member may hold a record."),
    _key("share.session.timeout.ms", INT, "45000", Range(1), "Time without a heartbeat after which a member of a share group is removed."),
    _key("streams.heartbeat.interval.ms", INT, "5000", Range(1), "Time between heartbeats of a streams group's members."),
    _key("streams.num.standby.replicas", INT, "0", Range(0), "Standby copies of each task's state."),
    _key("streams.session.timeout.ms", INT, "45000", Range(1), "Time without a heartbeat after which a member of a streams group is removed."),
))
# fmt: on

_KINDS = ("consumer", "share", "streams")

_WITHOUT_BROKER_KEY = frozenset({"share.auto.offset.reset", "share.isolation.level"})
"""The group keys without a broker key. Every other group key gets its default from the broker key `group.<name>`."""

BROKER_SYNONYMS: Mapping[str, str] = {
    name: f"group.{name}" for name in GROUP if name not in _WITHOUT_BROKER_KEY
}


def validate_group_overrides(overrides: Mapping[str, str], broker: Mapping[str, ConfigValue]) -> None:
    """Checks that all configs of a group fit together, and that they obey the broker's limits. Raises ConfigError with
    Kafka's text."""
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}", key=name)
    values = GROUP.parse(overrides)
    for name in overrides:
        _check_limit(name, values[name], broker)
    for kind in _KINDS:
        heartbeat, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        beats, lasts = _effective(heartbeat, overrides, broker), _effective(session, overrides, broker)
        if lasts <= beats and (heartbeat in overrides or session in overrides):
            raise ConfigError(f"{session} must be greater than {heartbeat}", key=session)


def _effective(name: str, overrides: Mapping[str, str], broker: Mapping[str, ConfigValue]) -> int:
    value = GROUP[name].parse(overrides[name]) if name in overrides else broker.get(BROKER_SYNONYMS[name])
    if value is None:
        value = GROUP.default(name)
    assert isinstance(value, int)
    return value


def _check_limit(name: str, value: ConfigValue, broker: Mapping[str, ConfigValue]) -> None:
    kind, _, rest = name.partition(".")
    for bound in ("min", "max"):
        limit_key = f"group.{kind}.{bound}.{rest.removeprefix('num.')}"
        limit = broker.get(limit_key)
        if not isinstance(limit, int) or not isinstance(value, int):
            continue
        if bound == "min" and value < limit:
            raise ConfigError(f"{name} must be greater than or equal to {limit_key}", key=name)
        if bound == "max" and value > limit:
            raise ConfigError(f"{name} must be less than or equal to {limit_key}", key=name)


# --- the broker keys of consumer groups (KIP-848)

REBALANCE_PROTOCOLS = "group.coordinator.rebalance.protocols"
CONSUMER_SESSION = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT = "consumer.heartbeat.interval.ms"
_BOUNDS = (
    (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    *(
        (f"group.{kind}.min.{name}", f"group.{kind}.{name}", f"group.{kind}.max.{name}")
        for kind in ("share", "streams")
        for name in ("heartbeat.interval.ms", "session.timeout.ms")
    ),
    (
        "group.share.min.record.lock.duration.ms",
        "group.share.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
)
"""Rows of keys: (lower bound, default value, upper bound)."""

_ASSIGNORS: Mapping[str, str] = {
    spelling: name
    for name, class_name in (("uniform", "UniformAssignor"), ("range", "RangeAssignor"))
    for spelling in (name, f"org.apache.kafka.coordinator.group.assignor.{class_name}")
}
"""Assignors by name and by Java class, because Kafka accepts both."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupKeys:
    """The broker's settings of consumer groups. `assignors` has the names of the permitted assignors. The first
    assignor is the default.

    `is_enabled` is True if `group.coordinator.rebalance.protocols` contains `consumer`.
    """

    assignors: tuple[str, ...]
    migration_policy: str
    is_enabled: bool


def consumer_group_keys(config: BrokerConfig) -> ConsumerGroupKeys:
    """The broker's settings of consumer groups. Raises ConfigError if the keys contradict each other."""
    check_bounds(config)
    protocols = config.listed(REBALANCE_PROTOCOLS)
    if "classic" not in protocols:
        raise ConfigError(
            "Disabling the 'classic' protocol is not supported.",
            key=REBALANCE_PROTOCOLS,
            where=config.texts.where(REBALANCE_PROTOCOLS),
        )
    return ConsumerGroupKeys(
        assignors=_assignors(config),
        migration_policy=config.text("group.consumer.migration.policy").lower(),
        is_enabled="consumer" in protocols,
    )


def _assignors(config: BrokerConfig) -> tuple[str, ...]:
    key = "group.consumer.assignors"
    names = []
    for assignor in config.listed(key):
        if assignor not in _ASSIGNORS:
            raise ConfigError(
                f"Invalid value {assignor} for configuration {key}: expected uniform or range, because other "
                "classes cannot be loaded",
                key=key,
                where=config.texts.where(key),
            )
        names.append(_ASSIGNORS[assignor])
    if not names:
        raise ConfigError(f"{key} must name an assignor: uniform, range", key=key)
    return tuple(dict.fromkeys(names))


def check_bounds(config: BrokerConfig) -> None:
    """Raises ConfigError, with Kafka's texts, for bounds of groups that contradict each other."""
    for low, own, high in _BOUNDS:
        for smaller, larger in ((low, high), (low, own)):
            if config.integer(smaller) > config.integer(larger):
                raise _broken(config, larger, f"greater than or equal to {smaller}")
        if config.integer(own) > config.integer(high):
            raise _broken(config, own, f"less than or equal to {high}")
    for kind in _KINDS:
        heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if config.integer(heartbeat) >= config.integer(session):
            raise _broken(config, heartbeat, f"less than {session}")
    standby, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if config.integer(standby) > config.integer(most):
        raise _broken(config, standby, f"less than or equal to {most}")


def _broken(config: BrokerConfig, key: str, bound: str) -> ConfigError:
    return ConfigError(f"{key} must be {bound}", key=key, where=config.texts.where(key))


def effective_consumer_times(overrides: Mapping[str, str], config: BrokerConfig) -> tuple[int, int]:
    """The session timeout and the heartbeat interval of a consumer group, in ms."""
    return (
        _effective(CONSUMER_SESSION, overrides, config),
        _effective(CONSUMER_HEARTBEAT, overrides, config),
    )
