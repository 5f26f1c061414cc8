"""Writes the records of a table: idempotently, or in transactions that fence every other writer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kcli.client.admin.features import describe_features
from kcli.client.admin.topics import group_partitions
from kcli.client.client import Client, Node, raise_for
from kcli.client.coordinator import at_coordinator
from kcli.client.records.records import Records
from kcli.config.features import TRANSACTION_VERSION
from kcli.errors import ErrorCode, KafkaError, ProducerFencedException, error_for
from kcli.model.request_values import VERSION_MAX, CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, advance_sequence, encode_batch
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kcli.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kcli.protocol.wire.api import ApiKey

TV2 = 2
"""The level of transaction.version since which each transaction has a new epoch (KIP-890)."""

PRODUCE_SINCE_TV2 = 12
"""Since this version, Produce adds a partition to the transaction. The versions before need AddPartitionsToTxn."""

END_TXN_SINCE_TV2 = 5
"""Since this version, EndTxn returns a new epoch for the next transaction. The versions before keep the epoch."""

ADD_PARTITIONS_MAX = 3
"""The last version of AddPartitionsToTxn for clients. Brokers send the later versions to each other."""

BUMP_EPOCH_SINCE = 3
"""Since this version, InitProducerId compares the caller's producer with the last one (KIP-360)."""

NO_TRANSACTION_TIMEOUT_MS = 0x7FFF_FFFF
"""The transaction time-out that Java's idempotent producer sends."""

TRANSACTION_TIMEOUT_MS = 60_000
"""The default of transaction.timeout.ms."""

_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)

_NOT_OPEN = (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
"""The errors of EndTxn if no transaction is open, its commit was decided, or the coordinator has forgotten it."""

T = TypeVar("T")

Batches = Mapping[TopicPartition, Sequence[Record]]


class Writer(Protocol):
    async def claim(self) -> None:
        """Makes this process the writer of the table, if the writer can fence others."""
        ...

    async def write(self, records: Batches) -> Mapping[TopicPartition, int]:
        """Writes the records, and returns the offset of the first record of each partition.

        After an error, the records may have been written or not.
        """
        ...


@dataclass(frozen=True, slots=True)
class Producer:
    """The id and the epoch of a producer."""

    id: int = -1
    epoch: int = -1


class IdempotentWriter:
    """Writes each record once, also if a request is sent again. It fences no other writer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._records = Records(client)
        self._producer: Producer | None = None
        self._sequences: dict[TopicPartition, int] = {}

    async def claim(self) -> None:
        return

    async def write(self, records: Batches) -> Mapping[TopicPartition, int]:
        if self._producer is None:
            self._producer = await self._client.call("initProducerId", self._new_producer)
            self._sequences.clear()
        batches = {
            partition: encode_batch(
                part,
                producer_id=self._producer.id,
                producer_epoch=self._producer.epoch,
                base_sequence=self._sequences.get(partition, 0),
            )
            for partition, part in records.items()
        }
        try:
            offsets = await _produce(self._client, self._records, batches)
        except BaseException:
            self._producer = None  # the next sequence is unknown, because the records may be in the log
            raise
        for partition, part in records.items():
            self._sequences[partition] = advance_sequence(self._sequences.get(partition, 0), len(part))
        return offsets

    async def _new_producer(self) -> Producer:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_TIMEOUT_MS
        )
        response = await self._client.send(request, ApiKey.INIT_PRODUCER_ID)
        return _producer_of(response)


class TransactionalWriter:
    """Writes the records of each call in one transaction. `claim` fences every other writer with the same
    transactional id.

    The feature transaction.version of the cluster decides how transactions begin and end, as for Java's producer. Since
    level 2, a Produce request adds its partitions, and each transaction has a new epoch. Below this level, the writer
    adds the partitions before, and the epoch stays. The writer looks at the level whenever it gets an epoch itself.
    """

    def __init__(
        self, client: Client, transactional_id: str, *, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None:
        self._client = client
        self._records = Records(client)
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._producer = Producer()
        self._has_tv2 = True
        self._sequences: dict[TopicPartition, int] = {}
        """The next sequence in each partition, in this epoch."""
        self._is_ready = False
        """Whether no transaction of this producer is open."""
        self._is_fenced = False

    async def claim(self) -> None:
        await self._begin(Producer())
        self._is_fenced = False

    async def write(self, records: Batches) -> Mapping[TopicPartition, int]:
        """Raises ProducerFencedException if another process has claimed the table."""
        if self._is_fenced:
            raise ProducerFencedException
        try:
            if not self._is_ready:
                await self._begin_again()
            self._is_ready = False
            if not self._has_tv2:
                await self._add_partitions(records)
            offsets = await self._write(records)
            await self._end(committed=True)
        except KafkaError as error:
            if error.code not in _FENCED:
                raise
            self._is_fenced = True
            raise ProducerFencedException from error
        self._is_ready = True
        return offsets

    async def _write(self, records: Batches) -> Mapping[TopicPartition, int]:
        batches = {
            partition: encode_batch(
                part,
                producer_id=self._producer.id,
                producer_epoch=self._producer.epoch,
                base_sequence=self._sequences.get(partition, 0),
                transactional=True,
            )
            for partition, part in records.items()
        }
        offsets = await _produce(
            self._client,
            self._records,
            batches,
            self._transactional_id,
            at_least=PRODUCE_SINCE_TV2 if self._has_tv2 else 0,
            at_most=VERSION_MAX if self._has_tv2 else PRODUCE_SINCE_TV2 - 1,
        )
        for partition, part in records.items():
            self._sequences[partition] = advance_sequence(self._sequences.get(partition, 0), len(part))
        return offsets

    async def _begin_again(self) -> None:
        """Aborts a transaction that may be open after an error, and gets a new epoch.

        The coordinator must not abort it on InitProducerId, because it would then fence the epoch of this producer.
        """
        if self._producer != Producer():
            await self._learn_version()
            try:
                await self._end(committed=False)
            except KafkaError as error:
                if error.code not in _NOT_OPEN:
                    raise
        await self._begin(self._producer)

    async def _begin(self, producer: Producer) -> None:
        """Gets a new epoch, and ends an open transaction. With a `producer`, only if it is the last one (KIP-360)."""
        await self._learn_version()
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
        )
        at_least = 0 if producer == Producer() else BUMP_EPOCH_SINCE

        async def ask(node: Node) -> Producer:
            response = await self._client.send(
                request, ApiKey.INIT_PRODUCER_ID, to=node.id, at_least=at_least
            )
            return _producer_of(response)

        self._take_epoch(await self._at_coordinator("initTransactions", ask))
        self._is_ready = True

    async def _learn_version(self) -> None:
        features = await describe_features(self._client)
        self._has_tv2 = any(
            feature.name == TRANSACTION_VERSION and feature.finalized >= TV2 for feature in features
        )

    async def _add_partitions(self, records: Batches) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._producer.id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
                for topic, numbers in group_partitions(records).items()
            ),
        )

        async def ask(node: Node) -> None:
            response = await self._client.send(
                request, ApiKey.ADD_PARTITIONS_TO_TXN, to=node.id, at_most=ADD_PARTITIONS_MAX
            )
            assert isinstance(response, AddPartitionsToTxnResponse)
            codes = {
                partition.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
            }
            # If a partition has an error, the coordinator attempts nothing for the others.
            for code in sorted(codes, key=lambda code: code is ErrorCode.OPERATION_NOT_ATTEMPTED):
                raise_for(code)

        await self._at_coordinator("addPartitionsToTransaction", ask)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            committed=committed,
        )

        async def ask(node: Node) -> Producer:
            response = await self._client.send(
                request,
                ApiKey.END_TXN,
                to=node.id,
                at_least=END_TXN_SINCE_TV2 if self._has_tv2 else 0,
                at_most=VERSION_MAX if self._has_tv2 else END_TXN_SINCE_TV2 - 1,
            )
            assert isinstance(response, EndTxnResponse)
            raise_for(response.error_code)
            return Producer(response.producer_id, response.producer_epoch)

        producer = await self._at_coordinator("commitTransaction" if committed else "abortTransaction", ask)
        if self._has_tv2:
            self._take_epoch(producer)

    def _take_epoch(self, producer: Producer) -> None:
        self._producer = producer
        self._sequences.clear()

    async def _at_coordinator(self, name: str, ask: Callable[[Node], Awaitable[T]]) -> T:
        return await at_coordinator(
            self._client, name, self._transactional_id, ask, CoordinatorType.TRANSACTION
        )


def _producer_of(response: object) -> Producer:
    assert isinstance(response, InitProducerIdResponse)
    raise_for(response.error_code)
    return Producer(response.producer_id, response.producer_epoch)


async def _produce(
    client: Client,
    records: Records,
    batches: Mapping[TopicPartition, bytes],
    transactional_id: str | None = None,
    *,
    at_least: int = 0,
    at_most: int = VERSION_MAX,
) -> dict[TopicPartition, int]:
    """Sends batches until each of them is committed. A batch that is sent again keeps its sequence, so the log has it
    once. Returns the offset of the first record of each batch."""
    offsets: dict[TopicPartition, int] = {}

    async def attempt() -> None:
        left = {partition: batch for partition, batch in batches.items() if partition not in offsets}
        answers = await records.produce(
            left,
            timeout_ms=client.config.request_timeout_ms,
            transactional_id=transactional_id,
            at_least=at_least,
            at_most=at_most,
        )
        errors: list[KafkaError] = []
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                errors.append(answer)
            elif answer.error_code is not ErrorCode.NONE:
                errors.append(error_for(answer.error_code, answer.error_message))
            else:
                offsets[partition] = answer.base_offset
        for error in errors:
            raise error

    await client.call("produce", attempt)
    return offsets
