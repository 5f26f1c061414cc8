"""Code of plugins that raises what it should not, returns other types, or starts processes: only its task fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.connect.model import CONNECTOR, State, TargetState, TaskId
from kcli.formats.connect.errors import ConnectException
from rigs import connect_engine, node
from rigs.loops import on_a_loop, until

TROUBLE = {"connector.class": "rigs.Trouble", "tasks.max": "1"}
TASKS = {
    "system exit": "SystemExit: the plugin gives up\n",
    "interrupt": "KeyboardInterrupt\n",
    "recursion": "RecursionError: maximum recursion depth exceeded",
    "no text": "rigs.connect_plugins.Unprintable: <its message cannot be made>\n",
    "half a character": "org.apache.kafka.connect.errors.ConnectException: cannot read \\udcff\n",
    "a text": "AttributeError: ",
    "a number": "TypeError: ",
    "numbers": "AttributeError: ",
    "no topic": "TypeError: ",
}
CONNECTORS = {
    "none": "'NoneType' object is not iterable",
    "a number": "task_configs returned a int for 'n': expected a str",
    "an object": "task_configs returned a object for 'n': expected a str",
    "texts": "'str' object has no attribute 'items'",
    "exit": "the connector gives up",
}


@on_a_loop
async def test_a_task_that_raises_or_returns_anything_fails_with_its_trace(tmp_path: Path) -> None:
    async with node.running(tmp_path / "data") as broker, connect_engine.running(broker.port()) as it:
        for name in TASKS:
            await it.start(name, TROUBLE | {"trouble": name})
        for name, beginning in TASKS.items():
            trace = await it.statuses.reach(TaskId(name, 0), State.FAILED)
            assert trace is not None and trace.startswith(beginning)


@on_a_loop
async def test_a_connector_that_raises_or_returns_anything_fails() -> None:
    async with connect_engine.running(9) as it:
        for name, message in CONNECTORS.items():
            config = {"name": name, **TROUBLE, "configs": name}
            await it.engine.start_connector(name, config, TargetState.STARTED)
            with pytest.raises(ConnectException) as error:
                await it.engine.task_configs(name)
            assert str(error.value) == message
            assert it.statuses.last[TaskId(name, CONNECTOR)][0] is State.FAILED


@on_a_loop
async def test_the_processes_that_a_task_has_started_end_with_it(tmp_path: Path) -> None:
    async with connect_engine.running(9, task_shutdown_graceful_timeout_ms="100") as it:
        for name in ("fork and exit", "fork and hang"):
            await it.start(name, TROUBLE | {"trouble": name, "file": str(tmp_path / name)})
        await it.statuses.reach(TaskId("fork and exit", 0), State.FAILED)
        await until(lambda: has_program(tmp_path / "fork and hang"))
        await it.engine.stop_tasks([TaskId("fork and hang", 0)])
        await until(lambda: not has_program(tmp_path / "fork and exit"))
        await until(lambda: not has_program(tmp_path / "fork and hang"))


def has_program(file: Path) -> bool:
    """Whether the process whose id is in a file still runs. A process that has ended has no command line."""
    try:
        return Path("/proc", file.read_text(), "cmdline").read_bytes() != b""
    except OSError:
        return False
