"""The starts of connectors beside a herder, and the attempts to configure their tasks."""

from __future__ import annotations

import asyncio

from kcli.connect.herders.reconfigurations import Reconfigurations


def test_a_connector_starts_until_its_start_has_ended() -> None:
    async def story() -> None:
        started, ends = asyncio.Event(), []

        async def fail(name: str) -> None:
            raise ValueError("no tasks yet")

        async def start() -> bool:
            await started.wait()
            return True

        work = Reconfigurations(fail, on_end=lambda: ends.append(work.are_starting))
        work.start("c", after=start)
        await asyncio.sleep(0)
        assert work.are_starting and work.is_busy("c")
        started.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not work.are_starting, "a connector whose tasks cannot be configured has started"
        assert work.is_busy("c") and ends == [False]
        await work.close()
        await asyncio.sleep(0)
        assert not work.is_busy("c")

    asyncio.run(story())


def test_a_cancelled_start_is_no_start() -> None:
    async def story() -> None:
        async def never() -> bool:
            await asyncio.Event().wait()
            return True

        async def configure(name: str) -> None: ...

        work = Reconfigurations(configure)
        work.start("c", after=never)
        await asyncio.sleep(0)
        work.cancel("c")
        await asyncio.sleep(0)
        assert not work.are_starting and not work.is_busy("c")

    asyncio.run(story())
