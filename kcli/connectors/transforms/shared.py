"""What several transformations share: the key or the value of a record, checks of values, and changes of schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from kcli import KAFKA_VERSION
from kcli.config.definition import ConfigError, ConfigKey, ConfigType, ConfigValue, Importance, invalid_value
from kcli.connectors.records import ConnectRecord, Header, R, copied
from kcli.connectors.transformation import Transformation
from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.schema import Field, Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Float64, FrozenMap, Int8, Int16, Int32, Int64, java_class

PACKAGE = "org.apache.kafka.connect.transforms."
SCHEMAS_MAX = 16
"""Schemas that a transformation remembers. Kafka Connect has the same limit."""

Plan = TypeVar("Plan")
Change = Callable[[Schema, object], object]
"""Returns the new value of a field. The arguments are the schema and the old value. Raises ConnectException."""


class KafkaTransformation(Transformation[R]):
    """A transformation of Apache Kafka. `config` has the parsed values of its keys."""

    version = KAFKA_VERSION
    config: Mapping[str, ConfigValue]

    def configure(self, config: Mapping[str, str]) -> None:
        self.config = self.config_def.parse(config)
        self.prepare()

    def prepare(self) -> None:
        """Takes what it needs from `config`. Raises ConfigError."""

    def text(self, key: str) -> str:
        """The value of a key that cannot be null."""
        value = self.config[key]
        assert isinstance(value, str), f"{key} is a text"
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.config[key]
        assert isinstance(value, tuple), f"{key} is a list"
        return value


class PartTransformation(KafkaTransformation[R]):
    """Changes the key or the value of a record. Each implementation has a class for keys and a class for values."""

    is_key: ClassVar[bool] = False

    def apply(self, record: R) -> R | None:
        schema, value = self.part(record)
        new_schema, new_value = self.changed(record, schema, value)
        if new_value is value and new_schema is schema:
            return record
        return self.with_part(record, new_schema, new_value)

    def part(self, record: ConnectRecord) -> tuple[Schema | None, object]:
        """The schema and the value of the key, or those of the value."""
        return (record.key_schema, record.key) if self.is_key else (record.value_schema, record.value)

    def with_part(self, record: R, schema: Schema | None, value: object) -> R:
        copy = copied(record)
        if self.is_key:
            copy.key_schema, copy.key = schema, value
        else:
            copy.value_schema, copy.value = schema, value
        return copy

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        """Returns the new schema and the new value."""
        raise NotImplementedError


def with_topic(record: R, topic: str) -> R:
    copy = copied(record)
    copy.topic = topic
    return copy


def with_headers(record: R, headers: Sequence[Header]) -> R:
    copy = copied(record)
    copy.headers = headers
    return copy


# Keys that several transformations have.

REPLACE_NULL = "replace.null.with.default"
REPLACE_NULL_KEY = ConfigKey(
    REPLACE_NULL,
    ConfigType.BOOLEAN,
    "true",
    importance=Importance.MEDIUM,
    documentation="If true, a field that is null gets the default of its schema. If false, it stays null.",
)


@dataclass(frozen=True, slots=True)
class NonEmptyList:
    """A list with at least one item."""

    def check(self, key: str, value: ConfigValue) -> None:
        if not value:
            raise invalid_value(key, value, "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


@dataclass(frozen=True, slots=True)
class Checked:
    """A value that a function checks. The function raises ConfigError."""

    function: Callable[[tuple[str, ...]], object]
    text: str

    def check(self, key: str, value: ConfigValue) -> None:
        assert value is None or isinstance(value, tuple), "the key is a list"
        self.function(value or ())

    def __str__(self) -> str:
        return self.text


def invalid_setting(value: str, name: str) -> ConfigError:
    """The error of Kafka's ConfigException with a name and a value, but without a reason."""
    return ConfigError(f"Invalid value {value} for configuration {name}")


def java_split(text: str, separator: str) -> list[str]:
    """`String.split`: as in Python, but empty parts at the end are left out."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts


# Checks of values.


def required_map(value: object, purpose: str) -> dict[object, object]:
    if not isinstance(value, dict):
        raise DataException(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {java_class(value)}"
        )
    return value


def required_struct(value: object, purpose: str) -> Struct:
    if not isinstance(value, Struct):
        raise DataException(f"Only Struct objects supported for [{purpose}], found: {java_class(value)}")
    return value


def text_key(key: object) -> str | None:
    """A key of a map, which is the name of a field. Raises the error of Java's cast for a key that is no text."""
    if key is None or isinstance(key, str):
        return key
    name = java_class(key)
    raise JavaException(
        "java.lang.ClassCastException",
        f"class {name} cannot be cast to class java.lang.String ({name} and java.lang.String are in module java.base of"
        " loader 'bootstrap')",
    )


def type_of(value: object) -> SchemaType | None:
    """The type of a value without a schema. None if no type has values of this class, such as dates and decimals."""
    return _TYPES.get(type(value))


_TYPES: Mapping[type, SchemaType] = {
    Int8: SchemaType.INT8,
    Int16: SchemaType.INT16,
    Int32: SchemaType.INT32,
    Int64: SchemaType.INT64,
    int: SchemaType.INT64,
    Float32: SchemaType.FLOAT32,
    Float64: SchemaType.FLOAT64,
    float: SchemaType.FLOAT64,
    bool: SchemaType.BOOLEAN,
    str: SchemaType.STRING,
    bytes: SchemaType.BYTES,
    memoryview: SchemaType.BYTES,
    list: SchemaType.ARRAY,
    tuple: SchemaType.ARRAY,
    dict: SchemaType.MAP,
    FrozenMap: SchemaType.MAP,
    Struct: SchemaType.STRUCT,
}


# Schemas.


class Plans(Generic[Plan]):
    """Remembers what `make` returns for a schema, because many records have the same schema."""

    __slots__ = ("_make", "_plans")

    def __init__(self, make: Callable[[Schema], Plan]) -> None:
        self._make = make
        self._plans: dict[Schema, Plan] = {}

    def of(self, schema: Schema) -> Plan:
        plan = self._plans.get(schema)
        if plan is None:
            plan = self._make(schema)
            if len(self._plans) >= SCHEMAS_MAX:
                del self._plans[next(iter(self._plans))]
            self._plans[schema] = plan
        return plan


def fields_of(schema: Schema) -> tuple[Field, ...]:
    """The fields of the schema of a struct."""
    if schema.type is not SchemaType.STRUCT:
        raise DataException("Cannot list fields on non-struct type")
    return schema.fields


def struct_schema_like(schema: Schema, fields: Sequence[Field]) -> Schema:
    """The schema of a required struct with other fields, but with the name, version, doc and parameters of `schema`."""
    return Schema(
        SchemaType.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=tuple(fields),
    )


def values_of(value: Struct, *, with_defaults: bool) -> list[object]:
    """The values of all fields of a struct, in the order of its schema."""
    values = list(value.values)
    if with_defaults:
        for position, item in enumerate(values):
            if item is None:
                values[position] = value.schema.fields[position].schema.default
    return values


def struct_of(schema: Schema, values: list[object]) -> Struct:
    """A struct of values that fit its first fields by their types. Raises DataException as `_check` does."""
    made = Struct(schema)
    for item, value in zip(schema.fields, values, strict=False):
        _check(made, item, value)
    made.values[: len(values)] = values
    return made


def changed_struct(
    struct: Struct, schema: Schema, changes: Mapping[str, Change], *, with_defaults: bool
) -> Struct:
    """A struct of the same fields, of which `changes` makes new values. `schema` has the new types of the fields.

    Raises the error of the first field that has no valid value.
    """
    made = Struct(schema)
    values = values_of(struct, with_defaults=with_defaults)
    for position, field in enumerate(struct.schema.fields):
        if field.name in changes:
            values[position] = changes[field.name](field.schema, values[position])
        _check(made, schema.fields[position], values[position])
    made.values = values
    return made


def _check(made: Struct, field: Field, value: object) -> None:
    """Raises DataException for a missing value of a required field. The default of a struct is refused too, because its
    schema has no default, and so it is not the schema of the field."""
    is_missing = value is None and not field.schema.optional
    if is_missing or (type(value) is Struct and value.schema is not field.schema):
        made.put(field.name, value)


def field_value(value: Struct, name: str, *, with_defaults: bool) -> object:
    return value.get(name) if with_defaults else value.get_without_default(name)
