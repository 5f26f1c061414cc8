"""Kept answers: one request for all who wait, their age, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kcli.console.cache import ENTRIES_MAX, UNUSED_SECONDS, Cache
from kcli.errors import ErrorCode, KafkaError, error_for


class World:
    """A cluster whose answers a test releases, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.ready = asyncio.Event()
        self.ready.set()
        self.cache = Cache(lambda: self.now)

    async def load(self) -> int:
        self.asked += 1
        number = self.asked
        await self.ready.wait()
        return number


def with_world(story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World()
        await story(world)
        world.cache.close()

    asyncio.run(run())


def test_an_answer_is_used_again_until_it_is_too_old() -> None:
    async def story(world: World) -> None:
        assert (await world.cache.get("k", 10, world.load)).value == 1
        world.now = 9
        answer = await world.cache.get("k", 10, world.load)
        assert (answer.value, answer.age_ms) == (1, 9000)
        world.now = 11
        assert (await world.cache.get("k", 10, world.load)).value == 2

    with_world(story)


def test_an_older_answer_may_be_used_while_a_new_one_is_on_its_way() -> None:
    async def story(world: World) -> None:
        await world.cache.get("k", 10, world.load)
        world.now = 30
        answer = await world.cache.get("k", 10, world.load, older_seconds=50)
        assert (answer.value, answer.age_ms) == (1, 30_000)
        await asyncio.sleep(0.01)
        assert (await world.cache.get("k", 10, world.load, older_seconds=50)).value == 2
        world.now = 91
        assert (await world.cache.get("k", 10, world.load, older_seconds=50)).value == 3

    with_world(story)


def test_callers_that_wait_share_one_request_even_if_one_gives_up() -> None:
    async def story(world: World) -> None:
        world.ready.clear()
        waiting = [asyncio.create_task(world.cache.get("k", 10, world.load)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        world.ready.set()
        assert [(await task).value for task in waiting[1:]] == [1, 1]
        assert world.asked == 1

    with_world(story)


def test_an_error_reaches_the_callers_that_wait_and_is_not_kept() -> None:
    async def story(world: World) -> None:
        async def fail() -> int:
            raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            await world.cache.get("k", 10, fail)
        assert (await world.cache.get("k", 10, world.load)).value == 1

    with_world(story)


def test_an_answer_that_began_before_an_action_is_not_kept() -> None:
    async def story(world: World) -> None:
        world.ready.clear()
        before = asyncio.create_task(world.cache.get("k", 10, world.load))
        await asyncio.sleep(0.01)
        assert world.asked == 1
        world.cache.clear()
        world.ready.set()
        assert (await before).value == 1
        assert (await world.cache.get("k", 10, world.load)).value == 2

    with_world(story)


def test_begin_does_not_wait_and_ignores_errors() -> None:
    async def story(world: World) -> None:
        async def fail() -> int:
            raise OSError("gone")

        assert world.cache.begin("k", 10, fail) is None
        await asyncio.sleep(0.01)
        assert world.cache.begin("k", 10, world.load) is None
        await asyncio.sleep(0.01)
        world.now = 60
        old = world.cache.begin("k", 10, world.load)
        assert old is not None and (old.value, old.is_stale) == (1, True), "an old answer is better than none"
        await asyncio.sleep(0.01)
        new = world.cache.begin("k", 10, world.load)
        assert new is not None and (new.value, new.is_stale) == (2, False)

    with_world(story)


def test_an_old_answer_of_a_cluster_that_does_not_answer_is_stale() -> None:
    async def story(world: World) -> None:
        await world.cache.get("k", 10, world.load)
        world.now = 29
        assert not (await world.cache.get("k", 10, world.load, older_seconds=50)).is_stale
        await asyncio.sleep(0.01)

        async def fail() -> int:
            raise OSError("gone")

        world.now = 100
        answer = await world.cache.get("k", 10, fail, older_seconds=50)
        assert (answer.value, answer.is_stale) == (2, True)
        lost = Cache(lambda: world.now, lambda: True)
        await lost.get("k", 10, world.load)
        world.now = 1000
        assert (await lost.get("k", 10, world.load)).age_ms == 900_000
        assert world.asked == 3, "nothing is asked of a cluster that is lost"

    with_world(story)


def test_an_old_answer_does_not_hide_an_error_of_the_cluster() -> None:
    async def story(world: World) -> None:
        async def refuse() -> int:
            raise error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

        await world.cache.get("k", 10, world.load)
        world.now = 100
        with pytest.raises(KafkaError):
            await world.cache.get("k", 10, refuse)

    with_world(story)


def test_few_answers_are_kept_and_not_for_long() -> None:
    async def story(world: World) -> None:
        for key in range(ENTRIES_MAX + 1):
            await world.cache.get(key, 10, world.load)
        assert (await world.cache.get(1, 10, world.load)).value == 2
        assert (await world.cache.get(0, 10, world.load)).value == ENTRIES_MAX + 2
        world.now = UNUSED_SECONDS + 1
        world.cache.sweep()
        assert world.cache.begin(1, 10, world.load) is None

    with_world(story)
