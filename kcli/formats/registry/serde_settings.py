"""The settings of serializers and deserializers, under the names that Confluent's clients give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.config.definition import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Range,
)
from kcli.formats.codec import FormatError
from kcli.formats.registry import unused_keys
from kcli.formats.registry.framing import Place
from kcli.formats.registry.settings import CLIENT_KEYS, HEADER_PREFIX, TLS_PREFIX
from kcli.formats.registry.subjects import ANY_CLUSTER, Strategy, strategy_of

LATEST_SECONDS = 60
"""The time after which a latest version is requested again, so that a running program finds new versions."""

_BOOLEAN, _INT, _STRING = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

VALIDATE = "json.fail.invalid.schema"
AUTO_REGISTER, USE_LATEST, SCHEMA_ID = "auto.register.schemas", "use.latest.version", "use.schema.id"
LATEST_WITH_METADATA = "use.latest.with.metadata"
_STRATEGY, _PLACE = "{}.subject.name.strategy", "{}.schema.id.serializer"
_FALLBACK = "subject.name.strategy.fallback.type"
_BOTH = "subject.name.strategy.type"
_CLUSTER = "subject.name.strategy.kafka.cluster.id"

SERDE_KEYS = ConfigDef(
    [
        ConfigKey(AUTO_REGISTER, _BOOLEAN, "true", None, _MEDIUM, "Whether to register the schema."),
        ConfigKey(USE_LATEST, _BOOLEAN, "false", None, _LOW,
                  "Serializer: write with the latest version of the subject. Deserializer: convert each value to"
                  " the latest version."),
        ConfigKey(LATEST_WITH_METADATA, ConfigType.LIST, "", None, _LOW,
                  "As use.latest.version, but the latest version whose metadata has these properties, as"
                  " name=value,name=value."),
        ConfigKey(SCHEMA_ID, _INT, "-1", Range(low=-1), _LOW, "Write with the schema of this id. -1: not set."),
        ConfigKey("normalize.schemas", _BOOLEAN, "false", None, _MEDIUM,
                  "Whether the registry compares the normal forms of schemas."),
        ConfigKey("propagate.schema.tags", _BOOLEAN, "false", None, _LOW,
                  "Whether a registered schema gets the tags of the version before it."),
        ConfigKey("id.compatibility.strict", _BOOLEAN, "true", None, _LOW,
                  "Whether the schema of use.schema.id must be able to read what the own schema writes."),
        ConfigKey("latest.compatibility.strict", _BOOLEAN, "true", None, _LOW,
                  "Whether the latest version must be able to read what the own schema writes."),
        ConfigKey("latest.cache.ttl.sec", _INT, str(LATEST_SECONDS), Range(low=-1), _LOW,
                  "The time after which the latest version is requested again. -1: never."),
        ConfigKey(VALIDATE, _BOOLEAN, "false", None, _MEDIUM,
                  "JSON Schema: whether a value that the schema does not permit is an error."),
        ConfigKey(_BOTH, _STRING, "ASSOCIATED", None, _MEDIUM,
                  "The strategy that chooses the subjects of keys and of values."),
        *(
            ConfigKey(_STRATEGY.format(part), _STRING, None, None, _MEDIUM,
                      f"The strategy that chooses the subject of {part}s, or its Java class. Default: the value of"
                      f" {_BOTH}.")
            for part in ("key", "value")
        ),
        ConfigKey(_FALLBACK, _STRING, "TOPIC", None, _LOW, "The strategy of topics without an association."),
        ConfigKey(_CLUSTER, _STRING, ANY_CLUSTER, None, _LOW,
                  "The id of the Kafka cluster in associations."),
        *(
            ConfigKey(_PLACE.format(part), _STRING, "PrefixSchemaIdSerializer", None, _LOW,
                      f"Where {part}s name their schema: PrefixSchemaIdSerializer or HeaderSchemaIdSerializer.")
            for part in ("key", "value")
        ),
    ]
)  # fmt: skip
"""The keys of serializers and deserializers of all three formats."""


def is_registry_key(name: str) -> bool:
    """Whether a property belongs to the client of a registry or to its serializers, and not to a client of Kafka."""
    tables = (CLIENT_KEYS, SERDE_KEYS, unused_keys.CLIENT, unused_keys.SERDE)
    return any(name in table for table in tables) or name.startswith((TLS_PREFIX, HEADER_PREFIX))


def unused_registry_keys(properties: Mapping[str, str]) -> list[str]:
    """Returns a sentence for each key of Confluent's clients and serializers that has no effect here."""
    return unused_keys.unused_keys(properties, TLS_PREFIX)


_PLACES = {"PrefixSchemaIdSerializer": Place.PREFIX, "HeaderSchemaIdSerializer": Place.HEADER}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSettings:
    """How the subject of a topic is chosen."""

    strategy: Strategy = Strategy.ASSOCIATED
    fallback: Strategy = Strategy.TOPIC
    cluster_id: str = ANY_CLUSTER


@dataclass(frozen=True, slots=True, kw_only=True)
class SerdeSettings:
    """The settings of the serializer and the deserializer of keys or of values."""

    is_key: bool = False
    auto_register: bool = True
    use_latest: bool = False
    latest_metadata: tuple[tuple[str, str], ...] = ()
    """The properties that the metadata of the latest version must have."""
    schema_id: int | None = None
    normalize: bool = False
    propagates_tags: bool = False
    is_strict: bool = True
    """Whether the schema of the registry must be able to read what the own schema writes."""
    latest_seconds: float = LATEST_SECONDS
    validates: bool = False
    """Whether a JSON value must be valid by its schema."""
    place: Place = Place.PREFIX
    subjects: SubjectSettings = SubjectSettings()

    @classmethod
    def of(cls, properties: Mapping[str, str], *, is_key: bool = False) -> SerdeSettings:
        """Reads the properties of a client. Other keys are left alone. Raises ConfigError."""
        unused_keys.refuse(unused_keys.SERDE, properties)
        values = SERDE_KEYS.parse({name: properties[name] for name in SERDE_KEYS if name in properties})
        metadata = _metadata(values)
        use_latest = bool(values[USE_LATEST]) or bool(metadata)
        if use_latest and AUTO_REGISTER in properties and values[AUTO_REGISTER]:
            used = LATEST_WITH_METADATA if metadata else f"{USE_LATEST}=true"
            raise ConfigError(f"{used} contradicts {AUTO_REGISTER}=true", key=used.partition("=")[0])
        part = "key" if is_key else "value"
        number = values[SCHEMA_ID]
        seconds = values["latest.cache.ttl.sec"]
        assert isinstance(number, int) and isinstance(seconds, int)
        return cls(
            is_key=is_key,
            auto_register=bool(values[AUTO_REGISTER]),
            use_latest=use_latest,
            latest_metadata=metadata,
            schema_id=None if number < 0 else number,
            normalize=bool(values["normalize.schemas"]),
            propagates_tags=bool(values["propagate.schema.tags"]),
            is_strict=bool(
                values["latest.compatibility.strict" if number < 0 else "id.compatibility.strict"]
            ),
            latest_seconds=float("inf") if seconds < 0 else seconds,
            validates=bool(values[VALIDATE]),
            place=_place(values, _PLACE.format(part)),
            subjects=SubjectSettings(
                strategy=_strategy(values, key if values[key := _STRATEGY.format(part)] else _BOTH),
                fallback=_strategy(values, _FALLBACK),
                cluster_id=str(values[_CLUSTER]),
            ),
        )

    @property
    def decision_seconds(self) -> float:
        """The time for which the choice of a schema counts. Only the latest version may become another."""
        return self.latest_seconds if self.use_latest else float("inf")


def _strategy(values: Mapping[str, ConfigValue], key: str) -> Strategy:
    try:
        strategy = strategy_of(str(values[key]))
    except FormatError as error:
        raise ConfigError(f"{key}: {error}", key=key) from None
    if strategy is (Strategy.ASSOCIATED if key == _FALLBACK else Strategy.NONE):
        raise ConfigError(f"{key} cannot be {strategy}", key=key)
    return strategy


def _metadata(values: Mapping[str, ConfigValue]) -> tuple[tuple[str, str], ...]:
    listed = values[LATEST_WITH_METADATA]
    assert isinstance(listed, tuple)
    for pair in listed:
        if not pair.partition("=")[0] or "=" not in pair:
            raise ConfigError(
                f"{LATEST_WITH_METADATA}: expected name=value, found {pair}", key=LATEST_WITH_METADATA
            )
    return tuple((name, text) for name, _, text in (pair.partition("=") for pair in listed))


def _place(values: Mapping[str, ConfigValue], key: str) -> Place:
    name = str(values[key])
    place = _PLACES.get(name.rpartition(".")[2])
    if place is None:
        raise ConfigError(f"{key} is {name}: expected one of {', '.join(_PLACES)}", key=key)
    return place
