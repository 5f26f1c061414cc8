"""kafka-replica-verification: compares the batches of all replicas of partitions until it is stopped."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.cli.connect import ClusterOptions, admin
from kcli.cli.output import Output, java_text, warn
from kcli.cli.syntax.options import CallingOptions, Command, CommandError, Kind, option, require
from kcli.cli.topic_filter import topic_filter
from kcli.client.admin.admin import AdminClient
from kcli.command.examples import Example
from kcli.errors import ErrorCode, KafkaError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import iter_batches
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from uuid import UUID


DEPRECATED = "WARN This tool is deprecated and may be removed in a future major release."
# From this version of Fetch on, a follower answers a consumer (KIP-392).
FOLLOWER_FETCH_VERSION = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaVerificationOptions(CallingOptions):
    broker_list: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="hostname:port,...,hostname:port"
    )
    command_config: str | None = option(
        "A properties file with settings of the clients.", metavar="command config property file"
    )
    topics_include: str = option(
        "A regular expression for the names of the topics to verify.",
        metavar="Java regex (String)",
        default=".*",
    )
    fetch_size: int = option(
        "The maximum size of the data of one partition in a request, in bytes.",
        Kind.INTEGER,
        metavar="bytes",
        default=1024 * 1024,
    )
    max_wait_ms: int = option(
        "How many milliseconds a broker may wait for records before it answers.",
        Kind.INTEGER,
        metavar="ms",
        default=1000,
    )
    report_interval_ms: int = option(
        "Milliseconds between two reports.", Kind.LONG, metavar="ms", default=30_000
    )
    time: int = option(
        "The time of the first records to compare: milliseconds since the epoch, -1 for the end, -2 for "
        "the beginning.",
        Kind.LONG,
        metavar="timestamp/-1(latest)/-2(earliest)",
        default=-1,
    )


@dataclass(frozen=True, slots=True)
class ReplicaBatch:
    """The fields that must be equal in all copies of a batch."""

    last_offset: int
    checksum: int


@dataclass(frozen=True, slots=True)
class LagRow:
    """The partition with the largest number of offsets that are not verified yet, and the number of partitions."""

    max_lag: int
    topic: str
    partition: int
    offset: int
    partitions: int


@dataclass(slots=True)
class Verified:
    """A partition, with the offset up to which it is verified."""

    replicas: tuple[int, ...]
    topic_id: UUID | None
    offset: int
    high_watermark: int = 0
    copies: dict[int, list[ReplicaBatch]] = field(default_factory=dict)


def compare(
    name: str, offset: int, high_watermark: int, copies: Mapping[int, Sequence[ReplicaBatch]]
) -> tuple[int, list[str], bool]:
    """Compares batches. Returns the next offset to verify, the differences, and whether the comparison must stop.

    Only committed batches that every replica has are compared.
    """
    problems: list[str] = []
    brokers = sorted(copies)
    for batches in zip(*(copies[broker] for broker in brokers), strict=False):
        first = batches[0]
        if first.last_offset >= high_watermark:
            break
        for broker, batch in zip(brokers[1:], batches[1:], strict=True):
            if batch.last_offset != first.last_offset:
                problems.append(
                    f"partition {name}: replica {brokers[0]}'s offset {first.last_offset} doesn't match "
                    f"replica {broker}'s offset {batch.last_offset}"
                )
                return offset, problems, True
            if batch.checksum != first.checksum:
                problems.append(
                    f"partition {name} has unmatched checksum at offset {first.last_offset}; "
                    f"replica {brokers[0]}'s checksum {first.checksum}; "
                    f"replica {broker}'s checksum {batch.checksum}"
                )
        offset = first.last_offset + 1
    return offset, problems, False


async def run(options: ReplicaVerificationOptions, output: Output) -> None:
    """Fetches and compares batches until a signal stops the tool."""
    require(options, "broker-list")
    warn(DEPRECATED)
    try:
        matches = topic_filter(options.topics_include)
    except ValueError as error:
        raise CommandError(str(error)) from error
    cluster = ClusterOptions(
        bootstrap_server=options.broker_list,
        command_config=options.command_config,
        timeout=options.timeout,
        client_properties=options.client_properties,
    )
    async with admin(cluster) as client:
        names = [topic.name for topic in await client.list_topics(internal=True) if matches(topic.name)]
        partitions = await _partitions(client, names, options.time)
        if not partitions:
            raise CommandError(
                f"No topics found. {options.topics_include} if specified, is either filtering out all topics or "
                "there is no topic."
            )
        output.say(f"{_now()}: verification process is started")
        reported = time.monotonic()
        while True:
            await _round(client, options, partitions, output)
            if (time.monotonic() - reported) * 1000 >= options.report_interval_ms:
                reported = time.monotonic()
                _report(partitions, output)


async def _partitions(client: AdminClient, names: list[str], start: int) -> dict[TopicPartition, Verified]:
    partitions: dict[TopicPartition, Verified] = {}
    for name, topic in (await client.describe_topics(names)).items():
        if isinstance(topic, KafkaError):
            raise topic
        for description in topic.partitions:
            partitions[TopicPartition(name, description.partition)] = Verified(
                description.replicas, topic.topic_id, 0
            )
    for partition, at in (await client.list_offsets(dict.fromkeys(partitions, start))).items():
        if isinstance(at, KafkaError):
            raise at
        partitions[partition].offset = at.offset
    return partitions


async def _round(
    client: AdminClient,
    options: ReplicaVerificationOptions,
    partitions: dict[TopicPartition, Verified],
    output: Output,
) -> None:
    brokers = sorted({broker for partition in partitions.values() for broker in partition.replicas})
    for partition in partitions.values():
        partition.copies = {}
    await asyncio.gather(*(_fetch(client, options, partitions, broker) for broker in brokers))
    for (topic, number), partition in partitions.items():
        if len(partition.copies) < len(partition.replicas):
            continue
        offset, problems, is_over = compare(
            f"{topic}-{number}", partition.offset, partition.high_watermark, partition.copies
        )
        partition.offset = offset
        for problem in problems:
            output.row({"problem": problem}, f"{_now()}: {problem}")
        if is_over:
            raise CommandError()


async def _fetch(
    client: AdminClient,
    options: ReplicaVerificationOptions,
    partitions: dict[TopicPartition, Verified],
    broker: int,
) -> None:
    """Fetches the batches of one broker's replicas. After a retriable error, the next round fetches these batches
    again."""
    from kcli.client.records.fetch import FetchLimits, fetch_request, fetched_partitions, topic_names
    from kcli.client.records.fetch_plan import FetchPosition, without_session

    mine = {key: partition for key, partition in partitions.items() if broker in partition.replicas}
    positions = [(key, FetchPosition(verified.topic_id, verified.offset)) for key, verified in mine.items()]
    limits = FetchLimits(max_wait_ms=options.max_wait_ms, partition_max_bytes=options.fetch_size)
    request = fetch_request(without_session(positions), limits)
    try:
        response = await client.send(request, ApiKey.FETCH, to=broker, at_least=FOLLOWER_FETCH_VERSION)
        answers = fetched_partitions(response, topic_names(positions))
    except KafkaError as error:
        if not error.retriable:
            raise
        warn(f"WARN broker {broker}: {java_text(error)}")
        await asyncio.sleep(options.max_wait_ms / 1000)
        return
    for key, answer in answers.items():
        if answer.error_code is not ErrorCode.NONE:
            warn(f"WARN {key} on broker {broker}: {answer.error_code.name}")
            continue
        partition = mine[key]
        partition.high_watermark = max(partition.high_watermark, answer.high_watermark)
        partition.copies[broker] = [
            ReplicaBatch(header.last_offset, header.crc)
            for _, header in iter_batches(bytes(answer.records or b""))
            if header.last_offset >= partition.offset
        ]


def _report(partitions: dict[TopicPartition, Verified], output: Output) -> None:
    (topic, number), worst = max(partitions.items(), key=lambda item: item[1].high_watermark - item[1].offset)
    row = LagRow(max(worst.high_watermark - worst.offset, 0), topic, number, worst.offset, len(partitions))
    output.row(
        row,
        f"{_now()}: max lag is {row.max_lag} for partition {topic}-{number} at offset {row.offset} "
        f"among {row.partitions} partitions",
    )
    sys.stdout.flush()


def _now() -> str:
    """Returns the time as `yyyy-MM-dd HH:mm:ss,SSS`."""
    now_s = time.time()
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now_s))},{int(now_s * 1000) % 1000:03d}"


command = Command(
    name="replica-verification",
    description="Validate that all replicas for a set of topics have the same data.",
    options=ReplicaVerificationOptions,
    run=run,
    examples=(
        Example(
            "Compare the replicas of a topic, from the first offset of each:",
            "kcli replica-verification --broker-list localhost:9092 \\\n"
            "  --topics-include orders --time -2 --report-interval-ms 1000",
            exit_code=130,
            is_endless=True,
        ),
    ),
    exit_status=(
        (1, "The offsets of two replicas differ, the command failed, or the options are wrong."),
        (130, "Ctrl-C ended the command. Until then, it printed the replicas whose checksums differ."),
    ),
)
