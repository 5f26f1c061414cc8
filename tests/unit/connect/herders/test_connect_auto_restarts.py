"""Failed connectors and tasks are restarted if their configuration asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from kcli.config.definition import ConfigError
from kcli.connect.config.connector_keys import RestartBackoff, restart_backoff
from kcli.connect.herders.auto_restarts import AutoRestarts
from kcli.connect.model import CONNECTOR, State, TaskId

TASK = TaskId("c", 0)


class _Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


class _World:
    """Records pauses and restarts. A pause passes at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, backoff: RestartBackoff | None) -> None:
        self.clock = _Clock()
        self.pauses: list[float] = []
        self.restarted: list[str] = []
        self.during_pause: Callable[[], None] = lambda: None
        self.restarts = AutoRestarts(lambda _: backoff, self._connector, self._task, self.clock)
        sleep = asyncio.sleep

        async def pause(seconds: float) -> None:
            if seconds:
                self.pauses.append(seconds)
                self.clock.now_s += seconds
                self.during_pause()
            await sleep(0)

        monkeypatch.setattr(asyncio, "sleep", pause)

    async def _connector(self, name: str) -> None:
        self.restarted.append(name)

    async def _task(self, task: TaskId) -> None:
        self.restarted.append(str(task))

    async def fail(self, id: TaskId = TASK) -> None:
        self.restarts.changed(id, State.FAILED)
        for _ in range(5):
            await asyncio.sleep(0)


def _run(story: Coroutine[object, object, None]) -> None:
    asyncio.run(story)


def test_the_pause_doubles_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = _World(monkeypatch, RestartBackoff(1_000, 5_000))
        for _ in range(5):
            await world.fail()
        assert world.pauses == [1, 2, 4, 5, 5]
        assert world.restarted == ["c-0"] * 5
        world.clock.now_s += 5
        await world.fail()
        assert world.pauses[-1] == 1, "the task had run long enough"

    _run(story())


def test_a_connector_is_restarted_as_a_connector(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = _World(monkeypatch, RestartBackoff(1_000, 5_000))
        await world.fail(TaskId("c", CONNECTOR))
        assert world.restarted == ["c"]

    _run(story())


@pytest.mark.parametrize("state", [State.RESTARTING, State.RUNNING, State.DESTROYED])
def test_a_restart_by_someone_else_ends_the_wait(monkeypatch: pytest.MonkeyPatch, state: State) -> None:
    async def story() -> None:
        world = _World(monkeypatch, RestartBackoff(1_000, 5_000))
        world.during_pause = lambda: world.restarts.changed(TASK, state)
        await world.fail()
        assert world.restarted == []

    _run(story())


def test_an_error_of_a_restart_is_only_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        world = _World(monkeypatch, RestartBackoff(1_000, 5_000))

        async def refuse(task: TaskId) -> None:
            raise ValueError("not here")

        monkeypatch.setattr(world.restarts, "_restart_task", refuse)
        await world.fail()
        await world.fail()
        assert world.pauses == [1, 2]

    with caplog.at_level("WARNING"):
        _run(story())
    assert "[c|task-0] The failed task was not restarted: not here" in caplog.text


def test_without_the_key_nothing_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = _World(monkeypatch, restart_backoff({"name": "c"}))
        await world.fail()
        assert world.pauses == world.restarted == []

    _run(story())


def test_close_ends_the_waits() -> None:
    async def story() -> None:
        restarted: list[str] = []

        async def restart(id: object) -> None:
            restarted.append(str(id))

        restarts = AutoRestarts(lambda _: RestartBackoff(3_600_000, 3_600_000), restart, restart, _Clock())
        restarts.changed(TASK, State.FAILED)
        await restarts.close()
        assert asyncio.all_tasks() == {asyncio.current_task()} and not restarted

    _run(story())


def test_the_keys_have_units_and_defaults() -> None:
    config = {"name": "c", "kcli.restart.backoff.ms": "250"}
    assert restart_backoff(config) == RestartBackoff(250, 300_000)
    assert restart_backoff({**config, "kcli.restart.backoff.max.ms": "500"}) == RestartBackoff(250, 500)
    with pytest.raises(ConfigError, match=r"kcli\.restart\.backoff\.ms"):
        restart_backoff({"kcli.restart.backoff.ms": "-1"})
