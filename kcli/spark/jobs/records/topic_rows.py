"""Converts rows of a query to records of a topic.

`_key`, `_headers` and `_timestamp` become key, headers and timestamp of the record. `_topic`, `_partition` and
`_offset` (the origin of a row) are left out. All other columns form the value. In the format raw, the rows must already
have the columns of a record: `key`, `value`, `headers`, `partition` and `timestamp`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.command.options import option
from kcli.spark.jobs.records.column_names import quoted
from kcli.spark.jobs.records.registry_values import RegistryOptions, written_values
from kcli.spark.jobs.records.values import FORMATS, ValueSpec, encoded
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.options import SINK_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD_COLUMNS = {"_key": "key", "_headers": "headers", "_timestamp": "timestamp"}
LEFT_OUT = ("_topic", "_partition", "_offset")


@dataclass(frozen=True, kw_only=True)
class OutputOptions(RegistryOptions):
    """The options of a job that writes the result of a query to a topic."""

    output_format: str = option(
        "The format of the values that the job writes.", choices=FORMATS, default="json"
    )
    output_schema: str | None = option(
        "The file with the schema of Avro and Protobuf values, in the same form as a file for --value-schema.",
        metavar="FILE",
    )
    output_message: str | None = option("Protobuf: the full name of the message.", metavar="NAME")
    output_subject: str | None = option(
        "With --schema-registry: the subject of the schema of the values that the job writes. Without "
        "--output-schema, its latest version is used.",
        metavar="SUBJECT",
    )


def output_spec(options: OutputOptions) -> ValueSpec:
    """Returns the format of the values to write. Raises JobError if the options contradict each other."""
    format_, schema, message = options.output_format, options.output_schema, options.output_message
    registry = options.registry_spec(format_, schema=schema, subject=options.output_subject, message=message)
    if options.output_subject is not None and registry is None:
        raise JobError(
            "--output-subject needs --schema-registry, and --output-format avro, protobuf or json-schema"
        )
    spec = ValueSpec(format_, schema, message, registry=registry)
    if spec.format in ("avro", "protobuf", "json-schema"):
        spec.check()
    elif spec.schema:
        raise JobError(f"--output-schema is for avro and protobuf, not for {spec.format}")
    return spec


def records(frame: DataFrame, spec: ValueSpec, topic: str) -> DataFrame:
    """Converts rows to the columns of the sink, for records of a topic.

    Raises JobError for a column that cannot be written.
    """
    from pyspark.sql.functions import col

    if spec.format == "raw":
        if "value" not in frame.columns:
            raise JobError("raw records need a column value: add one, or use --output-format json")
        return frame.select(
            *(_record_column(frame, name, name) for name in frame.columns if name in SINK_COLUMNS)
        )
    chosen = {
        record: _record_column(frame, name, record)
        for name, record in RECORD_COLUMNS.items()
        if name in frame.columns
    }
    written = None if spec.registry is None else written_values(spec.registry, topic)
    if written is not None and (headers := written.headers(chosen.get("headers"))) is not None:
        chosen["headers"] = headers.alias("headers")
    inside = [name for name in frame.columns if name not in RECORD_COLUMNS and name not in LEFT_OUT]
    if not inside:
        raise JobError("the query has no column for the value")
    value = encoded([col(quoted(name)) for name in inside], spec, written)
    return frame.select(value.alias("value"), *chosen.values())


def _record_column(frame: DataFrame, name: str, record: str) -> Column:
    """Returns a column in a type that the sink accepts. Keys and values of other types become text."""
    from pyspark.sql.functions import col

    kind = dict(frame.dtypes)[name]
    column = col(quoted(name))
    if kind not in SINK_COLUMNS[record]:
        if record not in ("key", "value"):
            raise JobError(f"column {name} is {kind}; expected {' or '.join(SINK_COLUMNS[record])}")
        column = column.cast("string")
    return column.alias(record)
