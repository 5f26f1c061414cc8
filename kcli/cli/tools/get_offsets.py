"""kafka-get-offsets: prints the offsets of partitions at a point in time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text, warn
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    OnParseError,
    ParseError,
    UsageError,
    flag,
    java_split,
    option,
    require,
)
from kcli.cli.topic_filter import topic_filter
from kcli.client.config import ClientConfigError, parse_addresses
from kcli.command.examples import INTERRUPTED, Example
from kcli.errors import KafkaError
from kcli.model.java_text import INT_MAX, parse_int, parse_long
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient

NO_MATCH = "Could not match any topic-partitions with the specified filters"

_TIMES = {
    "latest": OffsetSpec.LATEST,
    "earliest": OffsetSpec.EARLIEST,
    "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
    "earliest-local": OffsetSpec.EARLIEST_LOCAL,
    "latest-tiered": OffsetSpec.LATEST_TIERED,
}

# A rule: a regular expression for topics, then `:5`, `:2-7` (7 is excluded), `:2-`, `:-7` or nothing.
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|([0-9]*)-([0-9]*)))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOffsetsOptions(ClusterOptions):
    topic: str | None = option("A regular expression for the names of the topics.", metavar="topic")
    partitions: str | None = option("The partitions, separated by commas.", metavar="partition ids")
    topic_partitions: str | None = option(
        "Topics and partitions, separated by commas. Each entry is a regular expression for topics. A "
        "colon and a partition or a range of partitions (2-7, 2-, -7) may follow.",
        metavar="topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
    )
    time: str = option(
        "The point in time: latest (-1), earliest (-2), max-timestamp (-3), earliest-local (-4), "
        "latest-tiered (-5), or milliseconds since the epoch.",
        metavar="<timestamp> / -1 or latest / -2 or earliest / ...",
        default="latest",
    )
    exclude_internal_topics: bool = flag("Leave out internal topics.")


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One partition's offset."""

    topic: str
    partition: int
    offset: int


Filter = Callable[[str, int], bool]


async def run(options: GetOffsetsOptions, output: Output) -> None:
    """Finds the partitions, requests their offsets from the leaders, and prints the offsets sorted by partition
    name."""
    _check(options)
    try:
        await _print_offsets(options, output)
    except (CommandError, ValueError) as error:
        raise CommandError(f"Error occurred: {error}") from error
    except KafkaError as error:
        raise CommandError(f"Error occurred: {java_text(error)}") from error


def _check(options: GetOffsetsOptions) -> None:
    require(options, "bootstrap-server")
    try:
        parse_addresses(options.bootstrap_server or "")
    except ClientConfigError:
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n") from None
    if options.topic_partitions is not None and (options.topic or options.partitions):
        raise CommandError("Error occurred: --topic-partitions cannot be used with --topic or --partitions")


async def _print_offsets(options: GetOffsetsOptions, output: Output) -> None:
    time = _time(options.time)
    partition_filter = (
        _rules(options.topic_partitions) if options.topic_partitions is not None else _filter(options)
    )
    async with admin(options, client_id="GetOffsetShell") as client:
        partitions = await _partitions(client, partition_filter, internal=not options.exclude_internal_topics)
        if not partitions:
            raise ValueError(NO_MATCH)
        offsets = await client.list_offsets(dict.fromkeys(partitions, time), wait_for_leaders=False)
    for partition in sorted(partitions, key=lambda partition: f"{partition[0]}-{partition[1]}"):
        topic, number = partition
        result = offsets[partition]
        if isinstance(result, KafkaError):
            output.is_failed = True
            warn(
                f"Skip getting offsets for topic-partition {topic}-{number} due to error: {java_text(result)}"
            )
        elif result.offset >= 0:
            output.row(OffsetRow(topic, number, result.offset), f"{topic}:{number}:{result.offset}")


async def _partitions(
    client: AdminClient, partition_filter: Filter, *, internal: bool
) -> list[TopicPartition]:
    names = [topic.name for topic in await client.list_topics(internal=internal)]
    described = await client.describe_topics(names)
    return [
        TopicPartition(name, partition.partition)
        for name, topic in described.items()
        if not isinstance(topic, KafkaError)
        for partition in topic.partitions
        if partition_filter(name, partition.partition)
    ]


def _time(text: str) -> int:
    if text in _TIMES:
        return _TIMES[text]
    try:
        return parse_long(text)
    except ValueError:
        raise ValueError(
            f"Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from None


def _filter(options: GetOffsetsOptions) -> Filter:
    """Returns the filter of --topic and --partitions. A partition must match both options."""
    by_topic = topic_filter(options.topic) if options.topic else lambda _: True
    numbers: set[int] = set()
    if options.partitions:
        for part in java_split(options.partitions):
            try:
                numbers.add(parse_int(part))
            except ValueError:
                raise ValueError(
                    f"--partitions expects a comma separated list of numeric partition ids, but received: "
                    f"{options.partitions}"
                ) from None
    return lambda topic, partition: by_topic(topic) and (not numbers or partition in numbers)


def _rules(text: str) -> Filter:
    """Returns the filter of --topic-partitions. A partition must match at least one of the rules."""
    rules = [_rule(part) for part in java_split(text)]
    return lambda topic, partition: any(rule(topic, partition) for rule in rules)


def _rule(text: str) -> Filter:
    match = _RULE.fullmatch(text)
    if match is None:
        # Kafka wraps this exception in another one, so its message shows the class of the inner exception.
        raise ValueError(f"org.apache.kafka.tools.TerseException: Invalid rule specification: {text}")
    topic, single, lower, upper = match.groups()
    by_topic = topic_filter(topic or ".*")
    if single:
        only = parse_int(single)
        return lambda name, partition: by_topic(name) and partition == only
    first, end = parse_int(lower or "0"), parse_int(upper) if upper else INT_MAX
    return lambda name, partition: by_topic(name) and first <= partition < end


def _parse_failed(error: ParseError) -> int:
    warn(f"Error occurred: {error}")
    return 1


command = Command(
    name="get-offsets",
    description="An interactive shell for getting topic-partition offsets.",
    options=GetOffsetsOptions,
    run=run,
    on_parse_error=OnParseError.MESSAGE,
    parse_failed=_parse_failed,
    examples=(
        Example(
            "Print the end offset of every partition of a topic:",
            "kcli get-offsets --bootstrap-server localhost:9092 --topic orders",
        ),
        Example(
            "Print the first offset of partition 0:",
            "kcli get-offsets --bootstrap-server localhost:9092 \\\n"
            "  --topic-partitions orders:0 --time earliest",
        ),
    ),
    exit_status=(
        (0, "The offsets of all partitions were printed."),
        (
            1,
            (
                "A leader returned an error, and a warning was printed in place of its offset, or the command "
                "failed. After an error of a leader, Kafka's script ends with 0."
            ),
        ),
        INTERRUPTED,
    ),
)
