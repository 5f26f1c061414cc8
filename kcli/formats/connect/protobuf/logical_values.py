"""The values of logical types in their messages: Decimal, Date, TimeOfDay and Timestamp."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.logical import date_to_days, scale_of, time_to_ms
from kcli.formats.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP
from kcli.formats.connect.values import MS_PER_DAY, Instant, java_class

if TYPE_CHECKING:
    from google.protobuf.message import Message

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _read_decimal(message: Any) -> object:
    unscaled = int.from_bytes(message.value, signed=True)
    value = _EXACT.scaleb(Decimal(unscaled), -message.scale)
    if 0 < message.precision < len(value.as_tuple().digits):
        return Context(message.precision, ROUND_HALF_UP, MIN_EMIN, MAX_EMAX).plus(value)
    return value


def _fill_decimal(message: Any, value: object) -> None:
    if not isinstance(value, Decimal):
        raise DataException(
            f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}"
        )
    scale = scale_of(value)
    unscaled = int(_EXACT.scaleb(value, scale))
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    message.value = unscaled.to_bytes(magnitude.bit_length() // 8 + 1, signed=True)
    message.precision = len(str(abs(unscaled)))
    message.scale = scale


def _instant(name: str, value: object) -> Instant:
    if not isinstance(value, Instant):
        raise DataException(f"Invalid type for {name}, expected Date but was class {java_class(value)}")
    return value


def _read_date(message: Any) -> object:
    try:
        day = dt.date(message.year, message.month, message.day)
    except ValueError as error:
        raise DataException(f"The date is invalid: {error}") from None
    return Instant((day.toordinal() - _EPOCH_DAY) * MS_PER_DAY)


def _fill_date(message: Any, value: object) -> None:
    days = date_to_days(_instant("Date", value))
    try:
        day = dt.date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise DataException(f"The date {days} is outside of the years 1 to 9999") from None
    message.year, message.month, message.day = day.year, day.month, day.day


def _read_time(message: Any) -> object:
    is_valid = 0 <= message.hours < 24 and 0 <= message.minutes < 60 and 0 <= message.seconds < 60
    if not is_valid or not 0 <= message.nanos < 1_000_000_000:
        raise DataException("The time of the day is invalid")
    seconds = (message.hours * 60 + message.minutes) * 60 + message.seconds
    return Instant(seconds * 1000 + message.nanos // 1_000_000)


def _fill_time(message: Any, value: object) -> None:
    seconds, milliseconds = divmod(time_to_ms(_instant("Time", value)), 1000)
    message.hours, rest = divmod(seconds % 86_400, 3600)
    message.minutes, message.seconds = divmod(rest, 60)
    message.nanos = milliseconds * 1_000_000


def _read_timestamp(message: Any) -> object:
    return Instant(message.seconds * 1000 + message.nanos // 1_000_000)


def _fill_timestamp(message: Any, value: object) -> None:
    message.seconds, milliseconds = divmod(int(_instant("Timestamp", value)), 1000)
    message.nanos = milliseconds * 1_000_000


READ_LOGICAL: Mapping[str, Callable[[Message], object]] = {
    DECIMAL: _read_decimal,
    DATE: _read_date,
    TIME: _read_time,
    TIMESTAMP: _read_timestamp,
}
FILL_LOGICAL: Mapping[str, Callable[[Message, object], None]] = {
    DECIMAL: _fill_decimal,
    DATE: _fill_date,
    TIME: _fill_time,
    TIMESTAMP: _fill_timestamp,
}
