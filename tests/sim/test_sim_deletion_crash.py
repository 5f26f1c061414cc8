"""An acknowledged deletion leaves no files, even if the node stops, is killed or loses power at any time.

A node deletes topics while its disk is copied at regular calls. A node starts on each copy, once as after a SIGKILL and
once as after a power failure, and runs for some minutes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from kcli.controller.api import CREATE_TOPICS, DELETE_TOPICS
from kcli.errors import ErrorCode
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.server.node import Node
from kcli.storage.directory import STRAY_SUFFIX
from rigs.leader_appends import append_batch
from rigs.logs import batch_of, flush_logs, numbered
from simulation.runtime.disk import SimDisk
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import DATA, SimCluster, SimNode

LARGE = 55
"""Partitions: more than a broker deletes in one turn of its loop."""

AFTER_DELETION_S = 90.0
"""More than `file.delete.delay.ms`."""

MOMENTS_PER_SEED = 2

EVERY = 7
"""The number of calls between two copies of the disk. Tests make their first copy at different calls."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The disk after a crash, and the topics whose deletion was acknowledged before."""

    disk: SimDisk
    deleted: frozenset[str]


class WatchedDisk(SimDisk):
    """Copies itself after each EVERY calls while `watching` is true."""

    def __init__(self, now_ms: Callable[[], int], stall: Callable[[float], None], *, first: int) -> None:
        super().__init__(now_ms, stall)
        self.watching = False
        self.deleted: set[str] = set()
        self.moments: list[Moment] = []
        self._countdown = first

    def struck(self, operation: str, path: str) -> None:
        super().struck(operation, path)
        self._countdown -= self.watching
        if self.watching and self._countdown <= 0:
            self._countdown = EVERY
            self.look()

    def look(self) -> None:
        for disk in (self.full_clone(), self.crash_clone(len(self.moments))):
            self.moments.append(Moment(disk, frozenset(self.deleted)))


async def create(node: Node, name: str, partitions: int) -> None:
    topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = await node.controller.send(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))
    assert answer.topics[0].error_code is ErrorCode.NONE
    assert node.broker is not None
    await node.broker.replicas.applied()


async def delete(node: Node, name: str) -> None:
    request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name=name),), timeout_ms=5000)
    answer = await node.controller.send(DELETE_TOPICS, request)
    assert answer.responses[0].error_code is ErrorCode.NONE


def write(node: Node, name: str) -> None:
    assert node.broker is not None
    leader = node.broker.replicas.get(name, 0)
    append_batch(leader, batch_of(numbered(3)), acks=-1, now_ms=node.clock.now_ms())


async def deletions(node: SimNode, disk: WatchedDisk, *, settled: bool) -> None:
    """Creates, writes and deletes; `settled`: nothing is written any more when the deletions begin."""
    assert await node.start()
    running = node.running
    assert running is not None
    for name, partitions in (("kept", 2), ("small", 2), ("large", LARGE), ("again", 1)):
        await create(running, name, partitions)
        write(running, name)
    running.logs.logs["kept", 0].durability.flush()  # type: ignore[index]
    if settled:
        flush_logs(running.logs)
    disk.watching = True
    for name in ("small", "large", "again"):
        await delete(running, name)
        disk.deleted.add(name)
        disk.look()
    disk.deleted.discard("again")
    await create(running, "again", 1)


def moments(first: int, *, settled: bool, end: Callable[[SimNode], Awaitable[None]]) -> list[Moment]:
    async def main(loop: SimLoop) -> list[Moment]:
        async with SimCluster(first) as cluster:
            node = cluster.node
            node.disk = disk = WatchedDisk(node.clock.now_ms, loop.stall, first=first)
            await deletions(node, disk, settled=settled)
            await end(node)
            disk.look()
            return disk.moments

    return simulate(first, main)


async def stopped(node: SimNode) -> None:
    await node.stop()


async def killed(node: SimNode) -> None:
    node.kill()


def names_after(moment: Moment, seed: int) -> list[str]:
    """The partition directories on the disk some time after the next start."""

    async def main(loop: SimLoop) -> list[str]:
        async with SimCluster(seed) as cluster:
            node = cluster.node
            node.disk = moment.disk
            node.disk._locks.clear()
            assert await node.start()
            running = node.running
            assert running is not None
            assert running.logs.logs["kept", 0].log_end_offset == 3  # type: ignore[index]
            await asyncio.sleep(AFTER_DELETION_S)
            return [entry.name for entry in node.disk.list_dir(DATA) if entry.is_dir]

    return simulate(seed, main)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("end", [stopped, killed])
def test_nothing_of_a_deleted_topic_is_left(
    settled: bool, end: Callable[[SimNode], Awaitable[None]], sim_seed: int
) -> None:
    found = moments(1 + sim_seed % EVERY, settled=settled, end=end)
    assert len(found) > 10
    for nth, moment in enumerate(random.Random(sim_seed).sample(found, min(len(found), MOMENTS_PER_SEED))):
        names = names_after(moment, nth)
        left = [name for name in names if name.partition("-")[0] in moment.deleted]
        assert left == [], f"moment {nth}: {moment.deleted} were deleted"
        assert not [name for name in names if name.endswith(STRAY_SUFFIX)]
        assert "kept-0" in names
