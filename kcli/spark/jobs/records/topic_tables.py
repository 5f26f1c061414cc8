"""Makes a view for each topic that a query names as a table. The columns of the view are the fields of the values.

A table also has `_key` (text), `_topic`, `_partition`, `_offset` and `_timestamp`. With --value-format raw, a table has
the columns of the data source, with key and value as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kcli.command.options import option
from kcli.model.java_json import json_int
from kcli.model.java_text import parse_int, trim
from kcli.spark.client.cluster import Cluster
from kcli.spark.jobs.records.bad_input import KAFKA_ORIGIN, BadInput, BadInputOptions, bad_input, sifted
from kcli.spark.jobs.records.column_names import quoted
from kcli.spark.jobs.records.sample import inferred_columns
from kcli.spark.jobs.records.values import (
    ERROR,
    FORMATS,
    RECORD,
    ValueOptions,
    ValueSpec,
    decoded,
    for_topic,
    is_inferred,
)
from kcli.spark.jobs.shared.endpoints import reader_options
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import RangeOptions, check_duration
from kcli.spark.jobs.shared.running import Counts
from kcli.spark.options import source_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TABLE_COLUMNS = ("_key", "_headers", "_topic", "_partition", "_offset", "_timestamp")
"""The names that a field of a record cannot have, because a query reads or writes these parts of a record with them."""

RAW_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True, slots=True)
class TopicTable:
    """A topic as a table."""

    name: str
    topic: str
    values: ValueSpec
    watermark: tuple[str, str] | None = None
    """The timestamp column of the watermark, and the delay of the watermark."""


@dataclass(frozen=True, kw_only=True)
class TableOptions(RangeOptions, ValueOptions, BadInputOptions):
    """The options of a job that reads topics as tables."""

    value_format: str = option(
        "The format of the values in the topics that are read.", choices=FORMATS, default="json"
    )
    tables: str | None = option(
        "A YAML file that lists tables by name. A table may have the keys topic, format, schema, message, "
        "subject, skip-bytes and watermark ('COLUMN 10 minutes').",
        metavar="FILE",
    )


@dataclass(slots=True)
class TopicTables:
    """Makes the tables that a query can read.

    Each table that --tables declares can be read. Every other topic can be read as a table with the name of the topic.
    """

    spark: SparkSession
    options: TableOptions
    streaming: bool
    declared: Mapping[str, TopicTable]
    counts: Counts
    made: list[str] = field(default_factory=list)
    schemas: dict[str, StructType] = field(default_factory=dict)
    """The columns that were inferred from JSON values, by topic."""

    def add(self, name: str) -> bool:
        """Makes the view `name`. Returns False if the view exists already or its topic does not exist."""
        table = table_of(self.options, self.declared, name)
        if name in self.made or not topic_exists(self.options, table.topic):
            return False
        self.frame(table).createOrReplaceTempView(quoted(name))
        self.made.append(name)
        return True

    def drop(self) -> None:
        """Drops the views, so that the next statement makes its own views with new counts."""
        for name in self.made:
            self.spark.catalog.dropTempView(name)
        self.made.clear()
        self.counts = Counts(streaming=self.streaming)

    def frame(self, table: TopicTable) -> DataFrame:
        """Returns the rows of a table."""
        from pyspark.sql.functions import col

        chosen = bad_input(self.options)
        is_raw = table.values.format == "raw"
        headers = not is_raw and (chosen.needs_headers or table.values.registry is not None)
        reading = reader_options(self.options, topic=table.topic, include_headers=headers)
        reader = self.spark.readStream if self.streaming else self.spark.read
        frame = reader.format("kcli").options(**reading).load()
        if is_raw:
            texts = [col(name).cast("string").alias(name) for name in ("key", "value")]
            frame = self.counts.rows(frame).select(*texts, *RAW_COLUMNS[2:])
        else:
            frame = self._decoded(frame, table, chosen)
        if table.watermark is not None:
            column, delay = table.watermark
            if column not in frame.columns:
                raise JobError(f"watermark of {table.name}: there is no column {column}")
            frame = frame.withWatermark(column, delay)
        return frame

    def _decoded(self, frame: DataFrame, table: TopicTable, chosen: BadInput) -> DataFrame:
        from pyspark.sql.functions import col

        values = table.values
        if is_inferred(values):
            if table.topic not in self.schemas:
                self.schemas[table.topic] = inferred_columns(reader_options(self.options, topic=table.topic))
            values = replace(values, columns=self.schemas[table.topic])
        values = for_topic(values, table.topic)
        frame = decoded(frame, values, TABLE_COLUMNS)
        origin = {name: col(name) for name in KAFKA_ORIGIN}
        frame = sifted(frame, col(ERROR), origin, chosen, self.counts)
        beside = [col("key").cast("string").alias("_key")]
        beside += [col(name).alias(f"_{name}") for name in (*KAFKA_ORIGIN, "timestamp")]
        return frame.select(col(f"{RECORD}.*"), *beside)


DECLARED = ("topic", "format", "schema", "message", "subject", "skip-bytes", "watermark")


def declared_tables(options: TableOptions) -> dict[str, TopicTable]:
    """Reads the tables that the file of --tables declares. Raises JobError if the file is invalid."""
    if options.tables is None:
        return {}
    import yaml

    try:
        with open(options.tables, encoding="utf-8") as file:
            document = yaml.safe_load(file) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise JobError(f"--tables {options.tables}: {error}") from None
    if not isinstance(document, dict) or not all(isinstance(table, dict) for table in document.values()):
        raise JobError(f"--tables {options.tables}: expected tables by name, each with {', '.join(DECLARED)}")
    return {name: _declared(str(name), entry, options) for name, entry in document.items()}


def _declared(name: str, entry: Mapping[str, str], options: TableOptions) -> TopicTable:
    for key in entry:
        if key not in DECLARED:
            raise JobError(f"--tables {options.tables}: {name}.{key} is not one of {', '.join(DECLARED)}")
    usual = options.values
    has_own = "format" in entry
    values = options.value_spec(
        str(entry.get("format", usual.format)),
        entry.get("schema", None if has_own else usual.schema),
        message=entry.get("message", None if has_own else usual.message),
        subject=entry.get("subject"),
        skip_bytes=_bytes(options, name, entry.get("skip-bytes", 0 if has_own else usual.skip_bytes)),
    )
    values.check()
    watermark = None
    if "watermark" in entry:
        column, _, delay = trim(str(entry["watermark"])).partition(" ")
        if not trim(delay):
            raise JobError(f"--tables {options.tables}: {name}.watermark: expected 'COLUMN 10 minutes'")
        check_duration(delay, f"--tables {options.tables}: {name}.watermark", calendar=True)
        watermark = column, trim(delay)
    return TopicTable(name, str(entry.get("topic", name)), values, watermark)


def _bytes(options: TableOptions, name: str, value: object) -> int:
    try:
        return parse_int(value) if isinstance(value, str) else json_int(value)
    except ValueError:
        raise JobError(f"--tables {options.tables}: {name}.skip-bytes: expected a number") from None


def table_of(options: TableOptions, declared: Mapping[str, TopicTable], name: str) -> TopicTable:
    """Returns the declared table `name`, or the topic of this name as a table."""
    return declared.get(name) or TopicTable(name, name, options.values)


def topic_exists(options: TableOptions, topic: str) -> bool:
    """Whether a topic exists.

    The function requests the list of all topics, because a metadata request for this topic could create it.
    """
    with Cluster(source_options(reader_options(options, topic=topic), streaming=True).client) as cluster:
        return topic in cluster.topic_names()
