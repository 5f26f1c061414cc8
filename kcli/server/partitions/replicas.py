"""The replicas on this broker: partitions that it leads, and partitions that it follows.

`Replicas` applies each delta of the metadata. It creates, reconfigures or deletes logs, begins or ends leaderships, and
starts or stops the fetchers of followed partitions. A partition keeps its log when its leader changes. A new leader
epoch is written to the log's epoch cache before the first append in that epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import NoReturn, Protocol

from kcli.config.topic import LogConfig
from kcli.errors import (
    KafkaError,
    KafkaStorageException,
    NotLeaderOrFollowerException,
    ShortageError,
    StorageError,
    UnknownTopicOrPartitionException,
)
from kcli.metadata.delta import MetadataDelta, PartitionDiff
from kcli.metadata.image import MetadataImage, PartitionImage
from kcli.model.configs import ConfigResourceType
from kcli.model.ids import BrokerId
from kcli.model.pace import Pace
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.replica.early_requests import LONG_OVER, Window
from kcli.replica.leader import LeaderState, begin_term
from kcli.runtime.clock import Clock
from kcli.runtime.descriptors import SHORTAGE_PAUSE_S
from kcli.runtime.turns import within
from kcli.server.metrics.traffic import TrafficTable
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.server.partitions.isr_updates import IsrUpdates
from kcli.server.partitions.leader_partition import LeaderPartition, LeaderPorts
from kcli.server.partitions.openings import Openings
from kcli.server.partitions.state_changes import StateChanges
from kcli.storage.directory import Background, LogDirectory
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.store import LogStore, NewLog, run_inline

_log = logging.getLogger("kcli.server.ReplicaManager")


AT_ONCE_PARTITIONS = 20
"""A change of at most this many partitions is applied in one step. Most requests create or delete fewer."""

SLICE_PARTITIONS = 50
"""A larger change is applied in slices of this many partitions. A slice takes a few milliseconds, if the files already
exist. Other requests are served between slices."""


LOOK_UP_COST = 1
LOOKED_UP_AT_ONCE = 50
"""Partitions of a request that are looked up together, because a call of the pace is not free."""


LeadershipListener = Callable[[LeaderPartition, bool], None]
"""A callback with (partition, led). `led` is True if this broker begins to lead the partition or the leader epoch
changes."""


HostListener = Callable[[str, int], None]
"""A callback with a topic and a partition number. It is called when this broker begins to lead or to follow the
partition."""


class PartitionFetchers(Protocol):
    """Fetches the followed partitions from their leaders."""

    def follow(self, partition: FollowedPartition) -> None:
        """Begins to fetch from the broker `partition.leader`. If there is no leader, or if the leader is not alive,
        waits for a change of the metadata.
        """
        ...

    def forget(self, partition: FollowedPartition) -> None:
        """Stops fetching. An answer that arrives later is ignored."""
        ...

    def metadata_changed(self, image: MetadataImage) -> None:
        """Applies changes of endpoints, live brokers and throttles."""
        ...


class Replicas:
    """The replicas on this broker."""

    def __init__(
        self,
        node_id: BrokerId,
        logs: LogStore,
        log_config: Callable[[str], LogConfig],
        *,
        clock: Clock,
        lag_time_max_ms: int,
        fetchers: PartitionFetchers,
        isr_updates: IsrUpdates,
        traffic: TrafficTable | None = None,
        background: Background = run_inline,
    ) -> None:
        self.node_id = node_id
        self._run_in_background = background
        self.logs = logs
        self.traffic = traffic or TrafficTable()
        self._log_config = log_config
        self._fetchers = fetchers
        self._leaders: dict[TopicPartition, LeaderPartition] = {}
        self._followed: dict[TopicPartition, FollowedPartition] = {}
        # Partitions whose log is in an offline directory. Requests for them get KAFKA_STORAGE_ERROR.
        self._offline: dict[TopicPartition, None] = {}
        self._image = MetadataImage()
        self._state_changes = StateChanges(node_id)
        self._waiting: deque[PartitionDiff] = deque()
        self._left_topics: dict[str, None] = {}
        """The topics of which this broker has lost a replica in the change that is being applied."""
        self._is_applied = asyncio.Event()
        self._is_applied.set()
        self._is_stopped = False
        self._listeners: list[LeadershipListener] = []
        self._host_listeners: list[HostListener] = []
        self.openings = Openings()
        self._ports = LeaderPorts(
            now_ms=lambda: int(clock.monotonic() * 1000),
            lag_time_max_ms=lag_time_max_ms,
            brokers=lambda: self._image.brokers,
            propose=isr_updates.submit,
            openings=self.openings,
        )

    def __iter__(self) -> Iterator[LeaderPartition]:
        """Iterates over the partitions that this broker leads."""
        return iter(self._leaders.values())

    def __len__(self) -> int:
        return len(self._leaders)

    @property
    def followed(self) -> Iterator[FollowedPartition]:
        """Iterates over the partitions that this broker follows."""
        return iter(self._followed.values())

    @property
    def followed_count(self) -> int:
        return len(self._followed)

    @property
    def offline_count(self) -> int:
        """The number of replicas in offline log directories."""
        return len(self._offline)

    def subscribe(self, listener: LeadershipListener) -> None:
        self._listeners.append(listener)

    def subscribe_hosted(self, listener: HostListener) -> None:
        self._host_listeners.append(listener)

    def get(self, topic: str, partition: int) -> LeaderPartition:
        """Returns a partition that this broker leads. Raises KafkaError, with Kafka's error codes, if this broker does
        not lead the partition."""
        leader = self._leaders.get(TopicPartition(topic, partition))
        if leader is None:
            self._refuse(topic, partition)
        return leader

    def find(self, topic: str, partition: int) -> LeaderPartition | None:
        return self._leaders.get(TopicPartition(topic, partition))

    async def hold(self, partitions: Iterable[TopicPartition], pace: Pace) -> bool:
        """Holds a request for the leaders of these partitions, if this broker follows some of them and may soon become
        their leader. Returns whether the request was held.
        """
        if not self._followed:
            return False
        early = []
        remaining = iter(partitions)
        while some := list(islice(remaining, LOOKED_UP_AT_ONCE)):
            await pace(len(some) * LOOK_UP_COST)
            early += [
                self._followed[key] for key in some if key not in self._leaders and key in self._followed
            ]
        now_ms = self._ports.now_ms() if early else 0
        hold_ms = max((partition.hold_ms(now_ms) for partition in early), default=0)
        if hold_ms:
            await _held(early, hold_ms / 1000)
        return hold_ms > 0

    def hosted(self, topic: str, partition: int) -> LeaderPartition | FollowedPartition:
        """Returns the replica on this broker, led or followed. Raises KafkaError like `get`."""
        key = TopicPartition(topic, partition)
        replica = self._leaders.get(key) or self._followed.get(key)
        if replica is None:
            self._refuse(topic, partition)
        return replica

    def _refuse(self, topic: str, partition: int) -> NoReturn:
        # The metadata of this broker may be older than the metadata of the client. Clients refresh their metadata after
        # this error too, and try again.
        if self._image.partition(topic, partition) is None:
            raise UnknownTopicOrPartitionException
        if (topic, partition) in self._offline:
            raise KafkaStorageException(f"Partition {topic}-{partition} is in an offline log directory")
        raise NotLeaderOrFollowerException(
            f"Partition {topic}-{partition} is not led by broker {self.node_id}"
        )

    # Metadata.

    def strays(self, image: MetadataImage) -> list[PartitionLog]:
        """The logs and copies on this broker that do not belong to a replica in the metadata."""
        every = (*self.logs.logs.values(), *self.logs.futures.logs.values())
        return [log for log in every if log.topic != CLUSTER_METADATA_TOPIC and not self._is_ours(image, log)]

    def _is_ours(self, image: MetadataImage, log: PartitionLog) -> bool:
        topic = image.topics.topic(log.topic)
        # While this broker was off, a topic may have been deleted and created again under its name. Records of the old
        # topic must not appear in the new one (KIP-516).
        if topic is None or log.topic_id not in (None, topic.topic_id):
            return False
        partition = topic.partitions.get(log.partition)
        return partition is not None and self.node_id in partition.replicas

    def load(self, image: MetadataImage) -> None:
        """Begins to lead and to follow the partitions that the metadata assigns to this broker, some partitions at a
        time. `applied` waits until all of them are done.
        """
        self._image = image
        self._is_applied.clear()
        is_idle = not self._waiting
        for topic in image.topics:
            for index, partition in topic.partitions.items():
                if self.node_id in partition.replicas:
                    self._waiting.append(PartitionDiff(topic.name, topic.topic_id, index, None, partition))
        if is_idle:
            self._apply_slice()
        self._fetchers.metadata_changed(image)

    async def applied(self) -> None:
        """Returns when all changes are applied."""
        await self._is_applied.wait()

    def stop(self) -> None:
        """Ends all leaderships and fetches, and answers the waiting requests. Later changes only delete replicas."""
        self._is_stopped = True
        for key in list(self._leaders):
            self._stop_leading(key)
        for key in list(self._followed):
            self._stop_following(key)

    async def finish_deletions(self) -> None:
        """Drops all waiting changes except deletions, and deletes the logs of deleted partitions. Call this method
        before the logs are closed."""
        self._waiting = deque(diff for diff in self._waiting if self._is_gone(diff))
        await self.applied()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Applies a change of the metadata. A large change is applied in several parts, and requests are served between
        the parts.
        """
        self._image = image
        is_idle = not self._waiting
        changes = self._changes(delta)
        self._state_changes.begin(changes)
        self._waiting.extend(changes)
        self._is_applied.clear()
        if is_idle and len(self._waiting) <= AT_ONCE_PARTITIONS and not any(map(self._cut_of, changes)):
            self._apply_slice()
        elif is_idle:
            self._prepare_slice()
        changed = delta.configs_changed
        topics = {resource.name for resource in changed if resource.type is ConfigResourceType.TOPIC}
        if topics:
            self.reconfigure(topics)
        self._fetchers.metadata_changed(image)

    def _changes(self, delta: MetadataDelta) -> list[PartitionDiff]:
        """The changes of this broker's replicas: first the removed replicas, then the led partitions, then the followed
        partitions. So when this broker begins to lead a partition, the fetcher of the partition has already stopped, as
        in Kafka.
        """
        changes = [diff for diff in delta.partitions_changed() if self._concerns_us(diff)]
        changes.sort(key=self._rank)
        return changes

    def _concerns_us(self, diff: PartitionDiff) -> bool:
        return any(
            partition is not None and self.node_id in partition.replicas
            for partition in (diff.before, diff.after)
        )

    def _rank(self, diff: PartitionDiff) -> int:
        if diff.after is None or self._is_gone(diff):
            return 0
        return 1 if diff.after.leader == self.node_id else 2

    def _apply_slice(self) -> None:
        if not self.logs.is_open:
            self._is_applied.set()
            return
        is_short = False
        try:
            for _ in range(min(SLICE_PARTITIONS, len(self._waiting))):
                if self._cut_of(self._waiting[0]):
                    break
                self._apply_next()
        except ShortageError:  # the log directory has logged the error
            is_short = True
        finally:
            if is_short:
                asyncio.get_running_loop().call_later(SHORTAGE_PAUSE_S, self._prepare_slice)
            elif self._waiting:
                self._prepare_slice()
            else:
                self._forget_traffic()
                self.logs.settle_soon()
                self._is_applied.set()

    def _apply_next(self) -> None:
        """Applies the next change. If the process has too few descriptors, the change stays the next one, because the
        changes of a partition must be applied in order."""
        diff = self._waiting.popleft()
        try:
            self._apply(diff)
        except ShortageError:
            self._waiting.appendleft(diff)
            raise

    def _prepare_slice(self) -> None:
        """Creates the next log files in the background, because each file takes milliseconds on some file systems. If
        this broker will lead a partition whose log was truncated, also makes the truncation durable.
        """
        part = list(islice(self._waiting, SLICE_PARTITIONS))
        cuts = [log for diff in part if (log := self._cut_of(diff)) is not None]
        new_logs = [self._new_log(diff, diff.after) for diff in part if diff.after and self._is_to_make(diff)]
        loop = asyncio.get_running_loop()

        def make() -> None:
            try:
                self.logs.make_ahead(new_logs)
                self.logs.maintenance.sync_cuts(cuts)
            finally:
                loop.call_soon_threadsafe(self._apply_slice)

        if new_logs or cuts:
            self._run_in_background(make)
        else:
            loop.call_soon(self._apply_slice)

    def _is_to_make(self, diff: PartitionDiff) -> bool:
        return (
            diff.after is not None
            and self.node_id in diff.after.replicas
            and self.logs.get(diff.topic, diff.partition) is None
        )

    def _cut_of(self, diff: PartitionDiff) -> PartitionLog | None:
        """Returns the log of a partition that this broker will lead. Returns None if all truncations of this log are
        already durable.
        """
        followed = self._followed.get(TopicPartition(diff.topic, diff.partition))
        if followed is None or diff.after is None or diff.after.leader != self.node_id:
            return None
        log = followed.log
        return log if log.durability.has_unsynced_cut and log.directory.error is None else None

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
        for followed in self._followed.values():
            if topics is None or followed.topic in topics:
                followed.log.update_config(self._log_config(followed.topic))

    def _apply(self, diff: PartitionDiff) -> None:
        after = diff.after
        if after is None or self._is_gone(diff):
            self._drop(diff)
            return
        # As in Kafka, a replica is offline until its topic is deleted or the broker starts again.
        if self._is_stopped or (diff.topic, diff.partition) in self._offline:
            return
        try:
            if after.leader == self.node_id:
                self._lead(diff, after)
            else:
                self._follow(diff, after)
        except ShortageError:
            raise
        except (StorageError, KafkaError) as error:
            _log.error("Partition %s-%d is offline: %s", diff.topic, diff.partition, error)
            self._mark_offline(TopicPartition(diff.topic, diff.partition))

    def _is_gone(self, diff: PartitionDiff) -> bool:
        """Whether this broker has no replica of the partition any more."""
        return diff.after is None or self.node_id not in diff.after.replicas

    def _log_of(self, diff: PartitionDiff, after: PartitionImage) -> PartitionLog:
        """The log of a replica, with the present config. A replica keeps its log when its leader changes. Makes the log
        if it does not exist. Raises KafkaError or StorageError if its directory is offline."""
        config = self._log_config(diff.topic)
        key = TopicPartition(diff.topic, diff.partition)
        hosted = self._leaders.get(key) or self._followed.get(key)
        if hosted is not None:
            log = hosted.log
        else:
            assigned = after.directory(self.node_id) if after.directories else None
            log = self.logs.create(
                diff.topic, diff.partition, diff.topic_id, config, assigned=assigned, more=True
            )
        log.directory.check()
        log.update_config(config)
        return log

    # Leaders.

    def _lead(self, diff: PartitionDiff, after: PartitionImage) -> None:
        key = TopicPartition(diff.topic, diff.partition)
        current = self._leaders.get(key)
        if current is not None and current.leader_epoch == after.leader_epoch:
            current.apply(after)
            return
        log = self._log_of(diff, after)
        self._stop_following(key)
        # Followers compare the epochs of the logs to find the end of the common part. So the log must know the epoch
        # before the first record of this epoch (KIP-101).
        log.append_leader_epoch(after.leader_epoch)
        state = self._begin_term(log, after)
        self._state_changes.leads(diff, after, log)
        if current is not None:
            leader = current
            leader.begin_epoch(state)
        else:
            traffic = self.traffic.of(diff.topic)
            leader = self._leaders[key] = LeaderPartition(
                diff.topic, diff.partition, log, state, traffic, self._ports
            )
            # If the leader is the only member of the ISR, its whole log is committed, even after a restart.
            leader.change(state)
        self._tell(leader, True)
        self._tell_hosted(key)

    def _begin_term(self, log: PartitionLog, after: PartitionImage) -> LeaderState:
        return begin_term(
            node_id=self.node_id,
            replicas=after.replicas,
            isr=after.isr,
            leader_epoch=after.leader_epoch,
            partition_epoch=after.partition_epoch,
            start_offset=log.log_end_offset,
            min_insync_replicas=log.config.min_insync_replicas,
        )

    def _stop_leading(self, key: TopicPartition) -> None:
        leader = self._leaders.pop(key, None)
        if leader is not None:
            leader.resign()
            self._tell(leader, False)

    def shrink_isrs(self) -> Generator[None, None, None]:
        """Proposes to remove lagging replicas from the ISRs of the led partitions. Yields after each partition."""
        for leader in list(self._leaders.values()):
            if leader.is_leader:
                leader.shrink_isr()
            yield

    # Followers.

    def _follow(self, diff: PartitionDiff, after: PartitionImage) -> None:
        key = TopicPartition(diff.topic, diff.partition)
        current = self._followed.get(key)
        if current is not None and current.leader_epoch == after.leader_epoch:
            return  # only the ISR or the replicas have changed
        log = self._log_of(diff, after)
        early = Window(self._ports.now_ms()) if key in self._leaders else LONG_OVER
        self._stop_leading(key)
        self._stop_following(key)
        followed = self._followed[key] = FollowedPartition(
            diff.topic,
            diff.partition,
            diff.topic_id,
            log,
            leader=after.leader,
            leader_epoch=after.leader_epoch,
            traffic=self.traffic.of(diff.topic),
            early=early,
        )
        self._state_changes.follows(diff, after, log)
        self._fetchers.follow(followed)
        self._tell_hosted(key)

    def _stop_following(self, key: TopicPartition) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None:
            self._fetchers.forget(followed)
            followed.resign()

    # Removed replicas.

    def _drop(self, diff: PartitionDiff) -> None:
        key = TopicPartition(diff.topic, diff.partition)
        self._stop_leading(key)
        self._stop_following(key)
        self._offline.pop(key, None)
        self._left_topics[diff.topic] = None
        try:
            self.logs.delete(diff.topic, diff.partition, more=True)
        except ShortageError:
            raise
        except StorageError as error:
            _log.error("Partition %s-%d cannot be deleted: %s", diff.topic, diff.partition, error)

    def _forget_traffic(self) -> None:
        """Drops the counts of a topic when this broker has no more replicas of the topic, as in Kafka."""
        left, self._left_topics = self._left_topics, {}
        for name in left:
            topic = self._image.topics.topic(name)
            partitions = () if topic is None else topic.partitions.values()
            if not any(self.node_id in partition.replicas for partition in partitions):
                self.traffic.forget(name)

    def _mark_offline(self, key: TopicPartition) -> None:
        self._offline[key] = None
        self._state_changes.offline(*key)
        self._stop_leading(key)
        self._stop_following(key)

    def _tell(self, leader: LeaderPartition, led: bool) -> None:
        for listener in self._listeners:
            listener(leader, led)

    def _tell_hosted(self, key: TopicPartition) -> None:
        for listener in self._host_listeners:
            listener(*key)

    # Disks.

    def directory_failed(self, directory: LogDirectory) -> None:
        """Takes the replicas in a failed directory offline. Requests for them get KAFKA_STORAGE_ERROR."""
        for replicas in (self._leaders, self._followed):
            for key in [key for key, replica in replicas.items() if replica.log.directory is directory]:
                self._mark_offline(key)

    def log_moved(self, topic: str, partition: int, log: PartitionLog) -> None:
        """Replaces the log of a partition by its copy in another directory."""
        key = TopicPartition(topic, partition)
        leader, followed = self._leaders.get(key), self._followed.get(key)
        if leader is not None:
            leader.log = log
            # The copy took its epochs from its records. So if the present epoch has no record yet, the copy does not
            # know it.
            log.append_leader_epoch(leader.leader_epoch)
            leader.wake_all()
        elif followed is not None:
            followed.log = log
            followed.wake_all()

    def log_lost(self, topic: str, partition: int) -> None:
        """Takes a replica offline, because its log cannot be reached."""
        self._mark_offline(TopicPartition(topic, partition))


async def _all_ended(early: list[FollowedPartition]) -> None:
    for followed in early:
        await followed.ended()


async def _held(early: list[FollowedPartition], limit_s: float) -> None:
    """Returns when another leader epoch of every partition has begun, or after the time limit."""
    try:
        await within(limit_s, _all_ended(early))
    except TimeoutError:
        _log.debug("No change of the leader of %s in %g s", ", ".join(map(str, early)), limit_s)
