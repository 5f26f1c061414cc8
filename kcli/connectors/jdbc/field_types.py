"""The fields of records for the columns of a table: their schemas, and the functions that convert their values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal

from kcli.connectors.jdbc.database import Column
from kcli.connectors.jdbc.moments import GRANULARITIES, Infinity, Zone
from kcli.connectors.jdbc.source_keys import SourceSettings
from kcli.formats.connect.errors import DataException
from kcli.formats.connect.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    DECIMAL,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
)
from kcli.formats.connect.values import Float32, Instant
from kcli.model.java_text import BYTE_MAX, BYTE_MIN, INT_MAX, INT_MIN, LONG_MAX, SHORT_MAX, SHORT_MIN, trim

_PRECISION = "connect.decimal.precision"
_INTEGER_DIGITS_MAX = 18
"""The most digits that surely fit into an int64."""
_SCALE_UNKNOWN = 127
"""The scale of a NUMERIC column without one, as in Confluent's connector: PostgreSQL's largest default."""
_EXACT = Context(prec=1200)
"""PostgreSQL's largest NUMERIC has 1000 digits, and `_SCALE_UNKNOWN` adds more."""
_EPOCH = dt.datetime(1970, 1, 1)
_JULIAN_DAY_OF_EPOCH = 2_440_587.5

Convert = Callable[[object], object]

_INTEGERS = {
    "BIT": (INT8_SCHEMA, INT8_SCHEMA),
    "TINYINT": (INT8_SCHEMA, INT16_SCHEMA),
    "SMALLINT": (INT16_SCHEMA, INT32_SCHEMA),
    "MEDIUMINT": (INT32_SCHEMA, INT64_SCHEMA),
    "INTEGER": (INT32_SCHEMA, INT64_SCHEMA),
    "BIGINT": (INT64_SCHEMA, INT64_SCHEMA),
    "OID": (INT64_SCHEMA, INT64_SCHEMA),
}
"""The schemas of signed and of unsigned integers."""
_FLOATS = {
    **dict.fromkeys(("REAL", "BINARY_FLOAT"), FLOAT32_SCHEMA),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DOUBLE_PRECISION", "BINARY_DOUBLE"), FLOAT64_SCHEMA),
}
_TEXTS = frozenset(
    {
        "CHAR", "VARCHAR", "NCHAR", "NVARCHAR", "TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT", "NTEXT", "CLOB", "NCLOB",
        "LONG", "VARCHAR2", "NVARCHAR2", "ENUM", "SET", "CITEXT", "XML", "UUID", "UNIQUEIDENTIFIER", "JSON", "JSONB",
    }
)  # fmt: skip
_BINARIES = frozenset(
    {
        "BINARY", "VARBINARY", "BLOB", "TINYBLOB", "MEDIUMBLOB", "LONGBLOB", "BYTEA", "RAW", "LONG_RAW", "IMAGE",
        "ROWVERSION",
    }
)  # fmt: skip
_NUMERICS = frozenset({"NUMERIC", "NUMBER"})
TIMESTAMP_TYPES = frozenset({"TIMESTAMP", "DATETIME", "DATETIME2", "SMALLDATETIME"})


@dataclass(frozen=True, slots=True)
class ColumnField:
    """A field of the records of a table. `convert` is None if the driver returns the value of the field itself."""

    column: Column
    position: int
    """The position in a row."""
    schema: Schema
    convert: Convert | None


def fields_of(columns: Sequence[Column], settings: SourceSettings, module: str) -> list[ColumnField]:
    """The fields for the columns of a result. Columns of an unknown type are left out.

    `module` is the driver, whose values differ from those of other drivers.
    """
    fields = []
    for position, column in enumerate(columns):
        kind = _schema_and_convert(column, settings, module)
        if kind is None:
            continue
        schema, convert = kind
        if column.nullable:
            schema = replace(schema, optional=True)
        fields.append(ColumnField(column, position, schema, convert))
    return fields


def _schema_and_convert(
    column: Column, settings: SourceSettings, module: str
) -> tuple[Schema, Convert | None] | None:
    kind, zone, from_sqlite = column.type, settings.zone, module == "sqlite3"
    if module == "psycopg" and kind == "BIT":
        return _postgresql_bits(column)
    if module == "pymysql" and kind == "BIT":
        bits = column.precision or 1
        return (INT8_SCHEMA, _signed_byte) if bits <= 8 else (BYTES_SCHEMA, None)
    if kind in ("BOOLEAN", "BOOL"):
        return BOOLEAN_SCHEMA, None if module == "psycopg" else bool
    if kind == "BIGINT" and column.unsigned:
        return INT64_SCHEMA, _signed_long
    if kind in _INTEGERS:
        return _INTEGERS[kind][column.unsigned], _whole if from_sqlite else None
    if kind in _FLOATS:
        schema = FLOAT32_SCHEMA if module == "pymysql" and kind == "FLOAT" else _FLOATS[kind]
        return schema, _to_float32 if schema is FLOAT32_SCHEMA else _to_float
    if kind in _NUMERICS or kind == "DECIMAL":
        return _numeric(column, settings.numeric_mapping)
    if kind in _TEXTS:
        return STRING_SCHEMA, None if module in ("psycopg", "pymysql") and kind != "SET" else _to_text
    if kind in _BINARIES or (kind == "TIMESTAMP" and module == "pymssql"):
        return BYTES_SCHEMA, _to_bytes
    return _moment(column, zone, settings.granularity, module)


def _moment(
    column: Column, zone: Zone, granularity: str, module: str
) -> tuple[Schema, Convert | None] | None:
    from_sqlite = module == "sqlite3"
    if column.type == "DATE" and module != "oracledb":
        if from_sqlite:
            return DATE_SCHEMA, lambda value: zone.date(sqlite_moment(value).date())
        return DATE_SCHEMA, zone.date  # type: ignore[return-value]
    if column.type == "YEAR":
        return DATE_SCHEMA, lambda value: zone.date(dt.date(_whole(value), 1, 1))
    if column.type == "TIME":
        if from_sqlite:
            return TIME_SCHEMA, lambda value: _sqlite_time(value, zone)
        return TIME_SCHEMA, zone.time  # type: ignore[return-value]
    if column.type in TIMESTAMP_TYPES or column.type == "DATE":
        form = GRANULARITIES[granularity]
        schema = {
            "connect_logical": TIMESTAMP_SCHEMA,
            "micros_long": INT64_SCHEMA,
            "nanos_long": INT64_SCHEMA,
        }
        read = micros_reader(zone, module)
        return schema.get(granularity, STRING_SCHEMA), lambda value: form(read(value), zone)
    return None


def micros_reader(zone: Zone, module: str) -> Callable[[object], int]:
    """A function from a timestamp of the driver to microseconds since 1970."""
    if module == "sqlite3":
        return lambda value: sqlite_micros(value, zone)
    if module == "psycopg":
        return lambda value: (
            value.milliseconds * 1000 if isinstance(value, Infinity) else zone.micros(value)  # type: ignore[arg-type]
        )
    return zone.micros  # type: ignore[return-value]


def _numeric(column: Column, mapping: str) -> tuple[Schema, Convert | None]:
    precision, scale = column.precision or 0, column.scale or 0
    if column.type != "DECIMAL" and precision:
        whole = scale == 0 if mapping == "PRECISION_ONLY" else scale < 1
        if mapping != "NONE" and whole and precision <= _INTEGER_DIGITS_MAX:
            return _integer_schema(precision), _whole
        exact = mapping == "BEST_FIT" and precision <= _INTEGER_DIGITS_MAX
        if scale > 0 and (exact or mapping == "BEST_FIT_EAGER_DOUBLE"):
            return FLOAT64_SCHEMA, _to_float
    decimals = scale if precision else _SCALE_UNKNOWN
    parameters = {"scale": str(decimals), _PRECISION: str(precision)}
    schema = Schema(SchemaType.BYTES, name=DECIMAL, version=1, parameters=parameters)
    return schema, _decimal(decimals)


def _integer_schema(precision: int) -> Schema:
    if precision > 9:
        return INT64_SCHEMA
    if precision > 4:
        return INT32_SCHEMA
    return INT16_SCHEMA if precision > 2 else INT8_SCHEMA


def _decimal(scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale, _EXACT)

    def convert(value: object) -> object:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if not number.is_finite():
            raise DataException(f"Bad value for type BigDecimal : {number}")
        return number if number.as_tuple().exponent == -scale else number.quantize(unit, context=_EXACT)

    return convert


def _postgresql_bits(column: Column) -> tuple[Schema, Convert]:
    """PostgreSQL sends the text of the bits."""
    bits = column.precision or 1
    if bits == 1:
        return BOOLEAN_SCHEMA, lambda value: value == "1"
    if bits <= 8:
        return INT8_SCHEMA, lambda value: _signed(int(str(value), 2))
    return BYTES_SCHEMA, lambda value: int(str(value), 2).to_bytes((len(str(value)) + 7) // 8, "big")


def _signed_byte(value: object) -> int:
    return _signed(int.from_bytes(value, "big") if isinstance(value, bytes) else _whole(value))


def _signed(value: int) -> int:
    return value - 256 if value > 127 else value


def _signed_long(value: object) -> int:
    if _whole(value) > LONG_MAX:
        raise DataException("the value is larger than an int64")
    return _whole(value)


def _whole(value: object) -> int:
    if isinstance(value, int):
        return int(value)
    number = Decimal(str(value))
    if number != number.to_integral_value(context=_EXACT):
        raise DataException(f"{value} is not a whole number")
    return int(number + 0)


def _to_float(value: object) -> float:
    return float(value + 0)  # type: ignore[operator]


def _to_float32(value: object) -> Float32:
    return Float32.of(_to_float(value))


def _to_text(value: object) -> str:
    return ",".join(sorted(value)) if isinstance(value, set) else str(value)


def _to_bytes(value: object) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]


# A column of SQLite may have values of every type, so its first rows decide what the declared type leaves open.

_RANGES = {
    "TINYINT": (BYTE_MIN, BYTE_MAX),
    "SMALLINT": (SHORT_MIN, SHORT_MAX),
    "INTEGER": (INT_MIN, INT_MAX),
}


def refined(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[Column]:
    """The columns of SQLite with types into which the values of these rows fit."""
    return [
        _refined(column, [row[position] for row in rows if row[position] is not None])
        for position, column in enumerate(columns)
    ]


def _refined(column: Column, values: Sequence[object]) -> Column:
    if column.type == "NULLTYPE":
        kinds = set(map(type, values))
        if kinds and kinds <= {int, float}:
            column = replace(column, type="INTEGER" if kinds == {int} else "DOUBLE")
        else:
            column = replace(column, type="BLOB" if kinds == {bytes} else "TEXT")
    if column.type in _RANGES and values:
        least, most = _RANGES[column.type]
        if not all(isinstance(value, int) and least <= value <= most for value in values):
            return replace(column, type="BIGINT")
    return column


# SQLite has no types of times: a column has texts, milliseconds since 1970, or Julian days.


def sqlite_moment(value: object) -> dt.datetime:
    match value:
        case str():
            moment = dt.datetime.fromisoformat(trim(value))
        case int():
            moment = _EPOCH + dt.timedelta(milliseconds=value)
        case float():
            moment = _EPOCH + dt.timedelta(days=value - _JULIAN_DAY_OF_EPOCH)
        case _:
            raise ValueError(f"{value!r} is no timestamp")
    return moment


def sqlite_micros(value: object, zone: Zone) -> int:
    """The microseconds of a timestamp. A number stands for a moment, but a text for a local time of `zone`."""
    if isinstance(value, int):
        return value * 1000
    moment = sqlite_moment(value)
    return zone.micros(moment if isinstance(value, str) else moment.replace(tzinfo=dt.UTC))


def _sqlite_time(value: object, zone: Zone) -> Instant:
    if isinstance(value, int):
        return Instant(value)
    return zone.time(dt.time.fromisoformat(trim(str(value))))
