"""A producer that copies the records of an input partition in transactions, with the position in the same transaction.

The producer uses one of the two transaction protocols (`TransactionClient`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from kcli.coordinator.hashing import partition_for
from kcli.errors import ErrorCode
from kcli.metadata.image import PartitionImage
from kcli.model.ids import NO_PRODUCER_ID, Offset
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_names import GROUP_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, TROUBLE, Client, Moved, fetch_request, partitions_of
from simulation.actors.transaction_client import Again, Refused, TransactionClient
from simulation.checks.copies import COPIER, Copy, CopyLedger

T = TypeVar("T")

RECORDS_MAX = 8
"""The most input records of a transaction."""
INPUT_BYTES = 20_000
LINGER_S = 4.0
"""The time for which a replaced instance waits for its successor after an error."""


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
        self._transactions = TransactionClient(
            client, COPIER, group=job.group, is_new=job.is_new, timeout_ms=job.timeout_ms
        )
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
        knows_itself = self._transactions.producer_id != NO_PRODUCER_ID and self._rng.random() < 0.3
        try:
            await self._init_producer_id(knows_itself=knows_itself)
        except Refused:
            self._transactions.forget_identity()
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
        await self._persist(
            "InitProducerId", lambda: self._transactions.init_producer_id(knows_itself=knows_itself)
        )

    # A transaction.

    async def _copy(self, *, is_last: bool = False) -> None:
        records = await self._persist("Fetch", self._read_input)
        if not records:
            return
        end = Offset(records[-1][0] + 1)
        copy = self.ledger.begin(records[0][0], end, self._loop.time())
        writes = self._plan(copy, records)
        if not self.job.is_new:
            partitions = [each.partition for each in writes]
            await self._persist("AddPartitionsToTxn", lambda: self._transactions.add_partitions(partitions))
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
        response = await client.ask(await client.leader(source), request, ApiKey.FETCH)
        self._transactions.check(response.error_code, "Fetch")
        records: list[tuple[Offset, bytes]] = []
        for _, data in partitions_of(response, client.world.topic_ids):
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise Moved  # the broker does not know yet that another broker leads the partition
            self._transactions.check(data.error_code, "Fetch")
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

    async def _write_all(self, writes: Sequence[Writes]) -> None:
        """Writes to all partitions at the same time. Waits for all answers, also if one of them is an error."""
        results = await asyncio.gather(*(self._write(each) for each in writes), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result

    async def _write(self, writes: Writes) -> None:
        for values in writes.batches:
            batch = self._transactions.encode(writes.partition, [(None, value) for value in values])
            await self._persist(
                f"Produce to {writes.partition}", partial(self._transactions.produce, batch), writes=True
            )
            self._transactions.is_written(batch)

    async def _commit_position(self, end: Offset) -> None:
        if not self.job.is_new:
            await self._persist("AddOffsetsToTxn", self._transactions.add_offsets)
        await self._persist(
            "TxnOffsetCommit",
            lambda: self._transactions.commit_offset(self.job.source, end),
            writes=True,
        )

    async def _end(self, copy: Copy, *, commits: bool) -> None:
        if commits and not self.is_fenced:
            self.ledger.asks_for_commit(copy)
        identity = await self._persist("EndTxn", lambda: self._transactions.end(commits=commits), writes=True)
        self.ledger.acknowledged(copy, self._loop.time(), commits=commits)
        self._loop.note(f"{self.client.name} ends {copy}")
        if commits:
            self._position = Offset(copy.end)
        self._transactions.has_ended(*identity)

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
        coordinator = await self._transactions.coordinator(CoordinatorType.GROUP)
        response = await self.client.ask(coordinator, request, ApiKey.OFFSET_FETCH, at_most=9)
        (group,) = response.groups
        self._transactions.check(group.error_code, "OffsetFetch")
        (part,) = group.topics[0].partitions
        self._transactions.check(part.error_code, "OffsetFetch")
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

    def forget(self) -> None:
        """Forgets all leaders and coordinators after an error."""
        self._transactions.forget()
