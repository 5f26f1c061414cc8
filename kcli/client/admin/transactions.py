"""Admin calls about transactions and their producers (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.admin.topics import group_partitions
from kcli.client.client import error_of, looking_up, raise_for
from kcli.client.coordinator import at_coordinator
from kcli.errors import (
    ErrorCode,
    KafkaError,
    TransactionalIdNotFoundException,
    UnknownServerException,
)
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client, Node
    from kcli.protocol.messages.describe_producers import PartitionResponse

_RETRY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """A transactional id, its state as the broker names it, and the broker that coordinates it."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id. `start_ms` is None if no transaction is open."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """The state of a producer in a partition. `start_offset` is the first offset of its open transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    start_offset: int | None


async def list_transactions(
    client: Client,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """Returns the transactional ids of all brokers that match all filters."""
    from kcli.protocol.messages.list_transactions import ListTransactionsRequest

    request = ListTransactionsRequest(
        state_filters=tuple(states),
        producer_id_filters=tuple(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    at_least = 2 if pattern is not None else 1 if longer_than_ms >= 0 else 0

    async def of(node: Node) -> list[TransactionListing]:
        async def attempt() -> list[TransactionListing]:
            response = await client.send(request, ApiKey.LIST_TRANSACTIONS, to=node.id, at_least=at_least)
            if response.error_code in _RETRY:
                raise_for(response.error_code)
            if response.error_code is not ErrorCode.NONE:
                raise UnknownServerException(
                    f"ListTransactions request sent to broker {node.id} failed with an unexpected exception"
                )
            return [
                TransactionListing(
                    transactional_id=transaction.transactional_id,
                    coordinator=node.id,
                    producer_id=transaction.producer_id,
                    state=transaction.transaction_state,
                )
                for transaction in response.transaction_states
            ]

        return await client.call("listTransactions", attempt)

    nodes = await client.call("listTransactions(api=METADATA)", client.nodes)
    parts = await asyncio.gather(*map(of, nodes))
    return [listing for part in parts for listing in part]


async def describe_transactions(
    client: Client, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | KafkaError]:
    """Returns the description of each transactional id, or its error.

    The error of an unknown id is TransactionalIdNotFoundException.
    """

    async def of(name: str) -> TransactionDescription | KafkaError:
        try:
            return await at_coordinator(
                client,
                "describeTransactions",
                name,
                lambda node: _describe(client, name, node.id),
                CoordinatorType.TRANSACTION,
            )
        except KafkaError as error:
            return error

    distinct = list(dict.fromkeys(transactional_ids))
    return dict(zip(distinct, await asyncio.gather(*map(of, distinct)), strict=True))


async def _describe(client: Client, name: str, node: int) -> TransactionDescription:
    from kcli.protocol.messages.describe_transactions import DescribeTransactionsRequest

    request = DescribeTransactionsRequest(transactional_ids=(name,))
    response = await client.send(request, ApiKey.DESCRIBE_TRANSACTIONS, to=node)
    (transaction,) = response.transaction_states
    if transaction.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise TransactionalIdNotFoundException(
            f"DescribeTransactions request for transactionalId `{name}` failed because the ID could not be found"
        )
    raise_for(transaction.error_code)
    return TransactionDescription(
        transactional_id=name,
        coordinator=node,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        state=transaction.transaction_state,
        timeout_ms=transaction.transaction_timeout_ms,
        start_ms=transaction.transaction_start_time_ms
        if transaction.transaction_start_time_ms >= 0
        else None,
        partitions=tuple(
            TopicPartition(topic.topic, partition)
            for topic in transaction.topics
            for partition in topic.partitions
        ),
    )


async def describe_producers(
    client: Client, partitions: Iterable[TopicPartition], *, broker: int | None = None
) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
    """Returns the producers of each partition. The leader answers or, if `broker` is given, the replica on this
    broker."""
    distinct = list(dict.fromkeys(partitions))

    async def look_up() -> dict[TopicPartition, int]:
        with looking_up():
            return await client.leaders(distinct)

    if not distinct:
        return {}
    if broker is None:
        leaders = await client.call("describeProducers(api=METADATA)", look_up)
    else:
        leaders = dict.fromkeys(distinct, broker)
    producers: dict[TopicPartition, tuple[ProducerState, ...] | KafkaError] = {}
    for node in dict.fromkeys(leaders.values()):
        led = [partition for partition in distinct if leaders[partition] == node]
        producers |= await _producers_at(client, node, led)
    return producers


def _refused(topic: str, answer: PartitionResponse) -> KafkaError | None:
    """The error of a partition, or None. For a missing permission, the error has the text of Java's client."""
    text = answer.error_message
    if answer.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        text = (
            f"Failed to describe active producers for partition {topic}-{answer.partition_index} due to "
            f"authorization failure on topic `{topic}`"
        )
    return error_of(answer.error_code, text)


async def _producers_at(
    client: Client, node: int, partitions: list[TopicPartition]
) -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
    from kcli.protocol.messages import describe_producers as messages

    request = messages.DescribeProducersRequest(
        topics=tuple(
            messages.TopicRequest(name=topic, partition_indexes=numbers)
            for topic, numbers in group_partitions(partitions).items()
        )
    )

    async def attempt() -> dict[TopicPartition, tuple[ProducerState, ...] | KafkaError]:
        response = await client.send(request, ApiKey.DESCRIBE_PRODUCERS, to=node)
        return {
            TopicPartition(topic.name, partition.partition_index): _refused(topic.name, partition)
            or tuple(map(_producer, partition.active_producers))
            for topic in response.topics
            for partition in topic.partitions
        }

    return await client.call("describeProducers(api=DESCRIBE_PRODUCERS)", attempt)


def _producer(state: object) -> ProducerState:
    from kcli.protocol.messages.describe_producers import ProducerState as Message

    assert isinstance(state, Message)
    start = state.current_txn_start_offset
    return ProducerState(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        coordinator_epoch=state.coordinator_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        start_offset=start if start >= 0 else None,
    )


async def abort_transaction(
    client: Client,
    partition: TopicPartition,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Ends a hanging transaction in one partition: the leader writes an abort marker without the coordinator."""
    from kcli.protocol.messages import write_txn_markers as messages

    topic, number = partition
    marker = messages.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        transaction_result=False,
        topics=(messages.WritableTxnMarkerTopic(name=topic, partition_indexes=(number,)),),
    )
    request = messages.WriteTxnMarkersRequest(markers=(marker,))

    async def attempt() -> None:
        with looking_up():
            leaders = await client.leaders([partition])
        response = await client.send(request, ApiKey.WRITE_TXN_MARKERS, to=leaders[partition])
        for marked in response.markers:
            for topic in marked.topics:
                for result in topic.partitions:
                    raise_for(result.error_code)

    await client.call("abortTransaction(api=METADATA)", attempt)


async def force_terminate_transaction(client: Client, transactional_id: str) -> None:
    """Fences the producer of a transactional id, so that its open transaction is aborted."""
    from kcli.protocol.messages.init_producer_id import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=client.config.request_timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
    )

    async def ask(node: Node) -> None:
        response = await client.send(request, ApiKey.INIT_PRODUCER_ID, to=node.id)
        raise_for(response.error_code)

    await at_coordinator(client, "fenceProducer", transactional_id, ask, CoordinatorType.TRANSACTION)
