"""The job `export`: records of topics to files (Parquet, JSON, CSV, text) or tables (Delta, Iceberg)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.spark.jobs.arguments import (
    JobError,
    JobParser,
    add_common,
    add_mode,
    add_source,
    check_mode,
    check_reader,
    names,
    pairs,
    planned,
    planned_offsets,
    reader_options,
    refuse_idle,
    require,
)
from kcli.spark.jobs.bad_input import KAFKA_ORIGIN, add_bad_input, bad_input, sifted
from kcli.spark.jobs.progress import BatchProgress
from kcli.spark.jobs.running import BAD_RECORDS, Counts, Done, job_main, run_batch, run_stream
from kcli.spark.jobs.values import ERROR, RECORD, ValueSpec, add_value_options, decoded, inferred

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COLUMN_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}
DATE = "date"
"""A column that can be exported besides: the day of the timestamp, to partition files by."""

FILE_FORMATS = ("parquet", "json", "csv", "text")
TABLE_FORMATS = ("delta", "iceberg")
BINARY_FORMATS = ("parquet", *TABLE_FORMATS)
"""Those that can hold bytes."""

VALUES_AS = ("binary", "string", "base64")


def parser() -> JobParser:
    parser = JobParser("export", "Writes the records of topics to files or tables.")
    add_common(parser, offline=True)
    add_mode(parser)
    add_source(parser)
    parser.add_argument(
        "--path", required=True, metavar="DIR", help="Where the files go; of iceberg, the warehouse."
    )
    parser.add_argument(
        "--format", choices=(*FILE_FORMATS, *TABLE_FORMATS), default="parquet", help="Default: parquet."
    )
    parser.add_argument(
        "--columns",
        metavar="NAME[,NAME]",
        help=f"Which columns (default: all but headers; text: value): {', '.join(COLUMN_TYPES)} and {DATE}.",
    )
    parser.add_argument("--include-headers", action="store_true", help="Also the record headers.")
    parser.add_argument(
        "--values-as",
        choices=VALUES_AS,
        help="Keys and values as (default: binary in Parquet and tables, else string).",
    )
    add_value_options(parser)
    add_bad_input(parser)
    parser.add_argument(
        "--partition-by", metavar="NAME[,NAME]", help="A directory for each value; date is one too."
    )
    parser.add_argument(
        "--save-mode",
        choices=("error", "append", "overwrite", "ignore"),
        default="error",
        help="Where DIR (or the table) exists; batch only.",
    )
    parser.add_argument(
        "--write-option", action="append", default=[], metavar="KEY=VALUE", help="For Spark's writer."
    )
    _add_table_options(parser)
    return parser


def _add_table_options(parser: JobParser) -> None:
    parser.add_argument("--table", metavar="SPACE.NAME", help="iceberg: its name (default: default.TOPIC).")
    parser.add_argument(
        "--catalog",
        metavar="NAME",
        help="iceberg: a catalog of .pyiceberg.yaml (default: a file catalog.db in DIR).",
    )
    parser.add_argument(
        "--table-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="delta: of the object store; iceberg: of the catalog.",
    )
    parser.add_argument(
        "--compact-every",
        type=int,
        default=0,
        metavar="N",
        help="Tables: after N micro-batches, and after a batch, put small files together and delete files that no "
        "version needs; 0: never (default).",
    )
    parser.add_argument(
        "--target-file-bytes",
        type=int,
        default=128 << 20,
        metavar="N",
        help="Of such files (default: 128 MiB).",
    )
    parser.add_argument(
        "--vacuum-hours",
        type=int,
        default=168,
        metavar="N",
        help="How old a file must be to be deleted; readers of older versions and other writers need the time "
        "(default: 168).",
    )
    parser.add_argument(
        "--run-id",
        metavar="TEXT",
        help="Tables, of a batch that may be started twice: a run that is in the table is not written again.",
    )


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options, checked. Exits with code 1 where they are wrong."""
    return parser().checked(argv, _check)


def _check(options: argparse.Namespace) -> None:
    check_mode(options)
    check_reader(reading(options), options.mode)
    _check_columns(options)
    _check_idle(options)
    pairs(options.write_option, "--write-option")
    pairs(options.table_option, "--table-option")
    value_spec(options).check()
    bad_input(options)


def _check_columns(options: argparse.Namespace) -> None:
    chosen = columns(options)
    form = values_as(options)
    if form == "binary" and options.format == "csv":
        raise JobError("CSV cannot hold binary values: --values-as string or base64")
    if options.format == "text" and [name for name in chosen if name not in names(options.partition_by)] != [
        "value"
    ]:
        raise JobError("text files have lines and no columns: only value can be written")
    if options.value_format != "raw" and options.format in ("csv", "text"):
        raise JobError(
            f"{options.format} cannot hold values with columns: --format json, parquet, delta or iceberg"
        )
    if options.format in TABLE_FORMATS:
        require("deltalake" if options.format == "delta" else "pyiceberg", "kcli-streaming[tables]")
    if options.format in TABLE_FORMATS and options.write_option:
        raise JobError("--write-option is for Spark's writers, and tables are not written by those")


TABLE_OPTIONS = ("--compact-every", "--target-file-bytes", "--vacuum-hours", "--table-option", "--run-id")
ICEBERG_OPTIONS = ("--table", "--catalog")


def _check_idle(options: argparse.Namespace) -> None:
    if options.format not in TABLE_FORMATS:
        refuse_idle(options, TABLE_OPTIONS, "--format delta or iceberg")
    if options.format != "iceberg":
        refuse_idle(options, ICEBERG_OPTIONS, "--format iceberg")
    if options.mode != "batch":
        refuse_idle(options, ["--save-mode"], "--mode batch")
    if not is_decoded(options):
        refuse_idle(options, ["--on-bad-record"], "values that are decoded (--value-format)")
    if options.run_id is not None and (options.mode != "batch" or options.save_mode == "error"):
        raise JobError("--run-id is for batches with --save-mode append or overwrite")


def value_spec(options: argparse.Namespace) -> ValueSpec:
    return ValueSpec(
        options.value_format, options.value_schema, options.value_message, options.value_skip_bytes
    )


def reading(options: argparse.Namespace) -> dict[str, str]:
    headers = "headers" in columns(options) or (is_decoded(options) and bad_input(options).needs_headers)
    return reader_options(options, include_headers=headers)


def is_decoded(options: argparse.Namespace) -> bool:
    return bool(options.value_format != "raw")


def values_as(options: argparse.Namespace) -> str:
    return options.values_as or ("binary" if options.format in BINARY_FORMATS else "string")


def columns(options: argparse.Namespace) -> list[str]:
    """The columns to write, in the order asked for."""
    usual = ["value"] if options.format == "text" else [name for name in COLUMN_TYPES if name != "headers"]
    chosen = names(options.columns) or usual
    if options.include_headers and "headers" not in chosen:
        chosen.append("headers")
    for name in names(options.partition_by):
        if name not in chosen:
            chosen.append(name)
    for name in chosen:
        if name not in COLUMN_TYPES and name != DATE:
            raise JobError(f"there is no column {name}; there are {', '.join(COLUMN_TYPES)} and {DATE}")
    return chosen


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


def selected(spark: SparkSession, options: argparse.Namespace, counts: Counts) -> DataFrame:
    """The rows to write, with their columns."""
    chosen = columns(options)
    needed = [name for name in chosen if name in COLUMN_TYPES]
    if DATE in chosen and "timestamp" not in needed:
        needed.append("timestamp")
    if is_decoded(options):
        extra = ["key", "headers"] if bad_input(options).needs_headers else []
        needed += [name for name in ("value", *KAFKA_ORIGIN, *extra) if name not in needed]
    reader = spark.read if options.mode == "batch" else spark.readStream
    schema = ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in needed)
    frame = reader.format("kcli").options(**reading(options)).schema(schema).load()
    if not is_decoded(options):
        return counts.rows(frame).select(*_selected(options, chosen))
    from pyspark.sql.functions import col

    spec = settled(spark, options)
    frame = decoded(frame, spec)
    origin = {name: col(name) for name in KAFKA_ORIGIN}
    frame = sifted(frame, col(ERROR), origin, bad_input(options), counts)
    return frame.select(*_selected(options, chosen))


def settled(spark: SparkSession, options: argparse.Namespace) -> ValueSpec:
    """The format of the values, with the schema inferred where none was given."""
    spec = value_spec(options)
    if spec.format != "json" or spec.schema:
        return spec
    from kcli.spark.jobs.topic_tables import sample

    return ValueSpec("json", inferred(spark, sample(spark, reader_options(options))))


def _selected(options: argparse.Namespace, chosen: list[str]) -> list[Column]:
    """Keys, values and headers as the format can hold them: CSV knows no lists, and neither text format bytes."""
    from pyspark.sql.functions import base64, col, expr, to_date

    form = values_as(options)
    selected = []
    for name in chosen:
        if name == "value" and is_decoded(options):
            selected.append(col(RECORD).alias(name))
        elif name in ("key", "value"):
            forms = {"binary": col(name), "string": col(name).cast("string"), "base64": base64(col(name))}
            selected.append(forms[form].alias(name))
        elif name == "headers" and form != "binary":
            value = "string(h.value)" if form == "string" else "base64(h.value)"
            entries = f"transform(headers, h -> struct(h.key as key, {value} as value))"
            selected.append(expr(f"to_json({entries})" if options.format == "csv" else entries).alias(name))
        elif name == DATE:
            selected.append(to_date(col("timestamp")).alias(DATE))
        else:
            selected.append(col(name))
    return selected


def main(argv: Sequence[str]) -> int:
    return job_main("export", plan, run, parse(argv))
