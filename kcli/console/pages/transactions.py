"""The transactions: the list, one transaction, hanging transactions, and actions that abort them."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.client.admin.topics import TopicDescription
from kcli.client.admin.transactions import TransactionDescription, TransactionListing
from kcli.client.diagnosis.checkup.open_transactions import hanging_transactions
from kcli.client.diagnosis.checkup.snapshot import HangingTransaction
from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.console.routes import Change, Read
from kcli.errors import KafkaError
from kcli.model.command_words import option
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import SystemClock

OPEN = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
HANGING_SECONDS = 60.0
"""The time for which the result of a search for hanging transactions is reused. A search requests the offsets of every
partition.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A transaction in the list."""

    transactional_id: str
    state: str
    is_open: bool
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingRow:
    """An open transaction that no coordinator will end (KIP-664), in one of its partitions."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


async def list_transactions(call: Call) -> Rows:
    """GET /transactions: all transactions. With ?open=1, only transactions that have not ended."""

    async def load() -> list[TransactionRow]:
        return [_row(transaction) for transaction in await call.admin.list_transactions()]

    answer = await call.cached("transactions", load)
    only_open = call.query("open") == "1"
    return call.listing().rows(
        [row for row in answer.value if row.is_open or not only_open],
        text=lambda row: f"{row.transactional_id} {row.state} {row.producer_id}",
        columns={
            "transactional_id": lambda row: row.transactional_id,
            "state": lambda row: row.state,
            "producer_id": lambda row: row.producer_id,
            "coordinator": lambda row: row.coordinator,
        },
    )


async def show_transaction(call: Call) -> dict[str, object]:
    """GET /transactions/by-id?id=…: one transaction with its partitions."""
    transaction = await _described(call, call.query("id"))
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "is_open": transaction.state in OPEN,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator": transaction.coordinator,
        "timeout_ms": transaction.timeout_ms,
        "start_ms": transaction.start_ms,
        "now_ms": SystemClock().now_ms(),
        "partitions": [{"topic": topic, "partition": number} for topic, number in transaction.partitions],
    }


async def list_hanging(call: Call) -> Rows:
    """GET /transactions/hanging: the transactions that no coordinator will end."""

    async def load() -> list[HangingRow]:
        names = [topic.name for topic in await call.admin.list_topics()]
        described = await call.admin.describe_topics(names) if names else {}
        topics = {name: topic for name, topic in described.items() if isinstance(topic, TopicDescription)}
        transactions = await hanging_transactions(call.admin, topics, SystemClock().now_ms())
        return [_hanging_row(transaction) for transaction in transactions]

    return call.listing().rows(
        (await call.cached("hanging", load, seconds=HANGING_SECONDS)).value,
        text=lambda row: f"{row.topic} {row.producer_id}",
        columns={"topic": lambda row: (row.topic, row.partition)},
    )


async def abort_hanging(action: Action) -> Outcome:
    """POST /transactions/abort {topic, partition, start_offset}: ends a hanging transaction in one partition.

    Consumers with read_committed never get the records of the transaction.
    """
    topic, number = action.text("topic"), action.number("partition", most=2**31 - 1)
    start_offset = action.number("start_offset")
    partition = TopicPartition(topic, number)
    action.target = f"transaction in {partition}"
    producers = (await action.admin.describe_producers([partition]))[partition]
    if isinstance(producers, KafkaError):
        raise producers
    producer = next((producer for producer in producers if producer.start_offset == start_offset), None)
    if producer is None:
        raise bad_request(f"{partition} has no open transaction that began at offset {start_offset}")
    if not action.is_preview:
        await action.admin.abort_transaction(
            partition,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
    return Outcome(
        command=action.command(
            "transactions",
            "abort",
            *option("topic", topic),
            "--partition",
            str(number),
            "--start-offset",
            str(start_offset),
        ),
        summary=f"{'Aborts' if action.is_preview else 'Aborted'} the transaction of producer {producer.producer_id} in "
        f"{partition} from offset {start_offset}.",
    )


async def terminate(action: Action) -> Outcome:
    """POST /transactions/terminate {transactional_id}: aborts an open transaction, and fences its producer."""
    name = action.text("transactional_id")
    transaction = await _described(action, name)
    action.target = f"transactional id {transaction.transactional_id}"
    if transaction.state not in OPEN:
        raise bad_request(f"{name[:100]} has no open transaction. Its state is {transaction.state}")
    if not action.is_preview:
        await action.admin.force_terminate_transaction(name)
    count = len(transaction.partitions)
    return Outcome(
        command=action.command("transactions", "forceTerminateTransaction", *option("transactionalId", name)),
        summary=f"{'Aborts' if action.is_preview else 'Aborted'} the transaction of {name} in {count} "
        f"partition{'s' * (count != 1)}. Its producer gets an error and cannot continue.",
    )


async def _described(call: Call, name: str) -> TransactionDescription:
    if not name:
        raise bad_request("id: expected a transactional id")
    transaction = (await call.admin.describe_transactions([name]))[name]
    if isinstance(transaction, KafkaError):
        raise transaction
    return transaction


def _row(listing: TransactionListing) -> TransactionRow:
    return TransactionRow(
        transactional_id=listing.transactional_id,
        state=listing.state,
        is_open=listing.state in OPEN,
        producer_id=listing.producer_id,
        coordinator=listing.coordinator,
    )


def _hanging_row(transaction: HangingTransaction) -> HangingRow:
    producer = transaction.producer
    return HangingRow(
        topic=transaction.partition.topic,
        partition=transaction.partition.partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        coordinator_epoch=producer.coordinator_epoch,
        start_offset=producer.start_offset or 0,
        last_timestamp_ms=producer.last_timestamp_ms,
    )


ROUTES = (
    Read("/transactions", list_transactions),
    Read("/transactions/by-id", show_transaction),
    Read("/transactions/hanging", list_hanging),
    Change("/transactions/abort", "abort hanging transaction", abort_hanging),
    Change("/transactions/terminate", "terminate transaction", terminate),
)
