"""Runs the JDBC connectors against a database, without a worker."""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kcli.connectors.jdbc.sink import JdbcSinkConnector, JdbcSinkTask
from kcli.connectors.jdbc.source import JdbcSourceConnector, JdbcSourceTask
from kcli.connectors.records import SinkRecord, SourceRecord
from kcli.formats.connect.schema import Schema
from kcli.formats.connect.structs import Struct
from rigs.connectors import (
    ConnectorContext,
    Reports,
    SinkContext,
    SourceContext,
    StoredOffsets,
    dotted,
    offset_reader,
)
from rigs.databases import PASSWORD, USER, Server

_PATIENCE_S = 20.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class TestedDatabase:
    """A new and empty database. `execute` and `rows` use a connection of their own."""

    __test__ = False
    kind: str
    url: str
    """Without user and password."""
    server: Server | None = None
    path: str = ""

    @property
    def config(self) -> dict[str, str]:
        if self.kind == "sqlite":
            return {"connection.url": self.url}
        return {"connection.url": self.url, "connection.user": USER, "connection.password": PASSWORD}

    def execute(self, *statements: str) -> None:
        with self._connection() as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if self.kind == "sqlite":
            connection = sqlite3.connect(self.path)
        else:
            connection = connect(self.kind, self.server, self.path)
        try:
            yield connection
        finally:
            connection.close()


def connect(kind: str, server: Server, name: str) -> Any:
    """A connection of the driver to a database of a server."""
    if kind == "postgresql":
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=server.port, user=USER, dbname=name)
    import pymysql

    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user=USER,
        password=PASSWORD,
        database=name or None,
        ssl_disabled=True,
    )


def sqlite_database(directory: Path) -> TestedDatabase:
    path = str(directory / "test.db")
    return TestedDatabase("sqlite", f"jdbc:sqlite:{path}", path=path)


@contextmanager
def server_database(kind: str, server: Server, label: str) -> Iterator[TestedDatabase]:
    """A new database of a running server. `label` tells test processes apart."""
    name = f"test_{label}_{next(_numbers)}"
    maintenance = "postgres" if kind == "postgresql" else ""
    _administer(kind, server, maintenance, f"CREATE DATABASE {name}")
    try:
        plain = "?useSSL=false" if kind == "mariadb" else ""  # each context of TLS takes 30 ms
        url = f"jdbc:{kind}://127.0.0.1:{server.port}/{quote(name)}{plain}"
        yield TestedDatabase(kind, url, server, name)
    finally:
        force = " WITH (FORCE)" if kind == "postgresql" else ""
        _administer(kind, server, maintenance, f"DROP DATABASE {name}{force}")


def _administer(kind: str, server: Server, name: str, statement: str) -> None:
    connection = connect(kind, server, name)
    connection.autocommit = True
    connection.cursor().execute(statement)
    connection.close()


@dataclass(slots=True)
class RunningSource:
    """A source connector with its tasks. `poll` stores the offsets of its records as a worker does."""

    connector: JdbcSourceConnector
    context: ConnectorContext
    tasks: list[JdbcSourceTask]
    stored: StoredOffsets

    def poll(self, count: int) -> list[SourceRecord]:
        """Polls until there are at least `count` records."""
        records: list[SourceRecord] = []
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            for task in self.tasks:
                records += task.poll() or []
            if len(records) >= count:
                break
            assert time.monotonic() < deadline, f"{len(records)} records, expected {count}"
        for record in records:
            if record.source_offset is not None:
                self.stored.offsets.append((record.source_partition, record.source_offset))
        return records

    def quiet(self) -> list[SourceRecord]:
        """The records of a few polls, of which a test expects none."""
        return [record for _ in range(4) for task in self.tasks for record in task.poll() or []]


@contextmanager
def running_source(
    database: TestedDatabase, stored: StoredOffsets | None = None, max_tasks: int = 1, **keys: str
) -> Iterator[RunningSource]:
    """Keys are written with _ for each dot."""
    config = {
        **database.config,
        "name": "source",
        "topic.prefix": "t-",
        "poll.interval.ms": "20",
        **dotted(keys),
    }
    config.setdefault("poll.linger.ms", "10")
    stored = stored if stored is not None else StoredOffsets()
    connector, context = JdbcSourceConnector(), ConnectorContext()
    connector.context = context
    assert connector.validate(config) == {}
    running = RunningSource(connector, context, [], stored)
    try:
        connector.start(config)
        for task_config in connector.task_configs(max_tasks):
            task = JdbcSourceTask()
            task.context = SourceContext(task_config, offset_reader(stored))
            running.tasks.append(task)
            task.start(task_config)
        yield running
    finally:
        for task in running.tasks:
            task.stop()
        connector.stop()


@contextmanager
def running_sink(
    database: TestedDatabase, reporter: Reports | None = None, **keys: str
) -> Iterator[JdbcSinkTask]:
    config = {**database.config, "name": "sink", "retry.backoff.ms": "7", **dotted(keys)}
    assert JdbcSinkConnector().validate(config) == {}
    task = JdbcSinkTask()
    task.context = SinkContext(config, reporter)
    task.start(config)
    try:
        yield task
    finally:
        task.stop()


def sink_record(
    schema: Schema | None,
    values: Mapping[str, object] | None,
    key_schema: Schema | None = None,
    key: object = None,
    topic: str = "orders",
    offset: int = 0,
) -> SinkRecord:
    """A record whose value is a struct, or null if `values` is None."""
    value = None if values is None or schema is None else Struct(schema, values)
    return SinkRecord(topic, 0, offset, value, None if value is None else schema, key, key_schema)
