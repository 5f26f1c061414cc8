"""The job `sql`: SQL over topics; statements of the command line or a file, else a shell.

Rows go to stdout, everything else to stderr. As a stream (--mode available-now or continuous) topics are unbounded
tables: a SELECT shows the rows of each micro-batch, and each statement has a checkpoint of its own, by its place.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError
from kcli.spark.cluster import Cluster
from kcli.spark.jobs.arguments import (
    JobError,
    JobParser,
    add_common,
    add_mode,
    refuse_idle,
    writer_options,
)
from kcli.spark.jobs.queries import (
    Queries,
    add_query_options,
    check_query_options,
    split,
    statement,
    statements,
    without_comments,
)
from kcli.spark.jobs.running import BAD_RECORDS, Counts, Done, job_main, reason, run_batch, run_stream
from kcli.spark.jobs.topic_tables import TopicTables, declared_tables
from kcli.spark.options import sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PROMPT, MORE = "kcli> ", "   -> "
FORMS = ("table", "json", "tsv")
SHOWN_ROWS = 1000
"""Of a SELECT without LIMIT, unless --max-rows says otherwise: a topic may have billions."""


def parser() -> JobParser:
    parser = JobParser(
        "sql", "Runs SQL over topics: a topic is a table by its name. Without -e and --file there is a shell."
    )
    add_common(parser)
    add_mode(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "-e",
        "--execute",
        action="append",
        metavar="SQL",
        help="Statements, ended by ;. INSERT INTO topic SELECT … writes to a topic.",
    )
    what.add_argument("--file", metavar="FILE", help="A file of statements.")
    parser.add_argument(
        "--rows-as", choices=FORMS, default="table", help="How rows are shown (default: table)."
    )
    parser.add_argument(
        "--max-rows",
        type=int,
        default=SHOWN_ROWS,
        metavar="N",
        help=f"Shown of a query (default: {SHOWN_ROWS}).",
    )
    add_query_options(parser)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options, checked. Exits with code 1 where they are wrong."""
    return parser().checked(argv, _check)


def _check(options: argparse.Namespace) -> None:
    if options.file is not None:
        options.execute = [Path(options.file).read_text(encoding="utf-8")]
    if options.execute is None and options.mode != "batch":
        raise JobError("the shell is for batches; a stream needs -e or --file")
    if options.mode != "batch":
        refuse_idle(options, ["--max-rows"], "--mode batch")
    check_query_options(options, None)


def plan(options: argparse.Namespace) -> list[str]:
    """What the job would do, one line each."""
    with Cluster(sink_options(writer_options(options, None)).client) as cluster:
        topics = [name for name in cluster.topic_names() if not name.startswith("__")]
    lines = [f"sql over {len(topics)} topics of {options.bootstrap_server} ({options.mode})"]
    for text in _given(options):
        found = statement(text)
        what = "show the rows of" if found.target is None else f"write to topic {found.target} the rows of"
        lines.append(f"{what}: {' '.join(found.query.split())}")
    return lines if options.execute is not None else [*lines, "a shell reads statements from stdin"]


def _given(options: argparse.Namespace) -> list[str]:
    return [each for text in options.execute or () for each in statements(text)]


def run(spark: SparkSession, options: argparse.Namespace) -> Done:
    streaming = options.mode != "batch"
    tables = TopicTables(spark, options, streaming, declared_tables(options), Counts(streaming=streaming))
    session = Session(spark, options, tables)
    if options.execute is None:
        return session.shell()
    rows, bad, stopped = 0, 0, False
    for place, text in enumerate(_given(options)):
        done = session.execute(text, place)
        rows, bad, stopped = rows + done.rows, bad + done.bad_records, done.stopped
        if stopped:
            break
    return Done(rows, stopped, bad)


class Session:
    """Statements one after the other."""

    def __init__(self, spark: SparkSession, options: argparse.Namespace, tables: TopicTables) -> None:
        self._spark, self._options, self._tables = spark, options, tables

    def execute(self, text: str, place: int) -> Done:
        """`place` is the statement's number, by which a stream finds its checkpoint again."""
        try:
            return self._execute(text, place)
        finally:
            self._tables.drop()

    def _execute(self, text: str, place: int) -> Done:
        found = statement(text)
        options = argparse.Namespace(**vars(self._options))
        if options.checkpoint is not None:
            options.checkpoint = os.path.join(options.checkpoint, str(place))
        queries = Queries(self._spark, options, self._tables)
        rows = queries.frame(found.query)
        if found.target is not None:
            return queries.insert(rows, found.target, "sql")
        if not rows.isStreaming:
            return self._show(rows)
        shown = [0]

        def each(batch: DataFrame, _: int) -> None:
            if found := batch.collect():
                shown[0] += self._print(found, batch.columns)

        done = run_stream(rows.writeStream.foreachBatch(each).outputMode(options.output_mode), options, "sql")
        return Done(shown[0], done.stopped, done.bad_records)

    def _show(self, rows: DataFrame) -> Done:
        limit = self._options.max_rows
        found = run_batch(self._spark, self._options, "sql", rows.limit(limit + 1).collect)
        count = self._print(found[:limit], rows.columns)
        if len(found) > limit:
            print(f"sql: there are more than {limit} rows (--max-rows)", file=sys.stderr)
        return Done(count, bad_records=self._tables.counts.total(BAD_RECORDS))

    def _print(self, rows: Sequence[Row], columns: Sequence[str]) -> int:
        print_rows(rows, columns, self._options.rows_as)
        return len(rows)

    def shell(self) -> Done:
        """Statements of stdin, at a prompt where it is a terminal; a wrong one does not end the shell."""
        from pyspark.errors import PySparkException

        rows, failed = 0, 0
        for place, text in enumerate(read_statements()):
            word = text.lower().strip()
            if word in ("quit", "exit"):
                break
            try:
                if word in ("show topics", "show tables"):
                    self._print_topics()
                else:
                    rows += self.execute(text, place).rows
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
    """Until the end of stdin. A statement ends with `;`; `quit` and `exit` need none."""
    interactive = sys.stdin.isatty()
    read: Callable[[str], str] = input if interactive else lambda _: _next_line()
    if interactive:
        import readline  # noqa: F401 - it gives `input` its line editing
    waiting = ""
    while True:
        try:
            waiting += read(MORE if waiting.strip() else PROMPT) + "\n"
        except EOFError:
            waiting += ";"
        except KeyboardInterrupt:
            print(file=sys.stderr)
            waiting = ""
            continue
        if waiting.strip().lower() in ("quit", "exit"):
            return
        *whole, rest = split(waiting)
        yield from (each for each in map(without_comments, whole) if each)
        if waiting.endswith(";") and not rest:
            return
        waiting = rest


def _next_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def print_rows(rows: Sequence[Row], columns: Sequence[str], form: str) -> None:
    if form == "json":
        for row in rows:
            print(json.dumps(row.asDict(recursive=True), default=text_of, ensure_ascii=False))
        return
    cells = [[text_of(value) for value in row] for row in rows]
    if form == "tsv":
        for line in [list(columns), *cells]:
            print(
                "\t".join(
                    cell.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") for cell in line
                )
            )
        return
    cells = [[cell.replace("\n", "\\n") for cell in line] for line in cells]
    widths = [max(len(name), *(len(line[nth]) for line in cells), 0) for nth, name in enumerate(columns)]
    for line in [list(columns), ["-" * width for width in widths], *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def text_of(value: Any) -> str:
    """A value of any type as one word or so."""
    if value is None:
        return "null"
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, dict | list):
        return json.dumps(value, default=text_of, ensure_ascii=False)
    if hasattr(value, "asDict"):
        return json.dumps(value.asDict(recursive=True), default=text_of, ensure_ascii=False)
    return str(value)


def main(argv: Sequence[str]) -> int:
    return job_main("sql", plan, run, parse(argv), summary_to=sys.stderr)
