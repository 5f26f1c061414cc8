"""kafka-log-dirs: prints the replicas in the log directories of each broker, as one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text, warn
from kcli.cli.syntax.options import Command, CommandError, Kind, OnParseError, flag, option, require
from kcli.client.admin.log_dirs import LogDirDescription
from kcli.command.examples import INTERRUPTED, SUCCESS, Example
from kcli.command.rows import Json
from kcli.errors import KafkaError
from kcli.model.java_order import map_order, partition_hash, string_hash

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirsOptions(ClusterOptions):
    describe: bool = flag("Describe the log directories.")
    topic_list: str = option(
        "Describe only these topics, separated by commas.", metavar="Topic list", default=""
    )
    broker_list: str | None = option(
        "Describe only the brokers with these ids, separated by commas.", metavar="Broker list"
    )


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """One replica in one log directory.

    A directory without replicas has a row without topic. A broker that does not answer has a row without directory.
    """

    broker: int
    log_dir: str | None
    error: str | None
    topic: str | None = None
    partition: int | None = None
    size_bytes: int | None = None
    offset_lag: int | None = None
    is_future: bool | None = None


async def run(options: LogDirsOptions, output: Output) -> int:
    """Prints the log directories of the brokers. Returns 1 if a broker did not answer."""
    require(options, "bootstrap-server", "describe")
    topics = {name for name in options.topic_list.split(",") if name}
    async with admin(options, client_id="log-dirs-tool") as client:
        existing = [node.id for node in (await client.describe_cluster()).nodes]
        brokers = _brokers(options.broker_list, existing)
        output.say("Querying brokers for log directories information")
        all_dirs = await client.describe_log_dirs(brokers)
    output.say(f"Received log directory information from brokers {_ids(brokers)}")
    failed = {broker: error for broker, error in all_dirs.items() if isinstance(error, KafkaError)}
    log_dirs = {
        broker: [_only(log_dir, topics) for log_dir in _ordered(dirs)]
        for broker, dirs in all_dirs.items()
        if not isinstance(dirs, KafkaError)
    }
    output.say(json.dumps(_document(log_dirs), separators=(",", ":"), ensure_ascii=False))
    for broker, error in failed.items():
        warn(f"Broker {broker} did not describe its log directories: {java_text(error)}")
    if not output.is_text:
        for row in _rows(log_dirs):
            output.row(row, "")
        for broker, error in failed.items():
            output.row(LogDirRow(broker, None, error.java_name()), "")
    return 1 if failed else 0


def _brokers(text: str | None, existing: list[int]) -> list[int]:
    """Returns the brokers that are described. Raises CommandError for a broker that does not exist."""
    if not text:
        return existing
    try:
        brokers = {Kind.INTEGER.convert(part) for part in text.split(",") if part}
    except ValueError as error:
        raise CommandError(str(error)) from None
    unknown = sorted(broker for broker in brokers if broker not in existing)
    if unknown:
        raise CommandError(
            f"ERROR: The given brokers do not exist from --broker-list: {_ids(unknown)}. "
            f"Current existent brokers: {_ids(existing)}"
        )
    return [broker for broker in existing if not brokers or broker in brokers]


def _ids(brokers: Iterable[object]) -> str:
    return ",".join(map(str, brokers))


def _ordered(dirs: tuple[LogDirDescription, ...]) -> list[LogDirDescription]:
    by_path = {log_dir.path: log_dir for log_dir in dirs}
    return [by_path[path] for path in map_order(by_path, string_hash)]


def _only(described: LogDirDescription, topics: set[str]) -> LogDirDescription:
    """Returns the directory with only the replicas of `topics` (empty: all), in the order of Java's hash map."""
    by_partition = {(replica.topic, replica.partition): replica for replica in described.replicas}
    return LogDirDescription(
        path=described.path,
        error=described.error,
        replicas=tuple(
            by_partition[partition]
            for partition in map_order(by_partition, partition_hash)
            if not topics or partition[0] in topics
        ),
        total_bytes=described.total_bytes,
        usable_bytes=described.usable_bytes,
    )


def _document(log_dirs: dict[int, list[LogDirDescription]]) -> dict[str, Json]:
    return {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [
                    {
                        "partitions": [
                            {
                                "partition": f"{replica.topic}-{replica.partition}",
                                "size": replica.size_bytes,
                                "offsetLag": replica.offset_lag,
                                "isFuture": replica.is_future,
                            }
                            for replica in described.replicas
                        ],
                        "error": described.error.java_name() if described.error is not None else None,
                        "logDir": described.path,
                    }
                    for described in dirs
                ],
            }
            for broker, dirs in log_dirs.items()
        ],
        "version": VERSION,
    }


def _rows(log_dirs: dict[int, list[LogDirDescription]]) -> Iterable[LogDirRow]:
    for broker, dirs in log_dirs.items():
        for described in dirs:
            error = described.error.java_name() if described.error is not None else None
            if not described.replicas:
                yield LogDirRow(broker, described.path, error)
            for replica in described.replicas:
                yield LogDirRow(
                    broker,
                    described.path,
                    error,
                    replica.topic,
                    replica.partition,
                    replica.size_bytes,
                    replica.offset_lag,
                    replica.is_future,
                )


command = Command(
    name="log-dirs",
    description="This tool helps to query log directory usage on the specified brokers.",
    options=LogDirsOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    examples=(
        Example(
            "Show where the partitions of a topic are stored, and how large they are:",
            "kcli log-dirs --bootstrap-server localhost:9092 --describe \\\n  --topic-list orders",
        ),
    ),
    exit_status=(
        SUCCESS,
        (1, "The command failed, a broker did not answer, or the options are wrong."),
        INTERRUPTED,
    ),
)
