"""Converts the options of a job to options of the data source and the sink, and looks up the topics of the job."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

from kcli.config.properties import load
from kcli.config.providers import PROVIDERS, resolve
from kcli.errors import KcliError
from kcli.formats.registry.serde_settings import is_registry_key
from kcli.model.topic_names import validate
from kcli.spark.client.cluster import ClientSettings, Cluster
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import (
    JobOptions,
    OfflineOptions,
    RangeOptions,
    SinkOptions,
    SubscriptionOptions,
)
from kcli.spark.options import SourceOptions, sink_options, source_options
from kcli.spark.source.offsets import OffsetRange, batch_ranges

if TYPE_CHECKING:
    from kcli.spark.source.log_directory import LogDirectories


def client_options(options: JobOptions) -> dict[str, str]:
    """Returns the options that select the cluster or the log directories of a job, for the source and the sink."""
    if isinstance(options, OfflineOptions) and options.log_dir is not None:
        if options.command_config is not None:
            raise JobError("--command-config is for connections to a cluster, and --log-dir has none")
        return {"path": options.log_dir}
    assert options.bootstrap_server is not None, "required, or in a group with --log-dir"
    return cluster_options(options.bootstrap_server, options.command_config, "--command-config")


def client_settings(options: JobOptions) -> ClientSettings | None:
    """Returns the settings for connections to the cluster of --bootstrap-server, or None if the job has no cluster."""
    return None if options.bootstrap_server is None else sink_options(client_options(options)).client


def client_properties(options: JobOptions) -> dict[str, str]:
    """Returns the properties of --command-config. Raises JobError."""
    return _properties(options.command_config, "--command-config")


def _properties(path: str | None, name: str) -> dict[str, str]:
    """Returns the properties of a file, with the variables of configuration providers replaced. `name` is the
    command-line option that selects this file."""
    if path is None:
        return {}
    try:
        properties = load(path)
        resolve(properties)
    except (OSError, ValueError) as error:
        raise JobError(f"{name} {path}: {error}") from None
    return {key: value for key, value in properties.items() if not key.startswith(PROVIDERS)}


def cluster_options(servers: str, path: str | None, name: str) -> dict[str, str]:
    """Returns the options of source and sink with the servers and client settings of a cluster.

    `path` is a properties file, and `name` is the command-line option that selects this file. Keys of a schema
    registry are left out, because only the formats of values use them.
    """
    settings = {
        f"kafka.{key}": value for key, value in _properties(path, name).items() if not is_registry_key(key)
    }
    return settings | {"kafka.bootstrap.servers": servers}


def reader_options(
    options: RangeOptions, *, topic: str | None = None, include_headers: bool = False
) -> dict[str, str]:
    """Returns the options of the source. `topic` takes precedence over the topics that `options` selects."""
    pattern = None
    if topic is None and isinstance(options, SubscriptionOptions):
        topic, pattern = options.topic, options.topic_pattern
    settings = {
        "subscribe": topic,
        "subscribePattern": pattern,
        "startingOffsets": None if options.starting_timestamp else options.starting_offsets,
        "startingTimestamp": options.starting_timestamp,
        "startingOffsetsByTimestampStrategy": "latest" if options.starting_timestamp else None,
        "endingOffsets": options.ending_offsets,
        "endingTimestamp": options.ending_timestamp,
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minPartitions": options.min_partitions,
        "kafka.isolation.level": "read_committed" if options.read_committed else None,
        "failOnDataLoss": "false" if options.ignore_data_loss else None,
        "includeHeaders": "true" if include_headers else None,
    }
    return client_options(options) | {name: value for name, value in settings.items() if value is not None}


def writer_options(options: SinkOptions, topic: str | None) -> dict[str, str]:
    """Returns the options of the sink. If `topic` is None, each row is written to the topic in its column `topic`."""
    return client_options(options) | sink_settings(options, topic)


def sink_settings(options: SinkOptions, topic: str | None) -> dict[str, str]:
    """Returns the options of the sink, except the options of the cluster."""
    settings = {"kafka.compression.type": options.compression_type}
    if options.at_least_once:
        settings["kcli.transactional"] = "false"
    return settings if topic is None else settings | {"topic": topic}


def opened_topics(options: SourceOptions) -> AbstractContextManager[Cluster | LogDirectories]:
    """Opens the cluster or the log directories.

    For a cluster, this function does not import Spark, so that dry runs are quick.
    """
    if not options.log_directories:
        return Cluster(options.client)
    from kcli.spark.source.readers import opened

    return closing(opened(options))


def planned(reading: dict[str, str], mode: str = "batch") -> list[OffsetRange]:
    """Returns the offset ranges that the job would read now."""
    source = source_options(reading, streaming=mode != "batch")
    with opened_topics(source) as topics:
        return batch_ranges(topics, source)


def planned_offsets(reading: dict[str, str]) -> int:
    """Returns the number of offsets that the job would read now."""
    return sum(map(len, planned(reading)))


def target_plan(writing: dict[str, str], topic: str) -> tuple[str, int | None]:
    """Returns a line of the plan that describes the target topic, and the topic's number of partitions if it exists."""
    with Cluster(sink_options(writing).client) as cluster:
        if topic not in cluster.topic_names():
            return f"topic {topic} does not exist: it is created if the broker allows that", None
        count = len(cluster.partitions([topic]))
    return f"topic {topic} has {count} partitions", count


def copied_target(writing: dict[str, str], topic: str, partitions: int, *, create: bool) -> tuple[str, int]:
    """Returns a line of the plan that describes the target topic of a copy, and the topic's number of partitions.

    A missing topic is created with the partitions of the source, because a topic that the broker creates by itself has
    another number. Without `create`, the broker only checks whether it would create the topic.

    Raises KcliError if the broker refuses to create the topic.
    """
    with Cluster(sink_options(writing).client) as cluster:
        if topic in cluster.topic_names():
            count = len(cluster.partitions([topic]))
            return f"topic {topic} has {count} partitions", count
        cluster.create_topic(topic, partitions, {}, validate_only=not create)
    return f"topic {topic} does not exist: it is created with {partitions} partitions", partitions


def partition_count(reading: dict[str, str], topic: str) -> int:
    """Returns the number of partitions of a topic that the job reads."""
    with opened_topics(source_options(reading, streaming=False)) as topics:
        return len(topics.partitions([topic]))


def check_target(topic: str) -> None:
    """Raises JobError if a topic cannot have this name."""
    try:
        validate(topic)
    except KcliError as error:
        raise JobError(f"target topic {topic}: {error}") from None


def check_reader(options: dict[str, str], mode: str) -> None:
    """Checks the options of the source. Raises ValueError for an invalid option."""
    source_options(options, streaming=mode != "batch")


def check_writer(options: dict[str, str]) -> None:
    """Checks the options of the sink. Raises ValueError for an invalid option."""
    sink_options(options)
