"""The configuration a topic ends up with, and which of the places it could come from won (KIP-226).

A topic key is looked for in the topic's own overrides, then under its broker name in the node's dynamic config, the
cluster's dynamic default, the node's file, and last in Kafka's defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from kcli.config.broker import BROKER
from kcli.config.definition import ConfigError, ConfigType, ConfigValue, value_text
from kcli.config.java_order import hash_order
from kcli.config.topic import SERVER_SYNONYMS, TOPIC, server_default
from kcli.errors import InvalidConfigurationException


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as DescribeConfigs numbers it."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


@dataclass(frozen=True, slots=True)
class BrokerLayers:
    """What is set for a broker, as text: by name, for the whole cluster, and in its own file."""

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    def effective(self) -> dict[str, ConfigValue]:
        """What is set, the nearer layer over the farther one."""
        return {**self.static, **self.dynamic_default, **self.dynamic}


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key with its value and every place that could supply it, the winner first."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    documentation: str


def topic_config_entries(overrides: Mapping[str, str], layers: BrokerLayers) -> tuple[ConfigEntry, ...]:
    """Every public topic key, in the order in which Kafka's brokers list them and its tools print them."""
    broker = layers.effective()
    return tuple(
        _entry(name, overrides, layers, broker)
        for name in hash_order(name for name, key in TOPIC.items() if not key.internal)
    )


def _entry(
    name: str, overrides: Mapping[str, str], layers: BrokerLayers, broker: Mapping[str, ConfigValue]
) -> ConfigEntry:
    key = TOPIC[name]
    synonyms = _broker_synonyms(name, layers)
    override = overrides.get(name)
    if override is None:
        value = value_text(server_default(name, broker))
    else:
        value = value_text(key.parse(override))
        synonyms = (ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC), *synonyms)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigEntry(name, value, source, synonyms, key.type, key.documentation)


def _broker_synonyms(name: str, layers: BrokerLayers) -> tuple[ConfigSynonym, ...]:
    """Starts at the first place that sets the main broker key: where only `log.roll.hours` is set, for
    `segment.ms`, Kafka names no synonym at all.
    """
    names = [synonym.name for synonym in SERVER_SYNONYMS.get(name, ())]
    if not names:
        return ()
    places = (
        (layers.dynamic, ConfigSource.DYNAMIC_BROKER),
        (layers.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (layers.static, ConfigSource.STATIC_BROKER),
        (_broker_defaults(names), ConfigSource.DEFAULT),
    )
    found = [
        ConfigSynonym(synonym, place[synonym], source)
        for place, source in places
        for synonym in names
        if synonym in place
    ]
    first = next((index for index, synonym in enumerate(found) if synonym.name == names[0]), len(found))
    return tuple(found[first:])


def _broker_defaults(names: Iterable[str]) -> dict[str, str]:
    defaults = ((name, value_text(BROKER.default(name))) for name in names)
    return {name: default for name, default in defaults if default is not None}


def validate_topic_config(config: Mapping[str, str | None], *, remote_storage: bool = False) -> None:
    """The whole configuration of a topic as it would be. Raises InvalidConfigurationException with Kafka's words."""
    nulls = [name for name, value in config.items() if value is None]
    if nulls:
        raise InvalidConfigurationException(f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in config:
        if name not in TOPIC:
            raise InvalidConfigurationException(f"Unknown topic config name: {name}")
    try:
        values = TOPIC.parse({name: value for name, value in config.items() if value is not None})
    except ConfigError as error:
        raise InvalidConfigurationException(error.message) from None
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int) and isinstance(longest, int)
    if shortest > longest:
        raise InvalidConfigurationException(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})"
        )
    if values["remote.storage.enable"] and not remote_storage:
        raise InvalidConfigurationException(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
