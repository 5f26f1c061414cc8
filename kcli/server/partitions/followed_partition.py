"""A partition that this broker follows: its log, and the consumers that read from it (KIP-392)."""

from __future__ import annotations

import asyncio
import uuid

from kcli.model.ids import BrokerId, LeaderEpoch, Offset
from kcli.replica.early_requests import LONG_OVER, Window
from kcli.replica.follower import OwnLog
from kcli.server.metrics.traffic import Traffic
from kcli.server.partitions.known_epochs import check_known_epoch
from kcli.server.partitions.parked import ParkedFetches, measure_again
from kcli.storage.log.log import PartitionLog


class FollowedPartition:
    """One partition in one leader epoch, while another broker leads it. `leader` is NO_LEADER if no broker leads.

    `is_current` is False after the leader epoch has ended or the replica has been removed. After that, no record may be
    appended.

    This broker may soon become the leader. `early` is the window in which it therefore holds requests for the leader
    (`kcli.replica.early_requests`).
    """

    __slots__ = (
        "_ended",
        "early",
        "is_current",
        "leader",
        "leader_epoch",
        "log",
        "parked_fetches",
        "partition",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID,
        log: PartitionLog,
        *,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        traffic: Traffic | None = None,
        early: Window = LONG_OVER,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log = log
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.traffic = traffic or Traffic()
        self.parked_fetches: ParkedFetches = {}
        self.is_current = True
        self.early = early
        self._ended: asyncio.Event | None = None  # made for the first request that is held

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def check_epoch(self, known_epoch: int) -> None:
        """Raises KafkaError if the client's leader epoch is not the leader epoch of this broker (KIP-320)."""
        check_known_epoch(self, known_epoch, self.leader_epoch)

    @property
    def own_log(self) -> OwnLog:
        """The offsets and epochs of the log, as input for the decisions of a follower."""
        log = self.log
        return OwnLog(
            log.log_start_offset,
            log.log_end_offset,
            log.high_watermark,
            log.leader_epochs.latest_epoch,
            log.end_offset_for_epoch,
        )

    def advance(self, high_watermark: Offset, log_start_offset: Offset) -> None:
        """Sets the high watermark and the log start offset to the leader's values, but at most to the end of this log.
        Then answers the waiting fetches that are due. Raises StorageError.
        """
        log = self.log
        before = log.high_watermark
        log.set_high_watermark(high_watermark)
        if log_start_offset > log.log_start_offset:
            log.delete_records_before(min(log_start_offset, log.high_watermark))
        if log.high_watermark > before:
            measure_again(self.parked_fetches)

    def hold_ms(self, now_ms: int) -> int:
        """The time for which this broker holds a request for the leader that arrives now."""
        self.early = self.early.at(now_ms)
        return self.early.remaining_ms(now_ms)

    async def ended(self) -> None:
        """Returns when this leader epoch has ended or the replica has been removed."""
        if self.is_current:
            self._ended = self._ended or asyncio.Event()
            await self._ended.wait()

    def resign(self) -> None:
        """Ends the work on this partition, and answers the waiting fetches."""
        self.is_current = False
        if self._ended is not None:
            self._ended.set()
        self.wake_all()

    def wake_all(self) -> None:
        """Ends the wait of every Fetch request on this partition."""
        for parked in list(self.parked_fetches):
            parked.finish()
