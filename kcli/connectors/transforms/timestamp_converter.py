"""TimestampConverter: between dates, their texts, and the numbers of Unix time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, OneOf
from kcli.connectors.records import ConnectRecord, R
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    PartTransformation,
    Plans,
    changed_struct,
    fields_of,
    invalid_setting,
    required_map,
    required_struct,
    struct_schema_like,
)
from kcli.formats.connect.errors import ConnectException, DataException, JavaException
from kcli.formats.connect.schema import (
    DATE,
    DATE_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME,
    TIME_SCHEMA,
    TIMESTAMP,
    TIMESTAMP_SCHEMA,
    Field,
    Schema,
    SchemaType,
)
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import MS_PER_DAY, Instant, Int64, java_class
from kcli.model.java_dates.formats import SimpleDateFormat, UnparseableDate
from kcli.model.java_numbers import to_long
from kcli.model.java_text import LONG_MAX, LONG_MIN, trim

_FIELD = "field"
_TARGET = "target.type"
_FORMAT = "format"
_PRECISION = "unix.precision"
_STRING, _UNIX, _DATE, _TIME, _TIMESTAMP = "string", "unix", "Date", "Time", "Timestamp"
_PURPOSE = "converting timestamp formats"
# How many units of a precision a millisecond has. A second is longer than a millisecond.
_UNITS_PER_MS = {"nanoseconds": 1_000_000, "microseconds": 1000, "milliseconds": 1, "seconds": 0}
_MS_PER_SECOND = 1000
_TYPE_OF_LOGICAL = {TIMESTAMP: _TIMESTAMP, DATE: _DATE, TIME: _TIME}
_TYPE_OF_PLAIN = {SchemaType.STRING: _STRING, SchemaType.INT64: _UNIX}
_SCHEMAS = {
    _STRING: STRING_SCHEMA,
    _UNIX: INT64_SCHEMA,
    _DATE: DATE_SCHEMA,
    _TIME: TIME_SCHEMA,
    _TIMESTAMP: TIMESTAMP_SCHEMA,
}
_OPTIONAL_SCHEMAS = {
    name: Schema(schema.type, optional=True, name=schema.name, version=schema.version)
    for name, schema in _SCHEMAS.items()
}


class TimestampConverter(PartTransformation[R]):
    """Converts a field, or a whole key or value, to another form of a date."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _FIELD,
                ConfigType.STRING,
                "",
                importance=Importance.HIGH,
                documentation="The field with the date. If empty, the whole key or value is the date.",
            ),
            ConfigKey(
                _TARGET,
                ConfigType.STRING,
                None,
                OneOf((_STRING, _UNIX, _DATE, _TIME, _TIMESTAMP)),
                Importance.HIGH,
                "The new form: string, unix (a number), or one of the logical types Date, Time and Timestamp.",
                required=True,
            ),
            ConfigKey(
                _FORMAT,
                ConfigType.STRING,
                "",
                importance=Importance.MEDIUM,
                documentation="The format of texts, as a pattern of <code>java.text.SimpleDateFormat</code>. It is for "
                "texts that are read and for texts that are written.",
            ),
            ConfigKey(
                _PRECISION,
                ConfigType.STRING,
                "milliseconds",
                OneOf(tuple(_UNITS_PER_MS)),
                Importance.LOW,
                "The unit of numbers: seconds, milliseconds, microseconds or nanoseconds. Parts of a "
                "millisecond get lost.",
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        self._field = self.text(_FIELD)
        self._target = self.text(_TARGET)
        self._units_per_ms = _UNITS_PER_MS[self.text(_PRECISION)]
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._format = self._made_format(self.text(_FORMAT))
        self._schemas = Plans(self._converted_schema)
        self._readers: Mapping[str, Callable[[object], int]] = {
            _STRING: self._read_text,
            _UNIX: self._read_number,
            _DATE: lambda value: _read_date(value, _DATE),
            _TIME: lambda value: _read_date(value, _TIME),
            _TIMESTAMP: lambda value: _read_date(value, _TIMESTAMP),
        }
        writers: Mapping[str, Callable[[int], object]] = {
            _STRING: self._write_text,
            _UNIX: self._write_number,
            _DATE: lambda ms: Instant(to_long(ms - ms % MS_PER_DAY)),
            _TIME: lambda ms: Instant(ms % MS_PER_DAY),
            _TIMESTAMP: Instant,
        }
        self._write = writers[self._target]

    def _made_format(self, pattern: str) -> SimpleDateFormat | None:
        if not trim(pattern):
            if self._target == _STRING:
                raise ConfigError(
                    "TimestampConverter requires format option to be specified when using string timestamps"
                )
            return None
        try:
            return SimpleDateFormat(pattern)
        except ValueError as error:
            name = (
                "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: "
                f"{pattern}"
            )
            raise invalid_setting(f"java.lang.IllegalArgumentException: {error}", name) from None

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if schema is None:
            return None, self._converted_without_schema(value)
        if not self._field:
            schemas = _OPTIONAL_SCHEMAS if schema.optional else _SCHEMAS
            return schemas[self._target], self._converted_value(schema, value)
        struct = None if value is None else required_struct(value, _PURPOSE)
        converted = self._schemas.of(schema)
        return converted, None if struct is None else self._converted_struct(struct, converted)

    def _converted_without_schema(self, value: object) -> object:
        if value is None or not self._field:
            return None if value is None else self._converted(value, _type_of_value(value))
        fields = required_map(value, _PURPOSE)
        date = fields.get(self._field)
        return fields | {self._field: None if date is None else self._converted(date, _type_of_value(date))}

    def _converted(self, value: object, source: str) -> object:
        return None if value is None else self._write(self._readers[source](value))

    def _converted_struct(self, struct: Struct, schema: Schema) -> Struct:
        changes = {self._field: self._converted_value}
        return changed_struct(struct, schema, changes, with_defaults=self._with_defaults)

    def _converted_value(self, schema: Schema, value: object) -> object:
        return self._converted(value, _type_of_schema(schema))

    def _converted_schema(self, schema: Schema) -> Schema:
        fields = [self._converted_field(field) for field in fields_of(schema)]
        required = struct_schema_like(schema, fields)
        bare = Schema(
            required.type, schema.optional, None, required.name, required.version, required.doc,
            required.parameters, required.fields,
        )  # fmt: skip
        if not isinstance(schema.default, Struct):
            return bare
        default = self._converted_struct(schema.default, bare)
        return Schema(
            bare.type, bare.optional, default, bare.name, bare.version, bare.doc, bare.parameters, bare.fields
        )

    def _converted_field(self, field: Field) -> Field:
        if field.name != self._field:
            return field
        schemas = _OPTIONAL_SCHEMAS if field.schema.optional else _SCHEMAS
        return Field(field.name, schemas[self._target])

    # Readers return milliseconds since 1970.

    def _read_text(self, value: object) -> int:
        if not isinstance(value, str):
            raise DataException(
                f"Expected string timestamp to be a String, but found class {java_class(value)}"
            )
        if self._format is None:
            reason = (
                'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null'
            )
            raise JavaException("java.lang.NullPointerException", reason)
        try:
            return self._format.parse(value)
        except UnparseableDate as error:
            raise DataException(
                f"Could not parse timestamp: value ({value}) does not match pattern ({self._format.pattern})"
            ) from JavaException("java.text.ParseException", str(error))

    def _read_number(self, value: object) -> int:
        if type(value) not in (int, Int64):
            raise DataException(f"Expected Unix timestamp to be a Long, but found class {java_class(value)}")
        number = int(value)  # type: ignore[call-overload]
        return (
            _as_long(number * _MS_PER_SECOND)
            if self._units_per_ms == 0
            else _divided(number, self._units_per_ms)
        )

    def _write_text(self, ms: int) -> str:
        assert self._format is not None, "the configuration was checked"
        return self._format.format(ms)

    def _write_number(self, ms: int) -> int:
        return _divided(ms, _MS_PER_SECOND) if self._units_per_ms == 0 else _as_long(ms * self._units_per_ms)


class TimestampConverterKey(TimestampConverter[R]):
    is_key = True
    java_classes = (f"{PACKAGE}TimestampConverter$Key",)


class TimestampConverterValue(TimestampConverter[R]):
    java_classes = (f"{PACKAGE}TimestampConverter$Value",)


def _type_of_schema(schema: Schema) -> str:
    logical = _TYPE_OF_LOGICAL.get(schema.name) if schema.name is not None else None
    source = logical or _TYPE_OF_PLAIN.get(schema.type)
    if source is None:
        raise ConnectException(f"Schema {schema} does not correspond to a known timestamp type format")
    return source


def _type_of_value(value: object) -> str:
    if isinstance(value, Instant):
        return _TIMESTAMP
    if type(value) in (int, Int64):
        return _UNIX
    if isinstance(value, str):
        return _STRING
    raise DataException(
        f"TimestampConverter does not support class {java_class(value)} objects as timestamps"
    )


def _read_date(value: object, kind: str) -> int:
    if not isinstance(value, Instant):
        raise DataException(f"Expected {kind} to be a java.util.Date, but found class {java_class(value)}")
    return int(value)


def _divided(number: int, divisor: int) -> int:
    """The quotient without its fraction, as the division of Java."""
    return number // divisor if number >= 0 else -(-number // divisor)


def _as_long(number: int) -> int:
    """The number within the range of a `long`, as the conversions of TimeUnit."""
    return min(max(number, LONG_MIN), LONG_MAX)
