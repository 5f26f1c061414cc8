"""Parameters of statements from records, by a function that is compiled once for a pair of schemas."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal

from kcli.connectors.jdbc.moments import INFINITIES, Zone
from kcli.connectors.jdbc.sink_keys import KAFKA, RECORD_KEY, SinkSettings
from kcli.connectors.jdbc.target_fields import TargetField, TargetFields
from kcli.connectors.records import SinkRecord
from kcli.formats.connect.charsets import whole_characters
from kcli.formats.connect.errors import ConnectException, DataException
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType
from kcli.model.java_text import parse_long

_INFINITE = {infinity.milliseconds: infinity.name for infinity in INFINITIES}
Parameters = tuple[object, ...]
Bind = Callable[[Sequence[SinkRecord]], list[Parameters]]
Convert = Callable[[object], object]


def compile_binding(
    settings: SinkSettings,
    module: str,
    fields: TargetFields,
    key_schema: Schema | None,
    value_schema: Schema | None,
    *,
    keys_last: bool = False,
    only_keys: bool = False,
) -> Bind:
    """Returns a function from records to the parameters of a statement: keys, then other columns.

    `module` is the driver, which decides about the form of times. Raises ConnectException for a type without a column.
    """
    scope: dict[str, object] = {}
    keys = [
        _expression(_key_source(settings, key_schema, value_schema, number, field), f"k{number}", field, scope,
                    settings, module, with_default=True)
        for number, field in enumerate(fields.keys)
    ]  # fmt: skip
    others = [
        _expression(_value_source(value_schema, field), f"v{number}", field, scope, settings, module,
                    with_default=settings.nulls_become_defaults)
        for number, field in enumerate(() if only_keys else fields.others)
    ]  # fmt: skip
    parts = [*others, *keys] if keys_last else [*keys, *others]
    source = f"lambda records: [({''.join(f'{part}, ' for part in parts)}) for r in records]"
    # The source has no text of a user: only positions of fields.
    bind: Bind = eval(compile(source, "<parameters of records>", "eval"), scope)
    return bind


def _key_source(
    settings: SinkSettings,
    key_schema: Schema | None,
    value_schema: Schema | None,
    number: int,
    field: TargetField,
) -> str:
    if settings.key_mode == KAFKA:
        return ("r.topic", "r.partition", "r.offset")[number]
    schema, record_part = (
        (key_schema, "r.key") if settings.key_mode == RECORD_KEY else (value_schema, "r.value")
    )
    assert schema is not None, "`target_fields` has checked it"
    if schema.type is not SchemaType.STRUCT:
        return record_part
    return f"{record_part}.values[{schema.positions[field.name]}]"


def _value_source(value_schema: Schema | None, field: TargetField) -> str:
    assert value_schema is not None, "a record without a value has no other columns"
    if value_schema.type is SchemaType.STRING:
        return "r.value"
    return f"r.value.values[{value_schema.positions[field.name]}]"


def _expression(
    source: str,
    name: str,
    field: TargetField,
    scope: dict[str, object],
    settings: SinkSettings,
    module: str,
    *,
    with_default: bool,
) -> str:
    convert = converter(field.schema, settings, module, is_timestamp=field.name in settings.timestamp_fields)
    scope[name] = convert
    default = field.schema.default if with_default else None
    scope[f"{name}d"] = None if default is None else convert(default)
    return f"({name}d if (value := {source}) is None else {name}(value))"


def converter(schema: Schema, settings: SinkSettings, module: str, *, is_timestamp: bool = False) -> Convert:
    """The function from a value of a field to a parameter of the driver."""
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None:
        return logical(settings, module)
    if is_timestamp and schema.type in (SchemaType.INT64, SchemaType.STRING):
        return _units(settings, module, is_text=schema.type is SchemaType.STRING)
    if schema.type is SchemaType.ARRAY and module == "psycopg" and schema.value_schema is not None:
        inner = converter(schema.value_schema, settings, module)
        return lambda value: [item if item is None else inner(item) for item in value]  # type: ignore[attr-defined]
    plain = _PLAIN.get(schema.type)
    if plain is None:
        raise ConnectException(f"Unsupported source data type: {schema.type.name}")
    if schema.type is SchemaType.BOOLEAN and module != "psycopg":
        return int  # type: ignore[return-value]
    return plain


def _decimal(settings: SinkSettings, module: str) -> Convert:
    # SQLite stores a text as a number if the column is NUMERIC, and Python's driver knows no Decimal.
    return (lambda value: f"{value:f}") if module == "sqlite3" else _same


def _date(settings: SinkSettings, module: str) -> Convert:
    if module == "sqlite3":
        return int  # type: ignore[return-value]
    local = settings.date_zone.local
    return lambda value: local(value * 1000).date()  # type: ignore[operator]


def _time(settings: SinkSettings, module: str) -> Convert:
    if module == "sqlite3":
        return int  # type: ignore[return-value]
    local = settings.zone.local
    return lambda value: local(value * 1000).time()  # type: ignore[operator]


def _timestamp(settings: SinkSettings, module: str) -> Convert:
    form = _moment_form(settings.zone, module)
    return lambda value: form(value * 1000)  # type: ignore[operator]


def _units(settings: SinkSettings, module: str, *, is_text: bool) -> Convert:
    form, per_micro = _moment_form(settings.zone, module), settings.timestamp_units_per_micro

    def convert(value: object) -> object:
        try:
            number = parse_long(str(value)) if is_text else value
        except ValueError as error:
            raise DataException(f"Invalid timestamp: {error}") from None
        return form(number // per_micro)  # type: ignore[operator]

    return convert


def _moment_form(zone: Zone, module: str) -> Callable[[int], object]:
    """From microseconds since 1970: milliseconds for SQLite, and a local time for all others.

    PostgreSQL gets the offset from UTC too: it uses this offset for a column with a time zone, and skips it for others.
    """
    if module == "sqlite3":
        return lambda micros: micros // 1000
    if module == "psycopg":
        return lambda micros: _INFINITE.get(micros // 1000) or zone.local(micros).isoformat(" ")
    return lambda micros: zone.local(micros).replace(tzinfo=None)


def literal(field: TargetField, settings: SinkSettings, module: str, booleans: tuple[str, str]) -> str:
    """The default of a field as SQL."""
    value = field.schema.default
    if isinstance(value, bool):
        return booleans[0] if value else booleans[1]
    parameter = converter(field.schema, settings, module)(value)
    match parameter:
        case Decimal() if field.schema.name == DECIMAL:
            return f"{parameter:f}"
        case bytes():
            return _binary_literal(parameter, module)
        case int() | float():
            return str(parameter)
        case str() | dt.date() | dt.time():
            text = str(parameter).replace("'", "''")
            return "'" + (text.replace("\\", "\\\\") if module == "pymysql" else text) + "'"
        case _:
            raise ConnectException(f"Unsupported type for column value: {field.schema.type.name}")


def _binary_literal(value: bytes, module: str) -> str:
    forms = {"psycopg": "'\\x{}'", "pymssql": "0x{}", "oracledb": "HEXTORAW('{}')"}
    return forms.get(module, "x'{}'").format(value.hex())


def _same(value: object) -> object:
    return value


_PLAIN: dict[SchemaType, Convert] = {
    SchemaType.INT8: int,  # type: ignore[dict-item]
    SchemaType.INT16: int,  # type: ignore[dict-item]
    SchemaType.INT32: int,  # type: ignore[dict-item]
    SchemaType.INT64: int,  # type: ignore[dict-item]
    SchemaType.FLOAT32: float,  # type: ignore[dict-item]
    SchemaType.FLOAT64: float,  # type: ignore[dict-item]
    SchemaType.BOOLEAN: bool,
    SchemaType.STRING: whole_characters,  # type: ignore[dict-item]
    SchemaType.BYTES: bytes,  # type: ignore[dict-item]
}
"""The drivers look at the exact class of a number, so the classes of the data model become plain numbers."""
_LOGICAL: dict[str, Callable[[SinkSettings, str], Convert]] = {
    DECIMAL: _decimal,
    DATE: _date,
    TIME: _time,
    TIMESTAMP: _timestamp,
}
