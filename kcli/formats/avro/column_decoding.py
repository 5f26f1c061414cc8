"""Decodes many values of one schema to Arrow columns, with a function for each pair of a writer's and a reader's type.

The functions are those of `decoding.py` for one value, but each moves a cursor over all values at once. A union or an
array is decoded in parts, with the values that have a branch or a next element. A few types that are rare, and long
arrays of few values, are decoded value by value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kcli.formats.avro.arrow_types import (
    DECIMAL_DIGITS,
    Path,
    arrow_type,
    branch_fields,
    branches_with_values,
)
from kcli.formats.avro.column_cursor import Batch, Cursor
from kcli.formats.avro.column_lists import Elements, list_offsets
from kcli.formats.avro.column_logical import NUMBER_COLUMNS, decimal_column, duration_column
from kcli.formats.avro.column_values import (
    ColumnReaders,
    column_converter,
    converted_column,
    values_one_by_one,
)
from kcli.formats.avro.compatibility import PROMOTIONS, Comparison, names_match, writer_fields
from kcli.formats.avro.decoding import READS_MAX, chosen_branch, missing_text, unreadable_text
from kcli.formats.avro.encoding import Writers
from kcli.formats.avro.json_values import default_value
from kcli.formats.avro.numbers import InvalidAvro
from kcli.formats.avro.schema import (
    Array,
    Enum,
    Field,
    Fixed,
    Kind,
    Logical,
    Map,
    Part,
    Primitive,
    Record,
    Union,
)
from kcli.formats.avro.stored_values import Read
from kcli.formats.codec import FormatError
from kcli.protocol.batches.record_starts import Ints

Decode = Callable[[Cursor], pa.Array]
"""Decodes the next value of each row, and moves the cursor after it. A wrong value may become anything."""

Spans = Callable[[Cursor], tuple[Ints, Ints]]
"""Moves a cursor after bytes, and returns where they begin and end."""

_DTYPES: Mapping[Kind, np.dtype[np.generic]] = {
    Kind.INT: np.dtype(np.int32),
    Kind.LONG: np.dtype(np.int64),
    Kind.FLOAT: np.dtype("<f4"),
    Kind.DOUBLE: np.dtype("<f8"),
}


class ColumnDecoders:
    """Makes the functions that decode the types of one schema. `empty` has the types whose values have no bytes."""

    def __init__(self, empty: frozenset[int]) -> None:
        self._empty = empty
        self._comparison = Comparison()
        self._writers = Writers()
        self._types: dict[tuple[int, Path], pa.DataType] = {}
        self._made = 0

    def root(self, writer: Part, reader: Part) -> Decode:
        """Returns the function for whole values. A value of the schema "bytes" has no length there."""
        match writer, reader:
            case Primitive(kind=Kind.BYTES), Primitive(kind=Kind.BYTES):
                return self._binary(writer, reader, lambda cursor: cursor.spans(cursor.ends - cursor.at))
            case _:
                return self.of(writer, reader, ())

    def of(self, writer: Part, reader: Part, path: Path) -> Decode:
        """Returns the function that decodes values of `writer` as values of `reader`. `path` has the reader's records
        that contain this type."""
        self._count(1)
        match writer, reader:
            case Union(), _:
                return self._writer_union(writer, reader, path)
            case _, Union():
                return self._reader_union(writer, reader, path)
            case Primitive(), Primitive() if writer.kind is reader.kind or writer.kind in PROMOTIONS.get(
                reader.kind, ()
            ):
                return self._primitive(writer, reader)
            case Array(), Array():
                return self._array(writer, reader, path)
            case Map(), Map():
                return self._map(writer, reader, path)
            case Fixed(), Fixed() if writer.size == reader.size and names_match(reader, writer):
                return self._fixed(writer, reader, path)
            case Enum(), Enum() if names_match(reader, writer):
                return _enum(writer, reader)
            case Record(), Record():
                return self._record(writer, reader, path)
            case _:
                return _failing(unreadable_text(writer, reader), self._type(reader, path))

    def _count(self, number: int) -> None:
        self._made += number
        if self._made > READS_MAX:
            raise FormatError("the two schemas are too complex to decode values with")

    def _type(self, reader: Part, path: Path) -> pa.DataType:
        key = (id(reader), path)
        if key not in self._types:
            self._types[key] = arrow_type(reader, path)
        return self._types[key]

    def _one_by_one(self, writer: Part, reader: Part, path: Path) -> Decode:
        read, kind = self._read(writer, reader, path), self._type(reader, path)
        return lambda cursor: pa.array(values_one_by_one(read, cursor), kind)

    def _read(self, writer: Part, reader: Part, path: Path) -> Read:
        return ColumnReaders(self._empty, path).of(writer, reader)

    # Unions.

    def _writer_union(self, writer: Union, reader: Part, path: Path) -> Decode:
        if isinstance(reader, Union):
            choices = [
                branch if writer is reader else chosen_branch(branch, reader, self._comparison)
                for branch in writer.branches
            ]
            fields = branches_with_values(reader)
        else:
            choices = [reader for _ in writer.branches]
            fields = [reader]
        kind = self._type(reader, path)
        targets: list[tuple[int | None, Decode]] = []
        for branch, choice in zip(writer.branches, choices, strict=True):
            if choice is None:
                targets.append((None, _failing(unreadable_text(branch, reader), kind)))
            else:
                place = next((nth for nth, field in enumerate(fields) if field is choice), None)
                targets.append((place, self.of(branch, choice, path)))
        names = branch_fields(fields) if len(fields) > 1 else None
        return _union(targets, kind, names)

    def _reader_union(self, writer: Part, reader: Union, path: Path) -> Decode:
        kind = self._type(reader, path)
        choice = chosen_branch(writer, reader, self._comparison)
        if choice is None:
            return _failing(unreadable_text(writer, reader), kind)
        decode, fields = self.of(writer, choice, path), branches_with_values(reader)
        if choice not in fields:
            return lambda cursor: _nulls_after(decode(cursor), kind)
        if len(fields) < 2:
            return decode
        place = fields.index(choice)

        def decode_branch(cursor: Cursor) -> pa.Array:
            column = decode(cursor)
            columns = [pa.nulls(len(cursor), field.type) for field in kind]
            columns[place] = column
            return pa.StructArray.from_arrays(columns, fields=list(kind))

        return decode_branch

    # Primitive types.

    def _primitive(self, writer: Primitive, reader: Primitive) -> Decode:
        logical = None if reader.logical is None else reader.logical.logical
        match writer.kind:
            case Kind.NULL:
                return lambda cursor: pa.nulls(len(cursor))
            case Kind.BOOLEAN:
                return lambda cursor: pa.array(cursor.booleans())
            case Kind.BYTES | Kind.STRING:
                return self._binary(writer, reader, Cursor.lengths)
            case _:
                read, dtype = _numbers(writer.kind), _DTYPES[reader.kind]
                column = None if logical is None else NUMBER_COLUMNS.get(logical)
                if column is None:
                    return lambda cursor: pa.array(read(cursor).astype(dtype, copy=False))
                make = column
                return lambda cursor: make(read(cursor).astype(dtype, copy=False), cursor)

    def _binary(self, writer: Primitive, reader: Primitive, spans: Spans) -> Decode:
        logical = reader.logical
        if logical is not None and logical.logical in (Logical.DECIMAL, Logical.BIG_DECIMAL):
            if logical.logical is Logical.DECIMAL and logical.precision <= DECIMAL_DIGITS:
                return lambda cursor: decimal_column(*spans(cursor), logical, cursor)
            kind, convert = arrow_type(reader), column_converter(reader)
            assert convert is not None, "decimals are converted"
            return lambda cursor: converted_column(cursor.binaries(*spans(cursor)), convert, cursor, kind)
        if reader.kind is Kind.BYTES:
            return lambda cursor: cursor.binaries(*spans(cursor))
        if writer.kind is Kind.BYTES:  # bytes that are not UTF-8 are valid for the writer
            return lambda cursor: _replaced_texts(cursor.binaries(*spans(cursor)))
        return lambda cursor: cursor.texts(*spans(cursor))

    def _fixed(self, writer: Fixed, reader: Fixed, path: Path) -> Decode:
        logical, size = reader.logical, writer.size

        def spans(cursor: Cursor) -> tuple[Ints, Ints]:
            return cursor.spans(np.full(len(cursor), size, np.int64))

        match None if logical is None else logical.logical:
            case Logical.DURATION:
                return lambda cursor: duration_column(spans(cursor)[0], cursor)
            case Logical.DECIMAL if logical is not None and logical.precision <= DECIMAL_DIGITS:
                return lambda cursor: decimal_column(*spans(cursor), logical, cursor)
            case None:
                return lambda cursor: cursor.binaries(*spans(cursor))
            case _:
                return self._one_by_one(writer, reader, path)

    # Types of types.

    def _array(self, writer: Array, reader: Array, path: Path) -> Decode:
        kind = self._type(reader, path)
        decode = self.of(writer.items, reader.items, path)
        elements = Elements(
            lambda cursor: [decode(cursor)],
            [self._read(writer.items, reader.items, path)],
            [kind.value_type],
            is_empty=id(writer.items) in self._empty,
        )

        def decode_lists(cursor: Cursor) -> pa.Array:
            (values,), counts = elements.decode(cursor)
            return pa.ListArray.from_arrays(list_offsets(counts), values, type=kind)

        return decode_lists

    def _map(self, writer: Map, reader: Map, path: Path) -> Decode:
        kind = self._type(reader, path)
        decode = self.of(writer.values, reader.values, path)
        text = Primitive(Kind.STRING)
        elements = Elements(
            lambda cursor: [cursor.texts(*cursor.lengths()), decode(cursor)],
            [self._read(text, text, path), self._read(writer.values, reader.values, path)],
            [pa.string(), kind.item_type],
            is_empty=False,
        )

        def decode_maps(cursor: Cursor) -> pa.Array:
            (keys, values), counts = elements.decode(cursor)
            return pa.MapArray.from_arrays(list_offsets(counts), _without_nulls(keys), values)

        return decode_maps

    def _record(self, writer: Record, reader: Record, path: Path) -> Decode:
        if reader in path:
            return self._one_by_one(writer, reader, path)
        kind, inner = self._type(reader, path), (*path, reader)
        self._count(len(reader.fields) + len(writer.fields))
        sources = writer_fields(reader, writer)
        places: dict[int, int] = {}
        missing: list[tuple[int, Decode]] = []
        for nth, field in enumerate(reader.fields):
            if field.name in sources:
                places[id(sources[field.name])] = nth
            else:
                missing.append((nth, self._default(field, reader, inner)))
        steps: list[tuple[int | None, Decode]] = []
        for source in writer.fields:
            place = places.get(id(source))
            target = source.type if place is None else reader.fields[place].type
            steps.append((place, self.of(source.type, target, (*inner, writer) if place is None else inner)))
        return _record([*steps, *missing], kind)

    def _default(self, field: Field, record: Record, path: Path) -> Decode:
        """Returns a function that repeats the default of a field."""
        kind = self._type(field.type, path)
        if field.default is None:
            return _failing(missing_text(field, record), kind)
        out = bytearray()
        try:
            self._writers.of(field.type)(default_value(field.type, field.default.json), out)
        except InvalidAvro as error:
            return _failing(str(error), kind)
        batch = Batch(pa.py_buffer(bytes(out)), 1)
        start, end, row = np.zeros(1, np.int64), np.full(1, len(out), np.int64), np.zeros(1, np.int64)
        column = self.of(field.type, field.type, path)(Cursor(batch, start, end, row))
        if batch.has_faults:
            return _failing(f"the default of the field {field.name} has no column value", kind)
        return lambda cursor: column.take(pa.array(np.zeros(len(cursor), np.int64)))


def _failing(text: str, kind: pa.DataType) -> Decode:
    def decode(cursor: Cursor) -> pa.Array:
        cursor.fail(np.ones(len(cursor), np.bool_), text)
        return pa.nulls(len(cursor), kind)

    return decode


def _numbers(kind: Kind) -> Callable[[Cursor], NDArray[np.generic]]:
    match kind:
        case Kind.INT:
            return Cursor.ints
        case Kind.LONG:
            return Cursor.longs
        case _:
            dtype = _DTYPES[kind]
            return lambda cursor: cursor.numbers(dtype)


def _nulls_after(_column: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(_column), kind)


def _replaced_texts(raw: pa.BinaryArray) -> pa.StringArray:
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in raw.to_pylist()], pa.string())


def _without_nulls(keys: pa.StringArray) -> pa.StringArray:
    """The keys of a map. The key of a wrong value may be null, and Arrow has no such keys."""
    return keys.fill_null("") if keys.null_count else keys


def _enum(writer: Enum, reader: Enum) -> Decode:
    known = set(reader.symbols)
    chosen = [symbol if symbol in known else reader.default for symbol in writer.symbols]
    symbols = pa.array(chosen, pa.string())
    is_unknown = np.array([symbol is None for symbol in chosen], np.bool_)

    def decode(cursor: Cursor) -> pa.Array:
        numbers = cursor.longs()
        wrong = (numbers < 0) | (numbers >= len(chosen))
        cursor.fail(wrong, f"the enum {writer.name.full} has no such symbol")
        numbers = np.where(wrong, 0, numbers)
        if is_unknown.any():
            cursor.fail(is_unknown[numbers], f"a symbol of {writer.name.full} is unknown to the reader")
        return symbols.take(pa.array(numbers)) if len(chosen) else pa.nulls(len(cursor), pa.string())

    return decode


def _record(steps: list[tuple[int | None, Decode]], kind: pa.StructType) -> Decode:
    fields = list(kind)

    def decode(cursor: Cursor) -> pa.Array:
        columns: list[pa.Array | None] = [None] * len(fields)
        for place, decode_field in steps:
            column = decode_field(cursor)
            if place is not None:
                columns[place] = column
        if not fields:
            return pa.Array.from_buffers(kind, len(cursor), [None])
        return pa.StructArray.from_arrays(columns, fields=fields)

    return decode


def _union(targets: list[tuple[int | None, Decode]], kind: pa.DataType, names: list[str] | None) -> Decode:
    """Decodes a union. A target is the field of the result that gets the values of a branch, or None for null."""

    def decode(cursor: Cursor) -> pa.Array:
        numbers = cursor.longs()
        cursor.fail((numbers < 0) | (numbers >= len(targets)), "the union has no such branch")
        pieces: dict[int, list[tuple[Ints, pa.Array]]] = {}
        for nth, (field, decode_branch) in enumerate(targets):
            places = np.flatnonzero(numbers == nth)
            if not len(places):
                continue
            part = cursor.part(places)
            column = decode_branch(part)
            cursor.join(places, part)
            if field is not None:
                pieces.setdefault(field, []).append((places, column))
        if names is None:
            return scattered(pieces.get(0, []), len(cursor), kind)
        columns = [scattered(pieces.get(nth, []), len(cursor), field.type) for nth, field in enumerate(kind)]
        is_null = np.ones(len(cursor), np.bool_)
        for places, _ in itertools.chain.from_iterable(pieces.values()):
            is_null[places] = False
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=pa.array(is_null))

    return decode


def scattered(pieces: list[tuple[Ints, pa.Array]], count: int, kind: pa.DataType) -> pa.Array:
    """Joins columns of some rows to a column of all rows. The other rows are null."""
    if not pieces:
        return pa.nulls(count, kind)
    if len(pieces) == 1 and len(pieces[0][0]) == count:
        return pieces[0][1]
    sources, is_null, taken = np.zeros(count, np.int64), np.ones(count, np.bool_), 0
    for places, column in pieces:
        sources[places] = np.arange(taken, taken + len(column))
        is_null[places] = False
        taken += len(column)
    joined = pa.concat_arrays([column for _, column in pieces])
    return joined.take(pa.array(sources, mask=is_null))
