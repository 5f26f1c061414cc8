"""kafka-transactions: lists transactions and their producers, and ends hanging transactions."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from kcli.cli import connect
from kcli.cli.output import Output
from kcli.cli.syntax.options import (
    Command,
    CommandError,
    CommonOptions,
    Family,
    Kind,
    Run,
    Subcommand,
    option,
)
from kcli.cli.tools.transactions.hanging import FindHangingOptions, find_hanging
from kcli.cli.tools.transactions.table import TransactionsOptions, print_table
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.transactions import ProducerState, TransactionDescription
from kcli.command.examples import USUAL, Example
from kcli.errors import KafkaError
from kcli.model.topic_partition import TopicPartition

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(TransactionsOptions):
    duration_filter: int | None = option(
        "List only transactions that have been open for longer than this many milliseconds.", Kind.LONG
    )
    transactional_id_pattern: str | None = option(
        "List only transactional ids that match this regular expression from beginning to end."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeOptions(TransactionsOptions):
    transactional_id: str = option("The transactional id.", required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions(TransactionsOptions):
    topic: str = option("The topic.", required=True)
    partition: int = option("The number of the partition.", Kind.INTEGER, required=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeProducersOptions(PartitionOptions):
    broker_id: int | None = option(
        "The id of the broker whose replica is described. Default: the leader of the partition.", Kind.INTEGER
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortOptions(PartitionOptions):
    start_offset: int | None = option("The first offset of the transaction.", Kind.LONG)
    producer_id: int | None = option("The id of the producer.", Kind.LONG)
    producer_epoch: int | None = option("The epoch of the producer.", Kind.SHORT)
    coordinator_epoch: int | None = option("The epoch of the coordinator.", Kind.INTEGER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceTerminateOptions(TransactionsOptions):
    transactional_id: str = option("The transactional id.", name="transactionalId", required=True)


@dataclass(frozen=True, slots=True)
class ListingRow:
    """A transactional id."""

    transactional_id: str
    coordinator: int
    producer_id: int
    transaction_state: str


@dataclass(frozen=True, slots=True)
class DescriptionRow:
    """A transactional id and its transaction."""

    coordinator_id: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_state: str
    transaction_timeout_ms: int
    current_transaction_start_time_ms: int | None
    transaction_duration_ms: int | None
    topic_partitions: str


@dataclass(frozen=True, slots=True)
class ProducerRow:
    """A producer in the state of a partition."""

    producer_id: int
    producer_epoch: int
    latest_coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    current_transaction_start_offset: int | None


async def list_transactions(options: ListOptions, output: Output) -> None:
    """Runs `list`."""

    async def listed(admin: AdminClient) -> list[ListingRow]:
        transactions = await admin.list_transactions(
            longer_than_ms=-1 if options.duration_filter is None else options.duration_filter,
            pattern=options.transactional_id_pattern,
        )
        return [
            ListingRow(
                transaction.transactional_id,
                transaction.coordinator,
                transaction.producer_id,
                transaction.state,
            )
            for transaction in transactions
        ]

    print_table(output, ListingRow, await _asked(options, "Failed to list transactions", listed))


async def describe(options: DescribeOptions, output: Output) -> None:
    """Runs `describe`."""
    name = options.transactional_id

    async def described(admin: AdminClient) -> TransactionDescription:
        transaction = (await admin.describe_transactions([name]))[name]
        if isinstance(transaction, KafkaError):
            raise transaction
        return transaction

    transaction = await _asked(
        options, f"Failed to describe transaction state of transactional-id `{name}`", described
    )
    duration_ms = None if transaction.start_ms is None else int(time.time() * 1000) - transaction.start_ms
    row = DescriptionRow(
        transaction.coordinator,
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state,
        transaction.timeout_ms,
        transaction.start_ms,
        duration_ms,
        ",".join(f"{topic}-{partition}" for topic, partition in transaction.partitions),
    )
    print_table(output, DescriptionRow, [row])


async def describe_producers(options: DescribeProducersOptions, output: Output) -> None:
    """Runs `describe-producers`."""
    where = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    what = f"Failed to describe producers for partition {options.topic}-{options.partition} on {where}"
    producers = await _asked(options, what, lambda admin: _producers(admin, options, options.broker_id))
    rows = [
        ProducerRow(
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp_ms,
            producer.start_offset,
        )
        for producer in producers
    ]
    print_table(output, ProducerRow, rows)


async def abort(options: AbortOptions, output: Output) -> None:
    """Runs `abort`."""
    epochs = _given_epochs(options)
    partition = TopicPartition(options.topic, options.partition)

    if epochs is None:
        where = f"{options.topic}-{options.partition}"
        message = f"Failed to validate producer state for partition {where}"
        epochs = await _asked(options, message, lambda admin: _found_epochs(admin, options))
    producer_id, producer_epoch, coordinator_epoch = epochs
    # In a partition without markers, the coordinator epoch is -1. It is replaced by 0, because 0 is not above any later
    # epoch.
    coordinator_epoch = max(coordinator_epoch, 0)
    spec = (
        f"AbortTransactionSpec(topicPartition={options.topic}-{options.partition}, producerId={producer_id}, "
        f"producerEpoch={producer_epoch}, coordinatorEpoch={coordinator_epoch})"
    )

    async def aborted(admin: AdminClient) -> None:
        await admin.abort_transaction(
            partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )

    await _asked(options, f"Failed to abort transaction {spec}", aborted)


def _given_epochs(options: AbortOptions) -> tuple[int, int, int] | None:
    """Returns the producer id and the epochs that the options give, or None if --start-offset identifies the
    transaction."""
    if options.start_offset is not None:
        return None
    if options.producer_id is None:
        raise CommandError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) "
            "or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    if options.producer_epoch is None:
        raise CommandError("Missing required argument --producer-epoch")
    if options.coordinator_epoch is None:
        raise CommandError("Missing required argument --coordinator-epoch")
    return options.producer_id, options.producer_epoch, options.coordinator_epoch


async def _found_epochs(admin: AdminClient, options: AbortOptions) -> tuple[int, int, int]:
    for producer in await _producers(admin, options, None):
        if producer.start_offset == options.start_offset:
            return producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
    raise CommandError(
        f"Could not find any open transactions starting at offset {options.start_offset} on partition "
        f"{options.topic}-{options.partition}"
    )


async def _producers(
    admin: AdminClient, options: PartitionOptions, broker: int | None
) -> tuple[ProducerState, ...]:
    partition = TopicPartition(options.topic, options.partition)
    producers = (await admin.describe_producers([partition], broker=broker))[partition]
    if isinstance(producers, KafkaError):
        raise producers
    return producers


async def force_terminate(options: ForceTerminateOptions, output: Output) -> None:
    """Runs `forceTerminateTransaction`."""
    name = options.transactional_id
    await _asked(
        options,
        f"Failed to force terminate transactionalId `{name}`",
        lambda admin: admin.force_terminate_transaction(name),
    )


async def _asked(options: TransactionsOptions, failed: str, ask: Callable[[AdminClient], Awaitable[T]]) -> T:
    """Calls `ask` with a new client. An error is raised as a CommandError with the text `failed: reason.`"""
    async with connect.admin(options) as admin:
        try:
            return await ask(admin)
        except KafkaError as error:
            raise CommandError(
                f"{failed}: {error.message.rstrip('.')}. Enable debug logging for additional detail."
            ) from error


def _sub(name: str, help: str, options: type[CommonOptions], run: Run) -> Subcommand:
    return Subcommand(name=name, help=help, options=options, run=run)


command = Command(
    name="transactions",
    description="Show transactions, find hanging transactions, and end transactions.",
    family=Family.ARGPARSE4J,
    has_version=True,
    prog="kafka-transactions.sh",
    options=TransactionsOptions,
    subcommands=(
        _sub("list", "List transactional ids.", ListOptions, list_transactions),
        _sub("describe", "Show the transaction of a transactional id.", DescribeOptions, describe),
        _sub(
            "describe-producers",
            "Show the producers of a partition and the state of each.",
            DescribeProducersOptions,
            describe_producers,
        ),
        _sub("abort", "Abort a hanging transaction in a partition.", AbortOptions, abort),
        _sub(
            "find-hanging",
            "Find open transactions that no coordinator will end.",
            FindHangingOptions,
            find_hanging,
        ),
        _sub(
            "forceTerminateTransaction",
            "Abort the transaction of a transactional id and fence its producer.",
            ForceTerminateOptions,
            force_terminate,
        ),
    ),
    examples=(
        Example(
            "List the transactions that have been open for more than a minute:",
            "kcli transactions --bootstrap-server localhost:9092 list \\\n  --duration-filter 60000",
        ),
        Example(
            "Find transactions in a topic that no coordinator will end:",
            "kcli transactions --bootstrap-server localhost:9092 find-hanging \\\n  --topic orders",
        ),
    ),
    exit_status=USUAL,
)
