"""The Arrow types of Avro types, for columns of many values.

A union of several types becomes a struct with a field for each branch, of which one is not null. A record in itself
becomes its JSON text, because no Arrow type contains itself. Each type is one that Spark has too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from kcli.formats.avro.schema import (
    Array,
    Enum,
    Fixed,
    Kind,
    Logical,
    LogicalType,
    Map,
    Part,
    Primitive,
    Record,
    Union,
    branch_name,
    kind_of,
)
from kcli.formats.codec import FormatError

DECIMAL_DIGITS = 38
"""The most digits of a decimal column, as in Spark. A larger decimal becomes text."""

COLUMNS_MAX = 20_000
"""The most columns of a schema, with the columns in columns. A record has a column in each place that uses it, so a
small schema could have an exponential number of columns."""

Path = tuple[Record, ...]
"""The records that contain a type."""

_STORED: Mapping[Kind, pa.DataType] = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BYTES: pa.binary(),
    Kind.FIXED: pa.binary(),
    Kind.STRING: pa.string(),
}
_LOGICAL: Mapping[Logical, pa.DataType] = {
    Logical.BIG_DECIMAL: pa.string(),
    Logical.UUID: pa.string(),
    Logical.DATE: pa.date32(),
    Logical.DURATION: pa.struct([("months", pa.int64()), ("days", pa.int64()), ("milliseconds", pa.int64())]),
    # Spark's type for times is off by default, and it has no nanoseconds. Its own reader of Avro returns numbers too.
    Logical.TIME_MILLIS: pa.int32(),
    Logical.TIME_MICROS: pa.int64(),
    Logical.TIMESTAMP_NANOS: pa.int64(),
    Logical.LOCAL_TIMESTAMP_NANOS: pa.int64(),
    Logical.TIMESTAMP_MILLIS: pa.timestamp("us", tz="UTC"),
    Logical.TIMESTAMP_MICROS: pa.timestamp("us", tz="UTC"),
    Logical.LOCAL_TIMESTAMP_MILLIS: pa.timestamp("us"),
    Logical.LOCAL_TIMESTAMP_MICROS: pa.timestamp("us"),
}


def arrow_type(part: Part, path: Path = ()) -> pa.DataType:
    """Returns the Arrow type of an Avro type. Raises FormatError if it has too many columns."""
    return _Types().of(part, path)


class _Types:
    def __init__(self) -> None:
        self._columns = 0

    def of(self, part: Part, path: Path) -> pa.DataType:
        self._columns += 1
        if self._columns > COLUMNS_MAX:
            raise FormatError(f"the Avro schema has more than {COLUMNS_MAX} columns")
        return self._new(part, path)

    def _new(self, part: Part, path: Path) -> pa.DataType:
        match part:
            case Record():
                if part in path:
                    return pa.string()
                inner = (*path, part)
                return pa.struct([(field.name, self.of(field.type, inner)) for field in part.fields])
            case Union():
                branches = branches_with_values(part)
                types = [self.of(branch, path) for branch in branches]
                if len(types) < 2:
                    return types[0] if types else pa.null()
                return pa.struct(list(zip(branch_fields(branches), types, strict=True)))
            case Array():
                return pa.list_(self.of(part.items, path))
            case Map():
                return pa.map_(pa.string(), self.of(part.values, path))
            case Enum():
                return pa.string()
            case Primitive() | Fixed():
                return _STORED[kind_of(part)] if part.logical is None else _logical(part.logical)


def branches_with_values(union: Union) -> list[Part]:
    """The branches of a union, without null."""
    return [branch for branch in union.branches if kind_of(branch) is not Kind.NULL]


def branch_fields(branches: Sequence[Part]) -> list[str]:
    """The names of the fields for branches: without namespaces, unless two branches then have one name."""
    full = [branch_name(branch) for branch in branches]
    short = [name.rpartition(".")[2] for name in full]
    return short if len(set(short)) == len(short) else [name.replace(".", "_") for name in full]


def _logical(logical: LogicalType) -> pa.DataType:
    if logical.logical is not Logical.DECIMAL:
        return _LOGICAL[logical.logical]
    if logical.precision <= DECIMAL_DIGITS:
        return pa.decimal128(logical.precision, logical.scale)
    return pa.string()
