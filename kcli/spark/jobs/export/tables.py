"""Exports topics to Delta and Iceberg tables: the workers write files, and the driver commits each micro-batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.spark.jobs.export.options import DATE, ExportOptions, columns, is_decoded, reading, values_as
from kcli.spark.jobs.export.rows import selected
from kcli.spark.jobs.export.table_commits import DeltaTarget, IcebergTarget, MicroBatch, TargetTable
from kcli.spark.jobs.export.table_files import (
    FILES,
    FORMAT,
    Layout,
    TableFilesSource,
    WrittenFile,
    report,
    source_schema,
    write_files,
)
from kcli.spark.jobs.shared.endpoints import planned_offsets
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import names, pairs
from kcli.spark.jobs.shared.progress import BatchProgress
from kcli.spark.jobs.shared.running import BAD_RECORDS, Counts, Done, run_batch, run_stream

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

CATALOG_FILE = "catalog.db"
"""The file of the catalog of Iceberg tables, in the directory of --path."""

QUERY_ID = "sql.streaming.queryId"
"""The Spark local property that contains the id of a stream's query. The checkpoint stores this id."""


def run_tables(spark: SparkSession, options: ExportOptions) -> Done:
    """Exports the records to a table."""
    counts = Counts(streaming=options.is_stream)
    if options.is_stream:
        writer, commit, upkeep = stream_writer(spark, options, counts)
        done = run_stream(writer, options, "export")
        details = {"files": commit.files, "skipped_batches": commit.skipped} | upkeep.details()
        return Done(done.rows, done.stopped, done.bad_records, details)
    rows = selected(spark, options, counts) if is_decoded(options) else None
    target = opened(options, _schema(options, rows))
    if target is None:
        return Done(0)
    batch = None if options.run_id is None else MicroBatch(options.run_id, 0)
    if batch is not None and target.last_batch(batch.application) is not None:
        print(f"export: run {options.run_id} is already in the table: skipped", file=sys.stderr)
        return Done(0, details={"files": 0, "skipped_batches": 1})
    upkeep = Upkeep(target, options)
    files = _files(spark, options, target.layout, rows, counts)
    progress = BatchProgress(spark, planned_offsets(reading(options)), by_task=rows is None)
    written = [WrittenFile.of(row) for row in run_batch(spark, options, "export", files.collect, progress)]
    target.commit(written, batch, overwrite=options.save_mode == "overwrite")
    upkeep.after_batch(last=True)
    total = sum(table.rows for table in written)
    return Done(total, False, counts.total(BAD_RECORDS), {"files": len(written)} | upkeep.details())


def stream_writer(
    spark: SparkSession, options: ExportOptions, counts: Counts
) -> tuple[DataStreamWriter, Commit, Upkeep]:
    """Returns the writer of the stream, which is not started yet, with its `Commit` and `Upkeep`."""
    rows = selected(spark, options, counts) if is_decoded(options) else None
    target = opened(options, _schema(options, rows))
    assert target is not None  # only a batch with --save-mode ignore has no target
    upkeep = Upkeep(target, options)
    commit = Commit(target, upkeep)
    files = _files(spark, options, target.layout, rows, counts)
    return files.writeStream.foreachBatch(commit), commit, upkeep


def _schema(options: ExportOptions, rows: DataFrame | None) -> pa.Schema:
    """Returns the Arrow schema of the files."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    if rows is not None:
        return to_arrow_schema(rows.schema, timezone="UTC")
    chosen = columns(options)
    source = to_arrow_schema(source_schema(chosen), timezone="UTC")
    as_text = values_as(options) != "binary"
    fields = []
    for name in chosen:
        kind = pa.date32() if name == DATE else source.field(name).type
        fields.append((name, pa.string() if name in ("key", "value") and as_text else kind))
    return pa.schema(fields)


def opened(options: ExportOptions, schema: pa.Schema) -> TargetTable | None:
    """Opens the table, or creates it. Returns None if the table exists and --save-mode is ignore."""
    layout = Layout(
        uri=options.path,
        columns=tuple(schema.names),
        partition_by=tuple(names(options.partition_by)),
        values_as=values_as(options),
        max_file_bytes=max(options.target_file_bytes, 1 << 20),
    )
    settings = pairs(options.table_option, "--table-option")
    if options.format == "delta":
        from deltalake import DeltaTable

        uri = options.path if "://" in options.path else os.path.abspath(options.path)
        if _is_ignored(options, DeltaTable.is_deltatable(uri, settings or None)):
            return None
        return DeltaTarget(layout, schema, settings)
    catalog, name = catalog_of(options, settings), table_name(options)
    if _is_ignored(options, bool(catalog.table_exists(name))):
        return None
    return IcebergTarget(layout, schema, name, catalog)


def check_table(options: ExportOptions) -> None:
    """Raises JobError if the table exists and --save-mode is error, or if its name or catalog is invalid.

    Creates nothing: an Iceberg table in a directory without catalog.db cannot exist.
    """
    settings = pairs(options.table_option, "--table-option")
    if options.format == "delta":
        from deltalake import DeltaTable

        uri = options.path if "://" in options.path else os.path.abspath(options.path)
        _is_ignored(options, DeltaTable.is_deltatable(uri, settings or None))
        return
    name = table_name(options)
    has_catalog = options.catalog is not None or bool(settings) or "://" in options.path
    if has_catalog or os.path.exists(os.path.join(options.path, CATALOG_FILE)):
        _is_ignored(options, bool(catalog_of(options, settings).table_exists(name)))


def _is_ignored(options: ExportOptions, exists: bool) -> bool:
    """Whether the job writes nothing, because the table exists and --save-mode is ignore. Raises JobError if
    --save-mode is error. A stream always continues to write to its table.
    """
    if options.is_stream or not exists:
        return False
    if options.save_mode == "error":
        raise JobError(f"the table in {options.path} exists: use --save-mode append, overwrite or ignore")
    return options.save_mode == "ignore"


def table_name(options: ExportOptions) -> str:
    """Returns the name of the Iceberg table. Raises JobError if the name is invalid."""
    if options.table is None and options.topic is None:
        raise JobError("--topic-pattern needs --table")
    name = options.table or f"default.{(options.topic or '').replace('.', '_').replace(',', '_')}"
    if "." not in name:
        raise JobError(f"--table {name}: expected SPACE.NAME")
    return name


def catalog_of(options: ExportOptions, settings: dict[str, str]) -> Catalog:
    """Opens the Iceberg catalog that the user has configured. Without such a catalog, opens the file catalog.db in the
    warehouse directory."""
    from pyiceberg.catalog import load_catalog

    if options.catalog is not None or settings:
        return load_catalog(options.catalog, **settings)
    if "://" in options.path:
        raise JobError(f"{options.path} is not on this machine: an Iceberg table there needs --catalog")
    directory = os.path.abspath(options.path)
    os.makedirs(directory, exist_ok=True)
    database = os.path.join(directory, CATALOG_FILE)
    return load_catalog("kcli", type="sql", uri=f"sqlite:///{database}", warehouse=f"file://{directory}")


def _files(
    spark: SparkSession, options: ExportOptions, layout: Layout, rows: DataFrame | None, counts: Counts
) -> DataFrame:
    """Returns a frame with a row for each file. The files are written when Spark computes the frame."""
    from pyspark.sql.functions import sum as total

    if rows is not None:

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield report(write_files(batches, layout))

        return rows.mapInArrow(write, FILES)
    spark.dataSource.register(TableFilesSource)
    reader = spark.read if not options.is_stream else spark.readStream
    frame = reader.format(FORMAT).options(**reading(options), layout=layout.to_json()).load()
    return counts.observed(frame, rows=total("rows"))


class Commit:
    """Commits the files of each micro-batch. Spark calls this object once for each micro-batch, in order."""

    def __init__(self, target: TargetTable, upkeep: Upkeep) -> None:
        self._target, self._upkeep = target, upkeep
        self.files = 0
        self.skipped = 0

    def __call__(self, files: DataFrame, number: int) -> None:
        application = files.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        last = self._target.last_batch(application)
        if last is not None and number <= last:
            print(f"export: micro-batch {number} is already in the table: skipped", file=sys.stderr)
            self.skipped += 1
            return
        written = [WrittenFile.of(row) for row in files.collect()]
        self._target.commit(written, MicroBatch(application, number))
        self.files += len(written)
        self._upkeep.after_batch()


class Upkeep:
    """Runs compaction and vacuum after every --compact-every micro-batches."""

    def __init__(self, target: TargetTable, options: ExportOptions) -> None:
        self._target, self._options = target, options
        self._batches = 0
        self._compacted = 0
        self._deleted = 0

    def after_batch(self, *, last: bool = False) -> None:
        """Counts a micro-batch. Compacts and vacuums after every --compact-every micro-batches, and after a batch job
        (`last`).
        """
        every = self._options.compact_every
        self._batches += 1
        if not every or (self._batches % every and not last):
            return
        self._compacted += self._target.compact(self._options.target_file_bytes)
        self._deleted += self._target.vacuum(self._options.vacuum_hours)

    def details(self) -> dict[str, int]:
        """Returns the numbers of compacted and deleted files for the summary."""
        if not self._options.compact_every:
            return {}
        return {"compacted_files": self._compacted, "deleted_files": self._deleted}
