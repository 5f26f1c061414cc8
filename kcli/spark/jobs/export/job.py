"""The job `export`: writes the records of topics to files (Parquet, JSON, CSV, text) or tables (Delta, Iceberg)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kcli.command.examples import Example
from kcli.spark.jobs.export.options import (
    TABLE_FORMATS,
    ExportOptions,
    check,
    columns,
    is_decoded,
    reading,
)
from kcli.spark.jobs.export.rows import selected, with_columns
from kcli.spark.jobs.records.column_names import column_list, renamed
from kcli.spark.jobs.records.values import is_inferred
from kcli.spark.jobs.shared.endpoints import planned, planned_offsets
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.job import Job
from kcli.spark.jobs.shared.options import ONE_CLUSTER, ONE_SUBSCRIPTION, names, pairs
from kcli.spark.jobs.shared.progress import BatchProgress
from kcli.spark.jobs.shared.running import BAD_RECORDS, Counts, Done, run_batch, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan(options: ExportOptions) -> list[str]:
    """Returns the plan of the job, line by line. Raises KcliError or ValueError if the job cannot run."""
    _check_path(options)
    ranges = planned(reading(options), options.mode)
    total = sum(map(len, ranges))
    lines = [
        f"export {total} offsets of {len(ranges)} partitions to {options.path} as {options.format} ({options.mode})"
    ]
    lines.append(f"columns: {', '.join(columns(options))}")
    if is_decoded(options):
        lines.append(f"values: {options.value_format}, bad records: {options.on_bad_record}")
        if options.dry_run and is_inferred(options.values):
            column_names = with_columns(options).columns
            assert column_names is not None, "they are inferred"
            lines.append(f"columns of the values: {column_list(renamed(column_names))}")
    if options.is_stream:
        lines.append(f"checkpoint: {options.checkpoint} (an earlier stream continues from it)")
    return [*lines, *map(str, ranges)]


def _check_path(options: ExportOptions) -> None:
    """Raises JobError if the files or the table exist and must not, or if the path cannot be a directory."""
    if "://" not in options.path and os.path.exists(options.path) and not os.path.isdir(options.path):
        raise JobError(f"--path {options.path}: expected a directory, and it is a file")
    if options.format in TABLE_FORMATS:
        from kcli.spark.jobs.export.tables import check_table

        return check_table(options)
    if not options.is_stream and options.save_mode == "error" and os.path.exists(options.path):
        raise JobError(
            f"{options.path} exists: use --save-mode append, overwrite or ignore, or another --path"
        )
    return None


def run(spark: SparkSession, options: ExportOptions) -> Done:
    """Writes the records to files or a table."""
    if options.format in TABLE_FORMATS:
        from kcli.spark.jobs.export.tables import run_tables

        return run_tables(spark, options)
    counts = Counts(streaming=options.is_stream)
    frame = selected(spark, options, counts)
    writing = {"header": "true"} if options.format == "csv" else {}
    writing |= pairs(options.write_option, "--write-option")
    by = names(options.partition_by)
    if options.is_stream:
        stream = frame.writeStream.format(options.format).options(**writing).option("path", options.path)
        return run_stream(stream.partitionBy(*by) if by else stream, options, "export")
    writer = frame.write.mode(options.save_mode).options(**writing).format(options.format)
    writer = writer.partitionBy(*by) if by else writer
    if options.save_mode == "ignore" and os.path.exists(options.path):
        return Done(0)
    progress = BatchProgress(spark, planned_offsets(reading(options)))
    run_batch(spark, options, "export", lambda: writer.save(options.path), progress)
    return Done(counts.total("rows"), bad_records=counts.total(BAD_RECORDS))


JOB = Job(
    name="export",
    description="Writes the records of topics to files or tables.",
    options=ExportOptions,
    check=check,
    plan=plan,
    run=run,
    exclusive=(ONE_CLUSTER, ONE_SUBSCRIPTION),
    examples=(
        Example(
            "Write the records of a topic to files in the Parquet format:",
            "kcli spark-submit export --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --path /data/orders",
        ),
    ),
)
parse = JOB.parse
main = JOB.main
