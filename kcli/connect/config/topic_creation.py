"""The keys of the groups of topics that a worker creates for a source connector (KIP-158).

The group `default` must have partitions and a replication factor, and the other groups have its values by default.
As in Kafka, these keys are checked when a task starts, and not when a configuration is validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, ConfigValue, invalid_value
from kcli.config.validation import embedded
from kcli.connect.config.clients import with_prefix
from kcli.connect.config.connector_keys import TOPIC_CREATION_GROUPS
from kcli.connect.config.worker_keys import PARTITIONS, REPLICATION_FACTOR
from kcli.model.java_text import split_list, trim

PREFIX = "topic.creation."
DEFAULT_GROUP = "default"


class _Patterns:
    """A list of regular expressions of Java."""

    def check(self, key: str, value: ConfigValue) -> None:
        from kcli.model.java_regex import JavaRegexError, compile_java

        assert isinstance(value, tuple)
        try:
            for pattern in value:
                compile_java(pattern, ascii_only=True)
        except JavaRegexError:
            raise invalid_value(key, value, "Syntax error in regular expression") from None

    def __str__(self) -> str:
        return "list of regular expressions"


_INCLUDE = ConfigKey("include", ConfigType.LIST, None, _Patterns(), required=True, order=1)
_EXCLUDE = ConfigKey("exclude", ConfigType.LIST, "", _Patterns(), order=2)
_REPLICATION_FACTOR = ConfigKey(
    "replication.factor", ConfigType.SHORT, None, REPLICATION_FACTOR, required=True, order=3
)
_PARTITIONS = ConfigKey("partitions", ConfigType.INT, None, PARTITIONS, required=True, order=4)
_DEFAULT_KEYS = ConfigDef((_REPLICATION_FACTOR, _PARTITIONS))
_OWN_KEYS = frozenset(key.name for key in (_INCLUDE, _EXCLUDE, _REPLICATION_FACTOR, _PARTITIONS))


@dataclass(frozen=True, slots=True)
class TopicCreationGroup:
    """Settings of new topics whose names match `include` and not `exclude`. `configs` are topic configs."""

    name: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def has_groups(config: Mapping[str, object]) -> bool:
    return any(key.startswith(PREFIX) for key in config)


def topic_creation_groups(config: Mapping[str, str]) -> Iterator[TopicCreationGroup]:
    """The groups in the order of the configuration, and then the default group, which takes every topic.

    Raises ConfigError with Kafka's text.
    """
    default = _parsed(DEFAULT_GROUP, _DEFAULT_KEYS, config)
    partitions, factor = default["partitions"], default["replication.factor"]
    names = split_list(trim(config.get(TOPIC_CREATION_GROUPS, "")))
    for name in dict.fromkeys(name for name in names if name != DEFAULT_GROUP):
        keys = (
            _INCLUDE,
            _EXCLUDE,
            replace(_REPLICATION_FACTOR, default=str(factor), required=False),
            replace(_PARTITIONS, default=str(partitions), required=False),
        )
        yield _group(name, _parsed(name, ConfigDef(keys), config), config)
    yield _group(DEFAULT_GROUP, {"include": (".*",), "exclude": (), **default}, config)


def _parsed(name: str, keys: ConfigDef, config: Mapping[str, str]) -> dict[str, ConfigValue]:
    prefix = f"{PREFIX}{name}."
    values = ConfigDef(embedded(prefix, name, 0, keys)).parse(config)
    return {key.removeprefix(prefix): value for key, value in values.items()}


def _group(name: str, values: Mapping[str, ConfigValue], config: Mapping[str, str]) -> TopicCreationGroup:
    include, exclude = values["include"], values["exclude"]
    partitions, factor = values["partitions"], values["replication.factor"]
    assert isinstance(include, tuple)
    assert isinstance(exclude, tuple)
    assert isinstance(partitions, int)
    assert isinstance(factor, int)
    own = with_prefix(config, f"{PREFIX}{name}.")
    configs = {key: text for key, text in own.items() if key not in _OWN_KEYS}
    return TopicCreationGroup(name, include, exclude, partitions, factor, configs)
