"""The options of the job `export`, and what follows from them: which columns are written, and how."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

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
    reader_options,
    refuse_idle,
    require,
)
from kcli.spark.jobs.bad_input import add_bad_input, bad_input
from kcli.spark.jobs.values import ValueSpec, add_value_options

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
