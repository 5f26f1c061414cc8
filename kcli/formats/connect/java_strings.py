"""The text of a value, as Java's `String.valueOf` makes it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from uuid import UUID

from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import Float32, Float64, FrozenMap, Instant
from kcli.model.java_dates.formats import SimpleDateFormat
from kcli.model.java_floats import java_double, java_float

_HASH_MASK = 0x7FFFFFFF


def java_string(value: object) -> str:
    kind = type(value)
    return value if kind is str else _WRITERS.get(kind, str)(value)  # type: ignore[return-value]


def java_decimal(value: Decimal) -> str:
    """`BigDecimal.toString`. A BigDecimal has no negative zero."""
    return str(value if value else abs(value))


def _struct(value: Struct) -> str:
    stored = (f"{item.name}={java_string(content)}" for item, content in value.items() if content is not None)
    return f"Struct{{{','.join(stored)}}}"


def _list(value: Iterable[object]) -> str:
    return f"[{', '.join(map(java_string, value))}]"


def _map(value: Mapping[object, object]) -> str:
    pairs = (f"{java_string(key)}={java_string(content)}" for key, content in value.items())
    return f"{{{', '.join(pairs)}}}"


def _bytes(value: bytes) -> str:
    # Java writes the identity of the array, which has no meaning.
    return f"[B@{id(value) & _HASH_MASK:x}"


def _buffer(value: memoryview) -> str:
    return f"java.nio.HeapByteBuffer[pos=0 lim={value.nbytes} cap={value.nbytes}]"


def _date(value: Instant) -> str:
    """`Date.toString`, in the time zone of this process."""
    return SimpleDateFormat("EEE MMM dd HH:mm:ss zzz y", None).format(value)


def _moment(value: dt.datetime | dt.date | dt.time) -> str:
    return _date(Instant.of(value))


_WRITERS: Mapping[type, Callable[..., str]] = {
    type(None): lambda _value: "null",
    bool: lambda value: "true" if value else "false",
    Float32: java_float,
    float: java_double,
    Float64: java_double,
    Decimal: java_decimal,
    bytes: _bytes,
    memoryview: _buffer,
    list: _list,
    tuple: _list,
    dict: _map,
    FrozenMap: _map,
    Struct: _struct,
    Instant: _date,
    **dict.fromkeys((dt.datetime, dt.date, dt.time), _moment),
    UUID: str,
}
