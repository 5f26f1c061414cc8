"""The job `replay`: copies a range of a topic's records to another topic, in the same or in another cluster.

A missing target topic is created with the number of partitions of the source, and the broker's defaults.
Keys, values and headers are copied unchanged. Timestamps are kept only with --keep-timestamps, and partition numbers
only with --keep-partitions. The records of one partition keep their order. A stream continues from its checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.command.examples import Example
from kcli.command.options import flag, option
from kcli.spark.jobs.shared.endpoints import (
    check_reader,
    check_target,
    check_writer,
    cluster_options,
    copied_target,
    partition_count,
    planned,
    planned_offsets,
    reader_options,
    sink_settings,
    writer_options,
)
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.job import Job
from kcli.spark.jobs.shared.options import ModeOptions, RangeOptions, SinkOptions, check_mode
from kcli.spark.jobs.shared.progress import BatchProgress
from kcli.spark.jobs.shared.running import Counts, Done, run_batch, run_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(ModeOptions, RangeOptions, SinkOptions):
    """The options of the job."""

    topic: str = option("The topic to read.", metavar="NAME", required=True)
    target_topic: str = option("The topic to write to.", metavar="NAME", required=True)
    target_bootstrap_server: str | None = option(
        "The brokers of the cluster of --target-topic. Default: the same cluster.", metavar="HOST:PORT"
    )
    target_command_config: str | None = option(
        "A properties file with client settings for connections to the cluster of --target-topic.",
        metavar="FILE",
    )
    keep_timestamps: bool = flag("Keep the timestamps of the records.")
    keep_partitions: bool = flag(
        "Write each record to the partition with the same number. By default, the key decides the partition."
    )
    without_headers: bool = flag("Do not copy headers.")


def _check(options: ReplayOptions) -> ReplayOptions:
    check_mode(options)
    if "," in options.topic:
        raise JobError(f"--topic {options.topic}: expected one topic")
    elsewhere = options.target_bootstrap_server not in (None, options.bootstrap_server)
    if options.topic == options.target_topic and not elsewhere:
        raise JobError(f"--target-topic {options.target_topic}: expected another topic, or another cluster")
    if options.target_command_config is not None and options.target_bootstrap_server is None:
        raise JobError("--target-command-config needs --target-bootstrap-server")
    check_reader(_reading(options), options.mode)
    check_writer(target_options(options))
    check_target(options.target_topic)
    return options


def _reading(options: ReplayOptions) -> dict[str, str]:
    return reader_options(options, topic=options.topic, include_headers=not options.without_headers)


def target_options(options: ReplayOptions) -> dict[str, str]:
    """Returns the options of the sink that writes to the target topic."""
    if options.target_bootstrap_server is None:
        return writer_options(options, options.target_topic)
    settings = cluster_options(
        options.target_bootstrap_server, options.target_command_config, "--target-command-config"
    )
    return settings | sink_settings(options, options.target_topic)


def plan(options: ReplayOptions) -> list[str]:
    """Returns the plan of the job, line by line. Raises KcliError or ValueError if the job cannot run."""
    ranges = planned(_reading(options), options.mode)
    where = options.target_bootstrap_server or options.bootstrap_server
    total = sum(map(len, ranges))
    lines = [
        f"replay {total} offsets of {options.topic} to {options.target_topic} of {where} ({options.mode})"
    ]
    lines.append(_target(options, create=False))
    if options.is_stream:
        lines.append(f"checkpoint: {options.checkpoint} (an earlier stream continues from it)")
    return [*lines, *map(str, ranges)]


def _target(options: ReplayOptions, *, create: bool) -> str:
    """Returns the line of the plan about the target topic. Creates a missing topic if `create` is True.

    Raises JobError if --keep-partitions is impossible.
    """
    partitions = partition_count(_reading(options), options.topic)
    line, count = copied_target(target_options(options), options.target_topic, partitions, create=create)
    if options.keep_partitions and count < partitions:
        raise JobError(
            f"--keep-partitions: {options.topic} has {partitions} partitions, and {options.target_topic} only {count}"
        )
    return line


def run(spark: SparkSession, options: ReplayOptions) -> Done:
    """Copies the records."""
    _target(options, create=True)
    streaming = options.is_stream
    counts = Counts(streaming=streaming)
    columns = ["key binary", "value binary"]
    if not options.without_headers:
        columns.append("headers array<struct<key: string, value: binary>>")
    if options.keep_partitions:
        columns.append("partition int")
    if options.keep_timestamps:
        columns.append("timestamp timestamp")
    reader = spark.readStream if streaming else spark.read
    frame: DataFrame = reader.format("kcli").options(**_reading(options)).schema(", ".join(columns)).load()
    frame = counts.rows(frame)
    writing = target_options(options)
    if streaming:
        return run_stream(frame.writeStream.format("kcli").options(**writing), options, "replay")
    writer = frame.write.format("kcli").options(**writing).mode("append")
    progress = BatchProgress(spark, planned_offsets(_reading(options)))
    run_batch(spark, options, "replay", writer.save, progress)
    return Done(counts.total("rows"))


JOB = Job(
    name="replay",
    description="Copies a range of records to another topic, in the same cluster or in another.",
    options=ReplayOptions,
    check=_check,
    plan=plan,
    run=run,
    examples=(
        Example(
            "Copy the records of a topic, with their timestamps and partitions:",
            "kcli spark-submit replay --bootstrap-server localhost:9092 --topic orders \\\n"
            "  --target-topic orders-copy --keep-timestamps --keep-partitions",
        ),
    ),
)
parse = JOB.parse
main = JOB.main
