"""Members of a group in a simulation: they read, commit, sleep, leave and die. Each kind joins in its own way."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, COMPACTED, PASSING, TROUBLE
from simulation.actors.group_link import REBALANCE_TIMEOUT_MS, GroupLink, MemberWorld

SESSION_TIMEOUT_MS = 6_000
# A coordinator remembers a member at least for this time, also if the clock of the coordinator is too fast.
REMEMBERED_S = SESSION_TIMEOUT_MS / 1000 * 0.9
# A coordinator waits at least for this time until a member has given up its partitions, also if its clock is too fast.
GIVEN_UP_WITHIN_S = REBALANCE_TIMEOUT_MS / 1000 * 0.9
NEVER = float("-inf")
# Errors after which the member tries again, because the coordinator has moved or is loading.
NOT_NOW = PASSING | {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
# Errors after which the member has to join again, with its id or as a new member.
REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


class Again(Exception):
    """Raised if the member must join again."""


class Member(ABC):
    """One consumer of a group. If `instance` is given, it is a static member (KIP-345)."""

    member_id: str

    def __init__(
        self, world: MemberWorld, name: str, group: str, topics: dict[str, int], *, instance: str | None
    ) -> None:
        self.world = world
        self.name = name
        self.rng = random.Random(world.rng.randrange(1 << 62))
        self.link: GroupLink | None = None
        self.group = group
        self.owned: dict[TopicPartition, int] = {}
        """The position in each owned partition."""
        self.generation = -1
        self.leaving = False
        self.asleep = False
        self._instance = instance
        self._topics = topics
        self._loaded_life = -1
        """The last life of the coordinator that has surely loaded the group."""
        self._heard_s = NEVER
        """The time at which the last heartbeat with a good answer was sent."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.raise_failure()
        self.leaving = False
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def _run(self) -> None:
        while not self.is_done:
            link = self.link = GroupLink(self.world, self.name)
            try:
                await self._work(link)
            except TROUBLE as error:
                self.world.cluster.loop.note(f"{self.name}: {error!r}")
                await self.pause(BACKOFF_S, 2 * BACKOFF_S)
            finally:
                link.close()
                if self.link is link:  # a member that has died may have a new task already
                    self.link = None

    def die(self) -> None:
        """Ends without a LeaveGroup request, so the coordinator must detect that heartbeats are missing."""
        assert self._task is not None, "it was started"
        self.raise_failure()
        self._task.cancel()
        self._task = None  # `start` may be called before the task has ended
        if self.link is not None:
            self.link.close()
        self._stop_owning()
        self._forget_membership()

    def raise_failure(self) -> None:
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    @property
    def is_done(self) -> bool:
        return self.leaving and not self.member_id

    def _stop_owning(self) -> None:
        self.owned = {}
        self.generation = -1
        self._heard_s = NEVER

    @abstractmethod
    async def _work(self, link: GroupLink) -> None:
        """Is a member until it must leave, or until it must begin again. It begins without partitions."""

    @abstractmethod
    def _forget_membership(self) -> None:
        """Begins the next membership as a new member."""

    @abstractmethod
    def _check(self, code: ErrorCode) -> None:
        """Raises Again for an error that a correct coordinator may return. With any other error, the simulation
        fails."""

    @property
    def identity(self) -> str:
        """The id under which the `Ledger` stores the member.

        A static member keeps this id when it returns with a new member id.
        """
        return self._instance or self.member_id

    @property
    def _is_current(self) -> bool:
        """Whether the last answer came from the right coordinator. A former coordinator answers until it learns that
        another broker is the coordinator now."""
        return self.link is None or self.link.is_current

    async def _committed(
        self, link: GroupLink, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, int]:
        """Returns the committed offsets as positions.

        Checks that no offset is lower than the offset that was known before the request.
        """
        floors = {each: self.world.group_watch.committed_offset(self.group, each) for each in partitions}
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        wanted = tuple(
            of.OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(parts))
            for topic, parts in topics.items()
        )
        asked = of.OffsetFetchRequestGroup(group_id=self.group, topics=wanted)
        request = of.OffsetFetchRequest(groups=(self._identified(asked),), require_stable=True)
        response = await link.ask(request, ApiKey.OFFSET_FETCH, at_most=9)
        (group,) = response.groups
        self._check(group.error_code)
        found = {}
        for topic in group.topics:
            for part in topic.partitions:
                self._check(part.error_code)
                partition = TopicPartition(topic.name, part.partition_index)
                assert part.committed_offset >= floors[partition] or not link.is_current, (
                    f"{self.group} {partition}: committed {floors[partition]}, fetched {part.committed_offset}"
                )
                found[partition] = max(part.committed_offset, 0)
        return found

    def _identified(self, group: of.OffsetFetchRequestGroup) -> of.OffsetFetchRequestGroup:
        """Returns the group of an OffsetFetch request.

        A protocol with fields for the member (KIP-848) adds these fields.
        """
        return group

    @property
    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def _take_heartbeat(self, link: GroupLink, code: ErrorCode, sent_s: float) -> None:
        """Checks that the coordinator has not forgotten the member before the session ended. A new coordinator gives a
        new session to each member that is in the log."""
        if not link.is_current:
            return
        if code in REJOIN:
            self._notice_loaded(link)
        if code is ErrorCode.NONE and self._knows_members():
            self._heard_s = sent_s
        if code is not ErrorCode.UNKNOWN_MEMBER_ID:
            return
        silent_s = self._now_s - self._heard_s
        assert silent_s > REMEMBERED_S or self._keeps_partitions_too_long(), (
            f"{self.name} is forgotten {silent_s:.3f} s after its last heartbeat"
        )
        if self._heard_s > NEVER and self.world.group_watch.has_member(self.group, self.member_id):
            served_s = self._now_s - self.world.group_watch.coordinator_began_s
            assert served_s > REMEMBERED_S, f"{self.name} is not known to the coordinator of {served_s:.3f} s"

    def _notice_loaded(self, link: GroupLink) -> None:
        """Notices an answer that a coordinator gives only after it has loaded the group."""
        if link.is_current:
            self._loaded_life = self.world.group_watch.coordinator_life

    def _knows_members(self) -> bool:
        """Whether the coordinator has surely loaded the group.

        Before that, as in Kafka, it answers NONE to each heartbeat of a classic member.
        """
        return self._loaded_life == self.world.group_watch.coordinator_life

    def _keeps_partitions_too_long(self) -> bool:
        """Whether the rebalance timeout may have passed since the coordinator asked for partitions (KIP-848)."""
        return False

    async def _use(self, link: GroupLink) -> None:
        """Reads the owned partitions, commits, and waits a while."""
        if self.owned:
            await self._read(link)
            if self.rng.random() < 0.6:
                await self._commit(link)
        if self.asleep:
            await self._sleep(link)
        await self.pause(0.0, 1.0)

    async def _sleep(self, link: GroupLink) -> None:
        """Does nothing for a while. The member does not know then whether it is still in the group, and commits."""
        while self.asleep:
            await self.pause(0.1, 1.0)
        if self.owned:
            await self._commit(link)

    async def _read(self, link: GroupLink) -> None:
        for partition, data in await link.fetch(self.owned):
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.owned[partition] = await link.reset(partition, self.owned[partition])
            elif data.error_code is ErrorCode.NONE:
                self.owned[partition] = self._take_records(partition, data)
            else:
                self._check(data.error_code)

    def _take_records(self, partition: TopicPartition, data: f.PartitionData) -> int:
        """Reports the records from the position on. Returns the next position."""
        position = self.owned[partition]
        for at, header in iter_batches(data.records or b""):
            assert header.next_offset <= data.high_watermark, (
                f"{partition}: batch {header.base_offset} is given out, the high watermark is {data.high_watermark}"
            )
            for record in read_records(data.records or b"", at):
                if record.offset >= position:
                    assert record.offset == position or partition.topic == COMPACTED, (
                        f"{partition}: read {record.offset} after {position - 1}"
                    )
                    self.world.group_watch.read(partition, record.offset)
                    position = record.offset + 1
            # After compaction, a batch may be empty, or may lack its last records.
            position = max(position, header.next_offset)
        return position

    async def _commit(self, link: GroupLink) -> None:
        topics: dict[str, list[oc.OffsetCommitRequestPartition]] = {}
        for (topic, index), position in self.owned.items():
            part = oc.OffsetCommitRequestPartition(partition_index=index, committed_offset=position)
            topics.setdefault(topic, []).append(part)
        request = oc.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
            topics=tuple(
                oc.OffsetCommitRequestTopic(name=name, partitions=tuple(parts))
                for name, parts in topics.items()
            ),
        )
        response = await link.ask(request, ApiKey.OFFSET_COMMIT, at_most=9)
        for topic in response.topics:
            for answer in topic.partitions:
                self._check(answer.error_code)
                self._notice_loaded(link)
                partition = TopicPartition(topic.name, answer.partition_index)
                self.world.group_watch.commit_acknowledged(self.group, partition, self.owned[partition])

    async def pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(least_s + (most_s - least_s) * self.rng.random())
