"""The partitions that this broker leads: their logs, the leader's decisions, and the waiting clients.

`Replicas` applies each delta of the metadata: it creates, reconfigures or deletes logs, and begins or ends leaderships.
A new leader epoch is written to the log's epoch cache before the first append in that epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NoReturn

from kcli.config.topic import LogConfig
from kcli.errors import (
    KafkaError,
    KafkaStorageException,
    NotLeaderOrFollowerException,
    StorageError,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.delta import MetadataDelta, PartitionDiff
from kcli.metadata.image import MetadataImage, PartitionImage
from kcli.model.configs import ConfigResourceType
from kcli.model.ids import BrokerId
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.replica.leader import begin_term
from kcli.server.metrics.traffic import TrafficTable
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.openings import Openings
from kcli.storage.directory import Background, LogDirectory
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.store import LogStore, NewLog, run_inline

_log = logging.getLogger("kcli.server.ReplicaManager")


AT_ONCE_PARTITIONS = 20
"""A change of at most this many partitions is applied at once. Most requests create or delete fewer."""

SLICE_PARTITIONS = 50
"""A larger change is applied in slices of this many partitions. A slice takes a few milliseconds, if the files already
exist. Other requests are served between slices."""


LeadershipListener = Callable[[LeaderPartition, bool], None]
"""A callback with (partition, led). `led` is True if this broker begins to lead the partition or the leader epoch
changes."""


class Replicas:
    """The partitions that this broker leads."""

    def __init__(
        self,
        node_id: BrokerId,
        logs: LogStore,
        log_config: Callable[[str], LogConfig],
        traffic: TrafficTable | None = None,
        background: Background = run_inline,
    ) -> None:
        self.node_id = node_id
        self._run_in_background = background
        self.logs = logs
        self.traffic = traffic or TrafficTable()
        self._log_config = log_config
        self._leaders: dict[tuple[str, int], LeaderPartition] = {}
        self._followed: dict[tuple[str, int], FollowedPartition] = {}
        self._image = MetadataImage()
        self._waiting: deque[PartitionDiff] = deque()
        self._is_applied = asyncio.Event()
        self._is_applied.set()
        self._listeners: list[LeadershipListener] = []
        self.openings = Openings()

    def __iter__(self) -> Iterator[LeaderPartition]:
        return iter(self._leaders.values())

    def __len__(self) -> int:
        return len(self._leaders)

    def subscribe(self, listener: LeadershipListener) -> None:
        self._listeners.append(listener)

    def get(self, topic: str, partition: int) -> LeaderPartition:
        """Returns a partition that this broker leads. Raises KafkaError, with Kafka's error codes, if this broker does
        not lead the partition."""
        found = self._leaders.get((topic, partition))
        if found is None:
            self._refuse(topic, partition)
        return found

    def hosted(self, topic: str, partition: int) -> LeaderPartition | FollowedPartition:
        """Returns the replica on this broker, led or followed. Raises KafkaError as `get` does."""
        found = self._followed.get((topic, partition))
        return self.get(topic, partition) if found is None else found

    def find(self, topic: str, partition: int) -> LeaderPartition | None:
        return self._leaders.get((topic, partition))

    def _refuse(self, topic: str, partition: int) -> NoReturn:
        image = self._image.partition(topic, partition)
        if image is None:
            raise UnknownTopicOrPartitionException
        if image.leader == self.node_id and not self._is_waiting(topic, partition):
            raise KafkaStorageException(f"Partition {topic}-{partition} is in an offline log directory")
        raise NotLeaderOrFollowerException(
            f"Partition {topic}-{partition} is not led by broker {self.node_id}"
        )

    def _is_waiting(self, topic: str, partition: int) -> bool:
        """Whether a change of this partition waits to be applied."""
        return any(diff.topic == topic and diff.partition == partition for diff in self._waiting)

    # Metadata.

    def strays(self, image: MetadataImage) -> list[PartitionLog]:
        """The logs and copies on this broker that do not belong to a replica in the metadata."""
        every = (*self.logs.logs.values(), *self.logs.futures.logs.values())
        return [log for log in every if log.topic != CLUSTER_METADATA_TOPIC and not self._is_ours(image, log)]

    def _is_ours(self, image: MetadataImage, log: PartitionLog) -> bool:
        topic = image.topics.topic(log.topic)
        if topic is None or log.topic_id not in (None, topic.topic_id):
            return False
        partition = topic.partitions.get(log.partition)
        return partition is not None and self.node_id in partition.replicas

    def load(self, image: MetadataImage) -> None:
        """Begins to lead the partitions that the metadata assigns, in slices. `applied` waits for the last slice."""
        self._image = image
        self._is_applied.clear()
        is_idle = not self._waiting
        for topic in image.topics:
            for index, partition in topic.partitions.items():
                self._waiting.append(PartitionDiff(topic.name, topic.topic_id, index, None, partition))
        if is_idle:
            self._apply_slice()

    async def applied(self) -> None:
        """Returns when no change waits to be applied."""
        await self._is_applied.wait()

    async def finish_deletions(self) -> None:
        """Drops all waiting changes except deletions, and deletes the logs of deleted partitions. Call this method
        before the logs are closed."""
        self._waiting = deque(diff for diff in self._waiting if self._is_gone(diff))
        await self.applied()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies a small change at once, and a large change in slices. Requests are served between the slices."""
        self._image = image
        is_idle = not self._waiting
        self._waiting.extend(delta.partitions_changed())
        self._is_applied.clear()
        if is_idle and len(self._waiting) <= AT_ONCE_PARTITIONS:
            self._apply_slice()
        elif is_idle:
            self._prepare_slice()
        changed = delta.configs_changed
        topics = {resource.name for resource in changed if resource.type is ConfigResourceType.TOPIC}
        if topics:
            self.reconfigure(topics)

    def _apply_slice(self) -> None:
        if not self.logs.is_open:
            self._is_applied.set()
            return
        try:
            for _ in range(min(SLICE_PARTITIONS, len(self._waiting))):
                self._apply(self._waiting.popleft())
        finally:
            if self._waiting:
                self._prepare_slice()
            else:
                self.logs.settle_soon()
                self._is_applied.set()

    def _prepare_slice(self) -> None:
        """Creates the next log files in the background, because each file takes milliseconds on some file systems."""
        part = islice(self._waiting, SLICE_PARTITIONS)
        wanted = [self._new_log(diff, diff.after) for diff in part if diff.after and self._is_to_make(diff)]
        loop = asyncio.get_running_loop()

        def make() -> None:
            self.logs.make_ahead(wanted)
            loop.call_soon_threadsafe(self._apply_slice)

        if wanted:
            self._run_in_background(make)
        else:
            loop.call_soon(self._apply_slice)

    def _is_to_make(self, diff: PartitionDiff) -> bool:
        return (
            diff.after is not None
            and diff.after.leader == self.node_id
            and self.logs.get(diff.topic, diff.partition) is None
        )

    def _new_log(self, diff: PartitionDiff, after: PartitionImage) -> NewLog:
        assigned = after.directory(self.node_id) if after.directories else None
        return NewLog(diff.topic, diff.partition, diff.topic_id, self._log_config(diff.topic), assigned)

    def reconfigure(self, topics: set[str] | None) -> None:
        """Sets the present config in the logs of these topics, or in all logs if `topics` is None."""
        for leader in list(self._leaders.values()):
            if topics is None or leader.topic in topics:
                config = self._log_config(leader.topic)
                leader.log.update_config(config)
                leader.change(leader.state.with_min_insync_replicas(config.min_insync_replicas))

    def _apply(self, diff: PartitionDiff) -> None:
        after = diff.after
        if after is None or self._is_gone(diff):
            self._drop(diff)
        elif after.leader == self.node_id:
            self._lead(diff, after)
        else:
            self._stop_leading(diff.topic, diff.partition)
            self._follow(diff, after)

    def _follow(self, diff: PartitionDiff, after: PartitionImage) -> None:
        config = self._log_config(diff.topic)
        self._followed[diff.topic, diff.partition] = FollowedPartition(
            diff.topic,
            diff.partition,
            diff.topic_id,
            self.logs.create(diff.topic, diff.partition, diff.topic_id, config, more=True),
            leader=after.leader,
            leader_epoch=after.leader_epoch,
        )

    def _is_gone(self, diff: PartitionDiff) -> bool:
        """Whether this broker has no replica of the partition any more."""
        return diff.after is None or self.node_id not in diff.after.replicas

    def _lead(self, diff: PartitionDiff, after: PartitionImage) -> None:
        key = (diff.topic, diff.partition)
        current = self._leaders.get(key)
        if current is not None and current.leader_epoch == after.leader_epoch:
            current.change(current.state.with_isr(after.isr))
            return
        config = self._log_config(diff.topic)
        try:
            assigned = after.directory(self.node_id) if after.directories else None
            log = self.logs.create(
                diff.topic, diff.partition, diff.topic_id, config, assigned=assigned, more=True
            )
            log.append_leader_epoch(after.leader_epoch)
        except (StorageError, KafkaError) as error:
            _log.error("Partition %s-%d cannot be led: %s", diff.topic, diff.partition, error)
            self._stop_leading(*key)
            return
        if current is not None:
            self._stop_leading(*key)
        state = begin_term(
            node_id=self.node_id,
            replicas=after.replicas,
            isr=after.isr,
            leader_epoch=after.leader_epoch,
            min_insync_replicas=config.min_insync_replicas,
        )
        log.update_config(config)
        traffic = self.traffic.of(diff.topic)
        leader = self._leaders[key] = LeaderPartition(
            diff.topic, diff.partition, log, state, traffic, self.openings
        )
        # If the leader is the only member of the ISR, its whole log is committed, even after a restart.
        log.set_high_watermark(state.high_watermark(log.high_watermark, log.log_end_offset, leader.followers))
        self._tell(leader, True)

    def _stop_leading(self, topic: str, partition: int) -> None:
        leader = self._leaders.pop((topic, partition), None)
        if leader is not None:
            leader.resign()
            self._tell(leader, False)

    def _drop(self, diff: PartitionDiff) -> None:
        self._stop_leading(diff.topic, diff.partition)
        try:
            self.logs.delete(diff.topic, diff.partition, more=True)
        except StorageError as error:
            _log.error("Partition %s-%d cannot be deleted: %s", diff.topic, diff.partition, error)

    def _tell(self, leader: LeaderPartition, led: bool) -> None:
        for listener in self._listeners:
            listener(leader, led)

    # Disks.

    def directory_failed(self, directory: LogDirectory) -> None:
        """Ends the leadership of the partitions in a failed directory. Requests for these partitions get
        KAFKA_STORAGE_ERROR."""
        for key, leader in list(self._leaders.items()):
            if leader.log.directory is directory:
                self._stop_leading(*key)

    def log_moved(self, topic: str, partition: int, log: PartitionLog) -> None:
        """Replaces the log of a partition by its copy in another directory."""
        leader = self._leaders.get((topic, partition))
        if leader is not None:
            leader.log = log
            log.append_leader_epoch(leader.leader_epoch)
            leader.wake_all()

    def log_lost(self, topic: str, partition: int) -> None:
        """Ends the leadership of a partition, because its log cannot be reached."""
        self._stop_leading(topic, partition)
