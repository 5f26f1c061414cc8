"""A member over a scripted coordinator: it ends in order, whatever its protocol does and whenever it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kcli.client.client import Client, Destination, Node
from kcli.client.config import ClientConfig
from kcli.client.group.member import Member
from kcli.client.group.membership import State
from kcli.client.group.protocol import Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.errors import KcliError, NetworkException
from kcli.model.addresses import Address
from kcli.protocol.messages.find_coordinator import FindCoordinatorResponse
from kcli.protocol.messages.heartbeat import HeartbeatResponse
from kcli.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kcli.protocol.messages.leave_group import LeaveGroupResponse
from kcli.protocol.messages.sync_group import SyncGroupResponse
from kcli.protocol.wire.api import ApiKey
from rigs.loops import move_clock, on_a_loop, some_turns


class Coordinator(Client):
    """A coordinator with one member, which it makes the leader. It does not answer the APIs in `held`."""

    def __init__(self) -> None:
        super().__init__(ClientConfig(servers=(Address("h", 1),)))
        self.requests: list[ApiKey] = []
        self.held: dict[ApiKey, asyncio.Future[None]] = {}
        self.is_reachable = True

    async def send(
        self, message: Any, key: ApiKey, *, to: int | Destination = Destination.ANY, **_: Any
    ) -> Any:
        self.requests.append(key)
        await asyncio.sleep(0)
        if key in self.held:
            await self.held[key]
        match key:
            case ApiKey.FIND_COORDINATOR:
                return FindCoordinatorResponse(node_id=1, host="h", port=1)
            case ApiKey.JOIN_GROUP:
                members = (JoinGroupResponseMember(member_id="a"),)
                return JoinGroupResponse(
                    generation_id=1, protocol_name="v0", leader="a", member_id="a", members=members
                )
            case ApiKey.SYNC_GROUP:
                return SyncGroupResponse()
            case ApiKey.HEARTBEAT:
                return HeartbeatResponse()
            case _:
                return LeaveGroupResponse()

    async def connection_to(self, node: Node) -> Any:
        if not self.is_reachable:
            raise NetworkException("refused")

    def hold(self, key: ApiKey) -> asyncio.Future[None]:
        self.held[key] = asyncio.get_running_loop().create_future()
        return self.held[key]

    def disconnect(self, node: Node) -> None:
        for held in self.held.values():
            if not held.done():
                held.set_exception(NetworkException("closed"))


class Toy:
    """A protocol whose calls a test may replace."""

    protocol_type = "toy"

    def __init__(self, assigned: Callable[[], Any] = lambda: asyncio.sleep(0)) -> None:
        self.calls: list[str] = []
        self.broken: Exception | None = None
        self._assigned = assigned

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        if self.broken is not None:
            raise self.broken
        return [("v0", b"")]

    async def assign(self, leader: Generation, members: Sequence[JoinedMember]) -> Mapping[str, bytes]:
        return {}

    async def assigned(self, generation: Generation, assignment: bytes) -> bool:
        self.calls.append("assigned")
        await self._assigned()
        return False

    async def revoked(self, *, everything: bool) -> None:
        self.calls.append("revoked")

    async def lost(self) -> None:
        self.calls.append("lost")


def member_of(coordinator: Coordinator, protocol: Toy) -> Member:
    return Member(coordinator, GroupSettings(group_id="g"), protocol)


@on_a_loop
async def test_a_member_knows_since_when_its_coordinator_is_silent() -> None:
    coordinator = Coordinator()
    member = member_of(coordinator, Toy())
    assert member.coordinator_silent_since is None
    running = asyncio.create_task(member.run())
    await some_turns(40)
    assert member.state is State.STABLE
    loop = asyncio.get_running_loop()
    heard = member.coordinator_silent_since
    assert heard is not None and loop.time() - heard < 10
    coordinator.hold(ApiKey.HEARTBEAT)
    move_clock(40)
    await some_turns()
    assert member.coordinator_silent_since == heard
    coordinator.held[ApiKey.HEARTBEAT].set_result(None)
    move_clock(5)
    await some_turns()
    assert member.coordinator_silent_since is not None and member.coordinator_silent_since > heard + 40
    await member.leave()
    await running
    assert member.coordinator_silent_since is None


@on_a_loop
async def test_a_member_that_joins_notices_a_coordinator_that_cannot_be_reached() -> None:
    coordinator = Coordinator()
    join = coordinator.hold(ApiKey.JOIN_GROUP)
    member = member_of(coordinator, Toy())
    running = asyncio.create_task(member.run())
    await some_turns()
    coordinator.is_reachable = False
    join.set_exception(NetworkException("closed"))
    await some_turns()
    since = member.coordinator_silent_since
    assert since is not None
    before = coordinator.requests.count(ApiKey.JOIN_GROUP)
    for _ in range(5):
        move_clock(10)
        await some_turns()
        assert member.coordinator_silent_since == since
    assert coordinator.requests.count(ApiKey.JOIN_GROUP) == before
    coordinator.is_reachable = True
    del coordinator.held[ApiKey.JOIN_GROUP]
    move_clock(10)
    await some_turns(40)
    assert member.state is State.STABLE
    await member.leave()
    await running


@on_a_loop
async def test_a_member_closes_the_connection_to_a_coordinator_that_was_silent_for_a_session() -> None:
    coordinator = Coordinator()
    member = member_of(coordinator, Toy())
    running = asyncio.create_task(member.run())
    await some_turns(40)
    heartbeat = coordinator.hold(ApiKey.HEARTBEAT)
    move_clock(4)
    await some_turns()
    move_clock(45)
    await some_turns()
    assert heartbeat.done(), "the connection is closed"
    assert coordinator.requests[-3:-1] == [ApiKey.HEARTBEAT, ApiKey.FIND_COORDINATOR]
    del coordinator.held[ApiKey.HEARTBEAT]
    await member.leave()
    await running


@on_a_loop
async def test_a_held_request_of_a_rebalance_is_no_silence() -> None:
    coordinator = Coordinator()
    coordinator.hold(ApiKey.JOIN_GROUP)
    member = member_of(coordinator, Toy())
    running = asyncio.create_task(member.run())
    await some_turns()
    assert coordinator.requests[-1] is ApiKey.JOIN_GROUP
    assert member.coordinator_silent_since is None
    await member.leave()
    await running


@on_a_loop
async def test_a_member_that_leaves_before_it_runs_does_not_join() -> None:
    coordinator = Coordinator()
    member = member_of(coordinator, Toy())
    running = asyncio.create_task(member.run())
    await member.leave()
    await running
    assert coordinator.requests == []


@on_a_loop
async def test_a_cancelled_member_raises_only_the_cancellation() -> None:
    """The protocol's coroutine takes the cancellation and returns, and the caller asks for another rebalance."""

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("a failed clean-up") from None

    protocol = Toy(stubborn)
    member = member_of(Coordinator(), protocol)
    running = asyncio.create_task(member.run())
    await some_turns(40)
    assert protocol.calls == ["assigned"]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    member.rejoin("other topics")
    await member.leave()
    assert member.coordinator_silent_since is None


@on_a_loop
async def test_a_cancelled_task_of_the_protocol_makes_the_member_leave() -> None:
    async def awaits_a_cancelled_task() -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    coordinator, protocol = Coordinator(), Toy(awaits_a_cancelled_task)
    async with asyncio.timeout(30):
        with pytest.raises(KcliError, match="a task of the group's protocol was cancelled"):
            await member_of(coordinator, protocol).run()
    assert protocol.calls == ["assigned", "revoked"]
    assert coordinator.requests[-1] is ApiKey.LEAVE_GROUP


@on_a_loop
async def test_an_error_of_the_metadata_makes_the_member_leave() -> None:
    coordinator, protocol = Coordinator(), Toy()
    member = member_of(coordinator, protocol)
    running = asyncio.create_task(member.run())
    await some_turns(40)
    protocol.broken = ValueError("no configuration")
    member.rejoin("a new configuration")
    async with asyncio.timeout(30):
        with pytest.raises(ValueError, match="no configuration"):
            await running
    assert protocol.calls == ["assigned", "revoked", "revoked"], "for the rebalance, and before it leaves"
    assert coordinator.requests[-1] is ApiKey.LEAVE_GROUP


@on_a_loop
async def test_a_coroutine_of_the_protocol_may_let_the_member_leave() -> None:
    coordinator = Coordinator()
    protocol = Toy(lambda: member.leave("no more work"))
    member = member_of(coordinator, protocol)
    async with asyncio.timeout(30):
        await member.run()
    assert protocol.calls == ["assigned", "revoked"]
    assert coordinator.requests[-1] is ApiKey.LEAVE_GROUP
