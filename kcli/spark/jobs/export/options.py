"""The options of the job `export`, and the columns that the job writes with these options."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.command.options import Kind, flag, option
from kcli.spark.jobs.records.bad_input import BadInputOptions, bad_input
from kcli.spark.jobs.records.values import ValueOptions
from kcli.spark.jobs.shared.endpoints import check_reader, reader_options
from kcli.spark.jobs.shared.errors import JobError, require
from kcli.spark.jobs.shared.options import (
    ModeOptions,
    OfflineOptions,
    SubscriptionOptions,
    check_mode,
    names,
    pairs,
    refuse_idle,
)

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
"""An additional column with the day of the timestamp, to partition files by day."""

FILE_FORMATS = ("parquet", "json", "csv", "text")
TABLE_FORMATS = ("delta", "iceberg")
BINARY_FORMATS = ("parquet", *TABLE_FORMATS)
"""The formats whose columns can contain bytes."""

VALUES_AS = ("binary", "string", "base64")


@dataclass(frozen=True, kw_only=True)
class ExportOptions(OfflineOptions, ModeOptions, SubscriptionOptions, ValueOptions, BadInputOptions):
    """The options of the job."""

    path: str = option("The directory of the files. Iceberg: the warehouse.", metavar="DIR", required=True)
    format: str = option(
        "The format of the files or tables.", choices=(*FILE_FORMATS, *TABLE_FORMATS), default="parquet"
    )
    columns: str | None = option(
        f"The columns to write: {', '.join(COLUMN_TYPES)} and {DATE}. Default: all except headers. Default for text "
        "files: value.",
        metavar="NAME[,NAME]",
    )
    include_headers: bool = flag("Also write the headers of records.")
    values_as: str | None = option(
        "The type of the columns key and value. Default: binary in Parquet and tables, string in other "
        "formats.",
        choices=VALUES_AS,
    )
    partition_by: str | None = option(
        "Write a directory for each value of a column (example: date).", metavar="NAME[,NAME]"
    )
    save_mode: str = option(
        "What a batch job does if the directory or the table exists. A stream cannot use this option.",
        choices=("error", "append", "overwrite", "ignore"),
        default="error",
    )
    write_option: tuple[str, ...] = option(
        "An option of Spark's writer.", metavar="KEY=VALUE", repeatable=True
    )
    table: str | None = option(
        "Iceberg: the name of the table. Default: default.TOPIC.", metavar="SPACE.NAME"
    )
    catalog: str | None = option(
        "Iceberg: the name of a catalog in .pyiceberg.yaml. Default: the file catalog.db in --path.",
        metavar="NAME",
    )
    table_option: tuple[str, ...] = option(
        "An option of the object store (Delta) or of the catalog (Iceberg).",
        metavar="KEY=VALUE",
        repeatable=True,
    )
    compact_every: int = option(
        "Tables: after every N micro-batches and after a batch job, merge small files, and delete files that no "
        "version of the table needs. 0 means never.",
        Kind.INTEGER,
        metavar="N",
        default=0,
    )
    target_file_bytes: int = option(
        "Tables: the size of merged files.", Kind.LONG, metavar="N", default=128 << 20
    )
    vacuum_hours: int = option(
        "Tables: the minimum age of files that may be deleted. Queries that still run may need "
        "younger files.",
        Kind.INTEGER,
        metavar="N",
        default=168,
    )
    run_id: str | None = option(
        "Tables: the id of the run of a batch job. If a run with this id has already written to the table, "
        "nothing is written.",
        metavar="TEXT",
    )


def check(options: ExportOptions) -> ExportOptions:
    """Checks the options. Raises JobError or ValueError if they contradict each other."""
    check_mode(options)
    check_reader(reading(options), options.mode)
    _check_columns(options)
    _check_idle(options)
    pairs(options.write_option, "--write-option")
    pairs(options.table_option, "--table-option")
    options.values.check()
    bad_input(options)
    return options


def _check_columns(options: ExportOptions) -> None:
    chosen = columns(options)
    form = values_as(options)
    if form == "binary" and options.format == "csv":
        raise JobError("CSV cannot hold binary values: use --values-as string or base64")
    if options.format == "text" and [name for name in chosen if name not in names(options.partition_by)] != [
        "value"
    ]:
        raise JobError("text files have no columns: only value can be written")
    if options.value_format != "raw" and options.format in ("csv", "text"):
        raise JobError(
            f"{options.format} cannot hold values with columns: use --format json, parquet, delta or iceberg"
        )
    by = names(options.partition_by)
    nested = [name for name in by if name == "headers" or (name == "value" and is_decoded(options))]
    if nested:
        raise JobError(
            f"--partition-by {nested[0]}: expected a column with one value, and it is a list or a struct"
        )
    if by and set(by) >= set(chosen):
        raise JobError("--partition-by has all columns: at least one other column is needed")
    if options.format in TABLE_FORMATS:
        require("deltalake" if options.format == "delta" else "pyiceberg", "kcli-streaming[tables]")
    if options.format in TABLE_FORMATS and options.write_option:
        raise JobError("--write-option is for Spark's writers, which do not write tables")


TABLE_OPTIONS = ("compact-every", "target-file-bytes", "vacuum-hours", "table-option", "run-id")
ICEBERG_OPTIONS = ("table", "catalog")


def _check_idle(options: ExportOptions) -> None:
    if options.format not in TABLE_FORMATS:
        refuse_idle(options, TABLE_OPTIONS, "--format delta or iceberg")
    if options.format != "iceberg":
        refuse_idle(options, ICEBERG_OPTIONS, "--format iceberg")
    if options.is_stream:
        refuse_idle(options, ["save-mode"], "--mode batch")
    if not is_decoded(options):
        refuse_idle(options, ["on-bad-record"], "values that are decoded (--value-format)")
    if options.run_id is not None and (options.is_stream or options.save_mode == "error"):
        raise JobError("--run-id is for batches with --save-mode append or overwrite")


def reading(options: ExportOptions) -> dict[str, str]:
    """Returns the options of the data source `kcli`, from which the job reads."""
    return reader_options(options, include_headers="headers" in columns(options) or needs_headers(options))


def needs_headers(options: ExportOptions) -> bool:
    """Whether values cannot be decoded without headers: a header may name the schema of a value, and a dead letter
    keeps its headers."""
    if not is_decoded(options):
        return False
    return bad_input(options).needs_headers or options.values.registry is not None


def is_decoded(options: ExportOptions) -> bool:
    """Whether the job decodes values to columns."""
    return options.value_format != "raw"


def values_as(options: ExportOptions) -> str:
    """Returns the form in which keys and values are written: binary, string or base64."""
    return options.values_as or ("binary" if options.format in BINARY_FORMATS else "string")


def columns(options: ExportOptions) -> list[str]:
    """Returns the columns to write, in order. Raises JobError for an unknown column."""
    usual = ["value"] if options.format == "text" else [name for name in COLUMN_TYPES if name != "headers"]
    chosen = names(options.columns) or usual
    if options.include_headers and "headers" not in chosen:
        chosen.append("headers")
    for name in names(options.partition_by):
        if name not in chosen:
            chosen.append(name)
    for nth, name in enumerate(chosen):
        if name in chosen[:nth]:
            raise JobError(f"column {name} is listed twice")
        if name not in COLUMN_TYPES and name != DATE:
            raise JobError(f"there is no column {name}; the columns are {', '.join(COLUMN_TYPES)} and {DATE}")
    return chosen
