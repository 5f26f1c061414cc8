"""One followed partition in a fetcher: its state, and the actions on its log.

The records of a large answer are appended in several steps, so that they do not block the event loop. A truncation of
the log only drops files and offsets, which is fast. Then another thread reads the state of the producers at the new log
end. Meanwhile the partition is not fetched.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator

from kcli.client.records.fetch_plan import FetchPosition
from kcli.errors import (
    CorruptRecordException,
    InvalidRecordException,
    KafkaError,
    ShortageError,
    StorageError,
)
from kcli.model.buffers import Buffer
from kcli.model.ids import LeaderEpoch, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.fetch import PartitionData
from kcli.replica.follower import (
    Action,
    Answer,
    Append,
    BackOff,
    Cut,
    Fail,
    FollowedState,
    Ignore,
    Phase,
    Restart,
    begin,
    on_answer,
)
from kcli.server.partitions.fetchers.cut_syncs import CutSyncs
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.storage.directory import Background

_log = logging.getLogger("kcli.server.ReplicaFetcherThread")

BROKEN_BYTES = (CorruptRecordException, InvalidRecordException)
"""Errors in fetched records, which the network or the leader's disk may have damaged. The next fetch may bring valid
records."""


class Following:
    """One followed partition, from `ReplicaFetchers.follow` to `forget`."""

    __slots__ = ("key", "partition", "state", "state_in_request")

    def __init__(self, partition: FollowedPartition) -> None:
        self.partition = partition
        self.key = TopicPartition(partition.topic, partition.partition)
        self.state = FollowedState(
            partition.leader_epoch,
            partition.log.log_end_offset,
            partition.log.leader_epochs.latest_epoch,
            partition.log.log_start_offset,
        )
        self.state_in_request: FollowedState | None = None
        """The state of the partition at the time when the partition was last put into a request."""

    def begin(self) -> Action:
        """Sets the first state. Returns the action that is necessary before the first fetch."""
        self.state, cut = begin(self.partition.leader_epoch, self.partition.own_log)
        return cut or Ignore()

    @property
    def position(self) -> FetchPosition:
        """The values of this partition in the next Fetch request."""
        state = self.state
        return FetchPosition(
            self.partition.topic_id,
            state.fetch_offset,
            state.leader_epoch,
            state.last_fetched_epoch,
            state.log_start_offset,
        )

    def decide(self, part: PartitionData) -> Action:
        """Returns the action that the leader's answer requires."""
        if self.state_in_request is None or not self.partition.is_current:
            return Ignore()
        diverging = part.diverging_epoch
        answer = Answer(
            part.error_code,
            Offset(part.high_watermark),
            Offset(part.log_start_offset),
            LeaderEpoch(diverging.epoch),
            Offset(diverging.end_offset),
            bool(part.records),
        )
        return on_answer(self.state, self.state_in_request, answer, self.partition.own_log)

    def append(
        self, action: Append, records: Buffer | None, now_ms: int
    ) -> Generator[int, None, Action | None]:
        """Appends the records of an answer in steps. Each step yields the number of appended bytes. The result is the
        next action after an error, or None if there was no error.
        """
        partition = self.partition
        log = partition.log
        following: Action | None = None
        appended = 0
        try:
            if records:
                for result in log.replicate(records, leader_epoch=self.state.leader_epoch, now_ms=now_ms):
                    appended += result.size_bytes
                    yield result.size_bytes
                    if not partition.is_current:
                        return None
                    if partition.log is not log:  # the log has moved to another directory meanwhile
                        self.state = self.state.after(partition.own_log)
                        return None
                if not appended:
                    following = BackOff("the leader sent no whole batch of this leader epoch")
            partition.advance(action.high_watermark, action.log_start_offset)
        except BROKEN_BYTES as error:
            following = BackOff(f"the leader sent damaged records: {error}")
        except ShortageError as error:
            following = BackOff(str(error))
        except (StorageError, KafkaError) as error:
            following = Fail(str(error))
        self.state = self.state.after(partition.own_log, leader_high_watermark=action.high_watermark)
        return following

    def cut(self, action: Cut | Restart) -> Action | None:
        """Truncates the log. The partition stays in the phase CUTTING until `restore` has ended. After an error,
        returns the next action.
        """
        self.state = self.state.during(Phase.CUTTING)
        partition, log = self.partition, self.partition.log
        try:
            match action:
                case Cut():
                    if action.below_high_watermark:
                        _log.warning(
                            "%s is truncated to offset %d below its high watermark %d: the leader lost "
                            "committed records",
                            partition,
                            action.offset,
                            log.high_watermark,
                        )
                    _log.debug(
                        "%s: truncating from offset %d to %d", partition, log.log_end_offset, action.offset
                    )
                    log.truncate_to(action.offset)
                case Restart():
                    _log.warning(
                        "%s ends at offset %d, before the leader's log start offset %d; it starts again there",
                        partition,
                        log.log_end_offset,
                        action.offset,
                    )
                    log.truncate_fully_and_start_at(action.offset)
        except ShortageError as error:
            return BackOff(str(error))
        except (StorageError, KafkaError) as error:
            return Fail(str(error))
        partition.wake_all()  # a consumer may read after the new log end
        return None

    async def restore(self, background: Background, cuts: CutSyncs) -> None:
        """Completes a truncation in other threads: makes the truncation durable, and reads the state of the producers
        at the new log end. If the log changes meanwhile, the state of the producers is read again at its next use.
        """
        log = self.partition.log
        restoration, truncations = log.producers.begin_restoring(), log.local.truncations
        await cuts.synced(log)
        if restoration is None:
            return
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def work() -> None:
            try:
                restoration.run()
                loop.call_soon_threadsafe(log.producers.end_restoring, restoration, truncations)
            except Exception as error:
                # The files of a deleted log may be gone. The next use of the log reads the producers again, and then
                # reports a bad disk.
                _log.info("%s: the producers could not be read: %s", log.path, error)
            finally:
                loop.call_soon_threadsafe(done.set)

        background(work)
        await done.wait()

    def continued(self) -> None:
        """Returns to the phase FETCHING after a truncation, or after the leader's answer about the start and the end of
        the leader's log.
        """
        self.state = self.state.after(self.partition.own_log)
