"""DropHeaders, InsertHeader and HeaderFrom."""

from __future__ import annotations

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, NonNull, OneOf
from kcli.connectors.records import Header, R
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    KafkaTransformation,
    NonEmptyList,
    PartTransformation,
    Plans,
    field_value,
    fields_of,
    required_map,
    required_struct,
    struct_of,
    struct_schema_like,
    with_headers,
)
from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.header_values import parse_value
from kcli.formats.connect.schema import Schema
from kcli.formats.connect.structs import Struct

_HEADERS = "headers"
_FIELDS = "fields"
_OPERATION = "operation"
_MOVE, _COPY = "move", "copy"
_HEADER = "header"
_LITERAL = "value.literal"
# The text of Java for a call on the result of a method that returned null.
_NO_FIELD = (
    'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
    '"org.apache.kafka.connect.data.Schema.field(String)" is null'
)


class DropHeaders(KafkaTransformation[R]):
    """Removes headers by their names."""

    java_classes = (f"{PACKAGE}DropHeaders",)
    config_def = ConfigDef(
        (
            ConfigKey(
                _HEADERS,
                ConfigType.LIST,
                None,
                NonEmptyList(),
                Importance.HIGH,
                "The names of the headers to remove.",
                required=True,
            ),
        )
    )

    def prepare(self) -> None:
        self._names = frozenset(self.texts(_HEADERS))

    def apply(self, record: R) -> R:
        return with_headers(record, [header for header in record.headers if header.key not in self._names])


class InsertHeader(KafkaTransformation[R]):
    """Adds a header with a fixed value. The value is parsed as SimpleHeaderConverter parses the value of a header."""

    java_classes = (f"{PACKAGE}InsertHeader",)
    config_def = ConfigDef(
        (
            ConfigKey(
                _HEADER,
                ConfigType.STRING,
                None,
                NonNull(),
                Importance.HIGH,
                "The name of the new header.",
                required=True,
            ),
            ConfigKey(
                _LITERAL,
                ConfigType.STRING,
                None,
                NonNull(),
                Importance.HIGH,
                "The value of the new header. It is the same for all records.",
                required=True,
            ),
        )
    )

    def prepare(self) -> None:
        schema, value = parse_value(self.text(_LITERAL))
        self._header = checked_header(self.text(_HEADER), schema, value)

    def apply(self, record: R) -> R:
        return with_headers(record, [*record.headers, self._header])


class HeaderFrom(PartTransformation[R]):
    """Moves or copies fields of the key or the value to headers."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _FIELDS,
                ConfigType.LIST,
                None,
                NonEmptyList(),
                Importance.HIGH,
                "The names of the fields to move or to copy.",
                required=True,
            ),
            ConfigKey(
                _HEADERS,
                ConfigType.LIST,
                None,
                NonEmptyList(),
                Importance.HIGH,
                "The name of the header of each field, in the order of the fields.",
                required=True,
            ),
            ConfigKey(
                _OPERATION,
                ConfigType.STRING,
                None,
                OneOf((_MOVE, _COPY)),
                Importance.HIGH,
                "<code>move</code> removes the fields from the key or the value. <code>copy</code> leaves them there.",
                required=True,
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        names, headers = self.texts(_FIELDS), self.texts(_HEADERS)
        if len(names) != len(headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._headers = tuple(zip(names, headers, strict=True))
        self._fields = frozenset(names)
        self._moves = self.config[_OPERATION] == _MOVE
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._schemas = Plans(self._without_fields)

    def apply(self, record: R) -> R:
        schema, value = self.part(record)
        headers = list(record.headers)
        purpose = f"header {self.config[_OPERATION]}"
        if schema is None:
            fields = required_map(value, purpose)
            headers += [Header(header, None, fields.get(name)) for name, header in self._headers]
            changed: object = {
                key: item for key, item in fields.items() if key not in self._fields or not self._moves
            }
        else:
            struct = required_struct(value, purpose)
            new_schema = self._schemas.of(schema) if self._moves else schema
            changed = self._moved(struct, new_schema) if self._moves else struct
            headers += [self._header(schema, struct, name, header) for name, header in self._headers]
            schema = new_schema
        copy = self.with_part(record, schema, changed)
        copy.headers = headers
        return copy

    def _without_fields(self, schema: Schema) -> Schema:
        return struct_schema_like(
            schema, [field for field in fields_of(schema) if field.name not in self._fields]
        )

    def _moved(self, struct: Struct, schema: Schema) -> Struct:
        names = (field.name for field in schema.fields)
        return struct_of(
            schema, [field_value(struct, name, with_defaults=self._with_defaults) for name in names]
        )

    def _header(self, schema: Schema, struct: Struct, name: str, header: str) -> Header:
        field = schema.field(name)
        if field is None:
            raise JavaException("java.lang.NullPointerException", _NO_FIELD)
        return checked_header(
            header, field.schema, field_value(struct, name, with_defaults=self._with_defaults)
        )


class HeaderFromKey(HeaderFrom[R]):
    is_key = True
    java_classes = (f"{PACKAGE}HeaderFrom$Key",)


class HeaderFromValue(HeaderFrom[R]):
    java_classes = (f"{PACKAGE}HeaderFrom$Value",)


def checked_header(key: str, schema: Schema | None, value: object) -> Header:
    """A header. Raises DataException if the value is null, and its schema requires a value."""
    if value is None and schema is not None and not schema.optional:
        raise DataException(f"A null value requires an optional schema but was {schema}")
    return Header(key, schema, value)
