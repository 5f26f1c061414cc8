"""The columns for the fields of records, and the check that a record has what the configuration needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcli.connectors.jdbc.sink_keys import (
    KAFKA,
    KAFKA_COLUMNS,
    NO_KEY,
    RECORD_KEY,
    RECORD_VALUE,
    SinkSettings,
)
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.schema import (
    INT32_SCHEMA,
    INT64_SCHEMA,
    OPTIONAL_STRING_SCHEMA,
    STRING_SCHEMA,
    Schema,
    SchemaType,
)
from kcli.formats.connect.values import java_class

_NOT_PRIMITIVE = (SchemaType.STRUCT, SchemaType.ARRAY, SchemaType.MAP)
_NO_SCHEMA_HINT = (
    " Hint: the records have no schema. With JsonConverter, set value.converter.schemas.enable=true and produce"
    " each record with its schema, or use a converter that has schemas, such as Avro's."
)


@dataclass(frozen=True, slots=True)
class TargetField:
    """A column of the target. `str()` is Java's text in errors."""

    name: str
    schema: Schema
    primary_key: bool

    @property
    def optional(self) -> bool:
        return not self.primary_key and self.schema.optional

    def __str__(self) -> str:
        key = "true" if self.primary_key else "false"
        return f"SinkRecordField{{schema={self.schema}, name='{self.name}', isPrimaryKey={key}}}"


@dataclass(frozen=True, slots=True)
class TargetFields:
    keys: tuple[TargetField, ...]
    others: tuple[TargetField, ...]
    of_value: tuple[str, ...]
    """The fields of the record's value, which may include those of the key."""

    @property
    def ordered(self) -> list[TargetField]:
        """The columns of a new table: Kafka's columns, the fields of the value, then the rest by name."""
        by_name = {field.name: field for field in (*self.keys, *self.others)}
        order = dict.fromkeys((*KAFKA_COLUMNS, *self.of_value, *sorted(by_name)))
        return [by_name[name] for name in order if name in by_name]


def target_fields(
    settings: SinkSettings, table: str, key_schema: Schema | None, value_schema: Schema | None
) -> TargetFields:
    """Raises ConnectException if the schemas do not have the fields of the primary key."""
    if value_schema is not None and value_schema.type not in (SchemaType.STRUCT, SchemaType.STRING):
        raise ConnectException("Value schema must be of type Struct or String")
    keys = _keys(settings, table, key_schema, value_schema)
    names = {field.name for field in keys}
    others: list[TargetField] = []
    if value_schema is not None and value_schema.type is SchemaType.STRING:
        column = settings.string_column
        if column in names:
            raise ConnectException(
                f"Configured string.output.value.column.name '{column}' conflicts with a primary key column for"
                f" table '{table}'"
            )
        others = [TargetField(column, OPTIONAL_STRING_SCHEMA, False)]
    elif value_schema is not None:
        others = [
            TargetField(item.name, item.schema, False)
            for item in value_schema.fields
            if item.name not in names and (not settings.whitelist or item.name in settings.whitelist)
        ]
    if not keys and not others:
        raise ConnectException(f"No fields found using key and value schemas for table: {table}")
    of_value = tuple(value_schema.positions) if value_schema is not None else ()
    return TargetFields(tuple(keys), tuple(others), of_value)


def _keys(
    settings: SinkSettings, table: str, key_schema: Schema | None, value_schema: Schema | None
) -> list[TargetField]:
    mode, fields = settings.key_mode, settings.key_fields
    if mode == NO_KEY:
        return []
    if mode == KAFKA:
        if len(fields) not in (0, 3):
            raise ConnectException(
                f"PK mode for table '{table}' is KAFKA so there should either be no field names defined for"
                " defaults to be applicable, or exactly 3, defined fields are:"
                f" {_listed(fields)}"
            )
        schemas = (STRING_SCHEMA, INT32_SCHEMA, INT64_SCHEMA)
        return [TargetField(*pair, True) for pair in zip(fields or KAFKA_COLUMNS, schemas, strict=True)]
    word, schema = ("key", key_schema) if mode == RECORD_KEY else ("value", value_schema)
    if schema is None:
        raise ConnectException(
            f"PK mode for table '{table}' is {mode.upper()}, but record {word} schema is missing"
        )
    if mode == RECORD_VALUE and schema.type is SchemaType.STRING:
        raise ConnectException("pk.mode record_value is not supported with String value schemas")
    if schema.type not in _NOT_PRIMITIVE:
        if len(fields) != 1:
            raise ConnectException(
                "Need exactly one PK column defined since the key schema for records is a primitive type, defined"
                f" columns are: {_listed(fields)}"
            )
        return [TargetField(fields[0], schema, True)]
    if schema.type is not SchemaType.STRUCT:
        raise ConnectException(
            f"Key schema must be primitive type or Struct, but is of type: {schema.type.name}"
        )
    keys = []
    for name in fields or tuple(schema.positions):
        item = schema.field(name)
        if item is None:
            raise ConnectException(
                f"PK mode for table '{table}' is {mode.upper()} with configured PK fields {_listed(fields)}, but"
                f" record {word} schema does not contain field: {name}"
            )
        keys.append(TargetField(name, item.schema, True))
    return keys


def check_record(settings: SinkSettings, record: SinkRecord) -> None:
    """Raises ConnectException if the record has no key or value that the configuration needs."""
    if settings.key_mode == RECORD_KEY or settings.deletes:
        schema = record.key_schema
        if record.key is None or schema is None or schema.type in (SchemaType.ARRAY, SchemaType.MAP):
            raise _unfit(
                settings, record, "non-null key and non-null Struct or primitive key schema", "key",
                record.key, schema,
            )  # fmt: skip
    if settings.deletes and settings.key_mode not in (NO_KEY, RECORD_VALUE):
        return
    schema = record.value_schema
    if record.value is None or schema is None or schema.type not in (SchemaType.STRUCT, SchemaType.STRING):
        raise _unfit(
            settings, record, "non-null Struct or String value and non-null Struct or String schema", "value",
            record.value, schema,
        )  # fmt: skip
    if schema.type is SchemaType.STRING:
        _check_string(settings)


def _check_string(settings: SinkSettings) -> None:
    lists = (("fields.whitelist", settings.whitelist), ("timestamp.fields.list", settings.timestamp_fields))
    conflicts = [key for key, value in lists if value]
    if conflicts:
        raise ConnectException(
            f"Sink connector '{settings.name}' is configured with field-level options that are not applicable to"
            f" String values: {', '.join(conflicts)}. Remove these options, or have the upstream producer emit"
            " Struct values instead."
        )


def _unfit(
    settings: SinkSettings, record: SinkRecord, needed: str, word: str, value: object, schema: Schema | None
) -> ConnectException:
    deletes = "true" if settings.deletes else "false"
    kind = "null" if schema is None else "Struct" if schema.type is SchemaType.STRUCT else str(schema.type)
    timestamp = "null" if record.timestamp is None else record.timestamp
    hint = _NO_SCHEMA_HINT if word == "value" and value is not None and schema is None else ""
    return ConnectException(
        f"Sink connector '{settings.name}' is configured with 'delete.enabled={deletes}' and"
        f" 'pk.mode={settings.key_mode}' and therefore requires records with a {needed}, but found record at"
        f" (topic='{record.topic}',partition={record.partition},offset={record.offset},timestamp={timestamp})"
        f" with a {_class_name(value)} {word} and {kind} {word} schema.{hint}"
    )


def _class_name(value: object) -> str:
    """The simple name of the Java class. JsonConverter makes a HashMap of an object without a schema."""
    if isinstance(value, dict):
        return "HashMap"
    name = java_class(value).rpartition(".")[2]
    return {"[B": "byte[]"}.get(name, name)


def _listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"
