"""The protocol of a worker in its group: what it claims, takes over and gives up, and what it decides as the leader."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from kcli.client.group.protocol import Generation, JoinedMember
from kcli.client.group.requests import GroupSettings
from kcli.connect.decisions import config_records as records
from kcli.connect.decisions import protocol as wire
from kcli.connect.decisions.assignment import IncrementalAssignor
from kcli.connect.decisions.json_values import Entry
from kcli.connect.decisions.leader import Leader
from kcli.connect.decisions.protocol import COMPATIBLE, CONFIG_MISMATCH, EAGER, SESSIONED, ExtendedAssignment
from kcli.connect.herders.group import GroupAssignment
from kcli.connect.herders.membership import WorkerGroup, WorkerProtocol
from kcli.connect.model import CONNECTOR, TaskId
from kcli.connect.stores.configs import Configs
from kcli.connect.stores.log import MemoryLog
from rigs.connect_stores import NoListener
from rigs.loops import on_a_loop

GROUP = GroupSettings(group_id="g", session_timeout_ms=10_000)
A, A0, A1, B0 = TaskId("a", CONNECTOR), TaskId("a", 0), TaskId("a", 1), TaskId("b", 0)


class SlowLog(MemoryLog):
    """A log whose last records are read only by `read_to_end`."""

    def __init__(self) -> None:
        super().__init__()
        self.unread: list[Entry] = []
        self.is_cut_off = False

    async def read_to_end(self) -> None:
        if self.is_cut_off:
            await asyncio.Event().wait()
        for entry in self.unread:
            self.send(entry)
        self.unread.clear()


class World:
    """One worker, its herder and its configurations."""

    def __init__(self, offered: str = "sessioned", max_delay_ms: int = 300_000) -> None:
        self.log = SlowLog()
        self.configs = Configs(self.log)
        self.events: list[object] = []
        self.now_ms = 0
        settings = WorkerGroup(
            group=GROUP, url="http://w1/", protocol=offered, max_delay_ms=max_delay_ms, sync_timeout_ms=10
        )
        leader = Leader(IncrementalAssignor(max_delay_ms))
        self.protocol = WorkerProtocol(settings, self.configs, leader, self, lambda: self.now_ms)

    async def assigned(self, assignment: GroupAssignment, generation: int) -> None:
        self.events.append((generation, sorted(assignment.connectors), sorted(assignment.tasks)))
        self.last = assignment

    def lease(self, end_s: float) -> None:
        self.lease_end_s = end_s

    async def revoked(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        self.events.append(("revoked", *connectors, *tasks))

    async def start(self, *entries: Entry) -> None:
        await self.configs.start(NoListener())
        for entry in entries:
            self.log.send(entry)

    async def take(
        self,
        generation: int,
        assigned: Sequence[TaskId] = (),
        revoked: Sequence[TaskId] = (),
        *,
        name: str = SESSIONED,
        leader: str = "m0",
        error: int = 0,
    ) -> None:
        version = wire.VERSIONS[name]
        assignment = ExtendedAssignment(
            version=version,
            error=error,
            leader=leader,
            leader_url="http://w0/",
            config_offset=3,
            assigned=assigned,
            revoked=revoked,
        )
        embedded = wire.encode_assignment(assignment, version)
        assert not await self.protocol.assigned(Generation(generation, "m1", name), embedded)

    def claims(self) -> list[TaskId]:
        """What the worker claims in its next JoinGroup."""
        metadata = dict(self.protocol.metadata())
        claimed = wire.decode_metadata(metadata[COMPATIBLE]).assignment
        return [] if claimed is None else list(claimed.assigned)


def test_the_offers_are_those_of_connect_protocol() -> None:
    names = [[name for name, _ in World(offered).protocol.metadata()] for offered in wire.OFFERS]
    assert names == [[EAGER], [COMPATIBLE, EAGER], [SESSIONED, COMPATIBLE, EAGER]]


@on_a_loop
async def test_metadata_has_the_url_the_offset_and_the_assignment() -> None:
    world = World()
    await world.start(records.connector_entry("a", {}))
    await world.take(1, [A, A0])
    state = wire.decode_metadata(dict(world.protocol.metadata())[SESSIONED])
    assert (state.url, state.config_offset) == ("http://w1/", 1)
    assert state.assignment is not None
    assert (state.assignment.assigned, state.assignment.leader) == ((A, A0), "m0")


@on_a_loop
async def test_a_worker_keeps_its_work_and_adds_what_is_new() -> None:
    world = World()
    await world.take(1, [A, A0])
    await world.protocol.revoked(everything=False)
    await world.take(2, [B0])
    assert world.events == [(1, ["a"], [A0]), (2, ["a"], [A0, B0])]
    assert world.claims() == [A, A0, B0]


@on_a_loop
async def test_a_lease_ends_between_the_silence_that_stops_work_and_the_end_of_the_session() -> None:
    world = World()
    world.now_ms = 1_000
    await world.take(1, [A, A0])
    heartbeat_s, session_s = GROUP.heartbeat_interval_ms / 1000, GROUP.session_timeout_ms / 1000
    assert world.protocol.lease_end_s == 1 + session_s - heartbeat_s
    assert world.lease_end_s == 1 + session_s - heartbeat_s / 2
    await world.protocol.fall_out(9_000)
    assert world.protocol.lease_end_s == math.inf


@on_a_loop
async def test_revoked_work_stops_before_the_assignment_is_taken_over() -> None:
    world = World()
    await world.take(1, [A, A0, A1])
    await world.take(2, [B0], [A, A1])
    assert world.events[1:] == [("revoked", "a", A1), (2, [], [A0, B0])]
    assert world.last.has_revoked
    assert world.claims() == [B0, A0]


@on_a_loop
async def test_in_eager_rebalances_all_work_stops_first() -> None:
    world = World("eager")
    await world.take(1, [A, A0], name=EAGER)
    await world.protocol.revoked(everything=False)
    await world.take(2, [A1], name=EAGER)
    assert world.events == [(1, ["a"], [A0]), ("revoked", "a", A0), (2, [], [A1])]


@on_a_loop
async def test_an_eager_member_makes_the_others_stop_what_they_do_not_get() -> None:
    world = World()
    await world.take(1, [A, A0, A1])
    await world.protocol.revoked(everything=False)
    await world.take(2, [A0, B0], name=EAGER)
    assert world.events[1:] == [("revoked", "a", A1), (2, [], [A0, B0])]
    await world.protocol.revoked(everything=False)
    await world.take(3, [A])
    assert world.events[3:] == [("revoked", A0, B0), (3, ["a"], [A0, B0])]


@on_a_loop
async def test_a_worker_that_fell_out_stops_its_work_and_still_claims_it() -> None:
    world = World(max_delay_ms=1_000)
    await world.take(1, [A, A0])
    await world.protocol.lost()
    await world.protocol.lost()
    assert world.events[1:] == [("revoked", "a", A0)]
    world.now_ms = 1_000
    assert world.claims() == [A, A0]
    await world.take(2)
    assert world.events[2:] == [(2, ["a"], [A0])]
    await world.protocol.lost()
    world.now_ms += 1_001
    assert world.claims() == [], "other workers have the work for certain"


@on_a_loop
async def test_a_leader_that_fell_out_claims_nothing() -> None:
    world = World()
    await world.take(1, [A, A0], leader="m1")
    assert world.protocol.is_leader
    await world.protocol.lost()
    assert world.claims() == [], "a new leader assigns the work at once"


@on_a_loop
async def test_a_worker_that_leaves_gives_up_everything() -> None:
    world = World()
    await world.take(1, [A, A0])
    await world.protocol.revoked(everything=True)
    assert world.events[1:] == [("revoked", "a", A0)]
    assert world.claims() == []


@on_a_loop
async def test_a_failed_assignment_takes_nothing_away() -> None:
    world = World()
    await world.take(1, [A])
    await world.take(2, error=CONFIG_MISMATCH)
    assert world.last.has_failed
    assert world.claims() == [A]


def joined(member: str, offset: int, *work: TaskId) -> JoinedMember:
    assignment = ExtendedAssignment(
        version=2, leader="m0", leader_url="http://w0/", config_offset=1, assigned=work
    )
    state = wire.WorkerState(f"http://{member}/", offset, assignment)
    return JoinedMember(member, None, wire.encode_metadata(state, 2))


async def decided(world: World, *members: JoinedMember) -> dict[str, ExtendedAssignment]:
    world.protocol.metadata()
    made = await world.protocol.assign(Generation(1, "m1", SESSIONED), members)
    return {member: wire.decode_assignment(embedded) for member, embedded in made.items()}


@on_a_loop
async def test_the_leader_assigns_and_knows_the_owners() -> None:
    world = World()
    await world.start(records.connector_entry("a", {}), records.task_entry(A0, {}))
    await world.configs.put_task_configs("a", [{}, {}])
    made = await decided(world, joined("m1", 5, A), joined("m2", 5))
    assert (made["m1"].assigned, made["m2"].assigned) == ((A0,), (A1,))
    assert {made[member].config_offset for member in made} == {5}
    assert made["m2"].leader_url == "http://m1/"
    assert world.protocol.owners == {A: "http://m1/", A0: "http://m1/", A1: "http://m2/"}
    world.protocol.metadata()
    assert not world.protocol.owners, "a rebalance is on its way"


@on_a_loop
async def test_a_leader_reads_the_configurations_that_a_member_has_read() -> None:
    world = World()
    await world.start()
    world.log.unread.append(records.connector_entry("a", {}))
    made = await decided(world, joined("m1", -1), joined("m2", 1))
    assert {made[member].error for member in made} == {0}
    assert made["m1"].assigned == (A,)


@on_a_loop
async def test_a_leader_that_cannot_read_them_makes_all_members_read_again() -> None:
    world = World()
    await world.start()
    world.log.is_cut_off = True
    made = await decided(world, joined("m1", -1), joined("m2", 7))
    assert {(each.error, each.config_offset, each.assigned) for each in made.values()} == {
        (CONFIG_MISMATCH, 7, ())
    }
    assert not world.protocol.owners


@on_a_loop
async def test_a_member_with_invalid_metadata_gets_nothing_and_the_others_work() -> None:
    world = World()
    await world.start(records.connector_entry("a", {}))
    made = await decided(world, joined("m1", 1), JoinedMember("m2", None, b"\xff\xff"))
    assert list(made) == ["m1"]
    assert made["m1"].assigned == (A,)
