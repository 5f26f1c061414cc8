"""The job `sql`: runs SQL over topics, from the command line, a file or a shell.

Rows go to stdout, and messages to stderr. In a stream (--mode available-now or continuous), topics are unbounded
tables, and a SELECT shows the rows of each micro-batch. Each statement has its own checkpoint. The name of the
checkpoint is the number of the statement.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kcli.command.examples import Example
from kcli.command.options import Exclusive, Kind, option
from kcli.command.rows import tsv_line
from kcli.errors import KcliError
from kcli.model.java_text import split_blanks, trim
from kcli.spark.client.cluster import Cluster
from kcli.spark.jobs.records.column_names import printable
from kcli.spark.jobs.records.topic_tables import TopicTables
from kcli.spark.jobs.shared.endpoints import check_target, writer_options
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.failures import reason
from kcli.spark.jobs.shared.job import Job
from kcli.spark.jobs.shared.options import refuse_idle
from kcli.spark.jobs.shared.running import BAD_RECORDS, Done, run_batch, run_stream
from kcli.spark.jobs.sql.queries import (
    Queries,
    QueryOptions,
    check_query_options,
    split,
    statement,
    statements,
    table_plan,
    topic_tables,
    without_comments,
)
from kcli.spark.options import sink_options

if TYPE_CHECKING:
    import datetime
    import decimal

    from pyspark.sql import DataFrame, Row, SparkSession

    Scalar = (
        bool | int | float | str | bytes | bytearray | decimal.Decimal | datetime.date | datetime.timedelta
    )
    Cell: TypeAlias = Scalar | Row | list["Cell"] | dict["Cell", "Cell"] | None
    """The types that a value in a row of PySpark can have."""

PROMPT, MORE = "kcli> ", "   -> "
FORMS = ("table", "json", "tsv")
SHOWN_ROWS = 1000
"""The default of --max-rows, because a topic may have billions of rows."""


@dataclass(frozen=True, kw_only=True)
class SqlOptions(QueryOptions):
    """The options of the job."""

    execute: tuple[str, ...] = option(
        "SQL statements, separated by semicolons. INSERT INTO topic SELECT … writes to a topic.",
        metavar="SQL",
        short="e",
        repeatable=True,
    )
    file: str | None = option("A file with SQL statements.", metavar="FILE")
    rows_as: str = option("The format of the rows that are printed.", choices=FORMS, default="table")
    max_rows: int = option(
        "The maximum number of rows that a query prints.", Kind.LONG, metavar="N", default=SHOWN_ROWS
    )

    @property
    def is_shell(self) -> bool:
        """Whether statements are read from stdin."""
        return not self.execute


def _check(options: SqlOptions) -> SqlOptions:
    if options.file is not None:
        options = replace(options, execute=(Path(options.file).read_text(encoding="utf-8"),))
    if options.is_shell and options.is_stream:
        raise JobError("the shell runs batches only: a stream needs -e or --file")
    if options.is_stream:
        refuse_idle(options, ["max-rows"], "--mode batch")
    check_query_options(options, None)
    for parsed in map(statement, _given(options)):
        if parsed.target is not None:
            check_target(parsed.target)
    return options


def plan(options: SqlOptions) -> list[str]:
    """Returns the plan of the job in lines."""
    with Cluster(sink_options(writer_options(options, None)).client) as cluster:
        topics = [name for name in cluster.topic_names() if not name.startswith("__")]
    lines = [f"sql over {len(topics)} topics of {options.bootstrap_server} ({options.mode})"]
    lines += table_plan(options, _given(options))
    for parsed in map(statement, _given(options)):
        what = "show the rows of" if parsed.target is None else f"write to topic {parsed.target} the rows of"
        lines.append(f"{what}: {' '.join(split_blanks(parsed.query))}")
    return lines if not options.is_shell else [*lines, "a shell reads statements from stdin"]


def _given(options: SqlOptions) -> list[str]:
    return [query for text in options.execute for query in statements(text)]


def run(spark: SparkSession, options: SqlOptions) -> Done:
    """Runs the statements, or the shell."""
    tables = topic_tables(spark, options)
    session = StatementRunner(spark, options, tables)
    if options.is_shell:
        return session.shell()
    rows, bad, stopped = 0, 0, False
    for place, text in enumerate(_given(options)):
        done = session.execute(text, place)
        rows, bad, stopped = rows + done.rows, bad + done.bad_records, done.stopped
        if stopped:
            break
    return Done(rows, stopped, bad)


class StatementRunner:
    """Runs statements in order."""

    def __init__(self, spark: SparkSession, options: SqlOptions, tables: TopicTables) -> None:
        self._spark, self._options, self._tables = spark, options, tables

    def execute(self, text: str, place: int) -> Done:
        """Runs a statement. `place` is the number of the statement, which names the checkpoint of a stream."""
        try:
            return self._execute(text, place)
        finally:
            self._tables.drop()

    def _execute(self, text: str, place: int) -> Done:
        parsed = statement(text)
        options = self._options
        if options.checkpoint is not None:
            options = replace(options, checkpoint=os.path.join(options.checkpoint, str(place)))
        queries = Queries(self._spark, options, self._tables)
        rows = queries.frame(parsed.query)
        if parsed.target is not None:
            return queries.insert(rows, parsed.target, "sql")
        if not rows.isStreaming:
            return self._show(rows)
        shown = [0]

        def show_batch(batch: DataFrame, _: int) -> None:
            if first_rows := batch.collect():
                shown[0] += self._print(first_rows, batch.columns)

        done = run_stream(
            rows.writeStream.foreachBatch(show_batch).outputMode(options.output_mode), options, "sql"
        )
        return Done(shown[0], done.stopped, done.bad_records)

    def _show(self, rows: DataFrame) -> Done:
        limit = self._options.max_rows
        result = run_batch(self._spark, self._options, "sql", rows.limit(limit + 1).collect)
        count = self._print(result[:limit], rows.columns)
        if len(result) > limit:
            print(f"sql: there are more than {limit} rows (--max-rows)", file=sys.stderr)
        return Done(count, bad_records=self._tables.counts.total(BAD_RECORDS))

    def _print(self, rows: Sequence[Row], columns: Sequence[str]) -> int:
        print_rows(rows, columns, self._options.rows_as)
        return len(rows)

    def shell(self) -> Done:
        """Runs statements from stdin. On a terminal it prints a prompt. An error does not end the shell."""
        from pyspark.errors import PySparkException

        rows, failed = 0, 0
        for place, text in enumerate(read_statements()):
            word = trim(text.lower())
            if word in ("quit", "exit"):
                break
            try:
                if word in ("show topics", "show tables"):
                    self._print_topics()
                else:
                    rows += self.execute(text, place).rows
            except KeyboardInterrupt:
                print(file=sys.stderr)
            except (KcliError, PySparkException) as error:
                print(f"sql: {reason(error)}", file=sys.stderr)
                failed += 1
        if failed and not sys.stdin.isatty():
            raise JobError(f"{failed} of the statements failed")
        return Done(rows)

    def _print_topics(self) -> None:
        with Cluster(sink_options(writer_options(self._options, None)).client) as cluster:
            print("\n".join(sorted(name for name in cluster.topic_names() if not name.startswith("__"))))


def read_statements() -> Iterator[str]:
    """Yields the statements of stdin. A statement ends with `;`; `quit` and `exit` need no `;`."""
    interactive = sys.stdin.isatty()
    read: Callable[[str], str] = input if interactive else lambda _: _next_line()
    if interactive:
        import readline  # noqa: F401 - it adds line editing to `input`

        signal.signal(signal.SIGINT, signal.default_int_handler)  # Ctrl-C ends a line, and not the shell
    waiting = ""
    while True:
        try:
            waiting += read(MORE if trim(waiting) else PROMPT) + "\n"
        except EOFError:
            waiting += ";"
        except KeyboardInterrupt:
            print(file=sys.stderr)
            waiting = ""
            continue
        if trim(waiting).lower() in ("quit", "exit"):
            return
        *whole, rest = split(waiting)
        yield from (query for query in map(without_comments, whole) if query)
        if waiting.endswith(";") and not rest:
            return
        waiting = rest


def _next_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def print_rows(rows: Sequence[Row], columns: Sequence[str], form: str) -> None:
    """Prints rows as JSON, tab-separated or as a table."""
    if form == "json":
        for row in rows:
            print(json.dumps(row.asDict(recursive=True), default=text_of, ensure_ascii=False))
        return
    cells = [[text_of(value) for value in row] for row in rows]
    if form == "tsv":
        for line in [list(columns), *cells]:
            print(tsv_line(line))
        return
    cells = [[cell.replace("\n", "\\n") for cell in line] for line in cells]
    columns = [printable(name) for name in columns]
    widths = [max(len(name), *(len(line[nth]) for line in cells), 0) for nth, name in enumerate(columns)]
    for line in [list(columns), ["-" * width for width in widths], *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def text_of(value: Cell) -> str:
    """Converts a value of a row to text."""
    if value is None:
        return "null"
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, dict | list):
        return json.dumps(value, default=text_of, ensure_ascii=False)
    if hasattr(value, "asDict"):
        return json.dumps(value.asDict(recursive=True), default=text_of, ensure_ascii=False)
    return str(value)


JOB = Job(
    name="sql",
    description="Runs SQL over topics. The name of a topic is the name of its table. Without -e and --file, the "
    "job starts a shell.",
    options=SqlOptions,
    check=_check,
    plan=plan,
    run=run,
    exclusive=(Exclusive(names=("execute", "file")),),
    rows_to_stdout=True,
    examples=(
        Example(
            "Print the sum of a field for each user:",
            "kcli spark-submit sql --bootstrap-server localhost:9092 \\\n"
            "  -e 'SELECT user, sum(amount) FROM orders GROUP BY user'",
        ),
    ),
)
parse = JOB.parse
main = JOB.main
