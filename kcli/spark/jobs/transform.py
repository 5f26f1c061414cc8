"""The job `transform`: a SQL query over topics, its rows to a topic, as a batch or as a stream."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.spark.jobs.arguments import (
    JobError,
    JobParser,
    add_common,
    add_mode,
    target_plan,
    writer_options,
)
from kcli.spark.jobs.queries import Queries, add_query_options, check_query_options, statements
from kcli.spark.jobs.running import Counts, Done, job_main
from kcli.spark.jobs.topic_tables import TopicTables, declared_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parser() -> JobParser:
    parser = JobParser(
        "transform",
        "Runs a SQL query over topics and writes its rows to a topic. A topic is a table by its name.",
    )
    add_common(parser)
    add_mode(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--sql", metavar="QUERY", help="SELECT … FROM topic …; a column _key becomes the key.")
    what.add_argument("--sql-file", metavar="FILE", help="The query in a file.")
    parser.add_argument("--target-topic", required=True, metavar="NAME", help="The topic to write to.")
    add_query_options(parser)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options, checked. Exits with code 1 where they are wrong."""
    return parser().checked(argv, _check)


def _check(options: argparse.Namespace) -> None:
    if options.sql_file is not None:
        options.sql = Path(options.sql_file).read_text(encoding="utf-8")
    if len(statements(options.sql)) != 1:
        raise JobError("expected one query")
    check_query_options(options, options.target_topic)


def plan(options: argparse.Namespace) -> list[str]:
    """What the job would do, one line each."""
    [query] = statements(options.sql)
    lines = [f"transform to topic {options.target_topic} as {options.output_format} ({options.mode})"]
    lines.append(f"query: {' '.join(query.split())}")
    lines.append(target_plan(writer_options(options, options.target_topic), options.target_topic)[0])
    lines.append(f"values: {options.value_format}, what does not parse: {options.on_bad_record}")
    if options.mode != "batch":
        lines.append(f"checkpoint: {options.checkpoint} (a stream that was there goes on from it)")
    return lines


def run(spark: SparkSession, options: argparse.Namespace) -> Done:
    streaming = options.mode != "batch"
    tables = TopicTables(spark, options, streaming, declared_tables(options), Counts(streaming=streaming))
    queries = Queries(spark, options, tables)
    [query] = statements(options.sql)
    try:
        return queries.insert(queries.frame(query), options.target_topic, "transform")
    finally:
        tables.drop()


def main(argv: Sequence[str]) -> int:
    return job_main("transform", plan, run, parse(argv))
