"""The engine of a worker on a real broker: connectors, offsets that users change, topics, and its processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kcli.client.admin.topics import NewTopic, TopicDescription
from kcli.connect.model import CONNECTOR, Config, State, TargetState, TaskId
from kcli.connect.stores.store import OffsetStore
from kcli.connect.workers import engine
from kcli.connect.workers.admin import admin_client
from kcli.connect.workers.nursery import Nursery
from kcli.connect.workers.worker import TaskStart
from kcli.formats.connect.errors import ConnectException
from rigs import connect_engine, node
from rigs.connect_engine import World
from rigs.loops import on_a_loop, some_turns, until

COUNTER = {"connector.class": "gold.CounterSource", "tasks.max": "1", "topic": "numbers", "pause.ms": "1"}
TROUBLE = {"connector.class": "rigs.Trouble", "tasks.max": "1"}


@contextlib.asynccontextmanager
async def world(directory: Path, **worker: str) -> AsyncIterator[World]:
    async with (
        node.running(directory / "data") as broker,
        connect_engine.running(broker.port(), **worker) as it,
    ):
        yield it


@contextlib.asynccontextmanager
async def engine_alone(**worker: str) -> AsyncIterator[World]:
    """An engine without a broker."""
    async with connect_engine.running(9, **worker) as it:
        yield it


def sink(directory: Path, **more: str) -> dict[str, str]:
    return {"connector.class": "gold.PickySink", "tasks.max": "1", "file": str(directory / "out.txt"), **more}


@on_a_loop
async def test_a_connector_that_monitors_asks_for_new_tasks_and_may_fail_by_itself() -> None:
    async with engine_alone() as it:
        await it.offsets.put({b'["m",{"task":"0"}]': b'{"n":7}'})
        config = {"name": "m", "connector.class": "rigs.Monitor", "secret": "s"}
        await it.engine.start_connector("m", config, TargetState.STARTED)
        (task,) = await it.engine.task_configs("m")
        assert (task["calls"], task["offset"]) == ("1", "{'n': 7}")
        assert task["task.class"] == "rigs.connect_plugins.TroubleTask"
        await until(lambda: it.statuses.reconfigured == ["m"])
        (task,) = await it.engine.task_configs("m")
        assert task["calls"] == "2", "the object lives between the calls"
        trace = await it.statuses.reach(TaskId("m", CONNECTOR), State.FAILED)
        assert trace is not None
        assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: the database is gone\n")
        with pytest.raises(ConnectException, match="Connector m is not running"):
            await it.engine.task_configs("m")


@on_a_loop
async def test_a_connector_that_never_returns_fails_and_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "CONNECTOR_CALL_S", 1.0)
    async with engine_alone() as it:
        await it.engine.start_connector("slow", {**TROUBLE, "trouble": "configs"}, TargetState.STARTED)
        await it.engine.start_connector("quick", COUNTER, TargetState.STARTED)
        with pytest.raises(ConnectException, match="did not return from 'task_configs' in 1 s"):
            await it.engine.task_configs("slow")
        assert len(await it.engine.task_configs("quick")) == 1
        assert it.statuses.last[TaskId("slow", CONNECTOR)][0] is State.FAILED


@on_a_loop
async def test_a_connector_is_stopped_and_started_again_by_its_target_state() -> None:
    async with engine_alone() as it:
        await it.engine.start_connector("c", COUNTER, TargetState.PAUSED)
        with pytest.raises(ConnectException, match="Connector c is not running"):
            await it.engine.task_configs("c")
        for target in (TargetState.STARTED, TargetState.STOPPED, TargetState.STARTED):
            await it.engine.set_target_state("c", target)
        await it.engine.stop_connector("c")
        assert [state for _, state in it.statuses.history] == [
            State.PAUSED,
            State.RUNNING,
            State.STOPPED,
            State.RUNNING,
            State.UNASSIGNED,
        ]
        with pytest.raises(ConnectException, match="Failed to find any class"):
            await it.engine.start_connector("x", {"connector.class": "nope"}, TargetState.STARTED)
        assert it.statuses.last[TaskId("x", CONNECTOR)][0] is State.FAILED


@on_a_loop
async def test_placeholders_come_back_in_the_configurations_of_tasks() -> None:
    async with engine_alone() as it:
        config = {"name": "c", **COUNTER, "password": "${env:X}", "nothing": None}
        it.secrets["${env:X}"] = "secret"
        await it.engine.start_connector("c", config, TargetState.STARTED)
        (task,) = await it.engine.task_configs("c")
        assert task["password"] == "${env:X}"
        assert "nothing" not in task
        chosen = {"name": "t", **TROUBLE, "configs": "chosen", "user": "${env:X}", "password": "${env:X}"}
        await it.engine.start_connector("t", chosen, TargetState.STARTED)
        (task,) = await it.engine.task_configs("t")
        assert task["user"] == "${env:X}"
        assert "password" not in task, "a task gets only the keys that its connector chose for it"


@on_a_loop
async def test_a_task_that_cannot_be_made_is_a_failed_task() -> None:
    async with engine_alone() as it:
        task = TaskId("c", 0)
        config = {"name": "c", **COUNTER, "key.converter": "nope"}
        assert not await it.engine.start_task(TaskStart(task, config, {}, TargetState.STARTED))
        trace = it.statuses.last[task][1]
        assert it.statuses.last[task][0] is State.FAILED
        assert trace is not None
        assert "Invalid value nope for configuration key.converter: Class nope could not be found." in trace
        await it.engine.stop_tasks([task])
        assert it.statuses.last[task][0] is State.FAILED, "a stop does not change the state of a failed task"
        worker = dict(it.engine.metrics())["kafka.connect:type=connect-worker-metrics"]
        assert worker["task-startup-failure-total"] == 1


@contextlib.asynccontextmanager
async def opening_stores(it: World, start: TaskStart) -> AsyncIterator[asyncio.Task[bool]]:
    """A start of a task that waits for the topic of its offsets until the end of the block."""
    begun, opened = asyncio.Event(), asyncio.Event()

    async def offsets_of(_config: Config) -> OffsetStore:
        begun.set()
        await opened.wait()
        return it.offsets

    it.engine.offsets_of = offsets_of
    starting = asyncio.create_task(it.engine.start_task(start))
    await begun.wait()
    yield starting
    opened.set()


@on_a_loop
async def test_a_task_that_is_stopped_while_its_stores_open_never_runs() -> None:
    async with engine_alone(task_shutdown_graceful_timeout_ms="500") as it:
        start = TaskStart(TaskId("c", 0), {"name": "c", **COUNTER}, COUNTER, TargetState.STARTED)
        async with opening_stores(it, start) as starting:
            await it.engine.stop_tasks([start.id])
        assert not await starting
        assert it.engine.task_ids() == []
        assert it.statuses.history == [(start.id, State.UNASSIGNED)]
        async with opening_stores(it, start) as starting:
            pass
        assert await starting, "the next assignment starts it"


@on_a_loop
async def test_a_target_state_reaches_a_task_that_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_alone(task_shutdown_graceful_timeout_ms="500") as it:
        config = {"name": "c", **COUNTER}
        first, second = (TaskStart(TaskId("c", n), config, COUNTER, TargetState.STARTED) for n in (0, 1))
        async with opening_stores(it, first) as starting:
            await it.engine.set_target_state("c", TargetState.PAUSED)
        assert await starting
        await it.statuses.reach(first.id, State.PAUSED)
        assert it.statuses.history == [(first.id, State.PAUSED)], "the task has never run"
        fork = Nursery.fork

        async def paused_fork(
            nursery: Nursery, descriptors: tuple[int, int], ended: Callable[[int], None]
        ) -> int:
            pid = await fork(nursery, descriptors, ended)
            await it.engine.set_target_state("c", TargetState.PAUSED)
            return pid

        monkeypatch.setattr(Nursery, "fork", paused_fork)
        assert await it.engine.start_task(second)
        await it.statuses.reach(second.id, State.PAUSED)


@on_a_loop
async def test_the_answer_of_a_cancelled_call_is_not_that_of_the_next_call() -> None:
    async with engine_alone() as it:
        config = {"name": "m", "connector.class": "rigs.Monitor"}
        await it.engine.start_connector("m", config, TargetState.STARTED)
        first = asyncio.create_task(it.engine.task_configs("m"))
        await some_turns(1)  # an answer needs more turns
        first.cancel()
        (task,) = await it.engine.task_configs("m")
        assert task["calls"] == "2"


@on_a_loop
async def test_the_engine_outlives_the_process_from_which_tasks_are_forked() -> None:
    async with engine_alone() as it:
        await it.start("a", {**TROUBLE, "trouble": ""})
        await it.statuses.reach(TaskId("a", 0), State.RUNNING)
        process = it.engine._nursery._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        trace = await it.statuses.reach(TaskId("a", 0), State.FAILED)
        assert trace is not None
        assert "signal SIGKILL" in trace
        await it.start("b", {**TROUBLE, "trouble": ""})
        await it.statuses.reach(TaskId("b", 0), State.RUNNING)


@on_a_loop
async def test_the_level_of_a_logger_reaches_running_tasks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with engine_alone() as it:
        (task,) = await it.start("c", {**TROUBLE, "trouble": "print"})
        await it.statuses.reach(task, State.RUNNING)
        it.engine.set_log_level("root", logging.ERROR)
        await it.start("d", {**TROUBLE, "trouble": ""})
        await it.statuses.reach(TaskId("d", 0), State.RUNNING)
        assert "[c|task-0] WorkerSourceTask{id=c-0} Source task finished initialization" in caplog.text
        assert "[d|task-0] WorkerSourceTask{id=d-0} Source task finished initialization" not in caplog.text


@on_a_loop
async def test_a_source_creates_its_topics_by_rules_and_a_sink_follows_a_pattern(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        rules = {
            "topic.creation.groups": "wide",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.wide.include": "num.*",
            "topic.creation.wide.partitions": "3",
            "topic.creation.wide.cleanup.policy": "compact",
        }
        await it.start("c", {**COUNTER, "count": "4", **rules})
        await until(lambda: it.stored("c") == [({"task": "0"}, {"n": 3})])
        properties = {"bootstrap.servers": it.engine.worker.bootstrap_servers[0]}
        async with admin_client(properties) as client:
            topic = (await client.describe_topics(["numbers"]))["numbers"]
            assert isinstance(topic, TopicDescription)
            assert len(topic.partitions) == 3
            assert await client.create_topics([NewTopic(name="other", partitions=1, replication_factor=1)])
        await it.start("s", sink(tmp_path, **{"topics.regex": "num.*"}))
        await until(lambda: (tmp_path / "out.txt").exists() and "0:3" in (tmp_path / "out.txt").read_text())
        await until(lambda: [topic for id, topic in it.statuses.topics if id.connector == "s"] == ["numbers"])
        too_many = {**rules, "topic.creation.default.replication.factor": "2", "topic": "few"}
        await it.start("f", {**COUNTER, **too_many})
        trace = await it.statuses.reach(TaskId("f", 0), State.FAILED)
        assert trace is not None
        assert "Task failed to create new topic (name=few, numPartitions=1, replicationFactor=2" in trace
        assert "Caused by: org.apache.kafka.common.errors.InvalidReplicationFactorException" in trace


@on_a_loop
async def test_users_read_change_and_reset_the_offsets_of_a_sink(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        await it.start("c", {**COUNTER, "count": "4"})
        config = {"name": "s", **sink(tmp_path, topics="numbers")}
        (task,) = await it.start("s", config)
        partition = {"kafka_partition": 0, "kafka_topic": "numbers"}
        await until(lambda: (tmp_path / "out.txt").exists() and "0:3" in (tmp_path / "out.txt").read_text())
        await it.engine.stop_tasks([task])
        assert await it.engine.offsets("s", config) == [(partition, {"kafka_offset": 4})]
        message = await it.engine.alter_offsets("s", config, [(partition, {"kafka_offset": 2})])
        assert message.startswith(
            "The Connect framework-managed offsets for this connector have been altered"
        )
        assert await it.engine.offsets("s", config) == [(partition, {"kafka_offset": 2})]
        with pytest.raises(ConnectException, match="Failed to alter consumer group offsets for connector s"):
            missing = {"kafka_partition": 9, "kafka_topic": "numbers"}
            await it.engine.alter_offsets("s", config, [(missing, {"kafka_offset": 2})])
        await it.engine.alter_offsets("s", config, None)
        assert await it.engine.offsets("s", config) == []


@on_a_loop
async def test_users_read_change_and_reset_the_offsets_of_a_source() -> None:
    async with engine_alone() as it:
        config = {"name": "c", **COUNTER}
        # A Java worker may have written the fields of a partition in another order.
        await it.offsets.put({b'["c",{"b":2,"a":1}]': b'{"n":1}', b'["d",{"a":1}]': b'{"n":1}'})
        message = await it.engine.alter_offsets("c", config, [({"a": 1, "b": 2}, {"n": 5})])
        assert message == "The offsets for this connector have been altered successfully"
        assert await it.engine.offsets("c", config) == [({"b": 2, "a": 1}, {"n": 5})]
        message = await it.engine.alter_offsets("c", config, None)
        assert message == "The offsets for this connector have been reset successfully"
        assert it.offsets.entries == {b'["d",{"a":1}]': b'{"n":1}'}
        refusing = {"name": "t", **TROUBLE}
        assert "managed offsets" in await it.engine.alter_offsets("t", refusing, [({"a": 1}, None)])
