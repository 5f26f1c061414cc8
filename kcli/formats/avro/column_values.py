"""Decodes values for Arrow columns one by one, where decoding by columns is not possible or not faster."""

from __future__ import annotations

import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa

from kcli.formats.avro import json_text
from kcli.formats.avro.arrow_types import (
    DECIMAL_DIGITS,
    Path,
    branch_fields,
    branches_with_values,
)
from kcli.formats.avro.column_cursor import TOO_SHORT, Cursor
from kcli.formats.avro.decoding import JSON, Form, Readers, converted
from kcli.formats.avro.logical_values import from_stored
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.avro.schema import Fixed, Logical, LogicalType, Part, Primitive, Record, Union
from kcli.formats.avro.stored_values import Convert, Read
from kcli.model.java_text import LONG_MAX

_MILLIS_MAX = LONG_MAX // 1000


class ColumnReaders(Readers):
    """Makes functions whose values have the Arrow types of `arrow_types.py`."""

    def __init__(self, empty: frozenset[int], path: Path) -> None:
        super().__init__(_COLUMN, empty)
        self._path = list(path)
        self._json = Readers(JSON, empty)

    def of(self, writer: Part, reader: Part) -> Read:
        if not isinstance(reader, Record):
            return self._new(writer, reader)
        if reader in self._path:
            return converted(self._json.of(writer, reader), json_text.write)
        self._path.append(reader)
        read = self._new(writer, reader)
        self._path.pop()
        return read


def values_one_by_one(read: Read, cursor: Cursor) -> list[object]:
    """Decodes the next value of each row with a function for one value. The value is None after a fault."""
    raw, after = cursor.batch.raw, np.empty(len(cursor), np.int64)
    values: list[object] = []
    for nth, (begin, end) in enumerate(zip(cursor.at.tolist(), cursor.ends.tolist(), strict=True)):
        value: object = None
        try:
            value, after[nth] = value_before(read, raw, begin, end)
        except InvalidAvro as error:
            cursor.batch.fail(cursor.rows[nth : nth + 1], str(error))
            after[nth] = end
        values.append(value)
    cursor.at = after
    return values


def converted_column(raw: pa.BinaryArray, convert: Convert, cursor: Cursor, kind: pa.DataType) -> pa.Array:
    """Converts stored bytes one by one. A value is null after a fault."""
    values: list[object] = []
    for nth, stored in enumerate(raw.to_pylist()):
        value: object = None
        try:
            value = convert(stored)
        except (ValueError, IndexError) as error:
            cursor.batch.fail(cursor.rows[nth : nth + 1], str(error))
        values.append(value)
    return pa.array(values, kind)


def value_before(read: Read, raw: bytes, begin: int, end: int) -> tuple[object, int]:
    """Decodes a value that must end at `end` or before. Raises InvalidAvro."""
    try:
        value, after = read(raw, begin)
    except InvalidAvro:
        raise
    except (IndexError, struct.error):
        raise InvalidAvro(TOO_SHORT) from None
    except RecursionError:
        raise InvalidAvro("the value is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        raise InvalidAvro(str(error)) from None
    if after > end:
        raise InvalidAvro(TOO_SHORT)
    return value, after


def column_converter(part: Primitive | Fixed) -> Convert | None:
    """Returns the function that converts the stored values of a type, if Arrow does not make its values of them."""
    logical = part.logical
    if logical is None:
        return None
    convert = from_stored(logical)
    match logical.logical:
        case Logical.TIMESTAMP_MILLIS | Logical.LOCAL_TIMESTAMP_MILLIS:
            return _microseconds
        case Logical.DECIMAL:
            assert convert is not None, "decimals are converted"
            return _decimal(logical, convert)
        case Logical.BIG_DECIMAL | Logical.UUID:
            assert convert is not None, "both are converted"
            text = convert
            return lambda value: value if isinstance(value, str) else str(text(value))
        case Logical.DURATION:
            return convert
        case _:
            return None


def _decimal(logical: LogicalType, convert: Convert) -> Convert:
    def decimal(stored: object) -> object:
        value = convert(stored)
        assert isinstance(value, Decimal), "the type says so"
        if len(value.as_tuple().digits) > logical.precision:
            raise InvalidAvro(f"a number does not fit decimal({logical.precision}, {logical.scale})")
        return value if logical.precision <= DECIMAL_DIGITS else str(value)

    return decimal


def _microseconds(value: object) -> object:
    assert isinstance(value, int), "the type says so"
    if not -_MILLIS_MAX <= value <= _MILLIS_MAX:
        raise InvalidAvro("a timestamp is too large")
    return value * 1000


def _field_of(union: Union, branch: Part) -> str | None:
    branches = branches_with_values(union)
    if len(branches) < 2 or branch not in branches:
        return None
    return branch_fields(branches)[branches.index(branch)]


_COLUMN = Form(column_converter, _field_of)
