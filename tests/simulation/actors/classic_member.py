"""Members of a classic group in a simulation. They use the membership of the client, one action after another."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from kcli.client.group.actions import Action, Assign, Callback, End, Find, Lose, Response, Revoke, Send, Take
from kcli.client.group.assignors import RoundRobinAssignor
from kcli.client.group.consumer import ConsumerProtocol
from kcli.client.group.membership import Membership, State
from kcli.client.group.requests import GroupSettings
from kcli.errors import ErrorCode, KafkaError, NetworkException, error_for
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.protocol.records.consumer_protocol import assigned_partitions
from kcli.runtime.rng import SystemRng
from simulation.actors.client import BACKOFF_S
from simulation.actors.group_link import REBALANCE_TIMEOUT_MS, GroupLink, MemberWorld, NoCoordinator
from simulation.actors.member import NOT_NOW, REJOIN, SESSION_TIMEOUT_MS, Again, Member

HEARTBEAT_INTERVAL_MS = 100


class ClassicMember(Member):
    """A member whose subscription has all topics of the group. It is its own embedded protocol.

    A heartbeat is sent between two readings. So a member that sleeps sends none.
    """

    def __init__(
        self, world: MemberWorld, name: str, group: str, topics: dict[str, int], *, instance: str | None
    ) -> None:
        super().__init__(world, name, group, topics, instance=instance)
        self._settings = GroupSettings(
            group_id=group,
            group_instance_id=instance,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        self._random = SystemRng(self.rng.randrange(1 << 30))
        self._actions: deque[Action] = deque()
        self._life = 0
        """The life of the coordinator (`GroupWatch.coordinator_life`) in which it assigned the member id."""
        self._forget_membership()

    def _forget_membership(self) -> None:
        self._protocol = ConsumerProtocol(self._topics, self, self._partition_counts, [RoundRobinAssignor()])
        self._membership = Membership(self._settings, self._protocol, self._random)

    @property
    def member_id(self) -> str:  # type: ignore[override]  # the membership has the id
        return self._membership.generation.member_id

    async def _partition_counts(self, _topics: Sequence[str]) -> Mapping[str, int]:
        return self._topics

    async def _work(self, link: GroupLink) -> None:
        self._stop_owning()
        self._actions.clear()
        self._forget_membership()
        self._add(self._membership.start(self._now_ms))
        while self._membership.state is not State.UNJOINED:
            if self.leaving and self._membership.state is not State.LEAVING:
                self._add(self._membership.leave("the member leaves", self._now_ms))
            elif self._actions:
                await self._carry_out(link, self._actions.popleft())
            else:
                await self._stay(link)
        await self.pause(0.0, BACKOFF_S)

    async def _stay(self, link: GroupLink) -> None:
        """Uses the partitions while the membership waits. Without a coordinator, the member only reads."""
        try:
            await self._use(link)
        except NoCoordinator:
            await self.pause(0.0, BACKOFF_S)
        except Again:
            self._add(self._membership.rejoin("a commit was refused", self._now_ms))
        self._add(self._membership.tick(self._now_ms))

    # The actions of the membership.

    @property
    def _now_ms(self) -> int:
        return math.ceil(self._now_s * 1000)

    def _add(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, End):
                error = action.error
                may_end = isinstance(error, KafkaError) and self._may_be_fenced(error.code)
                assert error is None or may_end, f"{self.name}: {error!r}"
            else:
                self._actions.append(action)

    async def _carry_out(self, link: GroupLink, action: Action) -> None:
        match action:
            case Find():
                try:
                    await link.find()
                except NoCoordinator:
                    unknown = error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE)
                    self._add(self._membership.not_found(unknown, self._now_ms))
                else:
                    self._add(self._membership.found(self._now_ms))
            case Send():
                await self._send(link, action)
            case End():
                raise AssertionError("an End is not carried out later")
            case _:
                await self._call(link, action)

    async def _send(self, link: GroupLink, action: Send) -> None:
        life, sent_s = self.world.group_watch.coordinator_life, self._now_s
        try:
            response = await link.ask(action.request, action.key)
        except NoCoordinator as error:
            if error.response is None:
                failure = NetworkException(str(error))
                self._add(self._membership.failed(action, failure, self._now_ms))
                return
            response = error.response
        self._notice(link, response, life, sent_s)
        self._add(self._membership.answered(action, response, self._now_ms))

    async def _call(self, link: GroupLink, callback: Callback) -> None:
        match callback:
            case Assign(generation, members):
                made = await self._protocol.assign(generation, members)
                self._add(self._membership.made(made, self._now_ms))
            case Take():
                must_rejoin = await self._take(link, callback)
                self._add(self._membership.taken(self._now_ms, must_rejoin=must_rejoin))
            case Revoke(everything):
                await self._protocol.revoked(everything=everything)
                self._add(self._membership.given_up(self._now_ms))
            case Lose():
                await self._protocol.lost()
                self._add(self._membership.given_up(self._now_ms))

    async def _take(self, link: GroupLink, take: Take) -> bool:
        """Owns the partitions of an assignment. Returns True if the coordinator does not return their positions."""
        partitions = assigned_partitions(take.assignment)
        self.world.group_watch.owns(self.group, take.generation.id, self.identity, partitions)
        try:
            must_rejoin = await self._protocol.assigned(take.generation, take.assignment)
        except (Again, NoCoordinator):
            self._stop_owning()
            return True
        self.generation = take.generation.id
        self.world.cluster.loop.note(f"{self.name} owns {len(partitions)} in {self.generation}")
        return must_rejoin

    # The listener of the protocol.

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.link is not None, "a member works with a link"
        self.owned |= await self._committed(self.link, tuple(partitions))

    async def revoked(self, _partitions: Sequence[TopicPartition]) -> None:
        assert self.link is not None, "a member works with a link"
        if self.owned and self.rng.random() < 0.7:
            with contextlib.suppress(Again, NoCoordinator):
                await self._commit(self.link)  # as real consumers do before they give up partitions
        self._stop_owning()

    async def lost(self, _partitions: Sequence[TopicPartition]) -> None:
        self._stop_owning()

    # Checks.

    def _notice(self, link: GroupLink, response: Response, life: int, sent_s: float) -> None:
        """Notices an answer before the membership takes it."""
        match response:
            case HeartbeatResponse():
                self._take_heartbeat(link, response.error_code, sent_s)
            case JoinGroupResponse(error_code=ErrorCode.NONE) if response.member_id != self.member_id:
                # the present coordinator does not know an id that a former one has assigned
                self._life = life if link.is_current else -1
            case SyncGroupResponse(error_code=ErrorCode.NONE):
                if link.is_current:
                    self._life = life  # the member id is stored now
                self._notice_loaded(link)

    def _check(self, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        is_expected = code in NOT_NOW or code in REJOIN or code is ErrorCode.UNKNOWN_MEMBER_ID
        assert is_expected or self._may_be_fenced(code), f"{self.name}: {code!r}"
        raise Again

    def _may_be_fenced(self, code: ErrorCode) -> bool:
        # A new member id is stored only at the end of the rebalance. If a crash comes earlier, the old id is valid
        # again.
        restarted = self.world.group_watch.coordinator_life != self._life or not self._is_current
        return code is ErrorCode.FENCED_INSTANCE_ID and (restarted or self.world.watch.losses > 0)
