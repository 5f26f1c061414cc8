"""Parquet through pyarrow, column by column.

A file that the sink writes has the schema of Connect in its metadata, so the source returns the same schema. Other
files get a schema from their columns.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from kcli.connectors.objects.arrow_columns import column_reader, column_writer
from kcli.connectors.objects.libraries import library
from kcli.connectors.objects.store import Upload
from kcli.formats.connect.converter import SchemaAndValue
from kcli.formats.connect.errors import ConnectException
from kcli.formats.connect.json_decoder import JsonDecoder
from kcli.formats.connect.json_encoder import JsonEncoder
from kcli.formats.connect.json_schema import schema_from_json, schema_to_json
from kcli.formats.connect.json_tree import read_tree
from kcli.formats.connect.schema import Schema, SchemaType, struct_schema
from kcli.formats.connect.structs import Struct

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP_RECORDS = 100_000
"""The records of a row group, which are in memory as columns until the group is complete."""
ROW_GROUP_BYTES = 64 * 2**20
_READ_RECORDS = 4_096
_SCHEMA_KEY = b"kcli.connect.schema"


class ParquetEncoder:
    """Writes structs. Columns of the records of one `add` are made at once."""

    def __init__(self, codec: str, schema: Schema | None, target: Upload) -> None:
        if schema is None or schema.type is not SchemaType.STRUCT:
            raise ConnectException("Parquet needs values that are structs with a schema")
        self._arrow = library("pyarrow")
        self._columns = [column_writer(field.schema) for field in schema.fields]
        fields = [
            self._arrow.field(field.name, column.type, nullable=field.schema.optional)
            for field, column in zip(schema.fields, self._columns, strict=True)
        ]
        text = schema_to_json(schema, JsonEncoder(decimals_as_numbers=False, replaces_null=False).encoder)
        self._schema = self._arrow.schema(fields, metadata={_SCHEMA_KEY: text.encode()})
        self._target = _Sink(target)
        compression = None if codec in ("none", "uncompressed") else codec
        parquet = library("pyarrow.parquet")
        self._writer = parquet.ParquetWriter(self._target, self._schema, compression=compression)
        self._batches: list[pa.RecordBatch] = []
        self._records = self._bytes = 0

    def add(self, values: Sequence[object]) -> None:
        columns = zip(*[value.values for value in values], strict=True)  # type: ignore[attr-defined]
        arrays = [column.write(cells) for column, cells in zip(self._columns, columns, strict=True)]
        batch = self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._batches.append(batch)
        self._records += len(values)
        self._bytes += batch.nbytes
        if self._records >= ROW_GROUP_RECORDS or self._bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        table = self._arrow.Table.from_batches(self._batches, self._schema)
        self._batches, self._records, self._bytes = [], 0, 0
        self._writer.write_table(table, row_group_size=max(1, len(table)))


class _Sink(io.RawIOBase):
    """An upload as the file that pyarrow wants."""

    def __init__(self, target: Upload) -> None:
        self._target = target
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: bytes) -> int:  # type: ignore[override]
        view = memoryview(data)
        self._target.write(view)
        self._position += view.nbytes
        return view.nbytes


def read_parquet(file: IO[bytes], position: int) -> Iterator[SchemaAndValue]:
    parquet = library("pyarrow.parquet").ParquetFile(file)
    arrow_schema = parquet.schema_arrow
    readers = [column_reader(field.type) for field in arrow_schema]
    schema = _stored_schema(arrow_schema) or struct_schema(
        {
            field.name: reader.schema(optional=field.nullable)
            for field, reader in zip(arrow_schema, readers, strict=True)
        }
    )
    fields = [field.schema for field in schema.fields]
    for batch in parquet.iter_batches(_READ_RECORDS):
        if position >= len(batch):
            position -= len(batch)
            continue
        columns = [
            reader.read(column, field)
            for reader, column, field in zip(readers, batch.slice(position).columns, fields, strict=True)
        ]
        position = 0
        for values in zip(*columns, strict=True):
            yield SchemaAndValue(schema, Struct.of_checked(schema, list(values)))


def _stored_schema(arrow_schema: pa.Schema) -> Schema | None:
    text = (arrow_schema.metadata or {}).get(_SCHEMA_KEY)
    if text is None:
        return None
    return schema_from_json(read_tree(text), JsonDecoder(replaces_null=False).decode)
