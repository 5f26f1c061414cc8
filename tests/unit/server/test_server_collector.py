"""The garbage collector pauses for very long work, not for ever, and runs again afterwards."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from kcli.server.requests.answers import finished
from kcli.server.requests.collector import PAUSE_SECONDS_MAX, RESUME_TURNS, CollectorPause
from kcli.server.requests.turns import in_turns
from kcli.testing.sim.loop import SimLoop, simulate
from rigs.loops import on_a_loop


@pytest.fixture(autouse=True)
def _own_collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives the turns a new pause, because the loop of an earlier test may have ended within one."""
    monkeypatch.setattr("kcli.server.requests.turns._collector", CollectorPause())
    gc.enable()
    yield
    gc.enable()


def test_the_collector_runs_again_when_no_work_is_left() -> None:
    async def story(loop: SimLoop) -> None:
        pause = CollectorPause()
        pause.begin(loop)
        pause.begin(loop)
        pause.end(loop)
        assert not gc.isenabled()
        pause.end(loop)
        assert not gc.isenabled(), "the next work of the same request may begin"
        await turns(2 * RESUME_TURNS)
        assert gc.isenabled()
        pause.begin(loop)
        assert not gc.isenabled()

    simulate(1, story)


def test_work_without_a_break_does_not_pause_the_collector_for_ever() -> None:
    async def story(loop: SimLoop) -> None:
        pause = CollectorPause()
        states = []
        pause.begin(loop)  # there is always one work
        for _ in range(4 * int(PAUSE_SECONDS_MAX)):
            await asyncio.sleep(1)
            pause.begin(loop)
            states.append(gc.isenabled())
            pause.end(loop)
        assert 0.3 < sum(states) / len(states) < 0.7

    simulate(1, story)


def test_a_collector_that_is_off_stays_off() -> None:
    async def story(loop: SimLoop) -> None:
        pause = CollectorPause()
        gc.disable()
        pause.begin(loop)
        pause.end(loop)
        await turns(2 * RESUME_TURNS)
        assert not gc.isenabled()

    simulate(1, story)


@on_a_loop
async def test_long_work_pauses_it_and_short_work_does_not() -> None:
    def is_enabled(_number: int) -> bool:
        return gc.isenabled()

    assert all(await finished(in_turns(range(50), is_enabled, per_turn=10)))
    states = await finished(in_turns(range(1000), is_enabled, per_turn=10))
    assert states[0] and not states[-1]
    await turns(2 * RESUME_TURNS)
    assert gc.isenabled()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
