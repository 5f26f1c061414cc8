"""Workers of Connect in a group on a real broker: they share work, leave, and stop when they lose the coordinator."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

from kcli.client.group.requests import GroupSettings
from kcli.connect.herders.group import GroupAssignment, GroupMembership
from kcli.connect.herders.membership import WorkerGroup, WorkerMembership
from kcli.connect.model import CONNECTOR, TaskId
from kcli.connect.stores.configs import Configs
from rigs.connect_cluster import ConnectCluster, connect_cluster
from rigs.connect_stores import NoListener
from rigs.loops import move_clock, on_a_loop, until

SESSION_MS = 6_000
"""Longer than any pause of a busy machine, and moved over where a session must end."""


class Worker:
    """A herder that runs what it is assigned at once, and joins again as it must."""

    def __init__(self, configs: Configs, membership: GroupMembership) -> None:
        self.configs = configs
        self.membership = membership
        self.running: set[TaskId] = set()
        self.last = GroupAssignment()
        self.generation = -1
        self.task = asyncio.create_task(membership.run(self))

    async def assigned(self, assignment: GroupAssignment, generation: int) -> None:
        self.last, self.generation = assignment, generation
        connectors = {TaskId(name, CONNECTOR) for name in assignment.connectors}
        self.running = connectors | assignment.tasks
        if assignment.offset > self.configs.state.offset:
            await self.configs.refresh()
        if assignment.has_revoked or assignment.has_failed or assignment.offset != self.configs.state.offset:
            self.membership.rejoin("the worker must join again")

    def lease(self, end_s: float) -> None: ...

    async def revoked(self, connectors: Sequence[str], tasks: Sequence[TaskId]) -> None:
        self.running -= {TaskId(name, CONNECTOR) for name in connectors} | set(tasks)

    @property
    def is_leader(self) -> bool:
        return self.last.leader == self.membership.member_id

    async def stop(self) -> None:
        await self.membership.leave("the consumer is being closed")
        await self.task


async def start(
    cluster: ConnectCluster, name: str, *, protocol: str = "sessioned", max_delay_ms: int = 300_000
) -> Worker:
    configs = (await cluster.topics()).configs()
    await configs.start(NoListener())
    cluster.at_end(configs.stop)
    settings = WorkerGroup(
        group=GroupSettings(
            group_id="g",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=50,
            rebalance_timeout_ms=60_000,
            retry_backoff_ms=5,
        ),
        url=f"http://{name}/",
        protocol=protocol,
        max_delay_ms=max_delay_ms,
    )
    worker = Worker(configs, WorkerMembership(await cluster.client(), settings, configs))

    async def kill() -> None:
        worker.task.cancel()
        await asyncio.gather(worker.task, return_exceptions=True)

    cluster.at_end(kill)
    return worker


def work(*workers: Worker) -> list[TaskId]:
    return sorted(id for worker in workers for id in worker.running)


async def settled(expected: Sequence[TaskId], *workers: Worker) -> None:
    """Waits until the workers run exactly this, balanced, in one generation."""

    def is_settled() -> bool:
        sizes = [len(worker.running) for worker in workers]
        return (
            work(*workers) == sorted(expected)
            and len({worker.generation for worker in workers}) == 1
            and max(sizes) - min(sizes) <= 2
            and not any(worker.last.has_revoked for worker in workers)
        )

    await until(is_settled)


A = [TaskId("a", number) for number in (CONNECTOR, 0, 1, 2)]


@on_a_loop
async def test_workers_share_what_the_configurations_say(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        first = await start(cluster, "w1", max_delay_ms=0)
        await until(lambda: first.is_leader)
        assert first.membership.is_sessioned
        await first.configs.put_connector("a", {"name": "a"}, None)
        await first.configs.put_task_configs("a", [{}, {}, {}])
        first.membership.rejoin("connectors have changed")
        await settled(A, first)
        second = await start(cluster, "w2", max_delay_ms=0)
        await settled(A, first, second)
        assert first.running
        assert second.running
        assert second.last.leader_url == "http://w1/"
        owned = next(iter(second.running))
        assert first.membership.owner_url(owned) == "http://w2/"
        assert second.membership.owner_url(owned) is None
        await second.stop()
        assert not second.running
        await settled(A, first)
        third = await start(cluster, "w3", max_delay_ms=0)
        await settled(A, first, third)
        await first.stop()
        await settled(A, third)
        assert third.is_leader
        await third.stop()


@on_a_loop
async def test_an_eager_worker_makes_the_group_eager(tmp_path: Path) -> None:
    async with connect_cluster(tmp_path) as cluster:
        first = await start(cluster, "w1")
        await until(lambda: first.is_leader)
        await first.configs.put_connector("a", {"name": "a"}, None)
        await first.configs.put_task_configs("a", [{}, {}, {}])
        first.membership.rejoin("connectors have changed")
        await settled(A, first)
        second = await start(cluster, "w2", protocol="eager")
        await settled(A, first, second)
        assert first.membership.is_eager
        await second.stop()
        await settled(A, first)
        assert first.membership.is_sessioned


@on_a_loop
async def test_a_worker_without_its_coordinator_stops_and_gets_its_work_back(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with connect_cluster(tmp_path, port) as cluster:
        first = await start(cluster, "w1")
        await until(lambda: first.is_leader)
        await first.configs.put_connector("a", {"name": "a"}, None)
        await first.configs.put_task_configs("a", [{}, {}, {}])
        second = await start(cluster, "w2")
        first.membership.rejoin("connectors have changed")
        await settled(A, first, second)
        before = set(second.running)
        await cluster.broker.stop()
        move_clock(SESSION_MS / 1000)
        await until(lambda: not first.running and not second.running)
        await cluster.broker.start()
        await settled(A, first, second)
        assert before <= second.running
        assert not first.last.delay_ms, "no worker counts as lost"
