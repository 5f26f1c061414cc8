"""Object connectors in a real worker: every record is in the objects once, although task processes are killed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rigs import librdkafka, node
from rigs.connect_worker import WorkerProcess
from rigs.loops import on_a_loop, until

COUNT = 2_100
SCHEMA = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"type": "int32", "optional": False, "field": "n"},
        {"type": "string", "optional": True, "field": "text"},
    ],
}
SINK = "io.confluent.connect.s3.S3SinkConnector"
SOURCE = "io.confluent.connect.s3.source.S3SourceConnector"


@contextlib.asynccontextmanager
async def worker(directory: Path) -> AsyncIterator[tuple[str, WorkerProcess]]:
    async with node.running(
        directory / "data", group_initial_rebalance_delay_ms="0", group_min_session_timeout_ms="500"
    ) as broker:
        bootstrap = f"127.0.0.1:{broker.port()}"
        with WorkerProcess(directory, bootstrap, {"offset.flush.interval.ms": "100"}) as process:
            await asyncio.to_thread(process.start)
            yield bootstrap, process


def produce(bootstrap: str, first: int, end: int) -> None:
    values = [
        json.dumps({"schema": SCHEMA, "payload": {"n": n, "text": f"é{n}" if n % 3 else None}})
        for n in range(first, end)
    ]
    librdkafka.produce(bootstrap, "orders", [{"value": value.encode(), "partition": 0} for value in values])


def task_processes(worker: WorkerProcess) -> list[int]:
    """The processes of tasks and connectors: the children of the process from which the worker forks them."""
    assert worker.process is not None, "started"
    forked = [grandchild for child in children(worker.process.pid) for grandchild in children(child)]
    return [process for process in forked if not children(process)]


def children(parent: int) -> list[int]:
    try:
        texts = [path.read_text() for path in Path(f"/proc/{parent}/task").glob("*/children")]
    except OSError:
        return []
    return [int(number) for text in texts for number in text.split()]


def objects(directory: Path) -> list[Path]:
    return sorted((directory / "lake").rglob("orders+*.parquet"))


def has_objects(directory: Path, least: int) -> bool:
    return len(objects(directory)) >= least


async def call(process: WorkerProcess, method: str, path: str, body: Any = None) -> Any:
    answer = await asyncio.to_thread(process.request, method, path, body)
    assert answer.status < 300, answer.text
    return answer.body


async def task_state(process: WorkerProcess, name: str) -> str:
    tasks = (await call(process, "GET", f"/connectors/{name}/status"))["tasks"]
    return str(tasks[0]["state"]) if tasks else ""


@on_a_loop
async def test_killed_tasks_store_every_record_once_and_a_source_reads_them_back(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("fsspec")
    lake = (tmp_path / "lake").as_uri()
    async with worker(tmp_path) as (bootstrap, process):
        await asyncio.to_thread(produce, bootstrap, 0, COUNT // 2)
        sink = {
            "connector.class": SINK, "tasks.max": "1", "topics": "orders", "kcli.store.url": lake, "flush.size": "70",
            "format.class": "parquet",
            # A killed member delays its group until its session ends.
            "consumer.override.session.timeout.ms": "1000", "consumer.override.heartbeat.interval.ms": "300",
        }  # fmt: skip
        await call(process, "PUT", "/connectors/sink/config", sink)
        for least in (3, 12):
            await until(functools.partial(has_objects, tmp_path, least))
            # The process of the connector ends a second after its last call.
            await until(lambda: len(task_processes(process)) == 1)
            os.kill(task_processes(process)[0], signal.SIGKILL)

            async def is_failed() -> bool:
                return await task_state(process, "sink") == "FAILED"

            await until(is_failed)
            await call(process, "POST", "/connectors/sink/tasks/0/restart")
        await asyncio.to_thread(produce, bootstrap, COUNT // 2, COUNT)
        await until(lambda: has_objects(tmp_path, COUNT // 70))
        rows = [row for path in objects(tmp_path) for row in parquet.read_table(path).to_pylist()]
        stored = COUNT // 70 * 70
        assert rows == [{"n": n, "text": f"é{n}" if n % 3 else None} for n in range(stored)]
        source = {"connector.class": SOURCE, "kcli.store.url": lake, "kcli.topic": "copies", "tasks.max": "1"}
        await call(process, "PUT", "/connectors/source/config", source)
        copies = await until_topic(bootstrap, stored)
        originals = await asyncio.to_thread(librdkafka.consume, bootstrap, "orders", stored)
        assert [json.loads(message.value()) for message in copies] == [
            json.loads(message.value()) for message in originals
        ]
        await until(lambda: is_complete(process))


async def until_topic(bootstrap: str, count: int) -> list[Any]:
    """The records of the topic `copies`, which the source creates."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})

    async def has_topic() -> bool:
        return "copies" in (await asyncio.to_thread(admin.list_topics, timeout=30)).topics

    await until(has_topic)
    return await asyncio.to_thread(librdkafka.consume, bootstrap, "copies", count)


async def is_complete(process: WorkerProcess) -> bool:
    """Whether the worker has the offsets of all objects."""
    offsets = (await call(process, "GET", "/connectors/source/offsets"))["offsets"]
    return len(offsets) == COUNT // 70 and all(item["offset"]["complete"] for item in offsets)
