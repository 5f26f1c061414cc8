"""The job `export`: records of topics to Parquet, JSON or CSV files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.spark.cluster import Cluster
from kcli.spark.jobs.arguments import JobError, JobParser, add_common, check_common, names, pairs
from kcli.spark.jobs.running import Done, counted, job_main, run_stream
from kcli.spark.offsets import batch_ranges
from kcli.spark.options import source_options

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

FORMATS = ("parquet", "json", "csv")
VALUES_AS = ("binary", "string", "base64")


def parser() -> JobParser:
    parser = JobParser("export", "Writes the records of topics to files.")
    add_common(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", metavar="NAME[,NAME]", help="The topics to export.")
    what.add_argument("--topic-pattern", metavar="REGEX", help="All topics whose whole name matches.")
    parser.add_argument("--path", required=True, metavar="DIR", help="Where the files go.")
    parser.add_argument(
        "--format", choices=FORMATS, default="parquet", help="Of the files (default: parquet)."
    )
    parser.add_argument(
        "--columns",
        metavar="NAME[,NAME]",
        help=f"Which columns (default: all but headers): {', '.join(COLUMN_TYPES)}.",
    )
    parser.add_argument("--include-headers", action="store_true", help="Also the record headers.")
    parser.add_argument(
        "--values-as", choices=VALUES_AS, help="Keys and values as (default: binary in Parquet, else string)."
    )
    parser.add_argument(
        "--partition-by", metavar="NAME[,NAME]", help="A directory for each value; date is one too."
    )
    parser.add_argument(
        "--starting-offsets",
        default="earliest",
        metavar="TEXT",
        help='earliest, latest or {"topic":{"0":23}}.',
    )
    parser.add_argument("--ending-offsets", metavar="TEXT", help="latest (default) or JSON; batch only.")
    parser.add_argument("--starting-timestamp", metavar="MS", help="From the first record as late as this.")
    parser.add_argument(
        "--ending-timestamp", metavar="MS", help="Up to the first record as late as this; batch only."
    )
    parser.add_argument("--max-offsets-per-trigger", metavar="N", help="The size of a micro-batch.")
    parser.add_argument("--min-partitions", metavar="N", help="At least so many tasks.")
    parser.add_argument("--read-committed", action="store_true", help="Leave out aborted transactions.")
    parser.add_argument(
        "--ignore-data-loss", action="store_true", help="Go on where records were deleted unread."
    )
    parser.add_argument(
        "--save-mode",
        choices=("error", "append", "overwrite", "ignore"),
        default="error",
        help="Where DIR exists.",
    )
    parser.add_argument(
        "--write-option", action="append", default=[], metavar="KEY=VALUE", help="For Spark's writer."
    )
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options, checked. Exits with code 1 where they are wrong."""
    its_parser = parser()
    options = its_parser.parse(argv)
    check_common(its_parser, options)
    try:
        source_options(reader_options(options), streaming=options.mode != "batch")
        columns(options)
        pairs(options.write_option, "--write-option")
    except (ValueError, JobError) as error:
        its_parser.error(str(error))
    return options


def reader_options(options: argparse.Namespace) -> dict[str, str]:
    """As the data source takes them."""
    wanted = {
        "kafka.bootstrap.servers": options.bootstrap_server,
        "subscribe": options.topic,
        "subscribePattern": options.topic_pattern,
        "startingOffsets": None if options.starting_timestamp else options.starting_offsets,
        "startingTimestamp": options.starting_timestamp,
        "startingOffsetsByTimestampStrategy": "latest" if options.starting_timestamp else None,
        "endingOffsets": options.ending_offsets,
        "endingTimestamp": options.ending_timestamp,
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minPartitions": options.min_partitions,
        "kafka.isolation.level": "read_committed" if options.read_committed else None,
        "failOnDataLoss": "false" if options.ignore_data_loss else None,
        "includeHeaders": "true" if "headers" in columns(options) else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def columns(options: argparse.Namespace) -> list[str]:
    """The columns to write, in the order asked for."""
    chosen = names(options.columns) or [name for name in COLUMN_TYPES if name != "headers"]
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
    if not streaming and options.save_mode == "error" and os.path.exists(options.path):
        raise JobError(f"{options.path} exists: --save-mode append, overwrite or ignore, or another --path")
    wanted = source_options(reader_options(options), streaming=streaming)
    with Cluster(wanted.client) as cluster:
        ranges = batch_ranges(cluster, wanted)
    total = sum(map(len, ranges))
    lines = [
        f"export {total} offsets of {len(ranges)} partitions to {options.path} as {options.format} ({options.mode})"
    ]
    lines.append(f"columns: {', '.join(columns(options))}")
    if streaming:
        lines.append(f"checkpoint: {options.checkpoint} (a stream that was there goes on from it)")
    return [*lines, *map(str, ranges)]


def run(spark: SparkSession, options: argparse.Namespace) -> Done:
    chosen = columns(options)
    needed = [name for name in chosen if name in COLUMN_TYPES]
    if DATE in chosen and "timestamp" not in needed:
        needed.append("timestamp")
    schema = ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in needed)
    reader = spark.read if options.mode == "batch" else spark.readStream
    frame = reader.format("kcli").options(**reader_options(options)).schema(schema).load()
    frame = frame.select(*_selected(options, chosen))
    writing = ({"header": "true"} if options.format == "csv" else {}) | pairs(
        options.write_option, "--write-option"
    )
    by = names(options.partition_by)
    if options.mode == "batch":
        return Done(counted(frame, lambda rows: _save(rows, options, writing, by)))
    writer = frame.writeStream.format(options.format).options(**writing).option("path", options.path)
    return run_stream(writer.partitionBy(*by) if by else writer, options)


def _save(frame: DataFrame, options: argparse.Namespace, writing: dict[str, str], by: list[str]) -> None:
    writer = frame.write.mode(options.save_mode).options(**writing)
    (writer.partitionBy(*by) if by else writer).format(options.format).save(options.path)


def _selected(options: argparse.Namespace, chosen: list[str]) -> list[Column]:
    """Keys, values and headers as the format can hold them: CSV knows no lists, and neither text format bytes."""
    from pyspark.sql.functions import base64, col, expr, to_date

    form = options.values_as or ("binary" if options.format == "parquet" else "string")
    if form == "binary" and options.format == "csv":
        raise JobError("CSV cannot hold binary values: --values-as string or base64")
    selected = []
    for name in chosen:
        if name in ("key", "value"):
            text = {"binary": col(name), "string": col(name).cast("string"), "base64": base64(col(name))}[
                form
            ]
            selected.append(text.alias(name))
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
