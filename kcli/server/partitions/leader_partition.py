"""A partition that this broker leads: its log, the leader's decisions, and the waiting clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from kcli.errors import (
    ErrorCode,
    KafkaStorageException,
    NotEnoughReplicasException,
    NotLeaderOrFollowerException,
    StorageError,
    TimeoutException,
)
from kcli.metadata.image import BrokerRegistration, PartitionImage
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_BROKER_EPOCH, BrokerId, LeaderEpoch, Offset
from kcli.model.request_values import ACKS_ALL
from kcli.protocol.messages.alter_partition import ResponsePartitionData
from kcli.replica.isr import IsrChange, Reaction, reaction_to
from kcli.replica.leader import FollowerState, LeaderState
from kcli.replica.waiting import CommitQueue, Wait
from kcli.runtime.turns import within
from kcli.server.metrics.traffic import Traffic
from kcli.server.partitions.known_epochs import check_known_epoch
from kcli.server.partitions.openings import AppendQueue, Openings
from kcli.server.partitions.parked import ParkedFetches, measure_again
from kcli.storage.log.log import AppendResult, PartitionLog
from kcli.storage.log.producer_state import Verification
from kcli.storage.log.validation import CheckedBatch, UnopenedBatch

_log = logging.getLogger("kcli.server.Partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderPorts:
    """The parts of the broker that the leaders of all its partitions use.

    `now_ms` is the monotonic time. `brokers` returns the registered brokers. `propose` sends the proposed ISR of a
    leader to the controller.
    """

    now_ms: Callable[[], int]
    lag_time_max_ms: int
    brokers: Callable[[], Mapping[int, BrokerRegistration]]
    propose: Callable[[LeaderPartition], None]
    openings: Openings


class LeaderPartition:
    """One partition while this broker leads it."""

    __slots__ = (
        "_ports",
        "commits",
        "deletions",
        "followers",
        "is_leader",
        "log",
        "parked_fetches",
        "partition",
        "queue",
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
        traffic: Traffic,
        ports: LeaderPorts,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.log = log
        self.state = state
        self._ports = ports
        self.followers = state.new_followers(ports.now_ms())
        self.traffic = traffic
        self.commits: CommitQueue[Callable[[], None]] = CommitQueue()
        self.parked_fetches: ParkedFetches = {}
        self.is_leader = True
        self.deletions: CommitQueue[Callable[[], None]] = CommitQueue()
        self.queue = AppendQueue(ports.openings)

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
        now_ms: int,
        transaction_version: int = 0,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Appends batches of a coordinator, and raises the high watermark as far as the ISR has the records. Raises
        KafkaError.

        A coordinator that is not unloaded yet may call this method after the leadership has ended. The batch would then
        be in the log of a follower, with an old leader epoch.
        """
        if not self.is_leader:
            raise NotLeaderOrFollowerException(f"{self} has lost its leader")
        self._check_acks(acks)
        try:
            result = self.log.append(
                records,
                leader_epoch=self.state.leader_epoch,
                now_ms=now_ms,
                transaction_version=transaction_version,
                verification=verification,
            )
        except StorageError as error:
            raise self._failed(error) from error
        self._note_append(result)
        return result

    def check_client_batch(self, records: Buffer, *, acks: int, now_ms: int) -> CheckedBatch | UnopenedBatch:
        """Checks a client's batch before its append. Raises KafkaError. If the decompression and the check of its
        records take long, the result is an UnopenedBatch."""
        self._check_acks(acks)
        try:
            return self.log.check_client_batch(records, now_ms, self._ports.openings.inline)
        except StorageError as error:
            raise self._failed(error) from error

    def append_checked(
        self, batch: CheckedBatch, *, now_ms: int, verification: Verification | None
    ) -> AppendResult:
        """Appends a client's batch, and raises the high watermark as far as the ISR has the records. Raises
        KafkaError."""
        try:
            result = self.log.append_checked(
                batch, leader_epoch=self.state.leader_epoch, now_ms=now_ms, verification=verification
            )
        except StorageError as error:
            raise self._failed(error) from error
        self._note_append(result)
        return result

    def append_opened(
        self,
        batch: CheckedBatch | UnopenedBatch,
        *,
        acks: int,
        now_ms: int,
        verification: Verification | None,
    ) -> asyncio.Task[AppendResult]:
        """Opens a client's batch in a thread if necessary, and appends it after all earlier batches. The caller must
        keep the bytes of the batch until the task ends."""

        def append(checked: CheckedBatch) -> AppendResult:
            if not self.is_leader:
                raise NotLeaderOrFollowerException(f"{self} lost its leader while a batch was being opened")
            self._check_acks(acks)
            return self.append_checked(checked, now_ms=now_ms, verification=verification)

        return self.queue.add(batch, append)

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
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        # A marker makes older records readable for read_committed consumers. A fetch that only counts appended bytes
        # would not notice these records. So each waiting fetch measures its bytes again.
        measure_again(self.parked_fetches)
        return result

    # Followers and the ISR.

    def follower_fetched(
        self,
        replica: int,
        *,
        log_start_offset: int,
        log_end_offset: int,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> None:
        """Stores the progress of a follower after its fetch. A fetch from `log_end_offset` shows that the follower has
        every record before this offset. If the follower is in sync now, this leader proposes to add the follower to the
        ISR.

        Raises NotLeaderOrFollowerException if the follower's broker has no replica of the partition, or if this broker
        has restarted and is registered with a newer broker epoch.
        """
        broker_id = BrokerId(replica)
        before = self.followers.get(broker_id)
        if before is None:
            raise NotLeaderOrFollowerException(f"{self} has no replica on broker {replica}")
        registered = self._ports.brokers().get(broker_id)
        if registered is not None and NO_BROKER_EPOCH < broker_epoch < registered.epoch:
            raise NotLeaderOrFollowerException(
                f"The fetch of {self} is from an older run of broker {replica}, with broker epoch {broker_epoch}"
            )
        follower = self.followers[broker_id] = before.fetched(
            log_start_offset=Offset(log_start_offset),
            log_end_offset=Offset(log_end_offset),
            broker_epoch=broker_epoch,
            leader_end_offset=self.log.log_end_offset,
            now_ms=self._ports.now_ms(),
        )
        if self.state.may_join(broker_id, follower, self.log.high_watermark) and self._is_eligible(
            broker_id, follower
        ):
            self._expand_isr(broker_id)
        if follower.log_end_offset != before.log_end_offset:
            self._advance(0)
        self._end_deletions()

    @property
    def low_watermark(self) -> Offset:
        """The smallest log start offset of the replicas on live brokers. A DeleteRecords request waits until the low
        watermark reaches the offset in the request.
        """
        brokers = self._ports.brokers()
        starts = [
            follower.log_start_offset
            for replica, follower in self.followers.items()
            if (registered := brokers.get(replica)) is not None and not registered.fenced
        ]
        return min([*starts, self.log.log_start_offset])

    def _end_deletions(self) -> None:
        if len(self.deletions):
            for deleted in self.deletions.due(self.low_watermark):
                deleted()

    def _is_eligible(self, replica: BrokerId, follower: FollowerState) -> bool:
        """Whether the broker may join an ISR. The broker must have fetched since its last start, and must be neither
        fenced nor stopping.
        """
        registered = self._ports.brokers().get(replica)
        return (
            registered is not None
            and registered.active
            and follower.has_fetched
            and follower.broker_epoch in (NO_BROKER_EPOCH, registered.epoch)
        )

    def _expand_isr(self, replica: BrokerId) -> None:
        self.state = self.state.expanded(replica)
        self._propose("Expanding")

    def shrink_isr(self) -> None:
        """Proposes to remove lagging replicas from the ISR. Call this method regularly."""
        state = self.state
        if not self.followers:
            return
        end = self.log.log_end_offset
        laggards = state.laggards(self.followers, end, self._ports.now_ms(), self._ports.lag_time_max_ms)
        if laggards:
            _log.debug("%s These replicas lag: %s", self._log_prefix, self._progress(laggards))
            self.state = state.reduced(laggards)
            self._propose("Shrinking")
        self._advance(0)  # a replica that was about to join may no longer hold back the high watermark
        self._end_deletions()  # a broker may have been fenced

    def _propose(self, kind: str) -> None:
        change, log = self.state.change, self.log
        assert change is not None, "a change was just made"
        _log.debug(
            "%s %s ISR from %s to %s. Leader: (highWatermark: %d, endOffset: %d)",
            self._log_prefix,
            kind,
            _listed(self.state.isr.members),
            _listed(change.members),
            log.high_watermark,
            log.log_end_offset,
        )
        self._ports.propose(self)

    @property
    def _log_prefix(self) -> str:
        return f"[Partition {self} broker={self.state.node_id}]"

    def _progress(self, replicas: tuple[BrokerId, ...]) -> str:
        now_ms = self._ports.now_ms()
        return ", ".join(
            f"(brokerId: {replica}, endOffset: {follower.log_end_offset}, "
            + (f"caught up {now_ms - follower.caught_up_ms} ms ago)" if follower.has_fetched else "no fetch)")
            for replica in replicas
            for follower in (self.followers[replica],)
        )

    def change_answered(self, change: IsrChange, answer: ResponsePartitionData) -> bool:
        """Applies the controller's answer to a change. Returns True if the change must be sent again."""
        state = self.state
        if not self.is_leader or state.change is not change:
            return False  # the metadata already has a newer state of the partition
        if answer.error_code is not ErrorCode.NONE:
            return self._change_refused(answer.error_code)
        if answer.leader_epoch != state.leader_epoch or answer.partition_epoch < state.partition_epoch:
            self.traffic.failed_isr_updates += 1
            return False
        self.commit_partition(state.replicas, tuple(map(BrokerId, answer.isr)), answer.partition_epoch)
        return False

    def _change_refused(self, error: ErrorCode) -> bool:
        self.traffic.failed_isr_updates += 1
        reaction = reaction_to(error)
        _log.info("%s The controller refused a change of the ISR with %s", self._log_prefix, error.name)
        if reaction is Reaction.GIVE_UP:
            self.change(self.state.given_up())
        return reaction is Reaction.SEND_AGAIN

    def begin_epoch(self, state: LeaderState) -> None:
        """Begins the next leader epoch of this leader.

        Waiting Produce requests continue to wait, because no record is lost. Waiting Fetch requests are answered now,
        because their clients may know only the old epoch. If this broker has missed a leader epoch, another broker may
        have led, and the followers may have truncated their logs. So the known log end offsets of the followers are
        dropped.
        """
        now_ms, members = self._ports.now_ms(), state.isr.members
        followers = state.new_followers(now_ms)
        if state.leader_epoch == self.state.leader_epoch + 1:
            for replica, known in self.followers.items():
                if replica in followers:
                    followers[replica] = known.in_next_term(
                        in_isr=replica in members, leader_end_offset=state.start_offset, now_ms=now_ms
                    )
        self.followers = followers
        self.change(state)
        self.wake_all()

    def apply(self, after: PartitionImage) -> None:
        """Applies a new state of the partition from the metadata. This state has the same leader epoch as the leader.

        This method does nothing if an answer of the controller has already given the leader this state or a newer
        state. Kafka, in contrast, applies the same state a second time. Kafka's leader then forgets a change of the ISR
        that it has proposed. If this change adds a replica, the high watermark of Kafka's leader does not wait for this
        replica, and may rise above the replica's records.
        """
        if after.partition_epoch > self.state.partition_epoch:
            self.commit_partition(after.replicas, after.isr, after.partition_epoch)

    def commit_partition(
        self, replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], partition_epoch: int
    ) -> None:
        """Applies a committed state of the partition, which may raise the high watermark."""
        before = self.state
        self._count_change(before.change, isr)
        state = before.with_partition(replicas=replicas, isr=isr, partition_epoch=partition_epoch)
        if replicas != before.replicas:
            now_ms, known = self._ports.now_ms(), self.followers
            self.followers = {
                replica: known.get(replica) or state.new_follower(replica, now_ms)
                for replica in replicas
                if replica != state.node_id
            }
        for replica in before.isr.members:
            if replica not in isr and replica in self.followers:
                self.followers[replica] = self.followers[replica].outside_isr()
        self.change(state)
        self._end_deletions()

    def _count_change(self, change: IsrChange | None, isr: tuple[BrokerId, ...]) -> None:
        """Counts and logs a change that this leader proposed and that is committed now."""
        if change is None or sorted(change.members) != sorted(isr):
            return
        _log.debug("%s ISR updated to %s", self._log_prefix, _listed(isr))
        if change.expands:
            self.traffic.isr_expands += 1
        else:
            self.traffic.isr_shrinks += 1

    def change(self, state: LeaderState) -> None:
        """Applies a change of the ISR or of min.insync.replicas, which may move the high watermark."""
        self.state = state
        self._advance(0)

    def _advance(self, size_bytes: int) -> None:
        """Raises the high watermark if possible, and answers the requests that are due. `size_bytes` is the size of the
        present append, or 0 if there is no append.
        """
        log = self.log
        followers = self.followers
        joining = self._joining() if followers else ()
        high_watermark = self.state.high_watermark(
            log.high_watermark, log.local.end_offset, followers, joining
        )
        moves = high_watermark > log.high_watermark
        if moves:
            log.set_high_watermark(high_watermark)
            if len(self.commits):
                for committed in self.commits.due(high_watermark):
                    committed()
        if self.parked_fetches and (moves or size_bytes):
            # If the high watermark moves without an append, older records became readable. Their bytes were already
            # counted at their append.
            older_committed = moves and not size_bytes
            for parked in list(self.parked_fetches):
                parked.changed(self.parked_fetches, size_bytes, measure=older_committed)

    def when_committed(self, offset: Offset, callback: Callable[[], None]) -> Wait[Callable[[], None]] | None:
        """Calls `callback` when everything before `offset` is committed, or when the leadership ends. If everything is
        committed already, calls `callback` immediately and returns None. If not, returns a `Wait`. The caller may
        cancel `callback` with `Wait.drop`.
        """
        if self.is_leader and self.log.high_watermark < offset:
            return self.commits.wait_for(offset, callback)
        callback()
        return None

    def when_deleted(self, offset: Offset, callback: Callable[[], None]) -> Wait[Callable[[], None]] | None:
        """Calls `callback` when the low watermark reaches `offset`, or when the leadership ends. Does the rest as
        `when_committed`."""
        if self.is_leader and self.low_watermark < offset:
            return self.deletions.wait_for(offset, callback)
        callback()
        return None

    def _joining(self) -> Container[BrokerId]:
        """The replicas that will soon join the ISR. The high watermark already waits for these replicas. The present
        time decides which replicas they are. But no replica can join if all replicas are already in the committed or
        the proposed ISR. In this case, the clock is not read, because reading the clock takes longer than the rest of
        this method.
        """
        state = self.state
        if len(state.maximal_isr) == len(state.replicas):
            return ()
        return state.joining(
            self.followers, self._is_eligible, self._ports.now_ms(), self._ports.lag_time_max_ms
        )

    async def wait_committed(self, offset: Offset, timeout: float) -> None:
        """Waits until everything before `offset` is committed. `timeout` is in seconds.

        Raises TimeoutException, or NotLeaderOrFollowerException if the leadership ends first.
        """
        if self.log.high_watermark < offset and self.is_leader:
            committed = asyncio.Event()
            wait = self.commits.wait_for(offset, committed.set)
            try:
                await within(timeout, committed.wait())
            except TimeoutError:
                wait.drop()
                raise TimeoutException(f"{self} did not commit offset {offset} within {timeout} s") from None
        if not self.is_leader:
            raise NotLeaderOrFollowerException(f"{self} lost its leader while records were being committed")

    def resign(self) -> None:
        """Ends the leadership, and answers all waiting requests."""
        self.is_leader = False
        self.wake_all()
        for waiting in (*self.commits.end(), *self.deletions.end()):
            waiting()

    def wake_all(self) -> None:
        """Ends the wait of every Fetch request on this partition."""
        for parked in list(self.parked_fetches):
            parked.finish()


def _listed(replicas: tuple[BrokerId, ...]) -> str:
    return ",".join(map(str, replicas))
