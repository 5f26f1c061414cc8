"""The job `export`: records of topics to files (Parquet, JSON, CSV, text) or tables (Delta, Iceberg)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.spark.jobs.arguments import JobError, names, pairs, planned, planned_offsets
from kcli.spark.jobs.export_options import (
    FILE_FORMATS,
    TABLE_FORMATS,
    columns,
    is_decoded,
    parse,
    reading,
)
from kcli.spark.jobs.export_rows import selected
from kcli.spark.jobs.progress import BatchProgress
from kcli.spark.jobs.running import BAD_RECORDS, Counts, Done, job_main, run_batch, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def plan(options: argparse.Namespace) -> list[str]:
    """What the job would do, one line each. Raises KcliError or ValueError where it cannot."""
    streaming = options.mode != "batch"
    must_not_exist = not streaming and options.save_mode == "error" and options.format in FILE_FORMATS
    if must_not_exist and os.path.exists(options.path):
        raise JobError(f"{options.path} exists: --save-mode append, overwrite or ignore, or another --path")
    ranges = planned(reading(options), options.mode)
    total = sum(map(len, ranges))
    lines = [
        f"export {total} offsets of {len(ranges)} partitions to {options.path} as {options.format} ({options.mode})"
    ]
    lines.append(f"columns: {', '.join(columns(options))}")
    if is_decoded(options):
        lines.append(f"values: {options.value_format}, what does not parse: {options.on_bad_record}")
    if streaming:
        lines.append(f"checkpoint: {options.checkpoint} (a stream that was there goes on from it)")
    return [*lines, *map(str, ranges)]


def run(spark: SparkSession, options: argparse.Namespace) -> Done:
    if options.format in TABLE_FORMATS:
        from kcli.spark.jobs.export_tables import run_tables

        return run_tables(spark, options)
    streaming = options.mode != "batch"
    counts = Counts(streaming=streaming)
    frame = selected(spark, options, counts)
    writing = {"header": "true"} if options.format == "csv" else {}
    writing |= pairs(options.write_option, "--write-option")
    by = names(options.partition_by)
    if streaming:
        stream = frame.writeStream.format(options.format).options(**writing).option("path", options.path)
        return run_stream(stream.partitionBy(*by) if by else stream, options, "export")
    writer = frame.write.mode(options.save_mode).options(**writing).format(options.format)
    writer = writer.partitionBy(*by) if by else writer
    if options.save_mode == "ignore" and os.path.exists(options.path):
        return Done(0)
    progress = BatchProgress(spark, planned_offsets(reading(options)))
    run_batch(spark, options, "export", lambda: writer.save(options.path), progress)
    return Done(counts.total("rows"), bad_records=counts.total(BAD_RECORDS))


def main(argv: Sequence[str]) -> int:
    return job_main("export", plan, run, parse(argv))
