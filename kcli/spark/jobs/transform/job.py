"""The job `transform`: writes the rows of a SQL query over topics to a topic, as a batch or a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.command.examples import Example
from kcli.command.options import Exclusive, option
from kcli.model.java_text import split_blanks
from kcli.spark.jobs.shared.endpoints import check_target, target_plan, writer_options
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.job import Job
from kcli.spark.jobs.shared.running import Done
from kcli.spark.jobs.sql.queries import (
    Queries,
    QueryOptions,
    check_query_options,
    statements,
    table_plan,
    topic_tables,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class TransformOptions(QueryOptions):
    """The options of the job."""

    sql: str | None = option(
        "The query: SELECT … FROM topic …. The column _key becomes the key of the record.", metavar="QUERY"
    )
    sql_file: str | None = option("A file with the query.", metavar="FILE")
    target_topic: str = option("The topic to write to.", metavar="NAME", required=True)

    @property
    def query(self) -> str:
        """The query that the options contain."""
        [query] = statements(self.sql or "")
        return query


def _check(options: TransformOptions) -> TransformOptions:
    if options.sql_file is not None:
        options = replace(options, sql=Path(options.sql_file).read_text(encoding="utf-8"))
    if len(statements(options.sql or "")) != 1:
        raise JobError("expected one query in --sql or --sql-file")
    check_query_options(options, options.target_topic)
    check_target(options.target_topic)
    return options


def plan(options: TransformOptions) -> list[str]:
    """Returns the plan of the job in lines."""
    lines = [f"transform to topic {options.target_topic} as {options.output_format} ({options.mode})"]
    lines.append(f"query: {' '.join(split_blanks(options.query))}")
    lines += table_plan(options, [options.query])
    lines.append(target_plan(writer_options(options, options.target_topic), options.target_topic)[0])
    lines.append(f"values: {options.value_format}, bad records: {options.on_bad_record}")
    if options.is_stream:
        lines.append(f"checkpoint: {options.checkpoint} (an earlier stream continues from it)")
    return lines


def run(spark: SparkSession, options: TransformOptions) -> Done:
    """Runs the query and writes its rows."""
    tables = topic_tables(spark, options)
    queries = Queries(spark, options, tables)
    try:
        return queries.insert(queries.frame(options.query), options.target_topic, "transform")
    finally:
        tables.drop()


JOB = Job(
    name="transform",
    description="Runs a SQL query over topics and writes its rows to a topic. The name of a topic is the name of "
    "its table.",
    options=TransformOptions,
    check=_check,
    plan=plan,
    run=run,
    exclusive=(Exclusive(names=("sql", "sql-file"), required=True),),
    examples=(
        Example(
            "Write the records with a large amount to another topic, keyed by user:",
            "kcli spark-submit transform --bootstrap-server localhost:9092 \\\n"
            "  --target-topic big \\\n"
            "  --sql 'SELECT user AS _key, amount FROM orders WHERE amount > 9'",
        ),
    ),
)
parse = JOB.parse
main = JOB.main
