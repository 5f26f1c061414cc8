"""A transactional producer that copies the records of an input partition, with the position in the same transaction.

The producer uses one of the two transaction protocols. In the first one (TV1), the producer adds partitions and offsets
to the transaction itself. In the second one (TV2, KIP-890), the brokers add them, and each end of a transaction raises
the producer epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kcli.client.records.produce import produce_request
from kcli.coordinator.hashing import partition_for
from kcli.errors import ErrorCode
from kcli.metadata.image import PartitionImage
from kcli.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_names import GROUP_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition, numbers_by_topic
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.messages import add_offsets_to_txn as ao
from kcli.protocol.messages import add_partitions_to_txn as ap
from kcli.protocol.messages import end_txn as et
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.messages import txn_offset_commit as to
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, MOVING, TROUBLE, Client, Moved, fetch_request, partitions_of
from simulation.checks.copies import COPIER, Copy, CopyLedger

T = TypeVar("T")

RECORDS_MAX = 8
"""The most input records of a transaction."""
INPUT_BYTES = 20_000
LINGER_S = 4.0
"""The time for which a replaced instance waits for its successor after an error."""
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


@dataclass(frozen=True, slots=True)
class CopyJob:
    """What is copied, and how. `is_new` is True for TV2."""

    source: TopicPartition
    targets: tuple[TopicPartition, ...]
    group: str
    is_new: bool
    timeout_ms: int


@dataclass(slots=True)
class Writes:
    """The copies of one transaction for one partition. Each batch is written with its own request."""

    partition: TopicPartition
    batches: list[list[bytes]] = field(default_factory=list)


class CopyingProducer:
    """One instance of the producer. After each error it continues as a restarted producer does: InitProducerId ends its
    last transaction, and the committed position of the group shows where to continue.

    Another instance with the same transactional id may take over. Then `is_replaced` is True. A replaced instance does
    not know this, and continues until it is fenced. `is_fenced` is True when InitProducerId of the other instance was
    answered. From then on, nothing that the replaced instance sends may be written.
    """

    def __init__(self, client: Client, job: CopyJob, ledger: CopyLedger) -> None:
        self.client = client
        self.job = job
        self.ledger = ledger
        self.is_begun = self.is_replaced = self.is_fenced = self.is_finished = False
        self.began: Callable[[], None] = lambda: None
        """Called after each answered InitProducerId."""
        self._rng = client.rng
        self._loop = client.world.cluster.loop
        self._coordinators: dict[CoordinatorType, int] = {}
        self._producer_id: int = NO_PRODUCER_ID
        self._epoch: int = NO_PRODUCER_EPOCH
        self._sequences: dict[TopicPartition, int] = {}
        self._position = Offset(0)

    async def run(self) -> None:
        while not self.is_finished:
            try:
                if not self.is_begun:
                    await self._begin()
                if not self.client.world.ending:
                    await self._copy()
                    await self.client.pause(0.0, 0.2)
                elif not self.is_replaced:
                    await self._finish()
                else:
                    self.is_finished = True
            except Refused as refused:
                self.client.note(f"{refused}")
                self.is_begun = False
                if self.is_replaced:
                    await self._linger()
        self.client.close()

    def leave(self) -> None:
        """Ends the work of a replaced instance."""
        self.is_finished = True

    async def _finish(self) -> None:
        """Commits a last transaction, because this must be possible in a calm cluster. Then begins once more, so that
        the ledger knows the outcome of all transactions."""
        await self._copy(is_last=True)
        await self._begin()
        self.is_finished = True

    async def _begin(self) -> None:
        """Gets a new epoch and the committed position."""
        knows_itself = self._producer_id != NO_PRODUCER_ID and self._rng.random() < 0.3
        try:
            await self._init_producer_id(knows_itself=knows_itself)
        except Refused:
            self._producer_id, self._epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
            raise
        self.began()
        self._position = Offset(await self._persist("OffsetFetch", self.committed_position))
        if not self.is_replaced:
            self.ledger.decided(self._position, self._loop.time())
        self.is_begun = True

    async def _linger(self) -> None:
        """Continues after an error, although another instance may have taken over.

        The coordinator fences this instance a moment before the other instance gets its answer.
        """
        if self._rng.random() < 0.6:
            end = self._loop.time() + LINGER_S
            while not (self.is_fenced or self.is_finished) and self._loop.time() < end:
                await self.client.pause(0.0, BACKOFF_S)
            if self.is_fenced:
                await self._insist()
            self.is_finished = True
        elif self._rng.random() < 0.5:
            await self._recover()
        else:
            self.is_finished = True

    async def _recover(self) -> None:
        """Calls InitProducerId with the known epoch. This succeeds only if no other instance has begun yet."""
        was_fenced = self.is_fenced
        try:
            await self._init_producer_id(knows_itself=True)
            assert not was_fenced, f"{self.client.name} was fenced, but it got another epoch"
            self._position = Offset(await self._persist("OffsetFetch", self.committed_position))
            # InitProducerId has ended every earlier transaction. If no other instance has begun, no later one exists.
            if not self.is_fenced:
                self.ledger.decided(self._position, self._loop.time())
            self.is_begun = True
        except Refused:
            self.is_finished = True

    async def _insist(self) -> None:
        """Sends writes although this instance is fenced. None of them may succeed."""
        for _ in range(self._rng.randint(1, 4)):
            self.is_begun = True  # so that a request is given up sometimes
            copy = self.ledger.begin(self._position, self._position + 1, self._loop.time())
            try:
                match self._rng.randrange(4):
                    case 0:
                        await self._commit_position(Offset(copy.end))
                    case 1:
                        await self._end(copy, commits=True)
                    case _:
                        await self._write_all(self._plan(copy, [(self._position, b"of a fenced copier")]))
            except Refused as refused:
                self.client.note(f"{refused}")
            await self.client.pause(0.0, 1.0)

    async def _init_producer_id(self, *, knows_itself: bool) -> None:
        """If the producer names its producer id and epoch, it is refused if it was fenced (KIP-360)."""
        request = ip.InitProducerIdRequest(
            transactional_id=COPIER,
            transaction_timeout_ms=self.job.timeout_ms,
            producer_id=self._producer_id if knows_itself else NO_PRODUCER_ID,
            producer_epoch=self._epoch if knows_itself else NO_PRODUCER_EPOCH,
        )

        async def attempt() -> ip.InitProducerIdResponse:
            response: ip.InitProducerIdResponse = await self._ask_coordinator(
                CoordinatorType.TRANSACTION, request, ApiKey.INIT_PRODUCER_ID
            )
            self._check(response.error_code, "InitProducerId")
            return response

        response = await self._persist("InitProducerId", attempt)
        self._set_identity(response.producer_id, response.producer_epoch)

    def _set_identity(self, producer_id: int, epoch: int) -> None:
        assert producer_id != self._producer_id or epoch > self._epoch, (
            f"{self.client.name}: epoch {epoch} after {self._epoch} of producer id {producer_id}"
        )
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences = {}

    # A transaction.

    async def _copy(self, *, is_last: bool = False) -> None:
        records = await self._persist("Fetch", self._read_input)
        if not records:
            return
        end = Offset(records[-1][0] + 1)
        copy = self.ledger.begin(records[0][0], end, self._loop.time())
        writes = self._plan(copy, records)
        if not self.job.is_new:
            await self._add_partitions([each.partition for each in writes])
        steps = [self._write_all(writes), self._commit_position(end)]
        if self._rng.random() < 0.3:
            steps.reverse()
        try:
            for step in steps:
                await step
        finally:
            for step in steps:
                step.close()
        if not is_last and self._rng.random() < 0.08:
            # The coordinator aborts the transaction meanwhile, unless its clock is slow.
            await self.client.pause(0.5 * self.job.timeout_ms / 1000, 2 * self.job.timeout_ms / 1000)
        await self._end(copy, commits=is_last or self._rng.random() < 0.8)

    async def _read_input(self) -> list[tuple[Offset, bytes]]:
        client, source, at = self.client, self.job.source, self._position
        request = fetch_request({source: at}, client.world.topic_ids, max_bytes=INPUT_BYTES)
        response = await self._ask_leader(source, request, ApiKey.FETCH)
        self._check(response.error_code, "Fetch")
        records: list[tuple[Offset, bytes]] = []
        for _, data in partitions_of(response, client.world.topic_ids):
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Moved  # the broker does not know yet that another broker leads the partition
            self._check(data.error_code, "Fetch")
            records += [
                (Offset(record.offset), bytes(record.value or b""))
                for position, _ in iter_batches(data.records or b"")
                for record in read_records(data.records or b"", position)
                if record.offset >= at
            ]
        return records[: self._rng.randint(1, RECORDS_MAX)]

    def _plan(self, copy: Copy, records: Sequence[tuple[Offset, bytes]]) -> list[Writes]:
        """Chooses one or more partitions for each record, and divides the copies of a partition into batches."""
        targets = self._some(self.job.targets)
        writes = {partition: Writes(partition) for partition in targets}
        for offset, value in records:
            for partition in self._some(targets):
                content = self.ledger.writes(copy, partition, offset, value)
                batches = writes[partition].batches
                if not batches or self._rng.random() < 0.2:
                    batches.append([])
                batches[-1].append(content)
        return [each for each in writes.values() if each.batches]

    def _some(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return self._rng.sample(partitions, self._rng.randint(1, len(partitions)))

    async def _add_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        topics = tuple(
            ap.AddPartitionsToTxnTopic(name=name, partitions=tuple(numbers))
            for name, numbers in numbers_by_topic(partitions).items()
        )
        request = ap.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=COPIER,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=topics,
        )

        async def attempt() -> None:
            response = await self._ask_coordinator(
                CoordinatorType.TRANSACTION, request, ApiKey.ADD_PARTITIONS_TO_TXN, at_most=3
            )
            for topic in response.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    self._check(result.partition_error_code, "AddPartitionsToTxn")

        await self._persist("AddPartitionsToTxn", attempt)

    async def _write_all(self, writes: Sequence[Writes]) -> None:
        """Writes to all partitions at the same time. Waits for all answers, also if one of them is an error."""
        results = await asyncio.gather(*(self._write(each) for each in writes), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result

    async def _write(self, writes: Writes) -> None:
        for values in writes.batches:
            sequence = self._sequences.get(writes.partition, 0)
            encoded = encode_batch(
                [Record(-1, self.client.world.cluster.node.clock.now_ms(), None, value) for value in values],
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=sequence,
                transactional=True,
            )
            await self._produce(writes.partition, encoded)
            self._sequences[writes.partition] = sequence + len(values)

    async def _produce(self, partition: TopicPartition, encoded: bytes) -> None:
        request = produce_request(
            {partition: encoded},
            self.client.world.topic_ids,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            transactional_id=COPIER,
        )

        async def attempt() -> None:
            response = await self._ask_leader(
                partition, request, ApiKey.PRODUCE, at_most=PRODUCE[self.job.is_new]
            )
            code = response.responses[0].partition_responses[0].error_code
            if code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._check(code, f"Produce to {partition}")

        await self._persist(f"Produce to {partition}", attempt, writes=True)

    async def _commit_position(self, end: Offset) -> None:
        if not self.job.is_new:
            await self._add_offsets()
        part = to.TxnOffsetCommitRequestPartition(
            partition_index=self.job.source.partition, committed_offset=end
        )
        request = to.TxnOffsetCommitRequest(
            transactional_id=COPIER,
            group_id=self.job.group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=(to.TxnOffsetCommitRequestTopic(name=self.job.source.topic, partitions=(part,)),),
        )

        async def attempt() -> None:
            response = await self._ask_coordinator(
                CoordinatorType.GROUP,
                request,
                ApiKey.TXN_OFFSET_COMMIT,
                at_most=OFFSET_COMMIT[self.job.is_new],
            )
            self._check(response.topics[0].partitions[0].error_code, "TxnOffsetCommit")

        await self._persist("TxnOffsetCommit", attempt, writes=True)

    async def _add_offsets(self) -> None:
        request = ao.AddOffsetsToTxnRequest(
            transactional_id=COPIER,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=self.job.group,
        )

        async def attempt() -> None:
            response = await self._ask_coordinator(
                CoordinatorType.TRANSACTION, request, ApiKey.ADD_OFFSETS_TO_TXN
            )
            self._check(response.error_code, "AddOffsetsToTxn")

        await self._persist("AddOffsetsToTxn", attempt)

    async def _end(self, copy: Copy, *, commits: bool) -> None:
        request = et.EndTxnRequest(
            transactional_id=COPIER,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commits,
        )
        if commits and not self.is_fenced:
            self.ledger.asks_for_commit(copy)

        async def attempt() -> et.EndTxnResponse:
            response: et.EndTxnResponse = await self._ask_coordinator(
                CoordinatorType.TRANSACTION, request, ApiKey.END_TXN, at_most=END[self.job.is_new]
            )
            self._check(response.error_code, "EndTxn")
            return response

        response = await self._persist("EndTxn", attempt, writes=True)
        self.ledger.acknowledged(copy, self._loop.time(), commits=commits)
        self._loop.note(f"{self.client.name} ends {copy}")
        if commits:
            self._position = Offset(copy.end)
        if self.job.is_new:
            self._set_identity(response.producer_id, response.producer_epoch)

    # Questions.

    async def committed_position(self, *, require_stable: bool = True) -> int:
        """The committed position of the group. 0 if nothing is committed.

        A coordinator that was replaced and does not know it yet may answer with an old position. Nothing in the
        protocol prevents this, so such an answer is not taken.
        """
        topic = of.OffsetFetchRequestTopics(
            name=self.job.source.topic, partition_indexes=(self.job.source.partition,)
        )
        asked = of.OffsetFetchRequestGroup(group_id=self.job.group, topics=(topic,))
        request = of.OffsetFetchRequest(groups=(asked,), require_stable=require_stable)
        coordinator = await self._coordinator(CoordinatorType.GROUP)
        response = await self.client.ask(coordinator, request, ApiKey.OFFSET_FETCH, at_most=9)
        (group,) = response.groups
        self._check(group.error_code, "OffsetFetch")
        (part,) = group.topics[0].partitions
        self._check(part.error_code, "OffsetFetch")
        image = self._group_partition()
        if image is None or image.leader != coordinator:
            raise Moved
        committed: int = part.committed_offset
        return max(committed, 0)

    def _group_partition(self) -> PartitionImage | None:
        """The partition of `__consumer_offsets` that has the position."""
        topic = self.client.world.watch.image.topics.topic(GROUP_METADATA_TOPIC)
        return (
            None if topic is None else topic.partitions[partition_for(self.job.group, len(topic.partitions))]
        )

    # The cluster.

    async def _persist(self, what: str, attempt: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        """Sends a request until it succeeds. Sometimes gives up instead, so that the outcome is unknown.

        `writes` is True if the request can only succeed when something is written.
        """
        was_fenced = self.is_fenced
        while True:
            try:
                result = await attempt()
            except (Moved, *TROUBLE) as error:
                self.client.note(f"{what}: {error!r}")
                if not isinstance(error, Again):
                    self.forget()
                if self.is_finished or (self.is_begun and self._rng.random() < 0.1):
                    raise Refused(f"gives up {what}") from error
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
                continue
            assert not (was_fenced and writes), f"{self.client.name} was fenced, but {what} succeeded"
            return result

    def _check(self, code: ErrorCode, what: str) -> None:
        if code is ErrorCode.NONE:
            return
        if code in FENCED:
            raise Refused(f"{what}: {code.name}")
        assert code in NOT_NOW, f"{self.client.name}: {what} failed with {code!r}"
        raise Again(code) if code is ErrorCode.CONCURRENT_TRANSACTIONS else Moved(code)

    async def _ask_leader(
        self, partition: TopicPartition, request: object, key: ApiKey, *, at_most: int = 99
    ) -> Any:
        leader = await self.client.leader(partition)
        return await self.client.ask(leader, request, key, at_most=at_most)

    async def _ask_coordinator(
        self, kind: CoordinatorType, request: object, key: ApiKey, *, at_most: int = 99
    ) -> Any:
        return await self.client.ask(await self._coordinator(kind), request, key, at_most=at_most)

    async def _coordinator(self, kind: CoordinatorType) -> int:
        if kind not in self._coordinators:
            name = self.job.group if kind is CoordinatorType.GROUP else COPIER
            request = fc.FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=(name,))
            response = await self.client.ask(self.client.any_broker(), request, ApiKey.FIND_COORDINATOR)
            (found,) = response.coordinators
            self._check(found.error_code, "FindCoordinator")
            self._coordinators[kind] = found.node_id
        return self._coordinators[kind]

    def forget(self) -> None:
        """Forgets all leaders and coordinators after an error."""
        self._coordinators.clear()
        self.client.leaders.clear()
