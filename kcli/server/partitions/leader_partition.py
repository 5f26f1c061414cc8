"""A partition that this broker leads: its log, the leader's decisions, and the waiting clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kcli.errors import (
    KafkaStorageException,
    NotEnoughReplicasException,
    NotLeaderOrFollowerException,
    StorageError,
    TimeoutException,
)
from kcli.model.buffers import Buffer
from kcli.model.ids import BrokerId, LeaderEpoch, Offset
from kcli.model.request_values import ACKS_ALL
from kcli.replica.leader import FollowerState, LeaderState
from kcli.replica.waiting import CommitQueue
from kcli.server.metrics.traffic import Traffic
from kcli.server.partitions.known_epochs import check_known_epoch
from kcli.server.partitions.openings import AppendQueue, Openings
from kcli.server.partitions.parked import ParkedFetches
from kcli.storage.log.log import AppendOrigin, AppendResult, PartitionLog
from kcli.storage.log.producer_state import Verification
from kcli.storage.log.validation import CheckedBatch


class LeaderPartition:
    """One partition while this broker leads it."""

    __slots__ = (
        "_queue",
        "commits",
        "deletions",
        "followers",
        "is_leader",
        "log",
        "parked_fetches",
        "partition",
        "state",
        "topic",
        "traffic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        log: PartitionLog,
        state: LeaderState,
        traffic: Traffic | None = None,
        openings: Openings | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.log = log
        self.state = state
        self.followers = state.new_followers()
        self.traffic = traffic or Traffic()
        self.commits: CommitQueue[Callable[[], None]] = CommitQueue()
        self.deletions: CommitQueue[Callable[[], None]] = CommitQueue()
        self.parked_fetches: ParkedFetches = {}
        self.is_leader = True
        self._queue = AppendQueue(openings or Openings())

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def leader_epoch(self) -> LeaderEpoch:
        return self.state.leader_epoch

    def check_epoch(self, known_epoch: int) -> None:
        """Raises KafkaError if the client's leader epoch is not the leader epoch of this broker (KIP-320)."""
        check_known_epoch(self, known_epoch, self.state.leader_epoch)

    def append(
        self,
        records: Buffer,
        *,
        acks: int,
        origin: AppendOrigin,
        now_ms: int,
        transaction_version: int = 0,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Appends to the log, and moves the high watermark as far as the ISR allows. Raises KafkaError."""
        self._check_acks(acks)
        try:
            result = self.log.append(
                records,
                leader_epoch=self.state.leader_epoch,
                origin=origin,
                now_ms=now_ms,
                transaction_version=transaction_version,
                verification=verification,
            )
        except StorageError as error:
            raise self._failed(error) from error
        self._note_append(result)
        return result

    def append_client(
        self, records: Buffer, *, acks: int, now_ms: int, verification: Verification | None = None
    ) -> AppendResult | asyncio.Task[AppendResult]:
        """Appends a client's batch, and moves the high watermark as far as the ISR allows. Raises KafkaError.

        Returns a task if the batch takes long to open, or if an append of an earlier batch still waits.
        """
        self._check_acks(acks)
        try:
            batch = self.log.check_client_batch(records, now_ms)
            if isinstance(batch, CheckedBatch) and self._queue.is_empty:
                return self._append_checked(batch, now_ms, verification)
        except StorageError as error:
            raise self._failed(error) from error

        def append(checked: CheckedBatch) -> AppendResult:
            if not self.is_leader:
                raise NotLeaderOrFollowerException(f"{self} lost its leader while a batch was being opened")
            self._check_acks(acks)
            try:
                return self._append_checked(checked, now_ms, verification)
            except StorageError as error:
                raise self._failed(error) from error

        return self._queue.add(batch, append)

    def _append_checked(
        self, checked: CheckedBatch, now_ms: int, verification: Verification | None
    ) -> AppendResult:
        result = self.log.append_checked(
            checked, leader_epoch=self.state.leader_epoch, now_ms=now_ms, verification=verification
        )
        self._note_append(result)
        return result

    def _check_acks(self, acks: int) -> None:
        if not self.state.accepts(acks):
            isr = self.state.isr
            raise NotEnoughReplicasException(
                f"The size of the current ISR Set({', '.join(map(str, isr.members))}) is insufficient to satisfy "
                f"the min.isr requirement of {isr.required} for partition {self}"
            )

    def _failed(self, error: StorageError) -> KafkaStorageException:
        return KafkaStorageException(f"Append to {self} failed: {error}")

    def _note_append(self, result: AppendResult) -> None:
        traffic = self.traffic
        traffic.produces += 1
        if not result.duplicate:
            traffic.messages_in += result.last_offset - result.base_offset + 1
            traffic.bytes_in += result.size_bytes
            self._advance(result.size_bytes)

    def append_marker(self, batch: Buffer, *, now_ms: int, transaction_version: int) -> AppendResult:
        """Writes the marker that ends a producer's transaction. Raises KafkaError."""
        result = self.append(
            batch,
            acks=ACKS_ALL,
            origin=AppendOrigin.COORDINATOR,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        # A marker makes older records readable for read_committed consumers. A fetch that only counts appended bytes
        # would not notice these records. So each fetch measures its bytes again.
        for parked in list(self.parked_fetches):
            parked.changed(self.parked_fetches, 0, measure=True)
        return result

    def follower_fetched(
        self, replica: int, *, log_start_offset: Offset, log_end_offset: Offset, broker_epoch: int = -1
    ) -> None:
        """Records a fetch of a follower. A fetch from `log_end_offset` shows that the follower has every record before
        this offset."""
        self.followers[BrokerId(replica)] = FollowerState(Offset(log_start_offset), Offset(log_end_offset))
        self._advance(0)
        for deleted in self.deletions.due(self.low_watermark):
            deleted()

    @property
    def low_watermark(self) -> Offset:
        return min(
            (each.log_start_offset for each in self.followers.values()), default=self.log.log_start_offset
        )

    def change(self, state: LeaderState) -> None:
        """Applies a change of the ISR or of min.insync.replicas, which may move the high watermark."""
        self.state = state
        self._advance(0)

    def _advance(self, size_bytes: int) -> None:
        """Moves the high watermark and answers the requests that are due. `size_bytes` is the size of the present
        append, or 0."""
        log = self.log
        high_watermark = self.state.high_watermark(log.high_watermark, log.log_end_offset, self.followers)
        moves = high_watermark > log.high_watermark
        if moves:
            log.set_high_watermark(high_watermark)
            if len(self.commits):
                for committed in self.commits.due(high_watermark):
                    committed()
        if self.parked_fetches:
            # If the high watermark moves without an append, older records became readable. Their bytes were already
            # counted at their append.
            older_committed = moves and not size_bytes
            for parked in list(self.parked_fetches):
                parked.changed(self.parked_fetches, size_bytes, measure=older_committed)

    async def wait_committed(self, offset: Offset, timeout: float) -> None:
        """Waits until everything before `offset` is committed. `timeout` is in seconds.

        Raises TimeoutException, or NotLeaderOrFollowerException if the leadership ends first.
        """
        if self.log.high_watermark < offset:
            committed = asyncio.Event()
            self.commits.wait_for(offset, committed.set)
            try:
                await asyncio.wait_for(committed.wait(), timeout)
            except TimeoutError:
                raise TimeoutException(f"{self} did not commit offset {offset} within {timeout} s") from None
        if not self.is_leader:
            raise NotLeaderOrFollowerException(f"{self} lost its leader while records were being committed")

    def resign(self) -> None:
        """Ends the leadership, and answers all waiting requests."""
        self.is_leader = False
        self.wake_all()
        for committed in (*self.commits.end(), *self.deletions.end()):
            committed()

    def wake_all(self) -> None:
        """Ends the wait of every parked fetch."""
        for parked in list(self.parked_fetches):
            parked.finish()
