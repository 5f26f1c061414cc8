"""Statements of SQL over topics: what `sql` and `transform` share.

A statement is Spark's SQL. Where Spark does not know a table, a topic of that name becomes one, and the statement is
tried again. `INSERT INTO topic SELECT …` writes the rows to a topic. In a stream the clause
`FROM t WATERMARK column DELAY OF INTERVAL 10 MINUTES` and the functions window() and session_window() are Spark's own.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.spark.jobs.arguments import (
    JobError,
    JobParser,
    add_range,
    add_sink,
    check_mode,
    check_reader,
    check_writer,
    reader_options,
    writer_options,
)
from kcli.spark.jobs.bad_input import bad_input
from kcli.spark.jobs.running import BAD_RECORDS, WRITTEN, Counts, Done, run_batch, run_stream
from kcli.spark.jobs.topic_rows import add_output_options, output_spec, records
from kcli.spark.jobs.topic_tables import TopicTables, add_table_options, declared_tables, default_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INSERT = re.compile(
    r"insert\s+into\s+(?:table\s+)?(`[^`]+`|[\w.-]+)\s+(?=select\b|with\b|from\b|values\b|table\b|\()", re.I
)
NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
OUTPUT_MODES = ("append", "update", "complete")


@dataclass(frozen=True, slots=True)
class Statement:
    """A query, and the topic its rows go to, if any."""

    query: str
    target: str | None = None


def statement(text: str) -> Statement:
    text = text.strip()
    found = INSERT.match(text)
    if found is None:
        return Statement(text)
    return Statement(text[found.end() :], found[1].strip("`"))


def split(text: str) -> Iterator[str]:
    """The statements of a text, which `;` ends; one in quotes or a comment does not."""
    begin = 0
    for found in re.finditer(
        r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|;", text, re.S
    ):
        if found[0] == ";":
            yield text[begin : found.start()]
            begin = found.end()
    yield text[begin:]


def without_comments(text: str) -> str:
    """So that one can tell whether there is a statement at all, and its first word."""
    keep = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`"
    return re.sub(rf"({keep})|--[^\n]*|/\*.*?\*/", lambda found: found[1] or " ", text, flags=re.S).strip()


def statements(text: str) -> list[str]:
    return [each for each in map(without_comments, split(text)) if each]


def add_query_options(parser: JobParser) -> None:
    """What is read and written, and how."""
    add_range(parser)
    add_table_options(parser)
    add_output_options(parser)
    parser.add_argument(
        "--output-mode",
        choices=OUTPUT_MODES,
        default="append",
        help="Of a stream with groups: append (final rows), update (changed rows) or complete (default: append).",
    )
    add_sink(parser)


def check_query_options(options: argparse.Namespace, target: str | None) -> None:
    """`target` is the topic that is written, None where a statement names it."""
    check_mode(options)
    check_reader(reader_options(options, topic="any"), options.mode)
    check_writer(writer_options(options, target))
    declared_tables(options)
    default_values(options).check()
    output_spec(options)
    bad_input(options)


class Queries:
    """Runs statements of one session."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace, tables: TopicTables) -> None:
        self._spark, self._options, self._tables = spark, options, tables

    def frame(self, query: str) -> DataFrame:
        """The rows of a query; topics that it names become tables. JobError where Spark refuses it."""
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
                    raise JobError(f"write the topic's name in backquotes: `{name}`") from None
                if not self._tables.add(name):
                    raise JobError(f"there is no table or topic {name}") from None

    def insert(self, rows: DataFrame, topic: str, name: str) -> Done:
        """Write the rows of a query to a topic."""
        counts = Counts(streaming=rows.isStreaming)
        found = counts.rows(records(rows, output_spec(self._options)), WRITTEN)
        writing = writer_options(self._options, topic)
        if found.isStreaming:
            stream = found.writeStream.format("kcli").options(**writing)
            return run_stream(stream.outputMode(self._options.output_mode), self._options, name)
        writer = found.write.format("kcli").options(**writing).mode("append")
        run_batch(self._spark, self._options, name, writer.save)
        return Done(counts.total(WRITTEN), bad_records=self._tables.counts.total(BAD_RECORDS))


def _table_not_found(error: Exception) -> str | None:
    """The name, where that is what is wrong."""
    from pyspark.errors import AnalysisException

    if not isinstance(error, AnalysisException) or error.getCondition() != NOT_FOUND:
        return None
    parameters = error.getMessageParameters() or {}
    return parameters["relationName"].replace("`", "")


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].partition(" SQLSTATE")[0] if lines else type(error).__name__
