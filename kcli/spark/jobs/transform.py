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
    add_range,
    add_sink,
    check_mode,
    check_reader,
    check_writer,
    reader_options,
    writer_options,
)
from kcli.spark.jobs.bad_input import bad_input
from kcli.spark.jobs.queries import Queries, add_query_options, statements
from kcli.spark.jobs.running import Counts, Done, job_main
from kcli.spark.jobs.topic_rows import add_output_options, output_spec
from kcli.spark.jobs.topic_tables import TopicTables, add_table_options, declared_tables, default_values

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
    add_range(parser)
    add_table_options(parser)
    add_output_options(parser)
    add_query_options(parser)
    add_sink(parser)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options, checked. Exits with code 1 where they are wrong."""
    its_parser = parser()
    options = its_parser.parse(argv)
    check_mode(its_parser, options)
    try:
        if options.sql_file is not None:
            options.sql = Path(options.sql_file).read_text(encoding="utf-8")
        if len(statements(options.sql)) != 1:
            raise JobError("one query is meant")
        check_reader(reader_options(options, topic="any"), options.mode)
        check_writer(writer_options(options, options.target_topic))
        declared_tables(options)
        default_values(options).check()
        output_spec(options)
        bad_input(options)
    except (OSError, ValueError, JobError) as error:
        its_parser.error(str(error))
    return options


def plan(options: argparse.Namespace) -> list[str]:
    """What the job would do, one line each."""
    from kcli.spark.cluster import Cluster
    from kcli.spark.options import sink_options

    [query] = statements(options.sql)
    lines = [f"transform to topic {options.target_topic} as {options.output_format} ({options.mode})"]
    lines.append(f"query: {' '.join(query.split())}")
    with Cluster(sink_options(writer_options(options, options.target_topic)).client) as cluster:
        if options.target_topic not in cluster.topic_names():
            lines.append(
                f"topic {options.target_topic} does not exist: it is made where the broker allows that"
            )
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
