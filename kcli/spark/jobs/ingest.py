"""The job `ingest`: files of text, CSV, JSON or Parquet to a topic."""

from __future__ import annotations

import argparse
import glob
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.errors import UnknownTopicOrPartitionException
from kcli.spark.cluster import Cluster
from kcli.spark.jobs.arguments import JobError, JobParser, add_common, check_common, pairs
from kcli.spark.jobs.running import Done, counted, job_main, run_stream
from kcli.spark.options import SINK_COLUMNS, sink_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMATS = ("text", "csv", "json", "parquet")


def parser() -> JobParser:
    parser = JobParser("ingest", "Writes the rows of files to a topic (at least once).")
    add_common(parser)
    parser.add_argument("--topic", required=True, metavar="NAME", help="The topic to write to.")
    parser.add_argument(
        "--path", required=True, metavar="PATH", help="A file, a directory or a pattern of files."
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="Of the files (default: text).")
    parser.add_argument("--key-column", metavar="NAME", help="The column that is the key (JSON: the field).")
    parser.add_argument(
        "--value-column",
        metavar="NAME",
        help="The column that is the value. Default: the line (text, JSON); a column named value where there is one, "
        "else the whole row as JSON (CSV, Parquet).",
    )
    parser.add_argument("--partition-column", metavar="NAME", help="The column that is the partition.")
    parser.add_argument(
        "--compression-type",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="Of the batches.",
    )
    parser.add_argument("--max-files-per-trigger", metavar="N", help="The size of a micro-batch, in files.")
    parser.add_argument(
        "--read-option", action="append", default=[], metavar="KEY=VALUE", help="For Spark's reader."
    )
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options, checked. Exits with code 1 where they are wrong."""
    its_parser = parser()
    options = its_parser.parse(argv)
    check_common(its_parser, options)
    try:
        sink_options(writer_options(options))
        pairs(options.read_option, "--read-option")
        if options.format == "text" and (options.key_column or options.partition_column):
            raise JobError(
                "text files have no columns: --key-column and --partition-column need another format"
            )
        files(options.path)
    except (ValueError, JobError) as error:
        its_parser.error(str(error))
    return options


def writer_options(options: argparse.Namespace) -> dict[str, str]:
    """As the sink takes them."""
    return {
        "kafka.bootstrap.servers": options.bootstrap_server,
        "topic": options.topic,
        "kafka.compression.type": options.compression_type,
    }


def files(path: str) -> list[str] | None:
    """The files that `path` means on this machine; None where it is elsewhere (a URI)."""
    if "://" in path:
        return None
    found = sorted(glob.glob(path))
    if not found:
        raise JobError(f"there is no file {path}")
    return [
        each
        for name in found
        for each in (
            sorted(glob.glob(os.path.join(name, "**"), recursive=True)) if os.path.isdir(name) else [name]
        )
        if os.path.isfile(each) and not os.path.basename(each).startswith(("_", "."))
    ]


def plan(options: argparse.Namespace) -> list[str]:
    """What the job would do, one line each."""
    found = files(options.path)
    size = "" if found is None else f" ({len(found)} files, {sum(map(os.path.getsize, found))} bytes)"
    lines = [
        f"ingest {options.format} files of {options.path}{size} to topic {options.topic} ({options.mode})"
    ]
    with Cluster(sink_options(writer_options(options)).client) as cluster:
        try:
            lines.append(f"topic {options.topic} has {len(cluster.partitions([options.topic]))} partitions")
        except UnknownTopicOrPartitionException:
            lines.append(f"topic {options.topic} does not exist: it is made where the broker allows that")
    if options.mode != "batch":
        lines.append(f"checkpoint: {options.checkpoint} (files it knows are not written again)")
    return [*lines, *(found or [])]


def run(spark: SparkSession, options: argparse.Namespace) -> Done:
    # JSON lines are kept byte for byte, so they are read as text.
    form = "text" if options.format == "json" else options.format
    reading = {"recursiveFileLookup": "true"}
    if form == "csv":
        reading["header"] = "true"
    reading |= pairs(options.read_option, "--read-option")
    frame = spark.read.format(form).options(**reading).load(options.path)
    if options.mode != "batch":
        stream = spark.readStream.format(form).options(**reading).schema(frame.schema)
        if options.max_files_per_trigger:
            stream = stream.option("maxFilesPerTrigger", options.max_files_per_trigger)
        frame = stream.load(options.path)
    records = frame.select(*_record(frame, options))
    if options.mode == "batch":
        return Done(counted(records, lambda rows: _save(rows, options)))
    return run_stream(records.writeStream.format("kcli").options(**writer_options(options)), options)


def _save(frame: DataFrame, options: argparse.Namespace) -> None:
    frame.write.format("kcli").options(**writer_options(options)).mode("append").save()


def _record(frame: DataFrame, options: argparse.Namespace) -> list[Column]:
    """key, value, headers and partition of each row, where there are such."""
    from pyspark.sql.functions import col, get_json_object, struct, to_json

    def column(name: str) -> Column:
        if options.format == "json":
            return get_json_object(col("value"), f"$.{name}")
        if name not in frame.columns:
            raise JobError(f"there is no column {name}; the files have {', '.join(frame.columns)}")
        return _bytes(frame, name)

    chosen = []
    if options.key_column:
        chosen.append(column(options.key_column).alias("key"))
    elif options.format == "parquet" and "key" in frame.columns and options.value_column is None:
        chosen.append(_bytes(frame, "key").alias("key"))
    if options.value_column:
        chosen.append(column(options.value_column).alias("value"))
    elif options.format in ("text", "json") or "value" in frame.columns:
        chosen.append(_bytes(frame, "value").alias("value"))
    else:
        chosen.append(to_json(struct("*")).alias("value"))
    if options.partition_column:
        chosen.append(column(options.partition_column).cast("int").alias("partition"))
    types = dict(frame.dtypes)
    if types.get("headers") in SINK_COLUMNS["headers"]:
        chosen.append(col("headers"))
    return chosen


def _bytes(frame: DataFrame, name: str) -> Column:
    """A column as key or value: bytes and strings as they are, everything else as text."""
    from pyspark.sql.functions import col

    return (
        col(f"`{name}`")
        if dict(frame.dtypes)[name] in SINK_COLUMNS["value"]
        else col(f"`{name}`").cast("string")
    )


def main(argv: Sequence[str]) -> int:
    return job_main("ingest", plan, run, parse(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
