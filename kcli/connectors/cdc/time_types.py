"""The fields of dates, times and intervals, in the forms of time.precision.mode and interval.handling.mode."""

from __future__ import annotations

from functools import partial

from kcli.connectors.cdc import times
from kcli.connectors.cdc.text_errors import invalid_text
from kcli.connectors.cdc.value_types import Modes, ValueType, named
from kcli.formats.connect.schema import DATE_SCHEMA, TIME_SCHEMA, TIMESTAMP_SCHEMA, SchemaType
from kcli.formats.connect.values import MS_PER_DAY, Instant
from kcli.model.java_text import LONG_MAX, LONG_MIN

_PRECISION_MAX = 6


def date_type(_: int, modes: Modes) -> ValueType:
    if modes.time_precision == "connect":
        return ValueType(DATE_SCHEMA, lambda text: Instant(times.days(text) * MS_PER_DAY), Instant(0))
    if modes.time_precision == "isostring":
        return ValueType(named(SchemaType.STRING, "io.debezium.time.IsoDate"), times.iso_date, "1970-01-01Z")
    return ValueType(named(SchemaType.INT32, "io.debezium.time.Date"), times.days, 0)


def time_type(modifier: int, modes: Modes) -> ValueType:
    match modes.time_precision:
        case "connect":
            return ValueType(TIME_SCHEMA, lambda text: Instant(times.clock_us(text) // 1000), Instant(0))
        case "isostring":
            schema = named(SchemaType.STRING, "io.debezium.time.IsoTime")
            return ValueType(schema, times.zoned_clock, "00:00:00Z")
        case "nanoseconds":
            schema = named(SchemaType.INT64, "io.debezium.time.NanoTime")
            return ValueType(schema, lambda text: times.clock_us(text) * 1000, 0)
        case "adaptive" if _precision(modifier) <= 3:
            schema = named(SchemaType.INT32, "io.debezium.time.Time")
            return ValueType(schema, lambda text: times.clock_us(text) // 1000, 0)
    return ValueType(named(SchemaType.INT64, "io.debezium.time.MicroTime"), times.clock_us, 0)


def timestamp_type(modifier: int, modes: Modes) -> ValueType:
    match modes.time_precision:
        case "connect":
            return ValueType(TIMESTAMP_SCHEMA, lambda text: Instant(_micros(text) // 1000), Instant(0))
        case "isostring":
            schema = named(SchemaType.STRING, "io.debezium.time.IsoTimestamp")
            return ValueType(schema, partial(times.zoned_moment, digits=None), "1970-01-01T00:00:00Z")
        case "nanoseconds":
            return ValueType(named(SchemaType.INT64, "io.debezium.time.NanoTimestamp"), _nanos, 0)
        case "microseconds":
            return ValueType(_MICRO_TIMESTAMP, _micros, 0)
    if _precision(modifier) <= 3:
        schema = named(SchemaType.INT64, "io.debezium.time.Timestamp")
        return ValueType(schema, lambda text: _micros(text) // 1000, 0)
    return ValueType(_MICRO_TIMESTAMP, _micros, 0)


_MICRO_TIMESTAMP = named(SchemaType.INT64, "io.debezium.time.MicroTimestamp")


def _nanos(text: str) -> int:
    micros = times.moment_us(text)
    if micros is None:
        return times.infinite_us(text)
    if not LONG_MIN <= micros * 1000 <= LONG_MAX:
        raise invalid_text("timestamp with time.precision.mode=nanoseconds", text)
    return micros * 1000


def _micros(text: str) -> int:
    micros = times.moment_us(text)
    return times.infinite_us(text) if micros is None else micros


def timestamptz_type(modifier: int, modes: Modes) -> ValueType:
    return ValueType(
        named(SchemaType.STRING, "io.debezium.time.ZonedTimestamp"),
        partial(times.zoned_moment, digits=_precision(modifier)),
        "1970-01-01T00:00:00Z",
    )


def interval_type(_: int, modes: Modes) -> ValueType:
    if modes.interval_handling == "string":
        schema = named(SchemaType.STRING, "io.debezium.time.Interval")
        return ValueType(schema, lambda text: str(times.interval(text)), "P0Y0M0DT0H0M0S")
    schema = named(SchemaType.INT64, "io.debezium.time.MicroDuration")
    return ValueType(schema, lambda text: times.interval(text).total_us, 0)


def _precision(modifier: int) -> int:
    return modifier if 0 <= modifier <= _PRECISION_MAX else _PRECISION_MAX
