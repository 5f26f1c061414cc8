"""Members with the consumer protocol (KIP-848) in a simulation.

They send heartbeats, give up and take over partitions, and are late at times.
"""

from __future__ import annotations

import math
import uuid
from dataclasses import replace

from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import consumer_group_heartbeat as ch
from kcli.protocol.messages import offset_fetch as of
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S
from simulation.actors.group_link import REBALANCE_TIMEOUT_MS, GroupLink, MemberWorld, NoCoordinator
from simulation.actors.member import GIVEN_UP_WITHIN_S, NOT_NOW, Again, Member

LEAVE_EPOCH, STATIC_LEAVE_EPOCH = -1, -2
# Settings of the broker with short session time-outs, so that a run need not wait for the usual time-outs.
QUICK_SESSIONS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}
# Errors after which the member has to join again, without partitions.
BEGIN_ANEW = frozenset(
    {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND}
)
# Errors after which the member tries again, because its epoch has risen, or because the former member with this
# instance id has not left yet.
ASK_AGAIN = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNRELEASED_INSTANCE_ID})

CHANGES_OF_LEAVING = 2
"""If a static member leaves for a while, this counts as two changes of its epoch, because the coordinator accepts no
former epoch afterwards."""


class ConsumerMember(Member):
    def __init__(
        self, world: MemberWorld, name: str, group: str, topics: dict[str, int], *, instance: str | None
    ) -> None:
        super().__init__(world, name, group, topics, instance=instance)
        self.member_id = ""
        self._epoch = 0
        self._uncertain: dict[int, int] = {}
        """The number of changes of the epoch that the coordinator may have made without an answer since the last
        answer, by the life of the coordinator."""
        self._asked_since_s = math.inf
        """The earliest time at which the coordinator may have asked for partitions that it does not have back yet."""
        self._tells_all = False
        """Whether the next heartbeat has all fields, because the last one got no answer. The answer to a heartbeat with
        all fields always has the assignment."""

    def _stop_owning(self) -> None:
        super()._stop_owning()
        self._asked_since_s = math.inf

    def _forget_membership(self) -> None:
        self.member_id, self._epoch = "", 0

    async def _work(self, link: GroupLink) -> None:
        self._stop_owning()
        try:
            if self.leaving:
                await self._leave(link)
                return
            await link.find()
            await self._join(link)
            while not self.leaving:
                await self._stay(link)
        except (Again, NoCoordinator):
            self._stop_owning()
            await self.pause(0.0, BACKOFF_S)

    async def _stay(self, link: GroupLink) -> None:
        """Sends a heartbeat and uses the partitions. Without a coordinator, the member only reads."""
        try:
            await self._beat(link)
            await self._use(link)
        except NoCoordinator:
            await self._read(link)
            await self.pause(0.0, BACKOFF_S)

    def _check(self, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        if code in BEGIN_ANEW:
            self._epoch = 0
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            self._forget_membership()
        else:
            assert code in NOT_NOW or code in ASK_AGAIN, f"{self.name}: {code!r}"
        raise Again

    def _identified(self, group: of.OffsetFetchRequestGroup) -> of.OffsetFetchRequestGroup:
        return replace(group, member_id=self.member_id, member_epoch=self._epoch)

    async def _join(self, link: GroupLink) -> None:
        """Sends a heartbeat with all fields, to join. The member owns no partition, because its connection is new."""
        if not self.member_id:
            self.member_id, self._epoch = f"{self.name}-{self.rng.randrange(1 << 40):x}", 0
        self._tells_all = True
        await self._beat(link)

    def _heartbeat(self) -> ch.ConsumerGroupHeartbeatRequest:
        request = ch.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            instance_id=self._instance,
            topic_partitions=tuple(
                ch.RequestTopicPartitions(topic_id=self.world.topic_ids[topic], partitions=(index,))
                for topic, index in self.owned
            ),
        )
        if not self._tells_all:
            return request
        names = tuple(self._topics)
        return replace(request, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS, subscribed_topic_names=names)

    async def _beat(self, link: GroupLink) -> None:
        request, self._tells_all = self._heartbeat(), True
        sent_s = self._now_s
        self._asked_since_s = min(self._asked_since_s, sent_s)
        response = await self._send(link, request)
        code = response.error_code
        self._take_heartbeat(link, code, sent_s)
        self._check_fence(link, code)
        self._check(code)
        self._uncertain.clear()
        if response.assignment is None:  # the coordinator has all partitions back
            self._asked_since_s = math.inf
        assert response.member_epoch >= self._epoch, (
            f"{self.name}: {self._epoch} became {response.member_epoch}"
        )
        self._epoch = self.generation = response.member_epoch
        if response.assignment is not None:
            await self._take_assignment(link, response.assignment)
        else:
            self._owns(link, tuple(self.owned))
        self._tells_all = False

    async def _send(
        self, link: GroupLink, request: ch.ConsumerGroupHeartbeatRequest
    ) -> ch.ConsumerGroupHeartbeatResponse:
        try:
            response: ch.ConsumerGroupHeartbeatResponse = await link.ask(
                request, ApiKey.CONSUMER_GROUP_HEARTBEAT
            )
        except NoCoordinator as error:
            life = self.world.group_watch.coordinator_life
            changes = CHANGES_OF_LEAVING if request.member_epoch == STATIC_LEAVE_EPOCH else 1
            self._uncertain[life] = self._uncertain.get(life, 0) + error.may_be_done * changes
            raise
        return response

    def _knows_members(self) -> bool:
        return True  # a coordinator that is being loaded refuses heartbeats of KIP-848

    def _keeps_partitions_too_long(self) -> bool:
        return self._now_s - self._asked_since_s > GIVEN_UP_WITHIN_S

    def _check_fence(self, link: GroupLink, code: ErrorCode) -> None:
        """Checks that a coordinator refuses no epoch that is in the log.

        It accepts the present epoch of a member and the epoch before. A member may be further behind only if the
        coordinator has changed the epoch more than once, and the member did not get the answers.
        """
        if code is ErrorCode.FENCED_MEMBER_EPOCH and link.is_current and self._epoch > 0:
            is_known = self.world.group_watch.has_member(self.group, self.member_id, self._epoch)
            uncertain = self._uncertain.get(self.world.group_watch.coordinator_life, 0)
            assert not is_known or uncertain > 1, (
                f"{self.name}: the coordinator refuses the epoch {self._epoch}"
            )

    async def _take_assignment(self, link: GroupLink, assignment: ch.Assignment) -> None:
        names: dict[uuid.UUID | None, str] = {each: name for name, each in self.world.topic_ids.items()}
        wanted: tuple[TopicPartition, ...] = tuple(
            TopicPartition(names[topic.topic_id], index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
        if any(each not in wanted for each in self.owned):
            if self.rng.random() < 0.7:
                await self._commit(link)  # as real consumers do before they give up partitions
            if self.rng.random() < 0.1:
                await self.pause(0.0, REBALANCE_TIMEOUT_MS / 1000 * 1.5)
        self.owned = {each: at for each, at in self.owned.items() if each in wanted}
        self._owns(link, wanted)
        new = tuple(each for each in wanted if each not in self.owned)
        if new:
            self.owned |= await self._committed(link, new)

    def _owns(self, link: GroupLink, partitions: tuple[TopicPartition, ...]) -> None:
        self.world.group_watch.owns(self.group, self._epoch, self.identity, partitions)
        self.world.cluster.loop.note(f"{self.name} owns {len(partitions)} in {self._epoch}")

    async def _leave(self, link: GroupLink) -> None:
        if self.member_id and self._epoch > 0:
            stays = self._instance is not None and not self.world.ending and self.rng.random() < 0.5
            request = ch.ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=STATIC_LEAVE_EPOCH if stays else LEAVE_EPOCH,
                instance_id=self._instance,
            )
            response = await self._send(link, request)
            if response.error_code in NOT_NOW:
                await self.pause(0.0, BACKOFF_S)
                return
            gone = BEGIN_ANEW | {ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID}
            assert response.error_code in gone, f"{self.name} may not leave: {response.error_code!r}"
        self._forget_membership()
