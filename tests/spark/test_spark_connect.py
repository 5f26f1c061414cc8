"""A Spark job as a connector of a worker: its offsets, its stop with all processes, and its errors."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.connect.config.plugin import PluginType
from kcli.connect.model import State
from rigs.connect_engine import PLUGINS, World, running
from rigs.librdkafka import produce
from rigs.loops import on_a_loop

if TYPE_CHECKING:
    from kcli.testing.broker_process import BrokerProcess

NAME = "kcli.SparkExport"
KINDS = replace(
    PLUGINS, names={**PLUGINS.names, NAME: ("kcli.spark.connectors.classes:SparkExport", PluginType.SINK)}
)
PATIENCE_S = 90.0


def processes_of(marker: str) -> list[str]:
    """The command lines of the processes that have this text in their arguments."""
    lines = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and entry != str(os.getpid()):
            try:
                lines.append(Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return [line for line in lines if marker in line]


def values(directory: Path) -> list[str]:
    """The values that the job has written and committed."""
    log = directory / "_spark_metadata"
    files = [
        json.loads(line)["path"]
        for part in sorted(log.glob("[0-9]*"))
        for line in part.read_text().split("\n")[1:]
    ]
    texts = [Path(file.removeprefix("file://")).read_text() for file in files]
    return sorted("".join(texts).split())


@on_a_loop
async def test_an_export_runs_as_a_connector(
    broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    produce(broker.bootstrap, name, [{"value": f"v{nth}"} for nth in range(5)])
    config = {
        "connector.class": NAME,
        "topics": name,
        "tasks.max": "1",
        "export.path": str(tmp_path / "out"),
        "export.checkpoint": str(tmp_path / "checkpoint"),
        "export.format": "text",
        "export.progress.interval": "0",
        "spark.master": "local[1]",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    port = int(broker.bootstrap.rpartition(":")[2])
    async with running(port, KINDS, task_shutdown_graceful_timeout_ms="60000") as it:
        (task,) = await it.start("e", config)
        await it.statuses.reach(task, State.RUNNING)
        await reaches(it, config, name, 5)
        assert values(tmp_path / "out") == [f"v{nth}" for nth in range(5)]
        assert (task, name) in it.statuses.topics
        assert processes_of(str(tmp_path)), "the job runs"
        await it.engine.stop_tasks([task])
        assert it.statuses.last[task] == (State.UNASSIGNED, None)
        assert processes_of(str(tmp_path)) == []


async def reaches(it: World, config: dict[str, str], topic: str, offset: int) -> None:
    """Waits until the REST API shows this offset."""
    expected = [({"kafka_partition": 0, "kafka_topic": topic}, {"kafka_offset": offset})]
    async with asyncio.timeout(PATIENCE_S):
        while await it.engine.offsets("e", {"name": "e", **config}) != expected:
            assert it.statuses.history[-1][1] is not State.FAILED, it.statuses.last
            await asyncio.sleep(0.2)


@on_a_loop
async def test_a_job_that_cannot_start_is_a_failed_task(broker: BrokerProcess, tmp_path: Path) -> None:
    config = {
        "connector.class": NAME,
        "topics": "no-such-topic",
        "tasks.max": "1",
        "export.path": str(tmp_path / "out"),
        "export.checkpoint": str(tmp_path / "checkpoint"),
    }
    async with running(int(broker.bootstrap.rpartition(":")[2]), KINDS) as it:
        (task,) = await it.start("e", config)
        trace = await it.statuses.reach(task, State.FAILED)
        assert trace is not None
        assert "The Spark job has ended with exit code 1. The end of its log:" in trace
        assert "no-such-topic" in trace
