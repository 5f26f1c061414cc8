"""InsertField: adds the topic, partition, offset or timestamp of a record, or a fixed text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, invalid_value
from kcli.connectors.records import ConnectRecord, R, SinkRecord
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    PartTransformation,
    Plans,
    required_map,
    required_struct,
    struct_of,
    struct_schema_like,
    values_of,
)
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import TIMESTAMP, Field, Schema, SchemaType
from kcli.formats.connect.values import Instant, Int32

_TOPIC, _PARTITION, _OFFSET = "topic.field", "partition.field", "offset.field"
_TIMESTAMP, _STATIC, _STATIC_VALUE = "timestamp.field", "static.field", "static.value"
_PURPOSE = "field insertion"
_HASH_MASK = 0x7FFFFFFF
_SUFFIXES = (
    "Add <code>!</code> to make the field required, or <code>?</code> to make it optional (the default)."
)


def _key(name: str, documentation: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, None, importance=Importance.MEDIUM, documentation=documentation)


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A new field. `value` returns None if the record has no such value, and then the field stays without a value."""

    name: str
    optional: bool
    type: SchemaType
    value: Callable[[ConnectRecord], object]
    logical_name: str | None = None

    def field(self) -> Field:
        version = None if self.logical_name is None else 1
        schema = Schema(self.type, self.optional, name=self.logical_name, version=version)
        return Field(self.name, schema)

    def stored(self, record: ConnectRecord) -> object:
        """The value in a struct."""
        value = self.value(record)
        return Instant(value) if self.logical_name is not None and isinstance(value, int) else value


def _offset(record: ConnectRecord) -> object:
    if not isinstance(record, SinkRecord):
        raise DataException(
            f"Only SinkRecord supported for [{_PURPOSE}], found: org.apache.kafka.connect.source.SourceRecord"
        )
    return record.offset


def _partition(record: ConnectRecord) -> object:
    return None if record.partition is None else Int32(record.partition)


class InsertField(PartTransformation[R]):
    """Adds fields to a struct or a map, at the end."""

    config_def = ConfigDef(
        (
            _key(_TOPIC, f"The name of the field for the topic. {_SUFFIXES}"),
            _key(_PARTITION, f"The name of the field for the partition. {_SUFFIXES}"),
            _key(_OFFSET, f"The name of the field for the offset, only for sink connectors. {_SUFFIXES}"),
            _key(_TIMESTAMP, f"The name of the field for the timestamp of the record. {_SUFFIXES}"),
            _key(_STATIC, f"The name of the field for a fixed text. {_SUFFIXES}"),
            _key(_STATIC_VALUE, "The fixed text."),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        static_value = self.config[_STATIC_VALUE]
        sources = (
            (_TOPIC, SchemaType.STRING, lambda record: record.topic),
            (_PARTITION, SchemaType.INT32, _partition),
            (_OFFSET, SchemaType.INT64, _offset),
            (_TIMESTAMP, SchemaType.INT64, lambda record: record.timestamp),
            (_STATIC, SchemaType.STRING, lambda _: static_value),
        )
        insertions = []
        for key, kind, value in sources:
            spec = self.config[key]
            if isinstance(spec, str):
                name = spec[:-1] if spec.endswith(("?", "!")) else spec
                logical_name = TIMESTAMP if key == _TIMESTAMP else None
                insertions.append(_Insertion(name, not spec.endswith("!"), kind, value, logical_name))
        if not insertions:
            raise ConfigError("No field insertion configured")
        if self.config[_STATIC] is not None and static_value is None:
            # Java writes the identity of an object in place of the field.
            spec_text = f"{PACKAGE}InsertField$InsertionSpec@{id(self) & _HASH_MASK:x}"
            raise invalid_value(_STATIC_VALUE, None, f"No value specified for static field: {spec_text}")
        self._insertions = tuple(insertions)
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._schemas = Plans(self._extended)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if value is None:
            return schema, value
        if schema is None:
            fields = required_map(value, _PURPOSE)
            inserted = ((insertion.name, insertion.value(record)) for insertion in self._insertions)
            return None, fields | {name: item for name, item in inserted if item is not None}
        struct = required_struct(value, _PURPOSE)
        extended = self._schemas.of(struct.schema)
        made = struct_of(extended, values_of(struct, with_defaults=self._with_defaults))
        made.values[-len(self._insertions) :] = [insertion.stored(record) for insertion in self._insertions]
        return extended, made

    def _extended(self, schema: Schema) -> Schema:
        return struct_schema_like(
            schema, [*schema.fields, *(insertion.field() for insertion in self._insertions)]
        )


class InsertFieldKey(InsertField[R]):
    is_key = True
    java_classes = (f"{PACKAGE}InsertField$Key",)


class InsertFieldValue(InsertField[R]):
    java_classes = (f"{PACKAGE}InsertField$Value",)
