"""Runs SQL statements over topics, for the jobs `sql` and `transform`.

A statement is written in Spark's SQL. If Spark does not find a table, the topic with the name of the table becomes a
view, and the statement runs again. `INSERT INTO topic SELECT …` writes the rows to a topic. In a stream, the clause
`FROM t WATERMARK column DELAY OF INTERVAL 10 MINUTES` and the functions window() and session_window() work as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.command.options import option
from kcli.model.java_text import trim
from kcli.spark.jobs.records.bad_input import bad_input
from kcli.spark.jobs.records.column_names import column_list, renamed
from kcli.spark.jobs.records.sample import inferred_columns
from kcli.spark.jobs.records.topic_rows import OutputOptions, output_spec, records
from kcli.spark.jobs.records.topic_tables import (
    TABLE_COLUMNS,
    TableOptions,
    TopicTables,
    declared_tables,
    table_of,
    topic_exists,
)
from kcli.spark.jobs.records.values import is_inferred
from kcli.spark.jobs.shared.endpoints import check_reader, check_writer, reader_options, writer_options
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import ModeOptions, SinkOptions, check_mode
from kcli.spark.jobs.shared.running import BAD_RECORDS, WRITTEN, Counts, Done, run_batch, run_stream
from kcli.spark.jobs.sql.table_names import table_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INSERT = re.compile(
    r"insert\s+into\s+(?:table\s+)?(`[^`]+`|[\w.-]+)\s+(?=select\b|with\b|from\b|values\b|table\b|\()", re.I
)
NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
OUTPUT_MODES = ("append", "update", "complete")


@dataclass(frozen=True, slots=True)
class Statement:
    """A query, and the topic to which its rows are written (None if the rows are shown)."""

    query: str
    target: str | None = None


def statement(text: str) -> Statement:
    """Parses a statement: a query, or `INSERT INTO topic` and a query."""
    text = trim(text)
    match = INSERT.match(text)
    if match is None:
        return Statement(text)
    return Statement(text[match.end() :], match[1].strip("`"))


def split(text: str) -> Iterator[str]:
    """Yields the statements of a text. A `;` ends a statement, unless it is in quotes or a comment."""
    begin = 0
    for match in re.finditer(
        r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;", text, re.S
    ):
        if match[0] == ";":
            yield text[begin : match.start()]
            begin = match.end()
    yield text[begin:]


def without_comments(text: str) -> str:
    """Returns the text without comments. The result is empty if the text has only comments."""
    keep = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`"
    return trim(re.sub(rf"({keep})|--[^\n]*|/\*.*?\*/", lambda match: match[1] or " ", text, flags=re.S))


def statements(text: str) -> list[str]:
    """Returns the statements of a text, without comments."""
    return [query for query in map(without_comments, split(text)) if query]


@dataclass(frozen=True, kw_only=True)
class QueryOptions(ModeOptions, TableOptions, OutputOptions, SinkOptions):
    """The options of a job that runs SQL."""

    output_mode: str = option(
        "Which groups a stream with GROUP BY writes: append (final groups), update (changed groups) or "
        "complete (all groups).",
        choices=OUTPUT_MODES,
        default="append",
    )


def check_query_options(options: QueryOptions, target: str | None) -> None:
    """Checks the options. `target` is the topic to write to, or None if the statements name it."""
    check_mode(options)
    check_reader(reader_options(options, topic="any"), options.mode)
    check_writer(writer_options(options, target))
    declared_tables(options)
    options.values.check()
    output_spec(options)
    bad_input(options)


def topic_tables(spark: SparkSession, options: QueryOptions) -> TopicTables:
    """Makes the `TopicTables` for one run of the job."""
    counts = Counts(streaming=options.is_stream)
    return TopicTables(spark, options, options.is_stream, declared_tables(options), counts)


def table_plan(options: QueryOptions, queries: Sequence[str]) -> list[str]:
    """Returns lines of the plan about the tables that the queries read.

    For a dry run, also reads the records from which the job would infer columns. Raises JobError if it cannot infer
    them.
    """
    declared = declared_tables(options)
    lines = []
    for name in dict.fromkeys(name for query in queries for name in table_names(query)):
        table = table_of(options, declared, name)
        if not topic_exists(options, table.topic):
            lines.append(f"table {name}: there is no topic {table.topic}, so it must be a table of Spark")
            continue
        lines.append(f"table {name}: topic {table.topic}, values {table.values.format}")
        if options.dry_run and is_inferred(table.values):
            columns = inferred_columns(reader_options(options, topic=table.topic))
            lines[-1] += f", columns {column_list(renamed(columns, TABLE_COLUMNS))}"
    return lines


class Queries:
    """Runs statements in one Spark session."""

    def __init__(self, spark: SparkSession, options: QueryOptions, tables: TopicTables) -> None:
        self._spark, self._options, self._tables = spark, options, tables

    def frame(self, query: str) -> DataFrame:
        """Returns the rows of a query. The topics that the query names become tables.

        Raises JobError if Spark refuses the query.
        """
        from pyspark.errors import AnalysisException, ParseException

        while True:
            try:
                return self._spark.sql(query)
            except ParseException as error:
                raise JobError(f"not SQL: {_first_line(error)}") from None
            except AnalysisException as error:
                name = _table_not_found(error)
                if name is None:
                    raise JobError(_first_line(error)) from None
                if name in self._tables.made:
                    raise JobError(f"expected the topic's name in backquotes: `{name}`") from None
                if not self._tables.add(name):
                    raise JobError(f"there is no table or topic {name}") from None

    def insert(self, rows: DataFrame, topic: str, name: str) -> Done:
        """Writes the rows of a query to a topic."""
        counts = Counts(streaming=rows.isStreaming)
        counted = counts.rows(records(rows, output_spec(self._options), topic), WRITTEN)
        writing = writer_options(self._options, topic)
        if counted.isStreaming:
            stream = counted.writeStream.format("kcli").options(**writing)
            return run_stream(stream.outputMode(self._options.output_mode), self._options, name)
        writer = counted.write.format("kcli").options(**writing).mode("append")
        run_batch(self._spark, self._options, name, writer.save)
        return Done(counts.total(WRITTEN), bad_records=self._tables.counts.total(BAD_RECORDS))


def _table_not_found(error: Exception) -> str | None:
    """Returns the name of the table that Spark does not find, or None for another error."""
    from pyspark.errors import AnalysisException

    if not isinstance(error, AnalysisException) or error.getCondition() != NOT_FOUND:
        return None
    parameters = error.getMessageParameters() or {}
    return parameters["relationName"].replace("`", "")


def _first_line(error: Exception) -> str:
    lines = [trim(line) for line in str(error).splitlines() if trim(line)]
    return lines[0].partition(" SQLSTATE")[0] if lines else type(error).__name__
