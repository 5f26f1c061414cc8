"""The places for answers of the metrics endpoint."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from kcli.http.server import HttpError
from kcli.server.beans import places
from kcli.server.beans.places import PLACES_MAX, PLACES_PER_PEER, Places


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 0.01)


def test_an_address_has_its_own_limit_and_all_have_one() -> None:
    async def story() -> None:
        kept = Places()
        async with AsyncExitStack() as stack:
            for _ in range(PLACES_PER_PEER):
                await stack.enter_async_context(kept.place("a"))
            with pytest.raises(HttpError, match="too many answers") as error:
                await stack.enter_async_context(kept.place("a"))
            assert error.value.status == 503
            for number in range(PLACES_MAX - PLACES_PER_PEER):
                await stack.enter_async_context(kept.place(f"b{number}"))
            with pytest.raises(HttpError):
                await stack.enter_async_context(kept.place("c"))
        async with kept.place("a"):
            assert dict(kept._taken) == {"a": 1}
        assert not kept._taken

    asyncio.run(story())


def test_a_waiting_reader_gets_a_place_that_becomes_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 60.0)

    async def story() -> None:
        kept, most, now = Places(), 0, 0

        async def read() -> None:
            nonlocal most, now
            async with kept.place("a"):
                now += 1
                most = max(most, now)
                await asyncio.sleep(0)
                now -= 1

        await asyncio.gather(*(read() for _ in range(20)))
        assert most == PLACES_PER_PEER

    asyncio.run(story())
