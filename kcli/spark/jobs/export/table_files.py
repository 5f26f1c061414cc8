"""Writes the Parquet files of a table in the workers that decode the records. Spark receives only a row for each file.

The data source `kcli-table-files` reads records like the source `kcli`. But its tasks write Parquet files and return
one row for each file. If Spark must first decode the values, the data source `kcli` reads them, and mapInArrow writes
the decoded rows with the same code. A file belongs to the table only after the driver has committed it. So if a task
fails or runs twice, it leaves only files that belong to no table.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kcli.spark.data_source import KcliDataSource
from kcli.spark.source.arrow import text
from kcli.spark.source.offsets import OffsetJson

if TYPE_CHECKING:
    from pyspark.sql import Row

FORMAT = "kcli-table-files"
FILES = "path string, rows bigint, bytes bigint, partition string, stats string"
"""The columns of the rows that a task returns, as DDL. Each row describes a file. `partition` and `stats` are JSON
objects."""

MAX_OPEN_FILES = 64
"""The most files that a task keeps open. The number is limited, because each open file keeps a row group in memory."""

ROW_GROUP_BYTES = 32 << 20
"""The size of a row group in memory. Readers use the statistics of a row group to skip it."""

UNIQUE = frozenset({"value", "offset"})
"""Columns that are written without a dictionary. Their values rarely repeat, so a dictionary would save no space and
add a third to the time of a write."""

DATE = "date"
"""The column with the day of the timestamp."""

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name that Hive, Spark, Delta and Iceberg give to the directory for null values."""


FileStats = Mapping[str, int | Mapping[str, int]]
"""The statistics of a file, as Delta stores them: the number of rows, and minimum, maximum and nulls of columns."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The location, columns and partition directories of a table's files."""

    uri: str
    columns: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    keeps_partition_columns: bool = False
    """Whether a file also contains the partition columns, although their values are in the name of its directory.

    The value is true for Iceberg tables and false for Delta tables.
    """
    values_as: str = "binary"
    compression: str = "snappy"
    max_file_bytes: int = 256 << 20

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> Layout:
        document = json.loads(text)
        return cls(**document | {name: tuple(document[name]) for name in ("columns", "partition_by")})


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A written file that is not committed yet. `path` is relative to the table.

    `partition` has the value of each partition column as text, or None.
    """

    path: str
    rows: int
    size_bytes: int
    partition: Mapping[str, str | None]
    stats: FileStats

    @classmethod
    def of(cls, row: Row) -> WrittenFile:
        return cls(row.path, row.rows, row.bytes, json.loads(row.partition), json.loads(row.stats))


class TableFilesSource(DataSource):
    """The data source `kcli-table-files`. Its options are the options of the source `kcli` and the option `layout`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return FILES

    def reader(self, schema: StructType) -> FilesReader:
        source, layout = self._source()
        return FilesReader(source.reader(source_schema(layout.columns)), layout)

    def streamReader(self, schema: StructType) -> FilesStreamReader:
        source, layout = self._source()
        return FilesStreamReader(source.streamReader(source_schema(layout.columns)), layout)

    def _source(self) -> tuple[KcliDataSource, Layout]:
        options = dict(self.options)
        layout = Layout.from_json(options.pop("layout"))
        return KcliDataSource(options), layout


def source_schema(columns: Sequence[str]) -> StructType:
    """Returns the columns of the source that are needed to write `columns`."""
    from kcli.spark.source.readers import FIELDS, HEADERS

    fields = {field.name: field for field in (*FIELDS, HEADERS)}
    names = ["timestamp" if name == DATE else name for name in columns]
    return StructType([fields[name] for name in dict.fromkeys(names)])


class FilesReader(DataSourceReader):
    """Reads a batch with the reader of the source `kcli`, and writes the records to files."""

    def __init__(self, source: DataSourceReader, layout: Layout) -> None:
        self.source, self.layout = source, layout

    def partitions(self) -> Sequence[InputPartition]:
        return self.source.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return written(self.source.read(partition), self.layout)


class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream with the reader of the source `kcli`, and writes the records to files.

    The offsets of the stream come from the reader of the source `kcli`.
    """

    def __init__(self, source: DataSourceStreamReader, layout: Layout) -> None:
        self.source, self.layout = source, layout

    def initialOffset(self) -> OffsetJson:
        return self.source.initialOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        self.source.prepareForTriggerAvailableNow()

    def getDefaultReadLimit(self) -> ReadLimit:
        return self.source.getDefaultReadLimit()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        return self.source.latestOffset(start, limit)

    def reportLatestOffset(self) -> OffsetJson:
        return self.source.reportLatestOffset()

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        return self.source.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return written(self.source.read(partition), self.layout)

    def commit(self, end: OffsetJson) -> None:
        self.source.commit(end)

    def stop(self) -> None:
        self.source.stop()


def written(batches: Iterator[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Writes records of the source to files. Yields one record batch with a row for each file."""
    yield report(write_files((shaped(batch, layout) for batch in batches), layout))


def shaped(batch: pa.RecordBatch, layout: Layout) -> pa.RecordBatch:
    """Returns the columns of `layout`, made from the columns of the source."""
    columns = []
    for name in layout.columns:
        if name == DATE:
            columns.append(pc.cast(batch.column("timestamp"), pa.date32()))
        elif name in ("key", "value") and layout.values_as != "binary":
            columns.append(as_text(batch.column(name), layout.values_as))
        else:
            columns.append(batch.column(name))
    return pa.RecordBatch.from_arrays(columns, names=list(layout.columns))


def as_text(values: pa.Array, values_as: str) -> pa.Array:
    if values_as == "string":
        return text(values)
    from base64 import b64encode

    coded = [None if value is None else b64encode(value).decode() for value in values.to_pylist()]
    return pa.array(coded, pa.string())


def report(files: Sequence[WrittenFile]) -> pa.RecordBatch:
    """Returns a row with the columns FILES for each file."""
    return pa.RecordBatch.from_pydict(
        {
            "path": pa.array([file.path for file in files], pa.string()),
            "rows": pa.array([file.rows for file in files], pa.int64()),
            "bytes": pa.array([file.size_bytes for file in files], pa.int64()),
            "partition": pa.array([json.dumps(file.partition) for file in files], pa.string()),
            "stats": pa.array([json.dumps(file.stats) for file in files], pa.string()),
        }
    )


def filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system and the path of `uri`: a local directory, or an object store that Arrow supports."""
    if "://" not in uri:
        uri = os.path.abspath(uri)
        return fs.LocalFileSystem(), uri
    return fs.FileSystem.from_uri(uri)


def write_files(batches: Iterator[pa.RecordBatch], layout: Layout) -> list[WrittenFile]:
    """Writes batches to files.

    Each directory gets one file, or several files if a single file would become too large.
    """
    files: list[WrittenFile] = []
    system, root = filesystem(layout.uri)
    under_way: dict[tuple[str | None, ...], _File] = {}
    for batch in batches:
        for values, rows in split_by(batch, layout.partition_by):
            file = under_way.pop(values, None)
            if file is None:
                if len(under_way) >= MAX_OPEN_FILES:
                    files.append(under_way.pop(next(iter(under_way))).close())
                file = _File(system, root, values, layout)
            under_way[values] = file  # puts the file at the end, because the dict is in the order of last use
            file.write(rows)
            if file.size_bytes >= layout.max_file_bytes:
                files.append(under_way.pop(values).close())
    return files + [file.close() for file in under_way.values()]


def split_by(
    batch: pa.RecordBatch, names: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Splits a batch by the values of the columns `names`. Yields each combination of values as text, with its rows."""
    if not batch.num_rows:
        return
    if not names:
        yield (), batch
        return
    table = pa.Table.from_batches([batch])
    for values in table.select(list(names)).group_by(list(names)).aggregate([]).to_pylist():
        mask = None
        for name in names:
            value = pa.scalar(values[name], batch.schema.field(name).type)
            here = (
                pc.is_null(batch.column(name))
                if value.as_py() is None
                else pc.equal(batch.column(name), value)
            )
            mask = here if mask is None else pc.and_kleene(mask, here)
        key = tuple(None if values[name] is None else str(values[name]) for name in names)
        yield key, batch.filter(pc.fill_null(mask, False))


class _File:
    """One open Parquet file."""

    def __init__(
        self, system: fs.FileSystem, root: str, values: tuple[str | None, ...], layout: Layout
    ) -> None:
        self._layout = layout
        self._partition = dict(zip(layout.partition_by, values, strict=True))
        directories = [
            f"{name}={NO_VALUE if value is None else quote(value, safe=' ')}"
            for name, value in self._partition.items()
        ]
        self._path = "/".join([*directories, f"part-{uuid.uuid4()}.parquet"])
        self._system, self._root = system, root
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._footers: list[pq.FileMetaData] = []
        self.size_bytes = 0
        """The size in memory of the rows that were written. It is an upper bound for the size of the file."""

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self.size_bytes += rows.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        if not self._layout.keeps_partition_columns:
            table = table.drop_columns(list(self._layout.partition_by))
        if self._writer is None:
            path = f"{self._root.rstrip('/')}/{self._path}"
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            self._writer = pq.ParquetWriter(
                path,
                table.schema,
                filesystem=self._system,
                compression=self._layout.compression,
                use_dictionary=[
                    path
                    for field in table.schema
                    if field.name not in UNIQUE or pa.types.is_nested(field.type)
                    for path in leaves(field.name, field.type)
                ],
                metadata_collector=self._footers,
            )
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._waiting_bytes = [], 0

    def close(self) -> WrittenFile:
        if self._waiting:
            self._flush()
        assert self._writer is not None
        self._writer.close()
        [footer] = self._footers
        size_bytes = self._system.get_file_info(f"{self._root.rstrip('/')}/{self._path}").size
        return WrittenFile(self._path, footer.num_rows, size_bytes, self._partition, statistics(footer))


def leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yields the paths of the Parquet columns that store one Arrow column."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from leaves(f"{path}.key_value.{kind.key_field.name}", kind.key_type)
        yield from leaves(f"{path}.key_value.{kind.item_field.name}", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def statistics(footer: pq.FileMetaData) -> FileStats:
    """Returns the statistics for Delta: the number of rows, and the minimum, maximum and nulls of integer columns."""
    least: dict[str, int] = {}
    greatest: dict[str, int] = {}
    nulls: dict[str, int] = {}
    for group in range(footer.num_row_groups):
        for nth in range(footer.num_columns):
            column = footer.row_group(group).column(nth)
            figures, name = column.statistics, column.path_in_schema
            if "." in name or figures is None or not figures.has_min_max or not isinstance(figures.min, int):
                continue
            least[name] = min(figures.min, least.get(name, figures.min))
            greatest[name] = max(figures.max, greatest.get(name, figures.max))
            nulls[name] = nulls.get(name, 0) + (figures.null_count or 0)
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
