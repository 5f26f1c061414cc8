"""The job `ingest`: writes files of text, CSV, JSON or Parquet, or the rows of a database, to a topic."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.command.examples import Example
from kcli.command.options import Exclusive, Kind, option
from kcli.spark.jobs.ingest.columns import check_columns, check_files, file_columns
from kcli.spark.jobs.records.bad_input import BadInputOptions, bad_input, sifted
from kcli.spark.jobs.records.column_names import free_name, listed, quoted
from kcli.spark.jobs.records.registry_values import RegistryOptions, WrittenValues, written_values
from kcli.spark.jobs.records.values import CORRUPT, worker_function
from kcli.spark.jobs.shared.endpoints import check_target, check_writer, target_plan, writer_options
from kcli.spark.jobs.shared.errors import JobError, require
from kcli.spark.jobs.shared.job import Job
from kcli.spark.jobs.shared.options import ModeOptions, SinkOptions, check_mode, pairs, positive, refuse_idle
from kcli.spark.jobs.shared.running import BAD_RECORDS, Counts, Done, run_batch, run_stream
from kcli.spark.options import SINK_COLUMNS
from kcli.spark.registry_values import TYPES, RegistrySpec

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kcli.spark.jobs.ingest.database import SqlSettings

FILE_FORMATS = ("text", "csv", "json", "parquet")
JDBC = "jdbc"
CASE_SENSITIVE = "spark.sql.caseSensitive"
JDBC_OPTIONS = (
    "url",
    "table",
    "query",
    "incrementing-column",
    "timestamp-column",
    "timestamp-delay-ms",
    "max-rows-per-trigger",
    "tasks",
)


@dataclass(frozen=True, kw_only=True)
class IngestOptions(ModeOptions, SinkOptions, BadInputOptions, RegistryOptions):
    """The options of the job."""

    topic: str = option("The topic to write to.", metavar="NAME", required=True)
    path: str | None = option("A file, a directory, or a pattern of files.", metavar="PATH")
    format: str = option("The format of the files, or jdbc.", choices=(*FILE_FORMATS, JDBC), default="text")
    key_column: str | None = option(
        "The column (JSON: the field) with the key of the record.", metavar="NAME"
    )
    value_column: str | None = option(
        "The column with the value of the record. Default for text and JSON: the line. Default for CSV, "
        "Parquet and jdbc: the column named value, or the whole row as JSON if there is no such column.",
        metavar="NAME",
    )
    value_format: str | None = option(
        "The format of the values, with a schema of --schema-registry. A value is made of the columns that the schema "
        "names. A line of text or JSON, and the JSON of --value-column, is encoded as in the console producer.",
        choices=(*TYPES,),
    )
    value_schema: str | None = option(
        "The file with the schema of the values, which is registered. Default: the latest version of the subject.",
        metavar="FILE",
    )
    value_subject: str | None = option("The subject of the schema of the values.", metavar="SUBJECT")
    value_message: str | None = option(
        "Protobuf: the full name of the message. Default: the first message of the schema.", metavar="NAME"
    )
    partition_column: str | None = option("The column with the partition of the record.", metavar="NAME")
    max_files_per_trigger: str | None = option("The maximum size of a micro-batch, in files.", metavar="N")
    read_option: tuple[str, ...] = option(
        "An option of Spark's reader.", metavar="KEY=VALUE", repeatable=True
    )
    url: str | None = option(
        "jdbc: the URL of the database. The URL has the form of SQLAlchemy, such as "
        "postgresql://user:password@host/db. In a batch job, the URL can also begin with jdbc:. Spark's option --jars "
        "must then name the JAR file of the driver.",
        metavar="URL",
    )
    table: str | None = option("jdbc: the table.", metavar="NAME")
    query: str | None = option("jdbc: a SELECT in place of a table.", metavar="SQL")
    incrementing_column: str | None = option(
        "jdbc: a column whose values only increase. A stream continues after the last value that it has read.",
        metavar="NAME",
    )
    timestamp_column: str | None = option(
        "jdbc: a column with the time of the last change of a row. A stream continues at the time up to which "
        "it has read all rows.",
        metavar="NAME",
    )
    timestamp_delay_ms: int = option(
        "jdbc: the longest time between the timestamp of a row and the commit of the row.",
        Kind.LONG,
        metavar="MS",
        default=1000,
    )
    max_rows_per_trigger: int | None = option(
        "jdbc: with --incrementing-column, the maximum size of a micro-batch in rows.", Kind.LONG, metavar="N"
    )
    tasks: int = option("jdbc: the number of parallel connections.", Kind.INTEGER, metavar="N", default=1)

    @property
    def registry(self) -> RegistrySpec | None:
        """The registry of the values, or None if the values have no schema. Raises JobError."""
        return self.registry_spec(
            self.value_format or "",
            schema=self.value_schema,
            subject=self.value_subject,
            message=self.value_message,
        )

    @property
    def database(self) -> str:
        """The URL of the database. `_check` has made sure that the user gave a URL."""
        assert self.url is not None, "--format jdbc needs --url"
        return self.url

    @property
    def named_columns(self) -> tuple[str | None, ...]:
        """The columns that options name."""
        return self.key_column, self.value_column, self.partition_column

    @property
    def source(self) -> str:
        """The path of the files. `_check` has made sure that the user gave a path."""
        assert self.path is not None, "files need --path"
        return self.path


def _check(options: IngestOptions) -> IngestOptions:
    check_mode(options)
    check_writer(writer_options(options, options.topic))
    check_target(options.topic)
    positive(options.max_files_per_trigger, "--max-files-per-trigger")
    pairs(options.read_option, "--read-option")
    bad_input(options)
    _check_idle(options)
    if options.format == "text" and (options.key_column or options.partition_column):
        raise JobError("text files have no columns: --key-column and --partition-column need another format")
    if options.format == JDBC:
        _check_jdbc(options)
    elif options.path is None:
        raise JobError("argument --path is required")
    else:
        files(options.path)
    return options


def _check_idle(options: IngestOptions) -> None:
    if options.value_format is None:
        refuse_idle(
            options, ["schema-registry", "value-schema", "value-subject", "value-message"], "--value-format"
        )
    elif options.registry is None:
        raise JobError(f"--value-format {options.value_format} needs --schema-registry")
    if options.value_schema is not None and not os.path.isfile(options.value_schema):
        raise JobError(f"there is no schema file {options.value_schema}")
    if options.format == JDBC:
        refuse_idle(options, ["path", "max-files-per-trigger"], "files")
        if not (options.url or "").startswith("jdbc:"):
            refuse_idle(options, ["read-option"], "files and jdbc: URLs, which Spark reads")
    else:
        refuse_idle(options, JDBC_OPTIONS, "--format jdbc")
    if options.format not in ("json", "csv") and options.value_format is None:
        refuse_idle(options, ["on-bad-record"], "--format json or csv, or --value-format")
    if options.incrementing_column is None:
        refuse_idle(options, ["max-rows-per-trigger", "tasks"], "--incrementing-column")
    if options.timestamp_column is None:
        refuse_idle(options, ["timestamp-delay-ms"], "--timestamp-column")


def _check_jdbc(options: IngestOptions) -> None:
    if options.url is None or (options.table is None and options.query is None):
        raise JobError("--format jdbc needs --url, and --table or --query")
    if options.url.startswith("jdbc:"):
        if options.is_stream or options.incrementing_column or options.timestamp_column:
            raise JobError("a jdbc: URL is for a batch of whole tables: a stream needs a URL of SQLAlchemy")
        return
    if options.is_stream and not options.incrementing_column and not options.timestamp_column:
        raise JobError(f"--mode {options.mode} needs --incrementing-column or --timestamp-column")
    if options.tasks < 1:
        raise JobError(f"--tasks {options.tasks}: expected a positive number")
    require("sqlalchemy", "kcli-streaming[spark]")
    from kcli.spark.jobs.ingest.database import engine

    engine(options.url)


def files(path: str) -> list[str] | None:
    """Returns the files that a local `path` or pattern names, or None for a URI. Raises JobError if there are no
    files.
    """
    if "://" in path:
        return None
    paths = sorted(glob.glob(path))
    if not paths:
        raise JobError(f"there is no file {path}")
    return [
        place
        for name in paths
        for place in (
            sorted(glob.glob(os.path.join(name, "**"), recursive=True)) if os.path.isdir(name) else [name]
        )
        if os.path.isfile(place) and not os.path.basename(place).startswith(("_", "."))
    ]


def plan(options: IngestOptions) -> list[str]:
    """Returns the plan of the job in lines."""
    steps: list[str] = []
    if options.format == JDBC:
        lines = [_jdbc_plan(options)]
    else:
        on_disk = files(options.source)
        steps = on_disk or []
        if on_disk is not None:
            check_files(steps, options.format)
            names = file_columns(steps, options.format, pairs(options.read_option, "--read-option"))
            if names is not None:
                check_columns(options.named_columns, names, "files")
        size = "" if on_disk is None else f" ({len(steps)} files, {sum(map(os.path.getsize, steps))} bytes)"
        what = f"{options.format} files of {options.path}{size}"
        lines = [f"ingest {what} to topic {options.topic} ({options.mode})"]
    lines.append(target_plan(writer_options(options, options.topic), options.topic)[0])
    if options.is_stream:
        what = "rows" if options.format == JDBC else "files"
        lines.append(f"checkpoint: {options.checkpoint} ({what} that it has are not written again)")
    return [*lines, *steps]


def _jdbc_plan(options: IngestOptions) -> str:
    from kcli.spark.jobs.ingest.database import shown, table_columns

    if not options.database.startswith("jdbc:"):
        check_columns(options.named_columns, table_columns(_settings(options)), "rows", fields=True)
    url = (
        options.database.partition("?")[0]
        if options.database.startswith("jdbc:")
        else shown(options.database)
    )
    by = options.incrementing_column or options.timestamp_column
    return (
        f"ingest {options.table or f'({options.query})'} of {url} to topic {options.topic} ({options.mode}"
        + (f", by {by})" if by else ")")
    )


def run(spark: SparkSession, options: IngestOptions) -> Done:
    """Writes the rows to the topic."""
    # Files and tables may have columns whose names differ only in case. The job itself runs no SQL of the user.
    before = spark.conf.get(CASE_SENSITIVE)
    spark.conf.set(CASE_SENSITIVE, "true")
    try:
        return _written(spark, options)
    finally:
        spark.conf.set(CASE_SENSITIVE, before or "false")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of files or of a database."""

    frame: DataFrame
    names: list[str]
    """The columns of a row. The frame may have more columns, which `line` and `wrong` need."""
    origin: Mapping[str, Column]
    line: Column
    """The text that a dead letter keeps."""
    wrong: Column | None = None
    """Whether the line of a row does not parse. None: each row parses."""


def _written(spark: SparkSession, options: IngestOptions) -> Done:
    counts = Counts(streaming=options.is_stream)
    rows = _jdbc(spark, options) if options.format == JDBC else _of_files(spark, options)
    registry = options.registry
    if registry is None and rows.wrong is None:
        records = counts.rows(rows.frame).select(*_record(rows, options, _value(rows, options)))
    else:
        records = _well(rows, options, counts, registry)
    writing = writer_options(options, options.topic)
    if options.is_stream:
        return run_stream(records.writeStream.format("kcli").options(**writing), options, "ingest")
    writer = records.write.format("kcli").options(**writing).mode("append")
    run_batch(spark, options, "ingest", writer.save)
    return Done(counts.total("rows"), bad_records=counts.total(BAD_RECORDS))


def _of_files(spark: SparkSession, options: IngestOptions) -> Rows:
    """Reads the files."""
    from pyspark.sql.functions import coalesce, col, length, struct, to_json, trim

    # JSON lines are read as text, so that each line becomes a value unchanged.
    form = "text" if options.format == "json" else options.format
    reading = {"recursiveFileLookup": "true"}
    if form == "csv":  # with enforceSchema, Spark would use the header of one file for all files
        reading |= {"header": "true", "enforceSchema": "false"}
    reading |= pairs(options.read_option, "--read-option")
    schema = spark.read.format(form).options(**reading).load(options.source).schema
    names = schema.names
    line = free_name(CORRUPT, names) if form == "csv" else "value"
    if form == "csv":
        schema = schema.add(line, "string")
        reading["columnNameOfCorruptRecord"] = line
    if not options.is_stream:
        frame = spark.read.format(form).options(**reading).schema(schema).load(options.source)
    else:
        stream = spark.readStream.format(form).options(**reading).schema(schema)
        if options.max_files_per_trigger:
            stream = stream.option("maxFilesPerTrigger", options.max_files_per_trigger)
        frame = stream.load(options.source)
    # A file may have a column of this name.
    origin = {"file": frame.metadataColumn("_metadata").getField("file_path")}
    whole = to_json(struct(*(col(quoted(name)) for name in names)))
    match options.format:
        case "json":
            frame = frame.where(length(trim(col("value"))) > 0)
            return Rows(frame, names, origin, col("value"), _is_not_json(col("value")))
        case "csv":
            return Rows(frame, names, origin, coalesce(col(line), whole), col(line).isNotNull())
        case "text":
            return Rows(frame, names, origin, col("value"))
        case _:
            return Rows(frame, names, origin, whole)


def _is_not_json(line: Column) -> Column:
    """Whether a line is not one JSON value. An array is put around the line, so that Spark parses all of it."""
    from pyspark.sql.functions import coalesce, concat, from_json, lit, size

    strict = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
    whole = from_json(concat(lit("["), line, lit("]")), "array<string>", strict)
    return coalesce(size(whole), lit(0)) != 1


def _jdbc(spark: SparkSession, options: IngestOptions) -> Rows:
    from pyspark.sql.functions import col, struct, to_json

    from kcli.spark.jobs.ingest.database import (
        FORMAT,
        SETTINGS,
        SqlDataSource,
        table_columns,
    )

    if options.database.startswith("jdbc:"):
        what = {"query": options.query} if options.query else {"dbtable": options.table}
        reading = what | pairs(options.read_option, "--read-option")
        rows = spark.read.format("jdbc").option("url", options.database).options(**reading).load()
        check_columns(options.named_columns, rows.columns, "rows", fields=True)
        return Rows(rows.select(to_json(struct("*")).alias("value")), ["value"], {}, col("value"))
    settings = _settings(options)
    check_columns(options.named_columns, table_columns(settings), "rows", fields=True)
    spark.dataSource.register(SqlDataSource)
    reader = spark.read if not options.is_stream else spark.readStream
    frame = reader.format(FORMAT).option(SETTINGS, settings.to_json()).load()
    return Rows(frame, frame.columns, {}, col("value"))


def _settings(options: IngestOptions) -> SqlSettings:
    """Returns the settings of the source of a database that SQLAlchemy reads."""
    from kcli.spark.jobs.ingest.database import INCREMENTING, TIMESTAMP, SqlSettings

    by = INCREMENTING if options.incrementing_column else TIMESTAMP if options.timestamp_column else None
    return SqlSettings(
        url=options.database,
        table=options.table,
        query=options.query,
        column=options.incrementing_column or options.timestamp_column,
        by=by,
        delay_ms=options.timestamp_delay_ms,
        tasks=options.tasks,
        max_rows=options.max_rows_per_trigger,
    )


def _well(rows: Rows, options: IngestOptions, counts: Counts, registry: RegistrySpec | None) -> DataFrame:
    """Returns the records of the rows that parse and that fit the schema of the registry.

    --on-bad-record decides what happens to the other rows.
    """
    from pyspark.sql.functions import coalesce, col, lit, struct, when

    wrong = lit(False) if rows.wrong is None else rows.wrong
    said = "the line is not JSON"
    if options.format == "csv":
        said = f"the line is not CSV of the {len(rows.names)} columns {listed(rows.names)}"
    error = when(wrong, lit(said))
    if registry is None:
        written, value = None, _value(rows, options)
    else:
        written = written_values(registry, options.topic)
        fields, misfit = _encoder_input(rows, options, written)
        make = written.text_encoder if _is_text(options) else written.row_encoder
        encoded = worker_function(make, "struct<error: string, value: binary>")(
            when(~wrong & misfit.isNull(), fields)
        )
        value = encoded.getField("value")
        error = coalesce(error, misfit, encoded.getField("error"))
    places = {f"_{name}": column for name, column in rows.origin.items()}
    frame = rows.frame.select(
        when(error.isNull(), struct(*_record(rows, options, value, written))).alias("_record"),
        rows.line.alias("value"),
        error.alias("_wrong"),
        *(column.alias(name) for name, column in places.items()),
    )
    origin = {name[1:]: col(name) for name in places}
    frame = sifted(frame, col("_wrong"), origin, bad_input(options), counts)
    return frame.select("_record.*")


def _record(
    rows: Rows, options: IngestOptions, value: Column, written: WrittenValues | None = None
) -> list[Column]:
    """Returns the columns of the records: always value, and key, partition and headers if the options or the rows have
    them.
    """
    from pyspark.sql.functions import col

    chosen = [value.alias("value")]
    if options.key_column:
        chosen.append(_column(rows, options, options.key_column).alias("key"))
    elif options.format == "parquet" and "key" in rows.names and options.value_column is None:
        chosen.append(_bytes(rows, "key").alias("key"))
    if options.partition_column:
        chosen.append(_column(rows, options, options.partition_column).cast("int").alias("partition"))
    types = dict(rows.frame.dtypes)
    headers = col("headers") if types.get("headers") in SINK_COLUMNS["headers"] else None
    if written is not None:
        headers = written.headers(headers)
    if headers is not None:
        chosen.append(headers.alias("headers"))
    return chosen


def _is_text(options: IngestOptions) -> bool:
    """Whether the value is one text, and not made of the columns of a row."""
    return options.value_column is not None or options.format in ("text", "json", JDBC)


def _value(rows: Rows, options: IngestOptions) -> Column:
    from pyspark.sql.functions import col, struct, to_json

    if options.value_column is not None:
        return _column(rows, options, options.value_column)
    if _is_text(options) or "value" in rows.names:
        return _bytes(rows, "value")
    return to_json(struct(*(col(quoted(name)) for name in rows.names)))


def _column(rows: Rows, options: IngestOptions, name: str) -> Column:
    """Returns a column of a row, or a field of its JSON."""
    from pyspark.sql.functions import col, get_json_object

    if options.format in ("json", JDBC):
        return get_json_object(col("value"), f"$.{name}")
    check_columns([name], rows.names, "files")
    return _bytes(rows, name)


def _encoder_input(rows: Rows, options: IngestOptions, written: WrittenValues) -> tuple[Column, Column]:
    """Returns what the workers encode, and the error of a row whose columns do not have the types of the schema.

    A value is a text, or a struct of the columns that the schema names, in its types. A field without a column has the
    default of the schema.
    """
    from pyspark.sql.functions import coalesce, col, lit, struct, when
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import ArrayType, MapType, StructType

    no_error = lit(None).cast("string")
    if _is_text(options):
        return _value(rows, options).cast("string"), no_error
    fields = [field for field in written.columns() if field.name in rows.names]
    if not fields:
        raise JobError(
            f"the files have no column of {written.schema.name}; they have {', '.join(rows.names)}"
        )
    typed, errors = [], []
    for field in fields:
        column, kind = col(quoted(field.name)), from_arrow_type(field.type)
        if isinstance(kind, (ArrayType, MapType, StructType)):
            typed.append(column.cast(kind).alias(field.name))
            continue
        converted = column.try_cast(kind)
        said = lit(f"column {field.name} is not {kind.simpleString()}")
        errors.append(when(column.isNotNull() & converted.isNull(), said))
        typed.append(converted.alias(field.name))
    return struct(*typed), coalesce(no_error, *errors)


def _bytes(rows: Rows, name: str) -> Column:
    """Returns a column in a type for keys and values: bytes and strings unchanged, other types as text."""
    from pyspark.sql.functions import col

    column = col(quoted(name))
    return column if dict(rows.frame.dtypes)[name] in SINK_COLUMNS["value"] else column.cast("string")


JOB = Job(
    name="ingest",
    description="Writes the rows of files or of a database to a topic.",
    options=IngestOptions,
    check=_check,
    plan=plan,
    run=run,
    exclusive=(
        Exclusive(names=("table", "query")),
        Exclusive(names=("incrementing-column", "timestamp-column")),
    ),
    examples=(
        Example(
            "Write the lines of log files to a topic:",
            "kcli spark-submit ingest --bootstrap-server localhost:9092 --topic logs \\\n"
            "  --path '/var/log/app/*.log'",
        ),
    ),
)
parse = JOB.parse
main = JOB.main
