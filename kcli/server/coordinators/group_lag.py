"""Samples the lag of the groups that this broker coordinates, for the metrics.

Every 10 seconds, a sample reads the table of committed offsets. The table has the last commit of each partition and its
time, so a commit of a client needs no extra work. If a group commits more often than every 10 seconds, only its last
commit before each sample counts. Burrow's setting `min-distance` has the same effect.

The end offset of a partition comes from the log, if this broker leads the partition or is an in-sync follower of it.
For all other partitions, the broker asks their leaders for the end offsets (`remote_ends.py`). Samples are taken only
if the broker has a metrics endpoint. A sample is divided into short parts, so that it does not delay clients.

Clients choose the names and sizes in a sample, so each of them has a limit. Only topics and partitions of the metadata
are in the result. An error in the data of one group is logged, and the group is left out.

After a start or a fail-over, the first unread record may be older than the history of end offsets. If this broker leads
the partition, the sampler reads the timestamp of this record once, and the history begins with this timestamp.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from kcli.coordinator.group.classic.records import CLASSIC_NAME
from kcli.coordinator.group.consumer.state.record import CONSUMER_NAME
from kcli.coordinator.group.shard import GroupShard
from kcli.errors import KafkaError, StorageError
from kcli.lag.group_lag import GroupLag, member_names
from kcli.lag.partition_lag import without_end
from kcli.lag.tracker import LagTracker
from kcli.metadata.image import MetadataImage
from kcli.model.ids import NO_LEADER, Offset
from kcli.model.pace import Pace
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import HEADER_SIZE, read_header
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.runtime import log_text
from kcli.runtime.threads import READS
from kcli.runtime.turns import Turn
from kcli.server.coordinators.groups import GroupCoordinator, GroupRunner
from kcli.server.coordinators.lag_members import Allowance, read_members, short
from kcli.server.coordinators.remote_ends import RemoteEnds
from kcli.server.partitions.replicas import Replicas
from kcli.storage.log.log import PartitionLog

_log = logging.getLogger("kcli.server.GroupLag")

_K = TypeVar("_K")

SAMPLE_SECONDS = 10.0
"""The pause between two samples: Burrow's default of `offset-refresh`."""
FIRST_PATIENCE_MS = 300_000
"""If only one commit of a partition is known, its lag status stays OK for this time. The value is the default of
max.poll.interval.ms, after which a silent member leaves its group. After a fail-over, only one commit of each partition
is known."""
STEP_COST = 20
"""The cost to handle a partition, a group or a member, in microseconds."""

READS_PER_SAMPLE = 200
"""The most records whose timestamps are read after one sample. A read occupies a thread for 0.1 ms if the disk is
fast."""

SAMPLES_PER_CLEANING = 6
"""The number of samples after which the histories of deleted offsets are dropped. The histories are not cleaned after
each sample, because the cleaning checks all of them."""

GROUPS_MAX = 10_000
"""The most groups in a report. A client can make any number of groups, and each group has metrics."""
GROUP_ID_MAX_CHARS = 255
"""The longest group id in a report. A group id may have 32,767 bytes, and it is in each metric of its group."""
FAILURES_LOGGED_MAX = 3
"""The most groups per sample whose errors are logged."""

_CONSUMER_TYPES = frozenset({"", CLASSIC_NAME, CONSUMER_NAME})


@dataclass(slots=True)
class LagReport:
    """The result of a sample."""

    sampled_ms: int
    groups: list[GroupLag] = field(default_factory=list)
    skipped: int = 0
    """The number of partitions of groups that were left out, because the tracker had reached its limit."""
    unknown_ends: int = 0
    """The number of partitions whose end offset is unknown now."""
    skipped_groups: int = 0
    """The number of groups that were left out, because there were too many groups, because the group id was too long,
    or because the group could not be judged."""


@dataclass(slots=True)
class _Group:
    """A group and its committed offsets. `topics` has, for each topic, a list of (partition, offset, time of the
    commit)."""

    runner: GroupRunner
    listed: ListedGroup
    commit_count: int = 0
    topics: list[tuple[str, list[tuple[int, int, int]]]] = field(default_factory=list)

    def commits(self) -> Iterator[tuple[TopicPartition, int, int]]:
        for topic, rows in self.topics:
            for number, offset, time_ms in rows:
                yield TopicPartition(topic, number), offset, time_ms


_Ends = tuple[set[TopicPartition], dict[TopicPartition, int], dict[int, list[TopicPartition]]]
"""All partitions of the groups, the end offsets that this broker knows, and the other partitions by leader."""


class GroupLagSampler:
    """Takes the samples. `image` returns the metadata, and `remote` asks other brokers for end offsets."""

    def __init__(
        self,
        node_id: int,
        groups: GroupCoordinator,
        replicas: Replicas,
        image: Callable[[], MetadataImage],
        remote: RemoteEnds,
        tracker: LagTracker | None = None,
    ) -> None:
        self._node_id = node_id
        self._groups = groups
        self._replicas = replicas
        self._image = image
        self._remote = remote
        self._tracker = tracker or LagTracker(first_patience_ms=FIRST_PATIENCE_MS)
        self._task: asyncio.Task[None] | None = None
        self._samples = 0
        self._failures = 0
        """The number of groups that failed in the present sample."""
        self._read_below: dict[TopicPartition, int] = {}
        """For each partition, the lowest offset at which a timestamp was read, or could not be read."""
        self.report = LagReport(groups.shards.now_ms())

    @property
    def age_seconds(self) -> float:
        """The age of the report."""
        return (self._groups.shards.now_ms() - self.report.sampled_ms) / 1000

    @property
    def windows(self) -> int:
        """The number of windows (kept histories of commits): one for each group and partition."""
        return len(self._tracker)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="group lag")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._remote.close()

    async def _run(self) -> None:
        while True:
            try:
                await self.sample()
            except Exception:
                _log.exception("The lag of groups could not be sampled")
            await asyncio.sleep(SAMPLE_SECONDS)

    async def sample(self) -> None:
        """Takes a sample and replaces the report."""
        groups: list[_Group] = []
        image, self._failures = self._image(), 0
        pace = Turn()
        skipped = await self._read_groups(groups, image, pace)
        partitions, ends, by_leader = await self._local_ends(groups, image, pace)
        now_ms = self._groups.shards.now_ms()
        if by_leader:
            ends |= await self._remote.ends(by_leader)
        report = LagReport(now_ms, unknown_ends=len(partitions) - len(ends), skipped_groups=skipped)
        await self._judge(groups, ends, report, image, pace)
        self.report = report
        await self._read_arrivals(report, pace)
        self._samples += 1
        if self._samples % SAMPLES_PER_CLEANING == 0:
            await self._forget(groups, partitions, pace)

    # The groups and their offsets

    async def _read_groups(self, groups: list[_Group], image: MetadataImage, pace: Pace) -> int:
        """Adds the groups of consumers to `groups`. Returns the number of groups that were left out."""
        skipped = 0
        for runner in self._groups.shards.loaded():
            for listed in runner.look(lambda shard, _: shard.list_groups()):
                await pace(STEP_COST)
                group_id = listed.group_id
                if str(listed.group_type).lower() not in _CONSUMER_TYPES:
                    continue
                if len(groups) >= GROUPS_MAX or len(group_id) > GROUP_ID_MAX_CHARS:
                    skipped += 1
                    continue
                try:
                    group = _Group(runner, listed, runner.look(partial(_commit_count, group_id)))
                    await _read_offsets(group, image, pace)
                except Exception:
                    skipped += 1
                    self._group_failed(group_id)
                else:
                    groups.append(group)
        return skipped

    def _group_failed(self, group_id: str) -> None:
        """Logs the error of one group. The sample continues with the next group."""
        self._failures += 1
        if self._failures <= FAILURES_LOGGED_MAX:
            _log.exception("The lag of group %s could not be sampled", log_text.name(group_id))

    # End offsets

    async def _local_ends(self, groups: list[_Group], image: MetadataImage, pace: Pace) -> _Ends:
        """Returns the partitions of the groups, the end offsets that this broker knows, and the other partitions by
        leader."""
        partitions: set[TopicPartition] = set()
        ends: dict[TopicPartition, int] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for group in groups:
            for partition, _, _ in group.commits():
                await pace(STEP_COST)
                if partition in partitions:
                    continue
                partitions.add(partition)
                end = self._own_end(image, partition)
                if end is not None:
                    ends[partition] = end
                elif (leader := _leader(image, partition)) not in (NO_LEADER, self._node_id):
                    elsewhere.setdefault(leader, []).append(partition)
        return partitions, ends, elsewhere

    def _own_end(self, image: MetadataImage, partition: TopicPartition) -> int | None:
        """Returns the high watermark of a partition that this broker leads, or follows in the ISR. A follower learns
        the high watermark one fetch later than its leader."""
        leader = self._replicas.find(*partition)
        if leader is not None:
            return leader.log.high_watermark
        placed = image.partition(*partition)
        if placed is None or placed.leader == NO_LEADER or self._node_id not in placed.isr:
            return None
        try:
            return self._replicas.hosted(*partition).log.high_watermark
        except KafkaError:
            return None

    # The verdicts

    async def _judge(
        self,
        groups: list[_Group],
        ends: dict[TopicPartition, int],
        report: LagReport,
        image: MetadataImage,
        pace: Pace,
    ) -> None:
        for partition, end in ends.items():
            await pace(STEP_COST)
            self._tracker.see_end(partition, report.sampled_ms, end)
        allowance = Allowance()
        for group in groups:
            await pace(STEP_COST)
            try:
                lag = await self._judged(group, ends, report, image, allowance, pace)
            except Exception:
                report.skipped_groups += 1
                self._group_failed(group.listed.group_id)
            else:
                report.groups.append(lag)

    async def _judged(
        self,
        group: _Group,
        ends: dict[TopicPartition, int],
        report: LagReport,
        image: MetadataImage,
        allowance: Allowance,
        pace: Pace,
    ) -> GroupLag:
        tracker, now_ms = self._tracker, report.sampled_ms
        listed = group.listed
        lag = GroupLag(listed.group_id, listed.group_state, short(listed.protocol_type))
        lag.commits = group.commit_count
        lag.protocol, members = await read_members(group.runner, listed, image, allowance, pace)
        for member, name in zip(members, member_names(members), strict=True):
            await pace(STEP_COST)
            await lag.add_member(member, name, pace)
        for partition, offset, time_ms in group.commits():
            await pace(STEP_COST)
            if partition not in ends:
                # The commit is added to the window when the end is known, because the window needs the lag.
                lag.add_partition(partition, without_end(offset, time_ms, now_ms))
                continue
            if not tracker.see_commit(lag.group_id, partition, time_ms, offset):
                report.skipped += 1
                continue
            partition_lag = tracker.lag_of(lag.group_id, partition, now_ms)
            if partition_lag is not None:
                lag.add_partition(partition, partition_lag)
        return lag

    # The arrival of records that are older than the history

    async def _read_arrivals(self, report: LagReport, pace: Pace) -> None:
        """Reads the timestamp of the first unread record in each partition in which this record is older than the
        history.
        """
        for partition, offset, log in await self._unknown_arrivals(report, pace):
            time_ms = await _timestamp_ms(log, Offset(offset))
            self._read_below[partition] = offset
            if time_ms is not None:
                self._tracker.see_arrival(partition, offset, time_ms)

    async def _unknown_arrivals(
        self, report: LagReport, pace: Pace
    ) -> list[tuple[TopicPartition, int, PartitionLog]]:
        reads: list[tuple[TopicPartition, int, PartitionLog]] = []
        lowest: dict[TopicPartition, int] = {}
        for group in report.groups:
            for partition, partition_lag in group.partitions.items():
                await pace(STEP_COST)
                if partition_lag.is_at_least:
                    lowest[partition] = min(
                        partition_lag.committed, lowest.get(partition, partition_lag.committed)
                    )
        for partition, offset in lowest.items():
            await pace(STEP_COST)
            leader = self._replicas.find(*partition)
            is_new = offset < self._read_below.get(partition, offset + 1)
            if leader is not None and is_new and len(reads) < READS_PER_SAMPLE:
                reads.append((partition, offset, leader.log))
        return reads

    async def _forget(self, groups: list[_Group], partitions: set[TopicPartition], pace: Pace) -> None:
        """Drops the windows of groups and partitions whose committed offsets are no longer on this broker, for example
        because another broker coordinates the group.
        """
        present = set()
        for group in groups:
            for partition, _, _ in group.commits():
                await pace(STEP_COST)
                present.add((group.listed.group_id, partition))
        gone = await _absent(self._tracker.keys, present, pace)
        gone_partitions = await _absent(self._tracker.partitions, partitions, pace)
        self._tracker.forget(gone, gone_partitions)
        for partition in gone_partitions:
            await pace(STEP_COST)
            self._read_below.pop(partition, None)


def _leader(image: MetadataImage, partition: TopicPartition) -> int:
    placed = image.partition(*partition)
    return NO_LEADER if placed is None else placed.leader


async def _timestamp_ms(log: PartitionLog, offset: Offset) -> int | None:
    """Returns the timestamp of the first record in the batch with this offset, or None if it cannot be read."""
    try:
        batch = log.read(offset, HEADER_SIZE, end_offset=log.high_watermark)
        if not len(batch):
            return None
        header = read_header(await READS.run(batch.read_piece, 0, HEADER_SIZE))
    except (KafkaError, StorageError):
        return None
    return header.max_timestamp_ms if header.is_log_append_time else header.base_timestamp_ms


def _commit_count(group_id: str, shard: GroupShard, _now_ms: int) -> int:
    return shard.commit_count(group_id)


async def _read_offsets(group: _Group, image: MetadataImage, pace: Pace) -> None:
    """Adds the committed offsets of existing partitions. A negative offset means that no offset is committed, as in
    Kafka's admin client."""
    group_id = group.listed.group_id
    for topic in group.runner.look(lambda shard, _: shard.topics_with_offsets(group_id)):
        await pace(STEP_COST)
        existing = image.topics.topic(topic)
        if existing is not None:
            rows = group.runner.look(partial(_commits_of, group_id, topic))
            known = [row for row in rows if row[0] in existing.partitions and row[1] >= 0]
            group.topics.append((topic, known))


def _commits_of(group_id: str, topic: str, shard: GroupShard, _now_ms: int) -> list[tuple[int, int, int]]:
    return shard.commits_of(group_id, topic)


async def _absent(keys: Iterable[_K], present: Container[_K], pace: Pace) -> list[_K]:
    gone = []
    for key in list(keys):
        await pace(STEP_COST)
        if key not in present:
            gone.append(key)
    return gone
