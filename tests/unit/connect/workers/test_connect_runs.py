"""A task and a connector of this worker around the fork and the end of their processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import cast

import pytest

from kcli.connect.model import State, TargetState, TaskId
from kcli.connect.stores.store import OffsetStore, TaskProducer
from kcli.connect.tasks.frames import Frame
from kcli.connect.tasks.spec import ConnectorSpec
from kcli.connect.workers.connector_run import ConnectorProcess
from kcli.connect.workers.nursery import Nursery
from kcli.connect.workers.task_run import TaskRun
from kcli.formats.connect.errors import ConnectException
from rigs.connect_engine import MemoryOffsets
from rigs.connect_process import ScriptedNursery
from rigs.connect_tasks import source_spec
from rigs.loops import on_a_loop, some_turns, until

TASK = TaskId("c", 0)


class Owner:
    """Implements `TaskOwner` and `ConnectorOwner`."""

    lease_end_s: float | None = None

    def __init__(self) -> None:
        self.states: list[State] = []
        self.levels: dict[str, int] = {}

    def task_state(self, run: TaskRun, state: State, trace: str | None = None) -> None:
        self.states.append(state)

    def connector_state(self, name: str, state: State, trace: str | None = None) -> None:
        self.states.append(state)

    def task_used_topic(self, run: TaskRun, topic: str) -> None: ...

    def task_metrics(self, run: TaskRun, body: object) -> None: ...

    def reconfigure(self, name: str) -> None: ...

    def log_levels(self) -> Mapping[str, int]:
        return self.levels


def a_start(owner: Owner, nursery: ScriptedNursery) -> tuple[TaskRun, asyncio.Task[bool]]:
    """A task whose process is being forked."""
    nursery.may_fork.clear()
    run = TaskRun(TASK, owner, None, target=TargetState.STARTED, admin_properties={}, may_start=None)
    return run, asyncio.create_task(run.start(cast("Nursery", nursery), source_spec()))


@on_a_loop
async def test_a_stop_that_times_out_during_the_fork_ends_the_process() -> None:
    owner, nursery = Owner(), ScriptedNursery()
    run, starting = a_start(owner, nursery)
    await until(lambda: nursery.forks_begun)
    await run.stop(0.0)
    assert owner.states == [State.UNASSIGNED]
    nursery.may_fork.set()
    assert not await starting
    assert nursery.killed == [1]
    assert owner.states == [State.UNASSIGNED]


@on_a_loop
async def test_a_log_level_that_is_set_during_the_fork_reaches_the_process() -> None:
    owner, nursery = Owner(), ScriptedNursery()
    run, starting = a_start(owner, nursery)
    await until(lambda: nursery.forks_begun)
    owner.levels["org.x"] = logging.DEBUG
    run.note("levels", owner.levels)
    nursery.may_fork.set()
    await until(lambda: nursery.forked)
    frames: list[Frame] = []

    def has_come() -> bool:
        frames.extend(nursery.forked[0].received())
        return bool(frames)

    await until(has_come)
    assert isinstance(frames[0].body, dict)
    assert frames[0].body["levels"] == {"org.x": logging.DEBUG}
    await run.stop(0.0)
    await starting


def a_connector(nursery: ScriptedNursery, *, call_timeout_s: float = 60.0) -> ConnectorProcess:
    async def store() -> OffsetStore:
        return MemoryOffsets()

    return ConnectorProcess(
        ConnectorSpec("c", source_spec().plugin),
        Owner(),
        cast("Nursery", nursery),
        call_timeout_s=call_timeout_s,
        monitors=True,
        store=store,
    )


@on_a_loop
async def test_a_late_result_of_a_killed_process_is_not_the_result_of_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nursery = ScriptedNursery(ends_killed=False)
    connector = a_connector(nursery, call_timeout_s=0.0)
    with pytest.raises(ConnectException, match="did not return from 'first'"):
        await connector.call("first", started=False)
    monkeypatch.setattr(connector, "_timeout_s", 60.0)
    calling = asyncio.create_task(connector.call("next", started=False))
    await until(lambda: len(nursery.forked) == 2)
    late, successor = nursery.forked
    late.send(Frame("result", {"value": "late"}))
    late.end()
    await some_turns()
    successor.send(Frame("result", {"value": "new"}))
    assert await calling == "new"
    successor.end()
    await some_turns()


@on_a_loop
async def test_a_close_that_times_out_during_the_fork_ends_the_process() -> None:
    nursery = ScriptedNursery()
    connector = a_connector(nursery)
    nursery.may_fork.clear()
    calling = asyncio.create_task(connector.call("start", started=False))
    await until(lambda: nursery.forks_begun)
    closing = asyncio.create_task(connector.close(0.0))
    await some_turns()
    nursery.may_fork.set()
    await closing
    with pytest.raises(ConnectException, match="has ended unexpectedly with status -9"):
        await calling
    assert nursery.killed == [1]
    again = asyncio.create_task(connector.call("start", started=False))
    await until(lambda: len(nursery.forked) == 2)
    nursery.forked[1].send(Frame("result", {"value": None}))
    await again
    assert nursery.killed == [1]
    nursery.forked[1].end()
    await some_turns()


class SlowOffsets(MemoryOffsets):
    """`puts` are the entries that were given, in their order. Each write waits for `may_put`."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[bytes | None] = []
        self.may_put = asyncio.Event()

    async def put(self, entries: Mapping[bytes, bytes | None], producer: TaskProducer | None = None) -> None:
        self.puts.extend(entries.values())
        await self.may_put.wait()
        await super().put(entries)


@on_a_loop
async def test_a_newer_offset_is_copied_to_the_topic_of_the_worker_after_an_older_one() -> None:
    store = SlowOffsets()
    run = TaskRun(TASK, Owner(), None, target=TargetState.STARTED, admin_properties={}, may_start=None)
    run.worker_store = store
    key = '["c",{"p":1}]'
    many = [[f'["c",{{"p":{number}}}]', "1"] for number in range(2, 1000)]
    run.noted("offsets_committed", [*many, [key, "1"]])
    run.noted("offsets_committed", [[key, "2"]])
    await until(lambda: store.puts)
    await some_turns()
    assert len(store.puts) == 999, "the second note waits for the first one"
    store.may_put.set()
    await until(lambda: store.get(key.encode()) == b"2")
