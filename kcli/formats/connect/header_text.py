"""Writes values of headers as text (`Values.convertToString` of Kafka Connect).

Dates have the time zone of this process, as in Java, although their text ends with Z.
"""

from __future__ import annotations

import datetime as dt
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal

from kcli.formats.connect.errors import DataException
from kcli.formats.connect.java_strings import java_string
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import (
    MS_PER_DAY,
    BigInteger,
    Float32,
    Float64,
    FrozenMap,
    Instant,
    Int8,
    Int16,
    Int32,
    Int64,
    java_class,
)
from kcli.model.java_dates.formats import SimpleDateFormat

DATE_PATTERN = "yyyy-MM-dd"
TIME_PATTERN = "HH:mm:ss.SSS'Z'"
TIMESTAMP_PATTERN = f"{DATE_PATTERN}'T'{TIME_PATTERN}"


def value_text(value: object) -> str:
    """The text of a value. Raises DataException for a value of a class that has no text."""
    if isinstance(value, str):
        return value
    return _base64(value) if isinstance(value, (bytes, memoryview)) else _embedded(value)


def date_text(value: Instant) -> str:
    """The text of a date: a time before 2 January 1970, a day if it is midnight in UTC, or else a timestamp."""
    if value < MS_PER_DAY:
        pattern = TIME_PATTERN
    else:
        pattern = TIMESTAMP_PATTERN if value % MS_PER_DAY else DATE_PATTERN
    return SimpleDateFormat(pattern, None).format(value)


def _embedded(value: object) -> str:
    """The text of a value in an array, in a map or in a struct. Texts there have quotation marks."""
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, (dt.date, dt.time)):
        return date_text(Instant.of(value))
    raise DataException(
        f"Failed to serialize unexpected value type {java_class(value)}: {java_string(value)}"
    )


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _array(value: Iterable[object]) -> str:
    return f"[{','.join(map(_embedded, value))}]"


def _map(value: Mapping[object, object]) -> str:
    return f"{{{','.join(f'{_embedded(key)}:{_embedded(item)}' for key, item in value.items())}}}"


def _struct(value: Struct) -> str:
    return _map({field.name: value.get(field.name) for field in value.schema.fields})


def _base64(value: bytes | memoryview) -> str:
    return b64encode(value).decode("ascii")


def _bytes(value: bytes | memoryview) -> str:
    return f'"{_base64(value)}"'


_NUMBERS = (Int8, Int16, Int32, Int64, int, BigInteger, Float32, Float64, float, Decimal)
_WRITERS: Mapping[type, Callable[..., str]] = {
    type(None): java_string,
    bool: java_string,
    **dict.fromkeys(_NUMBERS, java_string),
    str: _text,
    bytes: _bytes,
    memoryview: _bytes,
    list: _array,
    tuple: _array,
    dict: _map,
    FrozenMap: _map,
    Struct: _struct,
    Instant: date_text,
}
