"""Asks the coordinators of transactions, on this broker and on other brokers, whether partitions belong to the
transactions (KIP-890).

The leader of a partition asks the coordinator of the transactional id. If the coordinator is another broker, the leader
sends AddPartitionsToTxn in version 4 or later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcli.coordinator.hashing import partition_for
from kcli.errors import (
    CoordinatorNotAvailableException,
    ErrorCode,
    InvalidTxnStateException,
    KafkaError,
    NetworkException,
    UnsupportedVersionException,
    error_for,
)
from kcli.metadata.image import MetadataImage
from kcli.model.topic_partition import TopicPartition, numbers_by_topic
from kcli.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kcli.protocol.wire.api import ApiKey
from kcli.server.coordinators.broker_links import BrokerLinks, GatheredRequests
from kcli.server.coordinators.internal_topics import TRANSACTION_TOPIC
from kcli.server.coordinators.transactions import TransactionCoordinator

Codes = dict[TopicPartition, ErrorCode]

BATCHED_FROM = 4
"""The first version of AddPartitionsToTxn that brokers use. A request in this version can contain several transactions
(KIP-890)."""
PARTITIONS_PER_REQUEST = 5_000
"""The most partitions in a request with several verifications. A single verification may have more. The coordinator
checks a partition in about 2 µs."""


class RemoteVerifications:
    """Sends AddPartitionsToTxn to other brokers. Several verifications share a request. Two verifications of the same
    transactional id never share a request, because the response identifies a verification only by its transactional id.
    """

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links
        self._requests: GatheredRequests[AddPartitionsToTxnTransaction, Codes] = GatheredRequests(
            self._exchange,
            key_of=lambda transaction: transaction.transactional_id,
            size_of=lambda transaction: sum(len(topic.partitions) for topic in transaction.topics),
            max_size=PARTITIONS_PER_REQUEST,
        )

    async def ask(self, broker_id: int, transaction: AddPartitionsToTxnTransaction) -> Codes:
        """Returns the error code of each partition. Raises KafkaError."""
        return await self._requests.send(broker_id, transaction)

    async def stop(self) -> None:
        await self._requests.stop()
        self._links.close()

    async def _exchange(
        self, broker_id: int, transactions: Sequence[AddPartitionsToTxnTransaction]
    ) -> list[Codes]:
        request = AddPartitionsToTxnRequest(transactions=tuple(transactions))
        try:
            response: AddPartitionsToTxnResponse = await self._links.ask(
                broker_id, ApiKey.ADD_PARTITIONS_TO_TXN, request, at_least=BATCHED_FROM
            )
        except UnsupportedVersionException as error:
            raise NetworkException(error.message) from error
        if response.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise InvalidTxnStateException("The coordinator does not accept requests of this broker")
        if response.error_code is not ErrorCode.NONE:
            raise error_for(response.error_code)
        codes = {
            result.transactional_id: {
                TopicPartition(topic.name, partition.partition_index): partition.partition_error_code
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        return [codes.get(transaction.transactional_id, {}) for transaction in transactions]


class TransactionCoordinators:
    """The coordinators of all transactional ids."""

    def __init__(
        self,
        node_id: int,
        metadata: Callable[[], MetadataImage],
        local: TransactionCoordinator,
        remote: RemoteVerifications,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._local = local
        self._remote = remote

    async def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        add: bool,
    ) -> Codes:
        """Verifies that partitions belong to a transaction. If `add` is True (TV2), adds the partitions.

        Returns the error code of each partition. If the request to the coordinator fails, each partition gets the error
        code of this failure.
        """
        coordinator = self._coordinator(transactional_id)
        if coordinator == self._node_id:
            return await self._local.verify_or_add(
                transactional_id, producer_id, producer_epoch, partitions, add=add
            )
        keys = tuple(partitions)
        if coordinator is None:
            return dict.fromkeys(keys, CoordinatorNotAvailableException.code)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            verify_only=not add,
            topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in numbers_by_topic(keys).items()
            ),
        )
        try:
            codes: Mapping[TopicPartition, ErrorCode] = await self._remote.ask(coordinator, transaction)
        except KafkaError as error:
            return dict.fromkeys(keys, error.code)
        return {key: codes.get(key, ErrorCode.NETWORK_EXCEPTION) for key in keys}

    def _coordinator(self, transactional_id: str) -> int | None:
        """Returns the broker that coordinates a transactional id: the leader of the id's partition in
        `__transaction_state`. Returns None if there is no such broker.
        """
        image = self._metadata()
        topic = image.topics.topic(TRANSACTION_TOPIC.name)
        if topic is None:
            return None
        partition = topic.partitions.get(partition_for(transactional_id, len(topic.partitions)))
        if partition is None or partition.leader not in image.brokers:
            return None
        return partition.leader
