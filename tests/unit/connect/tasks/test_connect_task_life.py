"""The life of a task in its process: from its start to its last report."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from kcli.connect.tasks import main
from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.control import Control
from rigs.connect_tasks import WorkerChannel


class Loop:
    """A loop whose steps are remembered, and whose `run` waits for the order to stop."""

    name = "WorkerSourceTask{id=c-0}"

    def __init__(self, control: Control) -> None:
        self.control = control
        self.steps: list[str] = []
        self.errors: dict[str, Exception] = {}
        self.stopped = threading.Event()
        self.is_running = threading.Event()

    def _step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.errors:
            raise self.errors[name]

    def start(self) -> None:
        self._step("start")

    def run(self) -> None:
        self._step("run")
        self.is_running.set()
        assert self.stopped.wait(60)

    def stop(self) -> None:
        self.stopped.set()
        self._step("stop")

    def close(self) -> None:
        self._step("close")


class World:
    def __init__(self, *, is_paused: bool = False) -> None:
        self.control = Control(is_paused=is_paused)
        self.channel = WorkerChannel()
        self.loop = Loop(self.control)
        self.result: BaseException | None = None

    def live(self) -> None:
        self.result = main._live(self.loop, cast("Channel", self.channel), self.control)

    @property
    def notes(self) -> list[str]:
        return [method for method, _ in self.channel.notes]


def test_an_order_to_stop_ends_the_poll_of_a_source_and_stops_its_task_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "SourceLoop", Loop)
    it = World()
    thread = threading.Thread(target=it.live)
    thread.start()
    assert it.loop.is_running.wait(60)
    it.control.handle("stop", None)
    it.control.handle("stop", None)
    thread.join(60)
    assert it.loop.steps == ["start", "run", "stop", "close"]
    assert (it.notes, it.result) == (["started"], None)


@pytest.mark.parametrize("step", ["start", "run"])
def test_an_error_ends_a_task_which_is_stopped_and_closed(
    step: str, caplog: pytest.LogCaptureFixture
) -> None:
    it = World()
    it.loop.errors = {step: ValueError("oh"), "stop": ValueError("no stop"), "close": ValueError("no close")}
    it.live()
    assert it.result is it.loop.errors[step]
    assert it.loop.steps[-2:] == ["stop", "close"]
    for line in (
        "Task threw an uncaught and unrecoverable exception",
        "Could not stop task",
        "could not close its plugins",
    ):
        assert line in caplog.text


def test_a_task_that_was_never_started_is_not_stopped() -> None:
    it = World()
    it.control.stop()
    it.live()
    assert it.result is None
    assert it.loop.steps == ["close"]


def test_an_error_after_the_order_to_stop_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    it = World()
    it.loop.stopped.set()
    run = it.loop.run

    def stop_and_fail() -> None:
        run()
        it.control.stop()
        raise ValueError("the connection is closed")

    it.loop.run = stop_and_fail
    it.live()
    assert it.result is None
    assert it.loop.steps == ["start", "run", "stop", "close"]
    assert "ERROR" not in caplog.text


def test_a_paused_task_starts_when_it_is_resumed() -> None:
    it = World(is_paused=True)
    it.loop.stopped.set()
    thread = threading.Thread(target=it.live)
    thread.start()
    it.control.handle("resume", None)
    thread.join(60)
    assert it.notes == ["paused", "started"]
