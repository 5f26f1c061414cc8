"""Describes configurations for DescribeConfigs: the value of each key, its source and its synonyms (KIP-226).

A key may be set in several layers. Their order is: overrides of a topic or group, the broker's dynamic configs, the
cluster's dynamic defaults, the broker's file, Kafka's defaults. The source of a value is the first layer that sets the
key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kcli.config.broker import BROKER, DYNAMIC_ONLY, BrokerConfig
from kcli.config.client_metrics import CLIENT_METRICS
from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    UpdateMode,
    value_text,
)
from kcli.config.group import BROKER_SYNONYMS, GROUP
from kcli.config.topic import SERVER_SYNONYMS, TOPIC, server_default
from kcli.model.configs import ConfigSource
from kcli.model.secret_text import without_logins

LISTENER_PREFIX = "listener.name."


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """The description of one key. The value of a sensitive key is None, also in its synonyms."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType
    documentation: str
    synonyms: tuple[ConfigSynonym, ...]


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """The texts of the keys that are set for a broker, by layer.

    `dynamic` holds the keys that are set for this broker alone. `dynamic_default` holds the keys that are set for the
    whole cluster. `static` holds the keys of the broker's file.
    """

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    def merged(self) -> dict[str, str]:
        """The keys that are set in any layer.

        `dynamic` takes precedence over `dynamic_default`, which takes precedence over `static`.
        """
        return {**self.static, **self.dynamic_default, **self.dynamic}

    def text(self, name: str) -> str:
        """The value that takes precedence. Raises KeyError if no layer has the key."""
        for layer in (self.dynamic, self.dynamic_default):
            if name in layer:
                return layer[name]
        return self.static[name]


def describe_topic(
    overrides: Mapping[str, str], layers: BrokerLayers, broker: Mapping[str, ConfigValue]
) -> tuple[ConfigEntry, ...]:
    """Describes every public topic key, sorted by name. `broker` holds the broker's present values."""
    return tuple(_topic_entry(key, overrides, layers, broker) for key in TOPIC.values() if not key.internal)


def describe_broker(layers: BrokerLayers, broker: BrokerConfig) -> tuple[ConfigEntry, ...]:
    """Describes every public broker key and all other keys that are set for the broker, sorted by name."""
    public = {name for name, key in BROKER.items() if not key.internal}
    return tuple(
        _broker_entry(name, layers, value_text(broker[name]) if name in BROKER else layers.text(name))
        for name in sorted(public | layers.merged().keys())
    )


def describe_broker_defaults(layers: BrokerLayers) -> tuple[ConfigEntry, ...]:
    """Describes the cluster's dynamic defaults, sorted by name. The other layers are not used. A stored value that is
    invalid is described as it was stored."""
    only = BrokerLayers(dynamic_default=layers.dynamic_default)
    return tuple(
        _broker_entry(name, only, _stored_text(BROKER[name], text) if name in BROKER else text, defaults={})
        for name, text in sorted(layers.dynamic_default.items())
    )


def _stored_text(key: ConfigKey, text: str) -> str | None:
    """A stored value as DescribeConfigs sends it. A value that is invalid is sent as it was stored."""
    try:
        return value_text(key.parse(text))
    except ConfigError:
        return text


def describe_group(
    overrides: Mapping[str, str], broker: Mapping[str, ConfigValue]
) -> tuple[ConfigEntry, ...]:
    """Describes every group key, sorted by name. A key that is not set has the value of its broker key.

    As in Kafka, a key that is not set also has a synonym: its own name, with the value of the broker key.
    """
    defaults = {name: broker.get(synonym) for name, synonym in BROKER_SYNONYMS.items()}
    return _described(GROUP, overrides, defaults, ConfigSource.DYNAMIC_GROUP_CONFIG)


def describe_client_metrics(overrides: Mapping[str, str]) -> tuple[ConfigEntry, ...]:
    """Describes every key of a client metrics subscription, sorted by name. As in Kafka, a key that is not set has no
    synonyms."""
    entries = _described(CLIENT_METRICS, overrides, {}, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)
    return tuple(entry if entry.name in overrides else replace(entry, synonyms=()) for entry in entries)


def broker_key(name: str) -> ConfigKey | None:
    """The definition of a broker key, whose name may have a listener prefix."""
    base = base_name(name)
    return BROKER.get(base) or DYNAMIC_ONLY.get(base)


def base_name(name: str) -> str:
    """The name of a key without the prefix `listener.name.<listener>.[<mechanism>.]`, if it has one."""
    if not name.startswith(LISTENER_PREFIX):
        return name
    scoped = name[len(LISTENER_PREFIX) :].partition(".")[2]
    return scoped if scoped in BROKER else scoped.partition(".")[2] or scoped


def _topic_entry(
    key: ConfigKey, overrides: Mapping[str, str], layers: BrokerLayers, broker: Mapping[str, ConfigValue]
) -> ConfigEntry:
    names = [synonym.name for synonym in SERVER_SYNONYMS.get(key.name, ())]
    synonyms = _synonyms(names[0], names, layers, sensitive=False) if names else ()
    if key.name in overrides:
        value = _stored_text(key, overrides[key.name])
        own = ConfigSynonym(key.name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG)
        synonyms = (own, *synonyms)
    else:
        value = value_text(server_default(key.name, broker))
    return _entry(key, key.name, value, synonyms, read_only=False)


def _shown(value: str | None) -> str | None:
    """The value of a broker key without the login of a URL, such as kcli.trace.endpoint. Such keys are read-only, so no
    tool writes the shown value back."""
    return None if value is None else without_logins(value)


def _broker_entry(
    name: str, layers: BrokerLayers, value: str | None, defaults: Mapping[str, str] | None = None
) -> ConfigEntry:
    key = broker_key(name)
    # The value of an unknown key may be a secret, so it is treated as sensitive.
    sensitive = key is None or key.sensitive
    synonyms = _synonyms(name, _broker_names(name), layers, sensitive=sensitive, defaults=defaults)
    read_only = name not in DYNAMIC_ONLY and (
        name not in BROKER or BROKER[name].update_mode is UpdateMode.READ_ONLY
    )
    return _entry(key, name, _shown(value), synonyms, read_only=read_only)


# Broker keys that differ only in their unit. Within a group, an earlier key takes precedence.
_UNIT_GROUPS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")


def _broker_names(name: str) -> tuple[str, ...]:
    """The keys from which a broker key may get its value, highest precedence first."""
    for group in _UNIT_GROUPS:
        if name in group:
            return group
    if name == _FLUSH[0]:
        return _FLUSH
    base = base_name(name)
    return (name,) if base == name else (name, base)


def _synonyms(
    name: str,
    names: Sequence[str],
    layers: BrokerLayers,
    *,
    sensitive: bool,
    defaults: Mapping[str, str] | None = None,
) -> tuple[ConfigSynonym, ...]:
    """The synonyms of `name`: the sources that set one of `names`, from the first source that sets `name` itself.

    As in Kafka, sources before this first source are left out. So `log.roll.ms` has no synonym if only `log.roll.hours`
    is set.
    """
    last = _defaults_of(names) if defaults is None else defaults
    synonyms = [
        ConfigSynonym(present, None if sensitive else without_logins(text), source)
        for layer, source in (
            (layers.dynamic, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (layers.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (layers.static, ConfigSource.STATIC_BROKER_CONFIG),
            (last, ConfigSource.DEFAULT_CONFIG),
        )
        for present, text in _present(names, layer)
    ]
    first = next((index for index, synonym in enumerate(synonyms) if synonym.name == name), len(synonyms))
    return tuple(synonyms[first:])


def _present(names: Iterable[str], layer: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, layer[name]) for name in names if name in layer)


def _defaults_of(names: Iterable[str]) -> dict[str, str]:
    texts = ((name, value_text(BROKER.default(name))) for name in names if name in BROKER)
    return {name: text for name, text in texts if text is not None}


def _described(
    table: ConfigDef,
    overrides: Mapping[str, str],
    defaults: Mapping[str, ConfigValue],
    source: ConfigSource,
) -> tuple[ConfigEntry, ...]:
    entries = []
    for key in table.values():
        if key.name in overrides:
            value = _stored_text(key, overrides[key.name])
            synonym = ConfigSynonym(key.name, value, source)
        else:
            default = defaults.get(key.name)
            value = value_text(table.default(key.name) if default is None else default)
            synonym = ConfigSynonym(key.name, value, ConfigSource.DEFAULT_CONFIG)
        entries.append(_entry(key, key.name, value, (synonym,), read_only=False))
    return tuple(entries)


def _entry(
    key: ConfigKey | None,
    name: str,
    value: str | None,
    synonyms: tuple[ConfigSynonym, ...],
    *,
    read_only: bool,
) -> ConfigEntry:
    sensitive = key is None or key.sensitive
    return ConfigEntry(
        name=name,
        value=None if sensitive else value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        read_only=read_only,
        sensitive=sensitive,
        type=ConfigType.UNKNOWN if key is None else key.type,
        documentation="" if key is None else key.documentation,
        synonyms=synonyms,
    )
