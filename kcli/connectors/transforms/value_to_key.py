"""ValueToKey: makes the key of a record from fields of its value."""

from __future__ import annotations

from kcli.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from kcli.connectors.records import R, copied
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    KafkaTransformation,
    NonEmptyList,
    Plans,
    field_value,
    required_map,
    required_struct,
    struct_of,
)
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import Field, Schema, SchemaType

_FIELDS = "fields"
_PURPOSE = "copying fields from value to key"


class ValueToKey(KafkaTransformation[R]):
    """Replaces the key with a struct or a map of fields of the value."""

    java_classes = (f"{PACKAGE}ValueToKey",)
    config_def = ConfigDef(
        (
            ConfigKey(
                _FIELDS,
                ConfigType.LIST,
                None,
                NonEmptyList(),
                Importance.HIGH,
                "The fields of the value that the new key has.",
                required=True,
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        self._names = self.texts(_FIELDS)
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._schemas = Plans(self._key_schema)

    def apply(self, record: R) -> R:
        copy = copied(record)
        if record.value_schema is None:
            fields = required_map(record.value, _PURPOSE)
            copy.key_schema, copy.key = None, {name: fields.get(name) for name in self._names}
            return copy
        struct = required_struct(record.value, _PURPOSE)
        schema = self._schemas.of(struct.schema)
        values = [field_value(struct, name, with_defaults=self._with_defaults) for name in self._names]
        copy.key_schema, copy.key = schema, struct_of(schema, values)
        copy.value_schema = struct.schema
        return copy

    def _key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self._names:
            field = schema.field(name)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            fields.append(Field(name, field.schema))
        return Schema(SchemaType.STRUCT, fields=tuple(fields))
