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
from kcli.formats.registry.framing import Place
from kcli.formats.registry.settings import CLIENT_KEYS, HEADER_PREFIX, TLS_PREFIX
from kcli.formats.registry.subjects import ANY_CLUSTER, Strategy, strategy_of

LATEST_SECONDS = 60
"""The time after which a latest version is requested again, so that a running program finds new versions."""

_BOOLEAN, _INT, _STRING = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.STRING
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

VALIDATE = "json.fail.invalid.schema"
AUTO_REGISTER, USE_LATEST, SCHEMA_ID = "auto.register.schemas", "use.latest.version", "use.schema.id"
_STRATEGY, _PLACE = "{}.subject.name.strategy", "{}.schema.id.serializer"
_FALLBACK = "subject.name.strategy.fallback.type"
_CLUSTER = "subject.name.strategy.kafka.cluster.id"

SERDE_KEYS = ConfigDef(
    [
        ConfigKey(AUTO_REGISTER, _BOOLEAN, "true", None, _MEDIUM, "Whether to register the schema."),
        ConfigKey(USE_LATEST, _BOOLEAN, "false", None, _LOW,
                  "Serializer: write with the latest version of the subject. Deserializer: convert each value to"
                  " the latest version."),
        ConfigKey(SCHEMA_ID, _INT, "-1", Range(low=-1), _LOW, "Write with the schema of this id. -1: not set."),
        ConfigKey("normalize.schemas", _BOOLEAN, "false", None, _MEDIUM,
                  "Whether the registry compares the normal forms of schemas."),
        ConfigKey("latest.compatibility.strict", _BOOLEAN, "true", None, _LOW,
                  "Whether the latest version must be able to read what the own schema writes."),
        ConfigKey("latest.cache.ttl.sec", _INT, str(LATEST_SECONDS), Range(low=-1), _LOW,
                  "The time after which the latest version is requested again. -1: never."),
        ConfigKey(VALIDATE, _BOOLEAN, "false", None, _MEDIUM,
                  "JSON Schema: whether a value that the schema does not permit is an error."),
        *(
            ConfigKey(_STRATEGY.format(part), _STRING, "AssociatedNameStrategy", None, _MEDIUM,
                      f"The strategy that chooses the subject of {part}s, or its Java class.")
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
    return name in CLIENT_KEYS or name in SERDE_KEYS or name.startswith((TLS_PREFIX, HEADER_PREFIX))


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
    schema_id: int | None = None
    normalize: bool = False
    is_strict: bool = True
    """Whether the latest version must be able to read what the own schema writes."""
    latest_seconds: float = LATEST_SECONDS
    validates: bool = False
    """Whether a JSON value must be valid by its schema."""
    place: Place = Place.PREFIX
    subjects: SubjectSettings = SubjectSettings()

    @classmethod
    def of(cls, properties: Mapping[str, str], *, is_key: bool = False) -> SerdeSettings:
        """Reads the properties of a client. Other keys are left alone. Raises ConfigError."""
        values = SERDE_KEYS.parse({name: properties[name] for name in SERDE_KEYS if name in properties})
        if values[USE_LATEST] and AUTO_REGISTER in properties and values[AUTO_REGISTER]:
            raise ConfigError(f"{USE_LATEST}=true contradicts {AUTO_REGISTER}=true", key=USE_LATEST)
        part = "key" if is_key else "value"
        number = values[SCHEMA_ID]
        seconds = values["latest.cache.ttl.sec"]
        assert isinstance(number, int) and isinstance(seconds, int)
        return cls(
            is_key=is_key,
            auto_register=bool(values[AUTO_REGISTER]),
            use_latest=bool(values[USE_LATEST]),
            schema_id=None if number < 0 else number,
            normalize=bool(values["normalize.schemas"]),
            is_strict=bool(values["latest.compatibility.strict"]),
            latest_seconds=float("inf") if seconds < 0 else seconds,
            validates=bool(values[VALIDATE]),
            place=_place(values, _PLACE.format(part)),
            subjects=SubjectSettings(
                strategy=_strategy(values, _STRATEGY.format(part)),
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


def _place(values: Mapping[str, ConfigValue], key: str) -> Place:
    name = str(values[key])
    place = _PLACES.get(name.rpartition(".")[2])
    if place is None:
        raise ConfigError(f"{key} is {name}: expected one of {', '.join(_PLACES)}", key=key)
    return place
