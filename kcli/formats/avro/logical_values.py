"""Converts between the values of logical types and the values that Avro stores for them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from uuid import UUID

from kcli.formats.avro.numbers import InvalidAvro, read_int, read_long, write_int, write_long
from kcli.formats.avro.schema import Logical, LogicalType

Convert = Callable[[object], object]

_DAY_ZERO = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_US_PER_DAY = 86_400_000_000
_DURATION_FIELDS = ("months", "days", "milliseconds")


def from_stored(logical: LogicalType) -> Convert | None:
    """Returns the function that converts a stored value. None if the stored value is the value itself.

    A timestamp in nanoseconds stays a number, because Python and Spark have microseconds.
    """
    if logical.logical is Logical.DECIMAL:
        scale = logical.scale
        return lambda value: _decimal(int.from_bytes(_bytes(value), signed=True), scale)
    return _FROM_STORED.get(logical.logical)


def to_stored(logical: LogicalType, size: int | None) -> Convert | None:
    """Returns the function that converts a value to its stored form. `size` is the size of a fixed.

    The function also accepts a value in its stored form.
    """
    if logical.logical is Logical.DECIMAL:
        # A value that is not a Decimal is already in its stored form.
        return lambda value: _unscaled(value, logical, size) if isinstance(value, Decimal) else value
    if logical.logical is Logical.UUID and size is not None:
        return _stored_uuid
    return _TO_STORED.get(logical.logical)


PYTHON_TYPES: Mapping[Logical, type] = {
    Logical.DECIMAL: Decimal,
    Logical.BIG_DECIMAL: Decimal,
    Logical.UUID: UUID,
    Logical.DATE: dt.date,
    Logical.DURATION: dict,
    Logical.TIME_MILLIS: dt.time,
    Logical.TIME_MICROS: dt.time,
    Logical.TIMESTAMP_MILLIS: dt.datetime,
    Logical.TIMESTAMP_MICROS: dt.datetime,
    Logical.LOCAL_TIMESTAMP_MILLIS: dt.datetime,
    Logical.LOCAL_TIMESTAMP_MICROS: dt.datetime,
}
"""The Python type of the values of each logical type."""


def _decimal(unscaled: int, scale: int) -> Decimal:
    # An operation would round to the precision of the context, but the constructor is exact.
    return Decimal(f"{unscaled}E{-scale}")


def _unscaled(value: Decimal, logical: LogicalType, size: int | None) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidAvro(f"expected a decimal number, found {value}")
    zeros = logical.scale + exponent
    kept = digits[:zeros] if zeros < 0 else digits
    # Only zeros may be lost, and the number of digits is checked before large powers are computed.
    if any(digits[len(kept) :]) or len(kept) + zeros > logical.precision:
        raise InvalidAvro(f"{value} does not fit decimal({logical.precision}, {logical.scale})")
    number = int("".join(map(str, kept)) or "0") * 10 ** max(zeros, 0)
    return _signed_bytes(-number if sign else number, size)


def _signed_bytes(number: int, size: int | None = None) -> bytes:
    """The shortest two's complement of a number, or that of a size."""
    shortest: int = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(shortest if size is None else size, signed=True)


def _stored_uuid(value: object) -> object:
    return value.bytes if isinstance(value, UUID) else value


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes), "the schema says so"
    return value


def _int(value: object) -> int:
    assert isinstance(value, int), "the schema says so"
    return value


def _date(value: object) -> object:
    return dt.date.fromordinal(_DAY_ZERO + _int(value))


def _time(microseconds: int) -> object:
    if not 0 <= microseconds < _US_PER_DAY:
        raise InvalidAvro(f"{microseconds} microseconds are not a time of the day")
    return (_EPOCH + dt.timedelta(microseconds=microseconds)).time()


def _duration(value: object) -> object:
    raw = _bytes(value)
    return {
        name: int.from_bytes(raw[nth * 4 : nth * 4 + 4], "little")
        for nth, name in enumerate(_DURATION_FIELDS)
    }


def _big_decimal(value: object) -> object:
    raw = _bytes(value)
    length, at = read_long(raw, 0)
    scale, end = read_int(raw, at + length)
    if length < 0 or end != len(raw):
        raise InvalidAvro("the bytes are not a big-decimal")
    return _decimal(int.from_bytes(raw[at : at + length], signed=True), scale)


_FROM_STORED: Mapping[Logical, Convert] = {
    Logical.BIG_DECIMAL: _big_decimal,
    Logical.UUID: lambda value: UUID(bytes=value) if isinstance(value, bytes) else UUID(str(value)),
    Logical.DATE: _date,
    Logical.DURATION: _duration,
    Logical.TIME_MILLIS: lambda value: _time(_int(value) * 1000),
    Logical.TIME_MICROS: lambda value: _time(_int(value)),
    Logical.TIMESTAMP_MILLIS: lambda value: _EPOCH_UTC + dt.timedelta(milliseconds=_int(value)),
    Logical.TIMESTAMP_MICROS: lambda value: _EPOCH_UTC + dt.timedelta(microseconds=_int(value)),
    Logical.LOCAL_TIMESTAMP_MILLIS: lambda value: _EPOCH + dt.timedelta(milliseconds=_int(value)),
    Logical.LOCAL_TIMESTAMP_MICROS: lambda value: _EPOCH + dt.timedelta(microseconds=_int(value)),
}


def _stored_date(value: object) -> object:
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        return value
    return value.toordinal() - _DAY_ZERO


def _stored_time(value: object, units: int) -> object:
    if not isinstance(value, dt.time):
        return value
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) // units


def _stored_moment(value: object, units: int, epoch: dt.datetime) -> object:
    if not isinstance(value, dt.datetime):
        return value
    if (value.tzinfo is None) != (epoch.tzinfo is None):
        value = value.replace(tzinfo=epoch.tzinfo)
    return (value - epoch) // _MICROSECOND // units


def _stored_duration(value: object) -> object:
    if not isinstance(value, dict):
        return value
    if value.keys() != set(_DURATION_FIELDS):
        raise InvalidAvro("a duration has the fields months, days and milliseconds")
    return b"".join(_int(value[name]).to_bytes(4, "little") for name in _DURATION_FIELDS)


def _stored_big_decimal(value: object) -> object:
    if not isinstance(value, Decimal):
        return value
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidAvro(f"expected a decimal number, found {value}")
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    out = bytearray()
    raw = _signed_bytes(unscaled)
    write_long(len(raw), out)
    out += raw
    write_int(-exponent, out)
    return bytes(out)


_TO_STORED: Mapping[Logical, Convert] = {
    Logical.BIG_DECIMAL: _stored_big_decimal,
    Logical.UUID: lambda value: str(value) if isinstance(value, UUID) else value,
    Logical.DATE: _stored_date,
    Logical.DURATION: _stored_duration,
    Logical.TIME_MILLIS: lambda value: _stored_time(value, 1000),
    Logical.TIME_MICROS: lambda value: _stored_time(value, 1),
    Logical.TIMESTAMP_MILLIS: lambda value: _stored_moment(value, 1000, _EPOCH_UTC),
    Logical.TIMESTAMP_MICROS: lambda value: _stored_moment(value, 1, _EPOCH_UTC),
    Logical.LOCAL_TIMESTAMP_MILLIS: lambda value: _stored_moment(value, 1000, _EPOCH),
    Logical.LOCAL_TIMESTAMP_MICROS: lambda value: _stored_moment(value, 1, _EPOCH),
}
