"""Columns of Arrow for values of Connect's schemas, and the reverse.

Each schema and each type of Arrow has one function that converts a whole column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kcli.connectors.objects.libraries import library
from kcli.formats.connect import schema as schemas
from kcli.formats.connect.charsets import whole_characters
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.logical import decimal_scale
from kcli.formats.connect.schema import Schema, SchemaType
from kcli.formats.connect.structs import Struct
from kcli.formats.connect.values import MS_PER_DAY, Float32, Instant, as_key

if TYPE_CHECKING:
    import pyarrow as pa

DECIMAL_DIGITS = 38
"""The digits of a decimal column. Connect's Decimal has no limit: a larger value fails the task."""


# Writing.


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    type: pa.DataType
    write: Callable[[Sequence[Any]], pa.Array]
    """Makes an array of values. None stands for null."""


_TYPE_NAMES: Mapping[SchemaType, str] = {
    SchemaType.BOOLEAN: "bool_",
    SchemaType.BYTES: "binary",
    **{
        kind: kind.value
        for kind in SchemaType
        if kind.value.startswith(("int", "float")) or kind is SchemaType.STRING
    },
}


def column_writer(schema: Schema) -> ColumnWriter:
    arrow = library("pyarrow")
    inner = _logical_writer(arrow, schema) or _nested_writer(arrow, schema) or _plain_writer(arrow, schema)
    default = schema.default
    if default is None:
        return inner
    return ColumnWriter(
        inner.type, lambda values: inner.write([default if value is None else value for value in values])
    )


def _plain_writer(arrow: ModuleType, schema: Schema) -> ColumnWriter:
    kind = getattr(arrow, _TYPE_NAMES[schema.type])()

    def write(values: Sequence[Any]) -> pa.Array:
        try:
            return arrow.array(values, kind)
        except UnicodeEncodeError:
            return arrow.array([None if value is None else whole_characters(value) for value in values], kind)

    return ColumnWriter(kind, write)


def _logical_writer(arrow: ModuleType, schema: Schema) -> ColumnWriter | None:
    match schema.name:
        case schemas.DATE:
            days = arrow.int32()
            return ColumnWriter(
                arrow.date32(),
                lambda values: arrow.array(
                    [None if value is None else value // MS_PER_DAY for value in values], days
                ).cast(arrow.date32()),
            )
        case schemas.TIME:
            kind = arrow.time32("ms")
            return ColumnWriter(kind, lambda values: arrow.array(values, arrow.int32()).cast(kind))
        case schemas.TIMESTAMP:
            moment = arrow.timestamp("ms", "UTC")
            return ColumnWriter(moment, lambda values: arrow.array(values, arrow.int64()).cast(moment))
        case schemas.DECIMAL:
            decimal = arrow.decimal128(DECIMAL_DIGITS, decimal_scale(schema))
            return ColumnWriter(decimal, lambda values: arrow.array(values, decimal))
        case _:
            return None


def _nested_writer(arrow: ModuleType, schema: Schema) -> ColumnWriter | None:
    match schema.type:
        case SchemaType.STRUCT:
            return _struct_writer(arrow, schema)
        case SchemaType.ARRAY:
            items = column_writer(_inside(schema.value_schema))
            kind = arrow.list_(items.type)
            return ColumnWriter(
                kind,
                lambda values: arrow.ListArray.from_arrays(
                    _offsets(arrow, values), items.write([item for value in values for item in value or ()])
                ),
            )
        case SchemaType.MAP:
            keys, items = (
                column_writer(_inside(schema.key_schema)),
                column_writer(_inside(schema.value_schema)),
            )
            kind = arrow.map_(keys.type, items.type)
            return ColumnWriter(
                kind,
                lambda values: arrow.MapArray.from_arrays(
                    _offsets(arrow, values),
                    keys.write([key for value in values for key in value or ()]),
                    items.write([item for value in values for item in (value or {}).values()]),
                ),
            )
        case _:
            return None


def _struct_writer(arrow: ModuleType, schema: Schema) -> ColumnWriter:
    columns = [column_writer(field.schema) for field in schema.fields]
    fields = [
        # A null struct has no values, so its required fields must be nullable too.
        arrow.field(field.name, column.type, nullable=field.schema.optional or schema.optional)
        for field, column in zip(schema.fields, columns, strict=True)
    ]
    empty = [None] * len(fields)

    def write(values: Sequence[Struct | None]) -> pa.Array:
        rows = [empty if value is None else value.values for value in values]
        cells = zip(*rows, strict=True) if rows else [()] * len(columns)
        arrays = [column.write(column_cells) for column, column_cells in zip(columns, cells, strict=True)]
        mask = arrow.array([value is None for value in values], arrow.bool_())
        return arrow.StructArray.from_arrays(arrays, fields=fields, mask=mask)

    return ColumnWriter(arrow.struct(fields), write)


def _offsets(arrow: ModuleType, values: Sequence[Any]) -> pa.Array:
    """Where the items of each list begin. None marks a list that is null."""
    offsets: list[int | None] = []
    end = 0
    for value in values:
        offsets.append(None if value is None else end)
        end += len(value or ())
    return arrow.array([*offsets, end], arrow.int32())


def _inside(schema: Schema | None) -> Schema:
    assert schema is not None, "arrays and maps have the schemas of their items"
    return schema


# Reading.


@dataclass(frozen=True, slots=True)
class ColumnReader:
    base: Schema
    """The schema that the type stands for, required."""
    read: Callable[[pa.Array, Schema], Sequence[object]]
    """The values of an array, under the schema that the file stores or under that of the type."""

    def schema(self, *, optional: bool) -> Schema:
        return replace(self.base, optional=optional)


def column_reader(kind: pa.DataType) -> ColumnReader:
    """Raises ConnectException for a type that Connect has no schema for."""
    arrow = library("pyarrow")
    types = arrow.types
    if types.is_dictionary(kind):
        inner = column_reader(kind.value_type)
        return ColumnReader(inner.base, lambda array, schema: inner.read(array.dictionary_decode(), schema))
    if types.is_struct(kind):
        return _struct_reader(kind)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _list_reader(kind)
    if types.is_map(kind):
        return _map_reader(kind)
    if types.is_decimal(kind):
        return ColumnReader(schemas.decimal_schema(kind.scale), lambda array, _: array.to_pylist())
    if types.is_temporal(kind):
        return _temporal_reader(arrow, kind)
    for matches, schema in _plain_types(types):
        if matches(kind):
            is_float = schema.type is SchemaType.FLOAT32
            return ColumnReader(schema, _read_floats if is_float else _read_plain)
    raise ConnectException(f"Connect has no schema for the Parquet column type {kind}")


def _plain_types(types: ModuleType) -> list[tuple[Callable[[pa.DataType], bool], Schema]]:
    """An unsigned type gets the next larger type."""
    return [
        (types.is_boolean, schemas.BOOLEAN_SCHEMA),
        (types.is_int8, schemas.INT8_SCHEMA),
        (lambda kind: types.is_int16(kind) or types.is_uint8(kind), schemas.INT16_SCHEMA),
        (lambda kind: types.is_int32(kind) or types.is_uint16(kind), schemas.INT32_SCHEMA),
        (lambda kind: types.is_int64(kind) or types.is_uint32(kind), schemas.INT64_SCHEMA),
        (lambda kind: types.is_float16(kind) or types.is_float32(kind), schemas.FLOAT32_SCHEMA),
        (types.is_float64, schemas.FLOAT64_SCHEMA),
        (lambda kind: types.is_string(kind) or types.is_large_string(kind), schemas.STRING_SCHEMA),
        (
            lambda kind: (
                types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
            ),
            schemas.BYTES_SCHEMA,
        ),
    ]


def _read_plain(array: pa.Array, _schema: Schema) -> Sequence[object]:
    values: list[object] = array.to_pylist()
    return values


def _read_floats(array: pa.Array, _schema: Schema) -> Sequence[object]:
    return [None if value is None else Float32(value) for value in array.to_pylist()]


def _temporal_reader(arrow: ModuleType, kind: pa.DataType) -> ColumnReader:
    if arrow.types.is_date(kind):
        schema, steps, unit = schemas.DATE_SCHEMA, (arrow.date32(), arrow.int32()), MS_PER_DAY
    elif arrow.types.is_time(kind):
        schema, steps, unit = schemas.TIME_SCHEMA, (arrow.time32("ms"), arrow.int32()), 1
    elif arrow.types.is_timestamp(kind):
        schema, steps, unit = (
            schemas.TIMESTAMP_SCHEMA,
            (arrow.timestamp("ms", kind.tz), arrow.int64()),
            1,
        )
    else:
        raise ConnectException(f"Connect has no schema for the Parquet column type {kind}")

    def read(array: pa.Array, _schema: Schema) -> Sequence[object]:
        for step in steps:
            array = array.cast(step, safe=False)  # Connect has no units below a millisecond
        return [None if value is None else Instant(value * unit) for value in array.to_pylist()]

    return ColumnReader(schema, read)


def _struct_reader(kind: pa.DataType) -> ColumnReader:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    readers = [column_reader(field.type) for field in fields]
    base = schemas.struct_schema(
        {
            field.name: reader.schema(optional=field.nullable)
            for field, reader in zip(fields, readers, strict=True)
        }
    )

    def read(array: pa.Array, schema: Schema) -> Sequence[object]:
        columns = [
            reader.read(array.field(number), schema.fields[number].schema)
            for number, reader in enumerate(readers)
        ]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        return [
            Struct.of_checked(schema, list(row)) if valid else None
            for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
        ]

    return ColumnReader(base, read)


def _list_reader(kind: pa.DataType) -> ColumnReader:
    items = column_reader(kind.value_type)
    base = schemas.array_schema(items.schema(optional=kind.value_field.nullable))

    def read(array: pa.Array, schema: Schema) -> Sequence[object]:
        values = items.read(array.flatten(), _inside(schema.value_schema))
        return [None if cut is None else list(values[cut]) for cut in _cuts(array)]

    return ColumnReader(base, read)


def _map_reader(kind: pa.DataType) -> ColumnReader:
    keys, items = column_reader(kind.key_type), column_reader(kind.item_type)
    base = schemas.map_schema(keys.schema(optional=False), items.schema(optional=kind.item_field.nullable))

    def read(array: pa.Array, schema: Schema) -> Sequence[object]:
        # The children of a slice are whole, and its offsets are positions in them.
        names = list(map(as_key, keys.read(array.keys, _inside(schema.key_schema))))
        values = items.read(array.items, _inside(schema.value_schema))
        offsets = array.offsets.to_pylist()
        return [
            dict(zip(names[begin:end], values[begin:end], strict=True)) if valid else None
            for begin, end, valid in zip(offsets[:-1], offsets[1:], array.is_valid().to_pylist(), strict=True)
        ]

    return ColumnReader(base, read)


def _cuts(array: pa.Array) -> Sequence[slice | None]:
    """The part of the items of all lists that each list has. None for a list that is null."""
    cuts: list[slice | None] = []
    end = 0
    for length in array.value_lengths().to_pylist():
        cuts.append(None if length is None else slice(end, end + length))
        end += length or 0
    return cuts
