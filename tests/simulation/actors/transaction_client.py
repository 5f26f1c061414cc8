"""The requests of a producer of transactions, each of them sent once.

A producer uses one of the two transaction protocols. In the first one (TV1), it adds partitions and offsets to the
transaction itself. In the second one (TV2, KIP-890), the brokers add them, and each end of a transaction raises the
producer epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kcli.client.records.produce import produce_request
from kcli.errors import ErrorCode
from kcli.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_partition import TopicPartition, numbers_by_topic
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.protocol.messages import add_offsets_to_txn as ao
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.messages import end_txn as et
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import txn_offset_commit as to
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import MOVING, Client, Moved
from simulation.checks.replica_log import Content

PRODUCE_TIMEOUT_MS = 3_000
# The versions of the requests of both protocols. The first value is of TV1.
PRODUCE, OFFSET_COMMIT, END = (11, 13), (4, 5), (4, 5)

# After these errors a producer calls InitProducerId: it was fenced, or the coordinator has aborted its transaction.
FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
NOT_NOW = MOVING | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT}


class Again(Moved):
    """Raised if the same broker must get the same request once more."""


class Refused(Exception):
    """Raised if a producer must begin again, because it was fenced or does not know the end of its transaction."""


@dataclass(slots=True)
class TransactionBatch:
    """An encoded batch of a transaction. It may be sent several times."""

    partition: TopicPartition
    contents: list[Content]
    encoded: bytes
    crc: int = field(init=False)

    def __post_init__(self) -> None:
        self.crc = read_header(self.encoded).crc


class TransactionClient:
    """Raises Refused, Again or Moved for an error code, and an error in TROUBLE if there is no answer."""

    def __init__(
        self, client: Client, transactional_id: str, *, group: str = "", is_new: bool, timeout_ms: int
    ) -> None:
        """`group` gets the offsets. `is_new` is True for TV2."""
        self.client = client
        self.producer_id: int = NO_PRODUCER_ID
        self.epoch: int = NO_PRODUCER_EPOCH
        self._transactional_id = transactional_id
        self._group = group
        self._is_new = is_new
        self._timeout_ms = timeout_ms
        self._coordinators: dict[CoordinatorType, int] = {}
        self._sequences: dict[TopicPartition, int] = {}

    def forget(self) -> None:
        """Forgets all leaders and coordinators after an error."""
        self._coordinators.clear()
        self.client.leaders.clear()

    def forget_identity(self) -> None:
        self.producer_id, self.epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH

    # The steps of a transaction.

    async def init_producer_id(self, *, knows_itself: bool = False) -> None:
        """If the producer names its producer id and epoch, it is refused if it was fenced (KIP-360)."""
        request = ip.InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer_id if knows_itself else NO_PRODUCER_ID,
            producer_epoch=self.epoch if knows_itself else NO_PRODUCER_EPOCH,
        )
        response = await self.ask_coordinator(CoordinatorType.TRANSACTION, request, ApiKey.INIT_PRODUCER_ID)
        self.check(response.error_code, "InitProducerId")
        self._set_identity(response.producer_id, response.producer_epoch)

    def _set_identity(self, producer_id: int, epoch: int) -> None:
        grows = producer_id != self.producer_id or epoch > self.epoch or self.client.world.watch.losses
        assert grows, f"{self.client.name}: epoch {epoch} after {self.epoch} of producer id {producer_id}"
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences = {}

    async def add_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """Does nothing in TV2, because the brokers add the partitions."""
        if self._is_new:
            return
        topics = tuple(
            ap.AddPartitionsToTxnTopic(name=name, partitions=tuple(numbers))
            for name, numbers in numbers_by_topic(partitions).items()
        )
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        response = await self.ask_coordinator(
            CoordinatorType.TRANSACTION, request, ApiKey.ADD_PARTITIONS_TO_TXN, at_most=3
        )
        for topic in response.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                self.check(result.partition_error_code, "AddPartitionsToTxn")

    def encode(self, partition: TopicPartition, contents: list[Content]) -> TransactionBatch:
        """The next batch for a partition. Call `is_written` before the next one."""
        now_ms = self.client.world.cluster.node.clock.now_ms()
        encoded = encode_batch(
            [Record(-1, now_ms, *content) for content in contents],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(partition, 0),
            transactional=True,
        )
        return TransactionBatch(partition, contents, encoded)

    def is_written(self, batch: TransactionBatch) -> None:
        self._sequences[batch.partition] = self._sequences.get(batch.partition, 0) + len(batch.contents)

    async def produce(self, batch: TransactionBatch) -> int:
        """Returns the base offset. It is negative if the broker has the batch already."""
        partition = batch.partition
        request = produce_request(
            {partition: batch.encoded},
            self.client.world.topic_ids,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            transactional_id=self._transactional_id,
        )
        leader = await self.client.leader(partition)
        response = await self.client.ask(leader, request, ApiKey.PRODUCE, at_most=PRODUCE[self._is_new])
        answer = response.responses[0].partition_responses[0]
        if answer.error_code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return -1
        self.check(answer.error_code, f"Produce to {partition}")
        base_offset: int = answer.base_offset
        return base_offset

    async def add_offsets(self) -> None:
        """Does nothing in TV2, because the group coordinator adds the offsets."""
        if self._is_new:
            return
        request = ao.AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=self._group,
        )
        response = await self.ask_coordinator(CoordinatorType.TRANSACTION, request, ApiKey.ADD_OFFSETS_TO_TXN)
        self.check(response.error_code, "AddOffsetsToTxn")

    async def commit_offset(self, partition: TopicPartition, offset: int) -> None:
        part = to.TxnOffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset
        )
        request = to.TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=self._group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=(to.TxnOffsetCommitRequestTopic(name=partition.topic, partitions=(part,)),),
        )
        at_most = OFFSET_COMMIT[self._is_new]
        response = await self.ask_coordinator(
            CoordinatorType.GROUP, request, ApiKey.TXN_OFFSET_COMMIT, at_most=at_most
        )
        self.check(response.topics[0].partitions[0].error_code, "TxnOffsetCommit")

    async def end(self, *, commits: bool) -> tuple[int, int]:
        """Returns the producer id and the epoch for the next transaction."""
        request = et.EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commits,
        )
        response = await self.ask_coordinator(
            CoordinatorType.TRANSACTION, request, ApiKey.END_TXN, at_most=END[self._is_new]
        )
        self.check(response.error_code, "EndTxn")
        return response.producer_id, response.producer_epoch

    def has_ended(self, producer_id: int, epoch: int) -> None:
        """Takes the identity that `end` has returned. In TV1 the identity stays."""
        if self._is_new:
            self._set_identity(producer_id, epoch)

    # The cluster.

    async def ask_coordinator(
        self, kind: CoordinatorType, request: object, key: ApiKey, *, at_most: int = 99
    ) -> Any:
        return await self.client.ask(await self.coordinator(kind), request, key, at_most=at_most)

    async def coordinator(self, kind: CoordinatorType) -> int:
        if kind not in self._coordinators:
            name = self._group if kind is CoordinatorType.GROUP else self._transactional_id
            self._coordinators[kind] = await self.client.coordinator(name, kind)
        return self._coordinators[kind]

    def check(self, code: ErrorCode, what: str) -> None:
        if code is ErrorCode.NONE:
            return
        if code in FENCED:
            raise Refused(f"{what}: {code.name}")
        assert code in NOT_NOW, f"{self.client.name}: {what} failed with {code!r}"
        raise Again(code) if code is ErrorCode.CONCURRENT_TRANSACTIONS else Moved(code)
