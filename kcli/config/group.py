"""Group configs of Kafka 4.1 (`kafka-configs --entity-type groups`), and the broker keys that supply their defaults."""
# ruff: noqa: E501  (a table reads best with one key to a line)

from __future__ import annotations

import re
from collections.abc import Mapping

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
    _key("consumer.session.timeout.ms", INT, "45000", Range(1), "A consumer group member silent for this long is removed."),
    _key("share.auto.offset.reset", STRING, "latest", OFFSET_RESET, "Where a share group starts on a partition it has not read."),
    _key("share.heartbeat.interval.ms", INT, "5000", Range(1), "Time between heartbeats of a share group's members."),
    _key("share.isolation.level", STRING, "read_uncommitted", OneOf(("read_committed", "read_uncommitted")), "Whether a share group sees records of open and aborted transactions."),
    _key("share.record.lock.duration.ms", INT, "30000", Range(1000), "How long a share group member may hold a record."),
    _key("share.session.timeout.ms", INT, "45000", Range(1), "A share group member silent for this long is removed."),
    _key("streams.heartbeat.interval.ms", INT, "5000", Range(1), "Time between heartbeats of a streams group's members."),
    _key("streams.num.standby.replicas", INT, "0", Range(0), "Standby copies of each task's state."),
    _key("streams.session.timeout.ms", INT, "45000", Range(1), "A streams group member silent for this long is removed."),
))
# fmt: on

# Every one of these keys has a broker key of the same name under `group.`, these apart.
_WITHOUT_BROKER_KEY = frozenset({"share.auto.offset.reset", "share.isolation.level"})

BROKER_SYNONYMS: Mapping[str, str] = {
    name: f"group.{name}" for name in GROUP if name not in _WITHOUT_BROKER_KEY
}


def validate_group_overrides(overrides: Mapping[str, str], broker: Mapping[str, ConfigValue]) -> None:
    """The whole set of configs of a group, against the broker's limits too. Raises ConfigError with Kafka's words."""
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}", key=name)
    values = GROUP.parse(overrides)
    for name in overrides:
        _check_limit(name, values[name], broker)
    for kind in ("consumer", "share", "streams"):
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
