"""Members of a classic group in a simulation: they join, assign partitions, read, commit, leave, and die.

A member works with one broker or with a cluster. Its `GroupWorld` and its `Link` contain the differences.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import Protocol

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
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
from simulation.actors.clients import (
    BACKOFF_S,
    PASSING,
    Actor,
    ActorWorld,
    Link,
    Readings,
    read_into,
    reset_offset,
)

SESSION_TIMEOUT_MS = 6_000
# A coordinator remembers a member at least for this time, also if the clock of the coordinator is too fast.
REMEMBERED_S = SESSION_TIMEOUT_MS / 1000 * 0.9
# The time for which a join waits for the other members. It is shorter than the time that a client waits for an answer.
REBALANCE_TIMEOUT_MS = 8_000
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


class NoCoordinator(Exception):
    """Raised by a `Link` if the request got no answer of a coordinator. A member keeps its partitions, and finds the
    coordinator with the next request. `may_be_done` tells whether a coordinator may have carried out the request."""

    def __init__(self, why: str, *, may_be_done: bool) -> None:
        super().__init__(why)
        self.may_be_done = may_be_done


class GroupPromises(Readings, Protocol):
    """The part of a ledger that checks the promises about groups."""

    def owns(
        self, group: str, generation: int, member: str, partitions: Iterable[TopicPartition], *, losses: int
    ) -> None: ...

    def commit_acknowledged(
        self, group: str, partition: TopicPartition, offset: int, *, losses: int
    ) -> None: ...

    def committed_offset(self, group: str, partition: TopicPartition) -> int: ...

    def has_member(self, group: str, member_id: str, epoch: int | None = None) -> bool: ...


class GroupWorld(ActorWorld, Protocol):
    """The world that a member needs."""

    @property
    def ledger(self) -> GroupPromises: ...

    @property
    def ending(self) -> bool: ...

    @property
    def topic_ids(self) -> dict[str, uuid.UUID]: ...

    @property
    def coordinator_life(self) -> int:
        """A number that grows when another coordinator, or a new process, serves the group."""

    @property
    def coordinator_began_s(self) -> float:
        """The time before which the present life of the coordinator did not serve the group."""


class Member(Actor):
    """One consumer of a group. If `instance` is given, it is a static member (KIP-345)."""

    world: GroupWorld

    def __init__(
        self, world: GroupWorld, name: str, group: str, topics: dict[str, int], *, instance: str | None
    ) -> None:
        super().__init__(world, name)
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
        """The life of the coordinator (`GroupWorld.coordinator_life`) in which it assigned the member id."""
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
        await self.run()

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

    async def stopped(self) -> None:
        """Leaves the group. Raises the error of the member's task."""
        self.leaving = True
        if self._task is not None:
            await asyncio.wait((self._task,))
            self.raise_failure()

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

    async def work(self, link: Link) -> None:
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

    async def _find(self, link: Link) -> None:
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
        restarted = self.world.coordinator_life != self._life or not self._is_current
        forgotten = code is ErrorCode.FENCED_INSTANCE_ID and (restarted or self.world.ledger.losses)
        if code is ErrorCode.UNKNOWN_MEMBER_ID or forgotten:
            self.member_id = ""
        else:
            assert code in NOT_NOW or code in REJOIN, f"{self.name}: {code!r}"
        raise Again

    async def _join(self, link: Link) -> None:
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
        life = self.world.coordinator_life  # another coordinator may follow before the answer arrives
        joined = await link.ask(request, ApiKey.JOIN_GROUP)
        if joined.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            raise Again
        self._check(joined.error_code)
        if joined.member_id != self.member_id:
            # the present coordinator does not know an id that a former one has assigned
            self.member_id, self._life = joined.member_id, life if self._is_current else -1
        await self._sync(link, joined)

    async def _sync(self, link: Link, joined: j.JoinGroupResponse) -> None:
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
        life = self.world.coordinator_life
        synced = await link.ask(request, ApiKey.SYNC_GROUP)
        self._check(synced.error_code)
        if self._is_current:
            self._life = life  # the member id is stored now
        self._notice_loaded(link)
        partitions = assigned_partitions(synced.assignment)
        self.world.ledger.owns(
            self.group, joined.generation_id, self.identity, partitions, losses=link.losses
        )
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
        self, link: Link, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, int]:
        """Returns the committed offsets as positions.

        Checks that no offset is lower than the offset that was known before the request.
        """
        floors = {each: self.world.ledger.committed_offset(self.group, each) for each in partitions}
        losses = self.world.ledger.losses
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
                exempt = losses != self.world.ledger.losses or not link.is_current
                assert part.committed_offset >= floors[partition] or exempt, (
                    f"{self.group} {partition}: committed {floors[partition]}, fetched {part.committed_offset}"
                )
                found[partition] = max(part.committed_offset, 0)
        return found

    def _identified(self, group: of.OffsetFetchRequestGroup) -> of.OffsetFetchRequestGroup:
        """Returns the group of an OffsetFetch request.

        A protocol with fields for the member (KIP-848) adds these fields.
        """
        return group

    async def _stay(self, link: Link) -> None:
        """Sends a heartbeat and uses the partitions. Without a coordinator, the member only reads."""
        try:
            await self._poll(link)
        except NoCoordinator:
            await self._read(link)
            await self.pause(0.0, BACKOFF_S)

    async def _poll(self, link: Link) -> None:
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

    def _take_heartbeat(self, link: Link, code: ErrorCode, sent_s: float) -> None:
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
        if self._heard_s > NEVER and self.world.ledger.has_member(self.group, self.member_id):
            served_s = self._now_s - self.world.coordinator_began_s
            assert served_s > REMEMBERED_S, f"{self.name} is not known to the coordinator of {served_s:.3f} s"

    def _notice_loaded(self, link: Link) -> None:
        """Notices an answer that a coordinator gives only after it has loaded the group."""
        if link.is_current:
            self._loaded_life = self.world.coordinator_life

    def _knows_members(self) -> bool:
        """Whether the coordinator has surely loaded the group.

        Before that, as in Kafka, it answers NONE to each heartbeat of a classic member.
        """
        return self._loaded_life == self.world.coordinator_life

    def _keeps_partitions_too_long(self) -> bool:
        """Whether the rebalance timeout may have passed since the coordinator asked for partitions (KIP-848)."""
        return False

    async def _use(self, link: Link) -> None:
        """Reads the owned partitions, commits, and waits a while."""
        if self.owned:
            await self._read(link)
            if self.rng.random() < 0.6:
                await self._commit(link)
        if self.asleep:
            await self._sleep(link)
        await self.pause(0.0, 1.0)

    async def _sleep(self, link: Link) -> None:
        """Does nothing for a while. The member does not know then whether it is still in the group, and commits."""
        while self.asleep:
            await self.pause(0.1, 1.0)
        if self.owned:
            await self._commit(link)

    async def _read(self, link: Link) -> None:
        for partition, data in await link.fetch(self.owned):
            if data.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
                position = self.owned[partition]
                self.owned[partition] = await reset_offset(self.world.ledger, link, partition, position)
            elif data.error_code is ErrorCode.NONE:
                self.owned[partition] = read_into(
                    self.world.ledger, partition, self.owned[partition], data, link
                )
            else:
                self._check(data.error_code)

    async def _commit(self, link: Link) -> None:
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
                self.world.ledger.commit_acknowledged(
                    self.group, partition, self.owned[partition], losses=link.losses
                )

    async def _leave(self, link: Link) -> None:
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
