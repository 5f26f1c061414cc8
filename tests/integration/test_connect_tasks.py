"""Source and sink tasks in processes of their own, on a real broker: records, offsets, states, and broken tasks."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import cast

import pytest

from kcli.client.admin.transactions import force_terminate_transaction
from kcli.connect.model import State, TargetState, TaskId
from kcli.connect.workers.admin import admin_client
from kcli.connect.workers.worker import TaskStart
from kcli.formats.connect.errors import ConnectException
from rigs import connect_engine, node
from rigs.connect_engine import World
from rigs.loops import on_a_loop, until

COUNTER = {"connector.class": "gold.CounterSource", "tasks.max": "1", "topic": "numbers", "pause.ms": "1"}
TRANSACTIONS = {
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}


@contextlib.asynccontextmanager
async def world(directory: Path, **worker: str) -> AsyncIterator[World]:
    async with (
        node.running(directory / "data", **TRANSACTIONS) as broker,
        connect_engine.running(broker.port(), **worker) as it,
    ):
        yield it


def sink(directory: Path, **more: str) -> Mapping[str, str]:
    file = str(directory / "out.txt")
    return {"connector.class": "gold.PickySink", "tasks.max": "1", "topics": "numbers", "file": file, **more}


def written(directory: Path) -> list[str]:
    """The values that the sink has written, in their order."""
    file = directory / "out.txt"
    return re.findall(r"@\d+ (.*)", file.read_text()) if file.exists() else []


def has_written(directory: Path, least: int) -> bool:
    return len(written(directory)) >= least


@on_a_loop
async def test_a_task_ends_itself_with_its_lease_and_has_not_failed(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.engine.lease(asyncio.get_running_loop().time() + 600)
        (source,) = await it.start("c", COUNTER)
        await it.statuses.reach(source, State.RUNNING)
        it.engine.lease(asyncio.get_running_loop().time())
        await it.statuses.reach(source, State.UNASSIGNED)
        assert (source, State.FAILED) not in it.statuses.history


@pytest.mark.parametrize("request_to_herder", ["fence", "may_start"])
@on_a_loop
async def test_a_task_that_waits_for_the_herder_stops_at_once(
    tmp_path: Path, request_to_herder: str, caplog: pytest.LogCaptureFixture
) -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    async def wait() -> bool:
        asked.set()
        return await never.wait()

    async def pass_by() -> None: ...

    async with world(tmp_path, exactly_once_source_support="enabled") as it:
        task, config = TaskId("c", 0), {"name": "c", **COUNTER}
        fences = request_to_herder == "fence"
        start = TaskStart(
            task,
            config,
            {**config, "task": "0", "task.class": "gold.CounterSource$CounterTask"},
            TargetState.STARTED,
            fence=cast("Callable[[], Awaitable[None]]", wait) if fences else pass_by,
            may_start=wait,
        )
        starting = asyncio.create_task(it.engine.start_task(start))
        await asked.wait()
        await it.engine.stop_tasks([task])
        await starting
        assert it.statuses.last[task][0] is State.UNASSIGNED
        assert "Graceful stop" not in caplog.text


@on_a_loop
async def test_records_flow_from_a_source_to_a_sink_and_continue_after_a_restart(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        (source,) = await it.start("c", {**COUNTER, "count": "5"})
        await it.statuses.reach(source, State.RUNNING)
        (target,) = await it.start("s", sink(tmp_path))
        await until(lambda: len(written(tmp_path)) == 5)
        await until(lambda: it.stored("c") == [({"task": "0"}, {"n": 4})])
        await it.engine.stop_tasks([source, target])
        assert it.statuses.last[source] == (State.UNASSIGNED, None)
        assert {"open [numbers-0]", "close [numbers-0]", "stop"} <= set(
            (tmp_path / "out.txt").read_text().split("\n")
        )
        assert {(id.connector, topic) for id, topic in it.statuses.topics} == {
            ("c", "numbers"),
            ("s", "numbers"),
        }
        assert await it.engine.offsets("s", {"name": "s", **sink(tmp_path)}) == [
            ({"kafka_partition": 0, "kafka_topic": "numbers"}, {"kafka_offset": 5})
        ]
        await it.engine.stop_connector("c")
        await it.engine.stop_connector("s")
        await it.start("c", {**COUNTER, "count": "8"})
        await it.start("s", sink(tmp_path))
        await until(lambda: len(written(tmp_path)) == 8)
        assert written(tmp_path) == [f"0:{n}" for n in range(8)]
        bean = "kafka.connect:type=source-task-metrics,connector=c,task=0"
        await until(lambda: dict(it.engine.metrics()).get(bean, {}).get("source-record-write-total") == 3)


def last_offset(servers: str) -> int:
    """The number of records in the topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    _, end = consumer.get_watermark_offsets(TopicPartition("numbers", 0), 20)
    consumer.close()
    return int(end)


@on_a_loop
async def test_paused_tasks_do_nothing_until_they_are_resumed(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        (source,) = await it.start("c", {**COUNTER, "count": "1000000", "pause.ms": "5"})
        (target,) = await it.start("s", sink(tmp_path))
        await until(lambda: len(written(tmp_path)) > 3)
        for name in ("c", "s"):
            await it.engine.set_target_state(name, TargetState.PAUSED)
        await it.statuses.reach(source, State.PAUSED)
        await it.statuses.reach(target, State.PAUSED)
        paused_at = len(written(tmp_path))
        await asyncio.sleep(0.3)
        assert len(written(tmp_path)) == paused_at
        # The offset of the last record is stored during the pause.
        last = await asyncio.to_thread(last_offset, it.engine.worker.bootstrap_servers[0]) - 1
        await until(lambda: it.stored("c") == [({"task": "0"}, {"n": last})])
        for name in ("c", "s"):
            await it.engine.set_target_state(name, TargetState.STARTED)
        await until(lambda: len(written(tmp_path)) > paused_at + 3)
        assert [state for id, state in it.statuses.history if id == source] == [
            State.RUNNING,
            State.PAUSED,
            State.RUNNING,
        ]
        numbers = written(tmp_path)
        assert numbers == [f"0:{n}" for n in range(len(numbers))], "a pause loses and repeats nothing"


@on_a_loop
async def test_a_broken_task_is_a_failed_task_and_never_a_dead_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    limit = {"kcli_task_memory_max_bytes": str(256 * 1024 * 1024), "task_shutdown_graceful_timeout_ms": "300"}
    async with world(tmp_path, **limit) as it:
        trouble = {"connector.class": "rigs.Trouble", "tasks.max": "1"}
        for name in ("exit", "kill", "loop", "memory", "print"):
            await it.start(name, {**trouble, "trouble": name})
        for name, reason in (
            ("exit", "exit status 3"),
            ("kill", "signal SIGKILL"),
            ("memory", "MemoryError"),
        ):
            trace = await it.statuses.reach(TaskId(name, 0), State.FAILED)
            assert trace is not None and reason in trace
        await until(lambda: "[print|task-0] printed by the task\\x1b[31m" in caplog.text)
        await it.engine.stop_tasks([TaskId("print", 0)])
        assert "[print|task-0] written to stderr" in caplog.text
        # The endless loop delays no other task, and its process is ended.
        await it.engine.stop_tasks([TaskId("loop", 0)])
        assert "Graceful stop of task loop-0 failed." in caplog.text
        assert it.statuses.last[TaskId("loop", 0)] == (State.UNASSIGNED, None)
        assert TaskId("loop", 0) not in it.engine.task_ids()


@on_a_loop
async def test_tasks_that_write_without_end_delay_no_other_task(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    async with connect_engine.running(9, task_shutdown_graceful_timeout_ms="300") as it:
        floods = {"lines": "flood", "records": "flood the log"}
        for name, trouble in floods.items():
            await it.start(name, {"connector.class": "rigs.Trouble", "tasks.max": "1", "trouble": trouble})
            await it.statuses.reach(TaskId(name, 0), State.RUNNING)
        (quiet,) = await it.start(
            "quiet", {"connector.class": "rigs.Trouble", "tasks.max": "1", "trouble": ""}
        )
        await it.statuses.reach(quiet, State.RUNNING)
        await it.engine.stop_tasks([quiet])
        assert it.statuses.last[quiet] == (State.UNASSIGNED, None)
        await it.engine.stop_tasks([TaskId(name, 0) for name in floods])
        assert it.engine.task_ids() == []


@on_a_loop
async def test_no_process_is_left_after_the_end_of_the_engine(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        (source,) = await it.start("c", {**COUNTER, "count": "1000000"})
        await it.statuses.reach(source, State.RUNNING)
        child = it.engine._tasks[source]._child
        assert child is not None
        os.kill(child.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@on_a_loop
async def test_exactly_once_survives_the_end_of_a_process_at_any_time(tmp_path: Path) -> None:
    async with world(
        tmp_path, exactly_once_source_support="enabled", task_shutdown_graceful_timeout_ms="5000"
    ) as it:
        config = {**COUNTER, "count": "120", "pause.ms": "2", "batch": "3"}
        reader = sink(tmp_path, **{"consumer.override.isolation.level": "read_committed"})
        (source,) = await it.start("c", config)
        await it.start("s", reader)
        for least in (20, 60):
            await until(functools.partial(has_written, tmp_path, least))
            it.engine._tasks[source].kill()
            await it.statuses.reach(source, State.FAILED)
            await it.engine.stop_tasks([source])
            await it.engine.stop_connector("c")
            # The memory of this test does not read the topic, so the offset comes from the records.
            last = await committed_offset(it)
            await it.offsets.put({b'["c",{"task":"0"}]': last})
            await it.start("c", config)
        await until(lambda: len(written(tmp_path)) >= 120)
        assert written(tmp_path) == [f"0:{n}" for n in range(120)]


@on_a_loop
async def test_a_task_that_another_worker_has_replaced_is_fenced(tmp_path: Path) -> None:
    async with world(tmp_path, exactly_once_source_support="enabled") as it:
        (source,) = await it.start("c", {**COUNTER, "count": "1000000"})
        await it.statuses.reach(source, State.RUNNING)
        servers = it.engine.worker.bootstrap_servers[0]
        async with admin_client({"bootstrap.servers": servers}) as client:
            await force_terminate_transaction(client, "workers-c-0")
        trace = await it.statuses.reach(source, State.FAILED)
        assert trace is not None
        assert "Failed to flush offsets and/or records for task c-0" in trace
        assert "Caused by: org.apache.kafka.common.errors.ProducerFencedException" in trace


async def committed_offset(it: World) -> bytes:
    """Reads the newest committed offset from the offsets topic."""
    from confluent_kafka import Consumer

    def read() -> bytes:
        consumer = Consumer(
            {
                "bootstrap.servers": it.engine.worker.bootstrap_servers[0],
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.subscribe(["connect-offsets"])
        last = b""
        while (message := consumer.poll(20)) is not None and message.error() is None:
            last = message.value() or b""
        consumer.close()
        return last

    return await asyncio.to_thread(read)


@on_a_loop
async def test_more_tasks_than_tasks_max_fail_the_connector(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        with pytest.raises(ConnectException, match="has generated 3 tasks, which is greater than 1"):
            await it.start("c", {**COUNTER, "tasks": "3"})
        state, trace = it.statuses.last[TaskId("c", -1)]
        assert state is State.FAILED and trace is not None
        assert trace.startswith("org.apache.kafka.connect.runtime.TooManyTasksException: The connector c has")


@on_a_loop
async def test_the_offsets_of_a_program_are_those_of_the_group(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        (source,) = await it.start("c", {**COUNTER, "count": "5"})
        await it.statuses.reach(source, State.RUNNING)
        await until(lambda: it.stored("c") == [({"task": "0"}, {"n": 4})])
        config = {"connector.class": "rigs.Program", "tasks.max": "1", "topics": "numbers", "offset": "3"}
        (program,) = await it.start("p", config)
        await it.statuses.reach(program, State.RUNNING)
        await until(lambda: (program, "numbers") in it.statuses.topics)
        await reaches(it, config, 3)
        await it.engine.stop_tasks([program])
        assert it.statuses.last[program] == (State.UNASSIGNED, None)
        await reaches(it, config, 4)
        (failing,) = await it.start("q", {**config, "trouble": "the end of its log"})
        assert "the end of its log" in str(await it.statuses.reach(failing, State.FAILED))


async def reaches(it: World, config: Mapping[str, str], offset: int) -> None:
    """Waits until the group of the connector has this offset."""
    expected = [({"kafka_partition": 0, "kafka_topic": "numbers"}, {"kafka_offset": offset})]
    async with asyncio.timeout(connect_engine.PATIENCE_S):
        while True:
            if await it.engine.offsets("p", {"name": "p", **config}) == expected:
                return
            await asyncio.sleep(0.05)
