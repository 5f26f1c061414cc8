"""The part of a simulated cluster's story that has a consumer group: its settings, its members, and their faults.

Members join, leave, die without leaving, come back, and sleep longer than their session. At the end, the group must own
every partition exactly once, in one generation, and must have read and committed everything. Then the members leave,
and the group must be empty at its coordinator.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import consumer_group_describe as cd
from kcli.protocol.messages import describe_groups as dg
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.wire.api import ApiKey
from simulation.actors.classic_member import ClassicMember
from simulation.actors.client import World, eventually
from simulation.actors.consumer_member import QUICK_SESSIONS, ConsumerMember
from simulation.actors.group_link import GroupLink, MemberWorld, NoCoordinator
from simulation.actors.member import Member
from simulation.checks.group_watch import GroupWatch

GROUP = "members"
CLASSIC, CONSUMER, BOTH_PROTOCOLS = "classic", "consumer", "both"
"""The protocols of the members. With both, the group changes between the protocols."""
SETTLE_S = 240.0
ASK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group that a seed has chosen."""

    protocol: str
    instances: tuple[bool, ...]
    """For each member, whether it is static."""
    overrides: dict[str, str]

    @classmethod
    def of(cls, seed: int, *, is_one_node: bool = False) -> GroupSettings | None:
        """Chooses with its own random generator, so that the other choices of a seed do not depend on the group."""
        rng = random.Random(f"group {seed}")
        if rng.random() < (0.2 if is_one_node else 0.55):
            return None
        protocols = (CLASSIC, CONSUMER, BOTH_PROTOCOLS) if is_one_node else (CLASSIC, CONSUMER)
        protocol = rng.choice(protocols)
        share = rng.choice((0.0, 0.5, 1.0))
        return cls(
            protocol=protocol,
            instances=tuple(rng.random() < share for _ in range(rng.randint(2, 3))),
            overrides={
                **QUICK_SESSIONS,
                "group.initial.rebalance.delay.ms": rng.choice(("0", "500")),
                "group.coordinator.append.linger.ms": rng.choice(("-1", "0", "5")),
            },
        )


class GroupPart:
    def __init__(
        self,
        world: World,
        settings: GroupSettings,
        topics: Mapping[str, int],
        seed: int,
        *,
        sparse: Collection[str] = (),
    ) -> None:
        """`topics` has the number of partitions of each topic that the group reads. See `GroupWatch` for `sparse`."""
        self.rng = random.Random(f"members {seed}")
        self.watch = GroupWatch(world.watch, GROUP, sparse=sparse)
        self.world = MemberWorld(
            world.cluster, world.watch, self.rng, topic_ids=world.topic_ids, group_watch=self.watch
        )
        self.settings = settings
        self.members: list[Member] = []
        self._topics = dict(topics)
        self._partitions = sorted(
            TopicPartition(topic, index) for topic, count in topics.items() for index in range(count)
        )

    # Trouble.

    async def run(self, end: float) -> None:
        """Lets members work until `end`, with faults of single members."""
        for nth, is_static in enumerate(self.settings.instances):
            is_classic = self.settings.protocol == CLASSIC or (
                self.settings.protocol == BOTH_PROTOCOLS and nth % 2 == 0
            )
            kind = ClassicMember if is_classic else ConsumerMember
            instance = f"instance-{nth}" if is_static else None
            self.members.append(kind(self.world, f"member-{nth}", GROUP, self._topics, instance=instance))
        self.watch.members += self.members
        for member in self.members:
            member.start()
        loop = asyncio.get_running_loop()
        while loop.time() < end:
            await self._wait()
            self._disturb(self.rng.choice(self.members))

    async def _wait(self) -> None:
        """Waits a few seconds. A change of the coordinator may end the wait, so that members come and go just then."""
        loop = asyncio.get_running_loop()
        life, end = self.watch.coordinator_life, loop.time() + self.rng.random() * 4
        while loop.time() < end:
            await asyncio.sleep(0.1)
            if self.watch.coordinator_life != life and self.rng.random() < 0.3:
                return

    def _disturb(self, member: Member) -> None:
        self._raise_failures()
        match self.rng.randrange(6):
            case 0 if member.is_running:
                self.world.cluster.loop.note(f"{member.name} dies")
                member.die()
            case 1 if member.is_running:
                self.world.cluster.loop.note(f"{member.name} leaves")
                member.leaving = True
            case 2 if member.is_running:
                self.world.cluster.loop.note(f"{member.name} sleeps: {not member.asleep}")
                member.asleep = not member.asleep
            case _:
                self._wake(member)

    def _wake(self, member: Member) -> None:
        member.asleep = False
        member.start()

    def _raise_failures(self) -> None:
        for member in self.members:
            member.raise_failure()

    # Calm.

    async def finish(self) -> None:
        """Waits until the group has read and committed everything. Then all members leave. Call it when all nodes run
        and all producers have finished."""
        for member in self.members:
            self._wake(member)
        await eventually(self._has_settled, SETTLE_S, "the group settles")
        self.world.ending = True
        for member in self.members:
            member.leaving = True
        await eventually(self._have_left, SETTLE_S, "the members leave")
        group = await self._answer(self._describe, "the group is empty", _is_empty)
        assert not group.members, f"{GROUP} is empty, but has members: {group}"

    def _has_settled(self) -> bool:
        self._raise_failures()
        owned = [each for member in self.members for each in member.owned]
        generations = {member.generation for member in self.members}
        ends = {each: self.world.watch.partitions[each].end for each in self._partitions}
        return (
            sorted(owned) == self._partitions
            and generations == {self.watch.generation}
            and all(self.world.watch.is_settled(topic) for topic in self._topics)
            and all(
                max(self.watch.committed_offset(GROUP, each), 0) == ends[each] for each in self._partitions
            )
        )

    def _have_left(self) -> bool:
        self._raise_failures()
        return not any(member.is_running for member in self.members)

    async def check_end(self) -> None:
        """Fetches the committed offsets after a restart of all nodes. They must be those of the committed log."""
        group = await self._answer(self._fetch_offsets, "the offsets are served", _is_served)
        found = {
            TopicPartition(topic.name, part.partition_index): part.committed_offset
            for topic in group.topics
            for part in topic.partitions
        }
        committed = {each: self.watch.committed_offset(GROUP, each) for each in self._partitions}
        assert found == committed, f"{GROUP}: {committed} is committed, {found} is found after a restart"

    async def _answer(
        self,
        ask: Callable[[GroupLink], Awaitable[Any]],
        what: str,
        is_right: Callable[[Any], bool],
    ) -> Any:
        """Repeats a request to the coordinator until the answer about the group is right."""
        end = self.world.cluster.loop.time() + SETTLE_S
        link = GroupLink(self.world, "asker")
        group: Any = None
        while group is None or not is_right(group):
            assert self.world.cluster.loop.time() < end, f"not within {SETTLE_S} s: {what}: {group}"
            await asyncio.sleep(ASK_AGAIN_S)
            with contextlib.suppress(NoCoordinator):
                (group,) = (await ask(link)).groups
        link.close()
        return group

    async def _describe(self, link: GroupLink) -> Any:
        if self.settings.protocol != CONSUMER:
            answer = await link.ask(dg.DescribeGroupsRequest(groups=(GROUP,)), ApiKey.DESCRIBE_GROUPS)
            if self.settings.protocol == CLASSIC or _is_empty(answer.groups[0]):
                return answer
        request = cd.ConsumerGroupDescribeRequest(group_ids=(GROUP,))
        return await link.ask(request, ApiKey.CONSUMER_GROUP_DESCRIBE)

    async def _fetch_offsets(self, link: GroupLink) -> Any:
        topics = tuple(
            of.OffsetFetchRequestTopics(name=name, partition_indexes=tuple(range(count)))
            for name, count in self._topics.items()
        )
        asked = of.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
        request = of.OffsetFetchRequest(groups=(asked,), require_stable=True)
        return await link.ask(request, ApiKey.OFFSET_FETCH, at_most=9)


def _is_empty(group: dg.DescribedGroup | cd.DescribedGroup) -> bool:
    return group.error_code is ErrorCode.NONE and group.group_state == "Empty"


def _is_served(group: of.OffsetFetchResponseGroup) -> bool:
    return group.error_code is ErrorCode.NONE
