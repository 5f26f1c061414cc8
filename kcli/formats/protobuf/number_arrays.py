"""Makes Arrow arrays of numbers, enums, times and time spans from the numbers of the wire format."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.formats.protobuf.wire_arrays import validity

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
    from numpy.typing import NDArray

    from kcli.formats.protobuf.wire_arrays import Flags

    Marker = Callable[[Flags], None]
    """Marks values that only the Protobuf library can judge."""

MIN_TIME_SECONDS, MAX_TIME_SECONDS = -62_135_596_800, 253_402_300_799
"""The times from year 1 to year 9999, which Python's times can have."""

MAX_SPAN_SECONDS = 315_576_000_000
"""The longest Duration, about 10,000 years."""

NANOS = 1_000_000_000


def numbers(
    field: FieldDescriptor,
    kind: pa.DataType,
    value: NDArray[np.generic],
    present: Flags | None,
    mark: Marker,
) -> pa.Array:
    """Returns the values of a numeric field as an array of the type `kind`, null where `present` is false."""
    import numpy as np
    import pyarrow as pa

    if field.type == field.TYPE_ENUM:
        return _constants(field.enum_type, value.astype(np.uint32).view(np.int32), present, mark)
    if field.type == field.TYPE_BOOL:
        content = validity(value.astype(np.bool_))
    else:
        content = pa.py_buffer(_converted(field, value))
    return pa.Array.from_buffers(kind, len(value), [validity(present), content])


def _converted(field: FieldDescriptor, value: NDArray[np.generic]) -> NDArray[np.generic]:
    """Returns numbers in the form of their Arrow type."""
    import numpy as np

    match field.type:
        case field.TYPE_DOUBLE:
            return value.view(np.float64)
        case field.TYPE_FLOAT:
            return value.view(np.float32)
        case field.TYPE_INT64 | field.TYPE_SFIXED64:
            return value.view(np.int64)
        case field.TYPE_UINT64 | field.TYPE_FIXED64:
            # A decimal of 128 bits is little-endian.
            wide = np.zeros((len(value), 2), np.uint64)
            wide[:, 0] = value
            return wide
        case field.TYPE_INT32 | field.TYPE_SFIXED32:
            return value.astype(np.uint32).view(np.int32)
        case field.TYPE_UINT32 | field.TYPE_FIXED32:
            return value.astype(np.uint32).astype(np.int64)
        case field.TYPE_SINT32:
            short = value.astype(np.uint32)
            return ((short >> np.uint32(1)) ^ (np.uint32(0) - (short & np.uint32(1)))).view(np.int32)
        case _:
            long = value.astype(np.uint64)
            return ((long >> np.uint64(1)) ^ (np.uint64(0) - (long & np.uint64(1)))).view(np.int64)


def _constants(
    enum: EnumDescriptor, value: NDArray[np.int32], present: Flags | None, mark: Marker
) -> pa.Array:
    """Returns the names of enum values. An unknown number is its text, or belongs to no field if the enum is closed."""
    import numpy as np
    import pyarrow as pa

    unique, inverse = np.unique(value, return_inverse=True)
    constants = [enum.values_by_number.get(number) for number in unique.tolist()]
    if enum.is_closed and None in constants:
        unknown = np.array([constant is None for constant in constants])[inverse]
        mark(unknown if present is None else unknown & present)
    names = [
        constant.name if constant is not None else str(number)
        for number, constant in zip(unique.tolist(), constants, strict=True)
    ]
    indices = pa.array(inverse.astype(np.int32), mask=None if present is None else ~present)
    return pa.array(names, pa.string()).take(indices)


def times(arrays: dict[str, pa.Array], mark: Marker) -> pa.Array:
    """Returns Timestamps, from the arrays of their fields, as microseconds."""
    import pyarrow as pa

    seconds, nanos = (arrays[name].to_numpy(zero_copy_only=False) for name in ("seconds", "nanos"))
    mark((seconds < MIN_TIME_SECONDS) | (seconds > MAX_TIME_SECONDS) | (nanos < 0) | (nanos >= NANOS))
    return _microseconds(pa.timestamp("us", tz="UTC"), seconds, nanos)


def spans(arrays: dict[str, pa.Array], mark: Marker) -> pa.Array:
    """Returns Durations, from the arrays of their fields, as microseconds."""
    import numpy as np
    import pyarrow as pa

    seconds, nanos = (arrays[name].to_numpy(zero_copy_only=False) for name in ("seconds", "nanos"))
    is_long = (seconds < -MAX_SPAN_SECONDS) | (seconds > MAX_SPAN_SECONDS)
    mark(is_long | (np.abs(nanos.astype(np.int64)) >= NANOS))
    return _microseconds(pa.duration("us"), seconds, nanos)


def _microseconds(kind: pa.DataType, seconds: NDArray[np.int64], nanos: NDArray[np.int32]) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    content = seconds * np.int64(1_000_000) + nanos.astype(np.int64) // 1000
    return pa.Array.from_buffers(kind, len(content), [None, pa.py_buffer(content)])
