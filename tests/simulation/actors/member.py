"""Members of a classic group in a simulation: they join, assign partitions, read, commit, leave, and die."""

from __future__ import annotations

import asyncio
import random

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import iter_batches, read_records
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import find_coordinator as fc
from kcli.protocol.messages import heartbeat as h
from kcli.protocol.messages import join_group as j
from kcli.protocol.messages import leave_group as lg
from kcli.protocol.messages import offset_commit as oc
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.messages import sync_group as s
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    assigned_partitions,
    encode_assignment,
    encode_subscription,
)
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, COMPACTED, PASSING, TROUBLE
from simulation.actors.group_link import REBALANCE_TIMEOUT_MS, GroupLink, MemberWorld, NoCoordinator

SESSION_TIMEOUT_MS = 6_000
# A coordinator remembers a member at least for this time, also if the clock of the coordinator is too fast.
REMEMBERED_S = SESSION_TIMEOUT_MS / 1000 * 0.9
# A coordinator waits at least for this time until a member has given up its partitions, also if its clock is too fast.
GIVEN_UP_WITHIN_S = REBALANCE_TIMEOUT_MS / 1000 * 0.9
PROTOCOL = "range"
NEVER = float("-inf")
# Errors after which the member tries again, because the coordinator has moved or is loading.
NOT_NOW = PASSING | {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
# Errors after which the member has to join again, with its id or as a new member.
REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


class Again(Exception):
    """Raised if the member must find the coordinator and join again."""


class Member:
    """One consumer of a group. If `instance` is given, it is a static member (KIP-345)."""

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
        self.member_id = ""
        self._life = 0
        """The life of the coordinator (`GroupWatch.coordinator_life`) in which it assigned the member id."""
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
        self.member_id = ""

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

    async def _work(self, link: GroupLink) -> None:
        self._stop_owning()
        try:
            if self.leaving:
                await self._leave(link)
                return
            await self._find(link)
            await self._join(link)
            while not self.leaving:
                await self._stay(link)
        except (Again, NoCoordinator):
            self._stop_owning()
            await self.pause(0.0, BACKOFF_S)

    # The steps of a membership.

    async def _find(self, link: GroupLink) -> None:
        request = fc.FindCoordinatorRequest(key=self.group, coordinator_keys=(self.group,))
        response = await link.ask(request, ApiKey.FIND_COORDINATOR)
        self._check(response.coordinators[0].error_code)

    def _check(self, code: ErrorCode) -> None:
        """Raises Again for an error that a correct coordinator may return. With any other error, the simulation
        fails."""
        if code is ErrorCode.NONE:
            return
        # A new member id is stored only at the end of the rebalance. If a crash comes earlier, the old id is valid
        # again.
        restarted = self.world.group_watch.coordinator_life != self._life or not self._is_current
        forgotten = code is ErrorCode.FENCED_INSTANCE_ID and (restarted or self.world.watch.losses)
        if code is ErrorCode.UNKNOWN_MEMBER_ID or forgotten:
            self.member_id = ""
        else:
            assert code in NOT_NOW or code in REJOIN, f"{self.name}: {code!r}"
        raise Again

    async def _join(self, link: GroupLink) -> None:
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=tuple(self._topics)))
        request = j.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocols=(j.JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription),),
        )
        life = (
            self.world.group_watch.coordinator_life
        )  # another coordinator may follow before the answer arrives
        joined = await link.ask(request, ApiKey.JOIN_GROUP)
        if joined.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            raise Again
        self._check(joined.error_code)
        if joined.member_id != self.member_id:
            # the present coordinator does not know an id that a former one has assigned
            self.member_id, self._life = joined.member_id, life if self._is_current else -1
        await self._sync(link, joined)

    async def _sync(self, link: GroupLink, joined: j.JoinGroupResponse) -> None:
        leads = joined.leader == self.member_id and not joined.skip_assignment
        request = s.SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=self._assign([each.member_id for each in joined.members]) if leads else (),
        )
        life = self.world.group_watch.coordinator_life
        synced = await link.ask(request, ApiKey.SYNC_GROUP)
        self._check(synced.error_code)
        if self._is_current:
            self._life = life  # the member id is stored now
        self._notice_loaded(link)
        partitions = assigned_partitions(synced.assignment)
        self.world.group_watch.owns(self.group, joined.generation_id, self.identity, partitions)
        positions = await self._committed(link, partitions)
        self.generation, self.owned = joined.generation_id, positions
        self.world.cluster.loop.note(f"{self.name} owns {len(partitions)} in {self.generation}")

    @property
    def identity(self) -> str:
        """The id under which the `Ledger` stores the member.

        A static member keeps this id when it returns with a new member id.
        """
        return self._instance or self.member_id

    def _assign(self, members: list[str]) -> tuple[s.SyncGroupRequestAssignment, ...]:
        everything = [(topic, index) for topic, count in self._topics.items() for index in range(count)]
        assignments = []
        for nth, member in enumerate(sorted(members)):
            topics: dict[str, list[int]] = {}
            for topic, index in everything[nth :: len(members)]:
                topics.setdefault(topic, []).append(index)
            parts = tuple(
                TopicPartitions(topic=topic, partitions=tuple(each)) for topic, each in topics.items()
            )
            raw = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts))
            assignments.append(s.SyncGroupRequestAssignment(member_id=member, assignment=raw))
        return tuple(assignments)

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

    async def _stay(self, link: GroupLink) -> None:
        """Sends a heartbeat and uses the partitions. Without a coordinator, the member only reads."""
        try:
            await self._poll(link)
        except NoCoordinator:
            await self._read(link)
            await self.pause(0.0, BACKOFF_S)

    async def _poll(self, link: GroupLink) -> None:
        request = h.HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
        )
        sent_s = self._now_s
        response = await link.ask(request, ApiKey.HEARTBEAT)
        self._take_heartbeat(link, response.error_code, sent_s)
        if response.error_code is ErrorCode.REBALANCE_IN_PROGRESS and self.rng.random() < 0.7:
            await self._commit(link)  # as real consumers do before they give up partitions
        self._check(response.error_code)
        await self._use(link)

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

    async def _leave(self, link: GroupLink) -> None:
        if self.member_id and self._instance is None:
            identity = lg.MemberIdentity(member_id=self.member_id)
            request = lg.LeaveGroupRequest(group_id=self.group, members=(identity,))
            response = await link.ask(request, ApiKey.LEAVE_GROUP)
            assert response.error_code is ErrorCode.NONE or response.error_code in NOT_NOW, (
                f"{self.name} may not leave: {response.error_code!r}"
            )
            if response.error_code is not ErrorCode.NONE:
                await self.pause(0.0, BACKOFF_S)
                return
        self.member_id = ""

    async def pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(least_s + (most_s - least_s) * self.rng.random())
