"""The job `profile`: computes statistics of topics (records, sizes, keys, gaps, rates) as a table and a page with
charts.

Spark computes the figures, and the driver gets only the results. A topic is read up to three times: for sizes, for
rates, and for the frequency of keys (unless --no-keys is given). Each time, only the necessary columns are decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.command.examples import Example
from kcli.command.options import Kind, flag, option
from kcli.spark.jobs.profile.figures import (
    SIZE_LIMITS,
    KeyCount,
    PartitionProfile,
    TopicProfile,
    as_json,
    table,
)
from kcli.spark.jobs.profile.page import page
from kcli.spark.jobs.shared.endpoints import check_reader, planned, reader_options
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.job import Job
from kcli.spark.jobs.shared.options import (
    ONE_CLUSTER,
    ONE_SUBSCRIPTION,
    OfflineOptions,
    SubscriptionOptions,
    refuse_idle,
)
from kcli.spark.jobs.shared.running import Done, run_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_STEPS = 60
"""The number of time steps for rates and silences. The time from the first to the last record is divided into these
steps."""

NO_TOPIC = "there is no topic to profile"

Read = Callable[[str], "DataFrame"]
"""A function that reads the topics as a frame. Its argument declares the columns as DDL."""


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(OfflineOptions, SubscriptionOptions):
    """The options of the job."""

    html: str | None = option("Also write an HTML page with charts.", metavar="FILE")
    top: int = option("How many of the most frequent keys to show.", Kind.INTEGER, metavar="N", default=10)
    no_keys: bool = flag("Do not count the records of each key.")


def _check(options: ProfileOptions) -> ProfileOptions:
    check_reader(reader_options(options), "batch")
    refuse_idle(options, ["max-offsets-per-trigger"], "streams")
    if options.top < 1:
        raise JobError(f"--top {options.top}: expected a positive number")
    if options.html is not None and not Path(options.html).absolute().parent.is_dir():
        raise JobError(f"--html {options.html}: the directory does not exist")
    if options.html is not None and Path(options.html).is_dir():
        raise JobError(f"--html {options.html}: expected a file, and it is a directory")
    return options


def plan(options: ProfileOptions) -> list[str]:
    """Returns the plan of the job in lines."""
    ranges = planned(reader_options(options))
    if not ranges:
        raise JobError(NO_TOPIC)
    passes = 2 if options.no_keys else 3
    lines = [
        f"profile {sum(map(len, ranges))} offsets of {len(ranges)} partitions, reading them {passes} times"
    ]
    if options.html:
        lines.append(f"page: {options.html}")
    return [*lines, *map(str, ranges)]


def run(spark: SparkSession, options: ProfileOptions) -> Done:
    """Computes the profiles of the topics, and prints or writes them."""
    result = run_batch(spark, options, "profile", lambda: profiles(spark, options))
    if options.html:
        Path(options.html).write_text(page(result), encoding="utf-8")
    if options.output != "text":
        details = {"topics": [as_json(profile) for profile in result]}
        return Done(sum(profile.records for profile in result), details=details)
    for profile in result:
        print("\n".join(table(profile)))
    return Done(sum(profile.records for profile in result))


def profiles(spark: SparkSession, options: ProfileOptions) -> list[TopicProfile]:
    """Returns the profile of each topic."""
    reading = fixed_range(options)

    def read(schema: str) -> DataFrame:
        return spark.read.format("kcli").options(**reading).schema(schema).load()

    partitions = _partitions(read)
    rates = _rates(read, partitions)
    keys = {} if options.no_keys else _keys(read, options.top)
    return [
        _profile(topic, rows, rates[topic], keys.get(topic, (None, ())))
        for topic, rows in sorted(partitions.items())
    ]


def fixed_range(options: ProfileOptions) -> dict[str, str]:
    """Returns the options of the source with start and end as fixed offsets, so that each pass reads the same
    records.
    """
    reading = reader_options(options)
    ranges = planned(reading)
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    assigned: dict[str, list[int]] = {}
    for offset_range in ranges:
        topic, partition = offset_range.part.topic, offset_range.part.partition
        starts.setdefault(topic, {})[str(partition)] = offset_range.start
        ends.setdefault(topic, {})[str(partition)] = max(offset_range.start, offset_range.end)
        assigned.setdefault(topic, []).append(partition)
    if not assigned:
        raise JobError(NO_TOPIC)
    moved = ("subscribe", "subscribePattern", "startingTimestamp", "endingTimestamp")
    moved_options = {name: value for name, value in reading.items() if name not in moved}
    moved_options.pop("startingOffsetsByTimestampStrategy", None)
    return moved_options | {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


def _partitions(read: Read) -> dict[str, list[dict[str, int]]]:
    """Returns the figures of each partition that has records, by topic."""
    from pyspark.sql import functions as f

    size = f.coalesce(f.octet_length("value"), f.lit(0))
    classes = [-1, *SIZE_LIMITS]
    counts = [
        f.count_if((size > low) & (size <= high)).alias(f"size_{nth}")
        for nth, (low, high) in enumerate(pairwise(classes))
    ]
    counts.append(f.count_if(size > SIZE_LIMITS[-1]).alias(f"size_{len(SIZE_LIMITS)}"))
    frame = read("topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary")
    rows = frame.groupBy("topic", "partition").agg(
        f.count(f.lit(1)).alias("records"),
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
        f.unix_millis(f.min("timestamp")).alias("first_ms"),
        f.unix_millis(f.max("timestamp")).alias("last_ms"),
        f.coalesce(f.sum(f.octet_length("key")), f.lit(0)).alias("key_bytes"),
        f.sum(size).alias("value_bytes"),
        f.count_if(f.isnull("key")).alias("null_keys"),
        f.count_if(f.isnull("value")).alias("null_values"),
        f.min(size).alias("smallest_value"),
        f.max(size).alias("largest_value"),
        *counts,
    )
    ranges: dict[str, list[dict[str, int]]] = {}
    for row in rows.collect():
        ranges.setdefault(row.topic, []).append(row.asDict())
    return ranges


def _rates(read: Read, ranges: dict[str, list[dict[str, int]]]) -> dict[str, tuple[int, list[int]]]:
    """Returns the width of a time step and the number of records in each step, by topic."""
    from pyspark.sql import functions as f

    steps, firsts = {}, {}
    for topic, rows in ranges.items():
        firsts[topic] = min(row["first_ms"] for row in rows)
        span = max(row["last_ms"] for row in rows) - firsts[topic] + 1
        steps[topic] = max(1, -(-span // TIME_STEPS))
    rates: dict[str, tuple[int, list[int]]] = {
        topic: (step, [0] * TIME_STEPS) for topic, step in steps.items()
    }
    if not ranges:
        return rates
    frame = read("topic string, timestamp timestamp")
    pairs = [f.lit(value) for topic in ranges for value in (topic, firsts[topic])]
    widths = [f.lit(value) for topic in ranges for value in (topic, steps[topic])]
    since = f.unix_millis("timestamp") - f.element_at(f.create_map(*pairs), f.col("topic"))
    step = f.floor(since / f.element_at(f.create_map(*widths), f.col("topic"))).cast("int")
    for row in frame.groupBy("topic", step.alias("step")).count().collect():
        rates[row.topic][1][row.step] = row["count"]
    return rates


def _keys(read: Read, top: int) -> dict[str, tuple[int | None, tuple[KeyCount, ...]]]:
    """Returns the number of distinct keys and the most frequent keys, by topic."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    frame = read("topic string, key binary")
    counted = frame.where(f.isnotnull("key")).groupBy("topic", "key").agg(f.count(f.lit(1)).alias("records"))
    counted.persist()
    try:
        keys = {row.topic: row["count"] for row in counted.groupBy("topic").count().collect()}
        # If a filter uses only row_number, Spark keeps only the top rows of each task before it sorts all rows.
        place = f.row_number().over(Window.partitionBy("topic").orderBy(f.desc("records"), "key"))
        ranked = counted.withColumn("place", place).where(f.col("place") <= top).orderBy("topic", "place")
        most: dict[str, list[KeyCount]] = {topic: [] for topic in keys}
        for row in ranked.collect():
            most[row.topic].append(KeyCount(bytes(row.key).decode("utf-8", "backslashreplace"), row.records))
    finally:
        counted.unpersist()
    return {topic: (count, tuple(most[topic])) for topic, count in keys.items()}


def _profile(
    topic: str,
    rows: list[dict[str, int]],
    rate: tuple[int, list[int]],
    keys: tuple[int | None, tuple[KeyCount, ...]],
) -> TopicProfile:
    """Returns the profile of a topic from the figures of its partitions."""

    def total(name: str) -> int:
        return sum(row[name] for row in rows)

    step_ms, counts = rate
    first_ms, last_ms = min(row["first_ms"] for row in rows), max(row["last_ms"] for row in rows)
    fields = ("partition", "records", "first_offset", "last_offset", "value_bytes")
    partitions = [PartitionProfile(*(row[name] for name in fields)) for row in rows]
    return TopicProfile(
        topic=topic,
        partitions=tuple(sorted(partitions, key=lambda partition: partition.partition)),
        key_bytes=total("key_bytes"),
        null_keys=total("null_keys"),
        null_values=total("null_values"),
        smallest_value=min(row["smallest_value"] for row in rows),
        largest_value=max(row["largest_value"] for row in rows),
        sizes=tuple(total(f"size_{nth}") for nth in range(len(SIZE_LIMITS) + 1)),
        first_ms=first_ms,
        last_ms=last_ms,
        step_ms=step_ms,
        rate=tuple(counts[: (last_ms - first_ms) // step_ms + 1]),
        distinct_keys=keys[0],
        top_keys=keys[1],
    )


JOB = Job(
    name="profile",
    description="Prints statistics of topics: records, sizes, keys, gaps in offsets, rates.",
    options=ProfileOptions,
    check=_check,
    plan=plan,
    run=run,
    exclusive=(ONE_CLUSTER, ONE_SUBSCRIPTION),
    examples=(
        Example(
            "Describe the records of a topic in a page of HTML:",
            "kcli spark-submit profile --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --html orders.html",
        ),
    ),
)
parse = JOB.parse
main = JOB.main
