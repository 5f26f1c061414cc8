"""A Spark program for bin/quickstart: copies a topic of access lines to Parquet and draws what is in them.

Usage: kcli spark-submit _access_report.py SERVERS TOPIC DIRECTORY
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = {
    "hour": r":(\d\d):\d\d:\d\d ",
    "path": r'"[A-Z]+ (\S+) ',
    "status": r'" (\d{3}) ',
}
"""The columns of the report, and where each stands in a line."""

WIDTH = 60
"""The length of the longest bar, in characters."""


def chart(title: str, counts: Mapping[str, int], bar: str = "█") -> list[str]:
    """Returns a bar chart in lines of text."""
    names = max(map(len, counts), default=0)
    most = max(counts.values(), default=1)
    lines = [
        f"  {name:{names}} {count:8,} {bar * max(1, round(count * WIDTH / most))}"
        for name, count in counts.items()
    ]
    return [title, *lines]


def counts(rows: DataFrame, column: str) -> dict[str, int]:
    """Returns the number of rows of each value of a column."""
    return {row[column]: row["count"] for row in rows.groupBy(column).count().orderBy(column).collect()}


def main(servers: str, topic: str, directory: str) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import col, regexp_extract

    spark = SparkSession.builder.appName("quickstart").getOrCreate()
    records = spark.read.format("kcli").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    line = col("value").cast("string")
    parsed = [regexp_extract(line, pattern, 1).alias(name) for name, pattern in COLUMNS.items()]
    records.load().select(*parsed, line.alias("line")).write.parquet(directory)

    rows = spark.read.parquet(directory).cache()
    bar = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    found = {column: counts(rows, column) for column in COLUMNS}
    found["path"] = dict(sorted(found["path"].items(), key=lambda each: -each[1]))
    for column, by_value in found.items():
        print("\n".join(["", *chart(f"requests by {column}", by_value, bar)]))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
