"""Cast: changes the type of fields, or of the whole key or value."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial

from kcli.config.definition import ConfigDef, ConfigError, ConfigKey, ConfigType, Importance, invalid_value
from kcli.connectors.records import ConnectRecord, R
from kcli.connectors.transforms.shared import (
    PACKAGE,
    REPLACE_NULL,
    REPLACE_NULL_KEY,
    Checked,
    PartTransformation,
    Plans,
    changed_struct,
    fields_of,
    invalid_setting,
    java_split,
    required_map,
    required_struct,
    struct_schema_like,
    type_of,
)
from kcli.formats.connect.errors import DataException, JavaException
from kcli.formats.connect.header_text import date_text
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.logical import date_to_days, time_to_ms
from kcli.formats.connect.schema import DATE, TIME, TIMESTAMP, Field, Schema, SchemaType
from kcli.formats.connect.values import Float32, Instant, Int8, Int16, Int32, java_class
from kcli.model.java_numbers import (
    decimal_to_double,
    decimal_to_float,
    decimal_to_long,
    to_byte,
    to_int,
    to_long,
    to_short,
)
from kcli.model.java_order import hash_order
from kcli.model.java_text import (
    parse_boolean,
    parse_byte,
    parse_double,
    parse_float,
    parse_int,
    parse_long,
    parse_short,
    trim,
)

_SPEC = "spec"
_PURPOSE = "cast types"
_TARGETS = (
    SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64,
    SchemaType.FLOAT32, SchemaType.FLOAT64, SchemaType.BOOLEAN, SchemaType.STRING,
)  # fmt: skip
_SOURCES = (*_TARGETS, SchemaType.BYTES)
_WHOLE = None
"""The name under which a spec has the type of the whole key or value."""


def _parsed_spec(items: tuple[str, ...]) -> dict[str | None, SchemaType]:
    """The type of each field, or the type of the whole value. Raises ConfigError."""
    if not items:
        raise ConfigError("Must specify at least one field to cast.")
    spec: dict[str | None, SchemaType] = {}
    for item in items:
        parts = java_split(item, ":")
        if len(parts) > 2:
            raise invalid_value("renames", items, f"Invalid rename mapping: {item}")
        if not parts:
            raise JavaException(
                "java.lang.ArrayIndexOutOfBoundsException", "Index 1 out of bounds for length 0"
            )
        name = trim(parts[0]) if len(parts) == 2 else _WHOLE
        spec[name] = _target(trim(parts[-1]))
    if _WHOLE in spec and len(items) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast"
            " in their spec"
        )
    return spec


def _target(name: str) -> SchemaType:
    constant = name.upper()
    try:
        target = SchemaType[constant]
    except KeyError:
        cause = (
            "java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type."
            f"{constant}"
        )
        raise invalid_setting(cause, f"Invalid type found in casting spec: {name}") from None
    if target not in _TARGETS:
        raise ConfigError(
            f"Cast transformation does not support casting to {target.name}; {_supported(_TARGETS)}"
        )
    return target


def _supported(types: tuple[SchemaType, ...]) -> str:
    return f"supported types are [{', '.join(item.name for item in types)}]"


class Cast(PartTransformation[R]):
    """Changes the type of fields of a struct or a map, or of a whole primitive value."""

    config_def = ConfigDef(
        (
            ConfigKey(
                _SPEC,
                ConfigType.LIST,
                None,
                Checked(_parsed_spec, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
                Importance.HIGH,
                "Pairs of a field and its new type, such as <code>size:int32,price:string</code>, or only a type for "
                "the whole key or value. The types are int8, int16, int32, int64, float32, float64, boolean and "
                "string. Bytes can only become a string, in base64.",
                required=True,
            ),
            REPLACE_NULL_KEY,
        )
    )

    def prepare(self) -> None:
        spec = _parsed_spec(self.texts(_SPEC))
        self._whole = spec.get(_WHOLE)
        # Java casts the fields of a map in this order, which decides about the error if two fields cannot be cast.
        self._targets = {name: spec[name] for name in hash_order(name for name in spec if name is not None)}
        self._casts = {name: partial(cast_value, target=target) for name, target in self._targets.items()}
        self._with_defaults = bool(self.config[REPLACE_NULL])
        self._schemas = Plans(self._cast_schema)

    def changed(
        self, record: ConnectRecord, schema: Schema | None, value: object
    ) -> tuple[Schema | None, object]:
        if value is None:
            return schema, value
        new_schema = self._schemas.of(schema) if schema is not None else None
        if self._whole is not None:
            return new_schema, cast_value(schema, value, self._whole)
        if new_schema is None:
            fields = required_map(value, _PURPOSE)
            new = {name: cast_value(None, fields.get(name), target) for name, target in self._targets.items()}
            return None, fields | new
        struct = required_struct(value, _PURPOSE)
        return new_schema, changed_struct(struct, new_schema, self._casts, with_defaults=self._with_defaults)

    def _cast_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            return Schema(
                self._whole,
                schema.optional,
                cast_value(schema, schema.default, self._whole),
                schema.name,
                schema.version,
                schema.doc,
                schema.parameters,
            )
        fields = [self._cast_field(field) for field in fields_of(schema)]
        # A struct with a default raises the error of a struct that is cast, as in Java.
        cast_value(schema, schema.default, SchemaType.STRUCT)
        bare = struct_schema_like(schema, fields)
        return Schema(
            bare.type, schema.optional, None, bare.name, bare.version, bare.doc, bare.parameters, bare.fields
        )

    def _cast_field(self, field: Field) -> Field:
        target = self._targets.get(field.name)
        if target is None:
            return field
        default = cast_value(field.schema, field.schema.default, target)
        return Field(field.name, Schema(target, field.schema.optional, default))


class CastKey(Cast[R]):
    is_key = True
    java_classes = (f"{PACKAGE}Cast$Key",)


class CastValue(Cast[R]):
    java_classes = (f"{PACKAGE}Cast$Value",)


# Values.


def cast_value(schema: Schema | None, value: object, target: SchemaType) -> object:
    """The value in the type `target`. Raises DataException."""
    if value is None:
        return None
    source = schema.type if schema is not None else type_of(value)
    if source is None:
        raise DataException(
            f"Cast transformation was passed a value of type class {java_class(value)} which is not supported by"
            " Connect's data API"
        )
    if source not in _SOURCES:
        raise DataException(
            f"Cast transformation does not support casting from {source.name}; {_supported(_SOURCES)}"
        )
    if schema is not None and schema.name is not None and target is not SchemaType.STRING:
        value = _encoded(schema.name, value)
    try:
        return _CASTS[target](value)
    except ValueError as error:
        number = JavaException("java.lang.NumberFormatException", str(error))
        raise DataException(
            f"Value ({java_string(value)}) was out of range for requested data type"
        ) from number


def _encoded(name: str, value: object) -> object:
    """The number that is stored for a value of a logical type."""
    if not isinstance(value, Instant):
        return value
    return _ENCODERS[name](value) if name in _ENCODERS else value


_ENCODERS: Mapping[str, Callable[[Instant], int]] = {DATE: date_to_days, TIME: time_to_ms, TIMESTAMP: int}


def _unexpected(value: object) -> DataException:
    return DataException(f"Unexpected type in Cast transformation: class {java_class(value)}")


def _whole(
    make: Callable[[int], int], narrow: Callable[[int], int], parse: Callable[[str], int], float_bits: int
) -> Callable[[object], object]:
    """A cast to an integer type. A floating point number is first cut off to a number of `float_bits` bits."""
    least, most = -(2 ** (float_bits - 1)), 2 ** (float_bits - 1) - 1

    def cast(value: object) -> object:
        match value:
            case bool():
                return make(int(value))
            case str():
                return make(parse(value))
            case Instant():
                raise _unexpected(value)
            case int():
                return make(narrow(value))
            case float():
                return make(narrow(_cut_off(value, least, most)))
            case Decimal():
                return make(narrow(decimal_to_long(value)))
            case _:
                raise _unexpected(value)

    return cast


def _cut_off(value: float, least: int, most: int) -> int:
    """Java's cast of a floating point number to `int` or `long`. NaN becomes 0."""
    if value != value:
        return 0
    if value <= least:
        return least
    return most if value >= most else int(value)


def _to_float(value: object) -> object:
    match value:
        case bool():
            return Float32(value)
        case str():
            return Float32(parse_float(value))
        case Instant():
            raise _unexpected(value)
        case float():
            return Float32.of(value)
        case int() | Decimal():
            return Float32(decimal_to_float(value))
        case _:
            raise _unexpected(value)


def _to_double(value: object) -> object:
    match value:
        case bool():
            return float(value)
        case str():
            return parse_double(value)
        case Instant():
            raise _unexpected(value)
        case float():
            return float(value)
        case int() | Decimal():
            return decimal_to_double(value)
        case _:
            raise _unexpected(value)


def _to_boolean(value: object) -> object:
    match value:
        case bool():
            return value
        case str():
            return parse_boolean(value)
        case _:
            return _to_long(value) != 0


def _to_string(value: object) -> object:
    if isinstance(value, Instant):
        return date_text(value)
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(value).decode("ascii")
    return java_string(value)


_to_long = _whole(int, to_long, parse_long, 64)
_CASTS: Mapping[SchemaType, Callable[[object], object]] = {
    SchemaType.INT8: _whole(Int8, to_byte, parse_byte, 32),
    SchemaType.INT16: _whole(Int16, to_short, parse_short, 32),
    SchemaType.INT32: _whole(Int32, to_int, parse_int, 32),
    SchemaType.INT64: _to_long,
    SchemaType.FLOAT32: _to_float,
    SchemaType.FLOAT64: _to_double,
    SchemaType.BOOLEAN: _to_boolean,
    SchemaType.STRING: _to_string,
}
