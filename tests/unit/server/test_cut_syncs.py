"""Cuts of logs that wait for the device together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kcli.server.partitions.fetchers.cut_syncs import CutSyncs
from kcli.storage.log.log import PartitionLog
from rigs.logs import LogRig
from simulation.runtime.disk import SimDisk


def logs_in(path: str, count: int) -> list[PartitionLog]:
    disk = SimDisk()
    return [LogRig(disk, path, topic=f"t{nth}").create() for nth in range(count)]


class World:
    """Syncs whose background work runs when a test calls `step`."""

    def __init__(self) -> None:
        self.synced: list[list[PartitionLog]] = []
        self.work: list[Callable[[], None]] = []
        self.cuts = CutSyncs(self._sync, self.work.append)

    def _sync(self, logs: Sequence[PartitionLog]) -> None:
        self.synced.append(list(logs))

    def wait_for(self, *logs: PartitionLog) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self.cuts.synced(log)) for log in logs]

    async def step(self) -> None:
        self.work.pop(0)()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_cuts_that_wait_are_synced_together() -> None:
    asyncio.run(_waiting_together())


async def _waiting_together() -> None:
    world = World()
    first, *others = logs_in("/data", 4)
    begun = world.wait_for(first)
    await asyncio.sleep(0)
    waiting = world.wait_for(*others)
    await asyncio.sleep(0)
    assert len(world.work) == 1
    await world.step()
    assert begun[0].done() and not any(each.done() for each in waiting)
    await world.step()
    assert all(each.done() for each in waiting)
    assert world.synced == [[first], others]
    assert not world.work


def test_a_slow_directory_does_not_hold_the_others() -> None:
    asyncio.run(_two_directories())


async def _two_directories() -> None:
    world = World()
    (slow,), (fast,) = logs_in("/slow", 1), logs_in("/fast", 1)
    waiting = world.wait_for(slow, fast)
    await asyncio.sleep(0)
    world.work.reverse()
    await world.step()
    assert [each.done() for each in waiting] == [False, True]
    await world.step()
    assert waiting[0].done()
