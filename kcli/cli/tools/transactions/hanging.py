"""kafka-transactions find-hanging: finds open transactions that no coordinator will end (KIP-664).

Such a transaction has been open for longer than any transaction may take. The producer of such a transaction has no
transactional id, or the coordinator's transaction with this id does not contain the partition. Consumers with
read_committed cannot read the records after the start of such a transaction.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from kcli.cli import connect
from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError, Kind, option
from kcli.cli.tools.transactions.table import TransactionsOptions, print_table
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.transactions import ProducerState
from kcli.errors import KafkaError, TransactionalIdNotFoundException
from kcli.model.topic_partition import TopicPartition

DEFAULT_MAX_TIMEOUT_MINUTES = 15
"""The broker's default of transaction.max.timeout.ms, in minutes."""
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FindHangingOptions(TransactionsOptions):
    broker_id: int | None = option("Search the replicas of this broker.", Kind.INTEGER)
    max_transaction_timeout: int = option(
        "The maximum duration of a transaction in minutes. The value should be the same duration as "
        "transaction.max.timeout.ms of the brokers.",
        Kind.INTEGER,
        default=DEFAULT_MAX_TIMEOUT_MINUTES,
    )
    topic: str | None = option("Search this topic.")
    partition: int | None = option("Search this partition of the topic.", Kind.INTEGER)


@dataclass(frozen=True, slots=True)
class HangingRow:
    """A transaction that no coordinator will end."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    duration_minutes: int


Candidate = tuple[TopicPartition, ProducerState]


async def find_hanging(options: FindHangingOptions, output: Output) -> None:
    """Runs `find-hanging`."""
    if options.partition is not None and options.topic is None:
        raise CommandError("The --partition argument requires --topic to be provided")
    if options.topic is None and options.broker_id is None:
        raise CommandError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    now_ms = int(time.time() * 1000)
    async with connect.admin(options) as admin:
        try:
            partitions = await _searched(admin, options)
            candidates = await _old_and_open(admin, options, partitions, now_ms)
            hanging = await _without_coordinator(admin, candidates) if candidates else []
        except KafkaError as error:
            raise CommandError(
                f"Failed to find hanging transactions: {error.message.rstrip('.')}. "
                "Enable debug logging for additional detail."
            ) from error
    rows = [
        HangingRow(
            topic,
            partition,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.start_offset or 0,
            producer.last_timestamp_ms,
            (now_ms - producer.last_timestamp_ms) // MINUTE_MS,
        )
        for (topic, partition), producer in hanging
    ]
    print_table(output, HangingRow, rows)


async def _searched(admin: AdminClient, options: FindHangingOptions) -> list[TopicPartition]:
    if options.topic is not None and options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    if options.topic is not None:
        names = [options.topic]
    else:
        names = [topic.name for topic in await admin.list_topics()]
    partitions: list[TopicPartition] = []
    for name, topic in (await admin.describe_topics(names)).items():
        if isinstance(topic, KafkaError):
            raise topic
        partitions += [
            TopicPartition(name, partition.partition)
            for partition in topic.partitions
            if options.broker_id is None or options.broker_id in partition.replicas
        ]
    return partitions


async def _old_and_open(
    admin: AdminClient, options: FindHangingOptions, partitions: list[TopicPartition], now_ms: int
) -> list[Candidate]:
    limit_ms = options.max_transaction_timeout * MINUTE_MS
    candidates: list[Candidate] = []
    for partition, producers in (
        await admin.describe_producers(partitions, broker=options.broker_id)
    ).items():
        if isinstance(producers, KafkaError):
            raise producers
        candidates += [
            (partition, producer)
            for producer in producers
            if producer.start_offset is not None and now_ms - producer.last_timestamp_ms > limit_ms
        ]
    return candidates


async def _without_coordinator(admin: AdminClient, candidates: list[Candidate]) -> list[Candidate]:
    producer_ids = dict.fromkeys(producer.producer_id for _, producer in candidates)
    listed = await admin.list_transactions(producer_ids=producer_ids)
    ids = {transaction.producer_id: transaction.transactional_id for transaction in listed}
    described = await admin.describe_transactions(ids.values())
    for failure in described.values():
        # Every other error is raised, because only an unknown transactional id shows that the transaction hangs.
        if isinstance(failure, KafkaError) and not isinstance(failure, TransactionalIdNotFoundException):
            raise failure
    hanging = []
    for partition, producer in candidates:
        name = ids.get(producer.producer_id)
        known = None if name is None else described[name]
        if known is None or isinstance(known, KafkaError) or partition not in known.partitions:
            hanging.append((partition, producer))
    return hanging
