"""The JDBC connectors in the task processes of a worker: a table becomes a topic, and the topic becomes a table."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from kcli.connect.config.plugin import PluginType
from kcli.connect.model import State, TaskId
from rigs import connect_engine, node
from rigs.connect_engine import JSON, PLUGINS, World
from rigs.jdbc import TestedDatabase, server_database, sqlite_database
from rigs.loops import on_a_loop, until

ROWS = 2000
PATIENCE_S = 60
WITH_JDBC = connect_engine.TestPlugins(
    {
        **PLUGINS.names,
        "JdbcSource": ("kcli.connectors.jdbc.source:JdbcSourceConnector", PluginType.SOURCE),
        "JdbcSink": ("kcli.connectors.jdbc.sink:JdbcSinkConnector", PluginType.SINK),
    }
)
CONVERTERS = {"key.converter": JSON, "value.converter": JSON}


OTHERS = [pytest.param(kind, marks=pytest.mark.full) for kind in ("sqlite", "mariadb")]


@pytest.fixture(params=["postgresql", *OTHERS])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestedDatabase]:
    if request.param == "sqlite":
        yield sqlite_database(tmp_path)
    else:
        server = request.getfixturevalue(request.param)
        with server_database(request.param, server, f"worker_{os.getpid()}") as database:
            yield database


@contextlib.asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    async with (
        node.running(directory / "data") as broker,
        connect_engine.running(broker.port(), WITH_JDBC) as it,
    ):
        yield it


def source(database: TestedDatabase) -> Mapping[str, str]:
    return {
        **database.config, **CONVERTERS, "connector.class": "JdbcSource", "tasks.max": "1", "topic.prefix": "to_",
        "mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "numbers",
        "poll.interval.ms": "10", "batch.max.rows": "50",
    }  # fmt: skip


def sink(database: TestedDatabase) -> Mapping[str, str]:
    return {
        **database.config, **CONVERTERS, "connector.class": "JdbcSink", "tasks.max": "1", "topics": "to_numbers",
        "auto.create": "true", "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id",
        "retry.backoff.ms": "20",
    }  # fmt: skip


async def reach(database: TestedDatabase, least: int) -> None:
    """Waits until the target has so many rows. The sink creates it with its first record."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(Exception):
                if database.rows("SELECT count(*) FROM to_numbers")[0][0] >= least:
                    return
            await asyncio.sleep(0.05)


async def kill(it: World, name: str, id: TaskId) -> None:
    """Kills the process of a task, and stops its connector."""
    it.engine._tasks[id].kill()
    await it.statuses.reach(id, State.FAILED)
    await it.engine.stop_tasks([id])
    await it.engine.stop_connector(name)


@on_a_loop
async def test_killed_tasks_lose_no_row_and_double_none(database: TestedDatabase, tmp_path: Path) -> None:
    values = ", ".join(f"({number}, 'n{number}', {number}.50)" for number in range(1, ROWS + 1))
    database.execute(
        "CREATE TABLE numbers (id INTEGER PRIMARY KEY, name VARCHAR(20), price DECIMAL(9,2))",
        f"INSERT INTO numbers VALUES {values}",
    )
    async with world(tmp_path) as it:
        (reader,) = await it.start("in", source(database))
        (writer,) = await it.start("out", sink(database))
        await reach(database, 1)
        await kill(it, "in", reader)
        await it.start("in", source(database))
        await kill(it, "out", writer)
        # Another name is another group, which reads all records again and does not wait for the end of a session.
        await it.start("again", sink(database))
        database.execute(f"INSERT INTO numbers VALUES ({ROWS + 1}, 'late', NULL)")
        await reach(database, ROWS + 1)
        await until(lambda: bool(it.stored("in")) and it.stored("in")[0][1] == {"incrementing": ROWS + 1})
        name = {"sqlite": "numbers", "postgresql": "public.numbers"}.get(
            database.kind, f"{database.path}.numbers"
        )
        assert it.stored("in")[0][0] == {"protocol": "1", "table": name}
    query = "SELECT id, name, price FROM {} ORDER BY id"
    assert database.rows(query.format("to_numbers")) == database.rows(query.format("numbers"))
