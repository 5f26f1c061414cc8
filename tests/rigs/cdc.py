"""Runs the PostgreSQL source connector against a database, and rebuilds tables from its records."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kcli.connectors.cdc.source import PostgresConnector, PostgresConnectorTask
from kcli.connectors.interface import Offset, Partition
from kcli.connectors.records import SourceRecord
from kcli.formats.connect.errors import RetriableException
from kcli.formats.connect.structs import Struct
from rigs.databases import USER, Server
from rigs.jdbc import TestedDatabase, server_database

PATIENCE_S = 20.0
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Captured:
    """A database, and the keys of a connector that captures it."""

    database: TestedDatabase
    keys: Mapping[str, str]

    def execute(self, *statements: str) -> None:
        self.database.execute(*statements)

    def slots(self) -> list[tuple[Any, ...]]:
        name = self.keys["slot.name"]
        return self.database.rows(
            f"SELECT active, confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{name}'"
        )

    def drop_slot(self) -> None:
        name = self.keys["slot.name"]
        self.database.execute(
            "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots"
            f" WHERE slot_name = '{name}' AND active",
            f"SELECT pg_drop_replication_slot('{name}') FROM pg_replication_slots WHERE slot_name = '{name}'",
        )


@contextmanager
def captured_database(server: Server) -> Iterator[Captured]:
    with server_database("postgresql", server, f"cdc_{os.getpid()}") as database:
        keys = {
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": USER,
            "database.dbname": database.path,
            "topic.prefix": "shop",
            "slot.name": f"slot_{os.getpid()}_{next(_numbers)}",
            "poll.interval.ms": "50",
            "retriable.restart.connector.wait.ms": "50",
            "slot.retry.delay.ms": "50",
            "slot.max.retries": "100",
        }
        captured = Captured(database, keys)
        try:
            yield captured
        finally:
            captured.drop_slot()


@dataclass(slots=True)
class Stored:
    """The offset that a worker has stored."""

    value: Offset | None = None

    def offset(self, partition: Partition) -> Offset | None:
        assert partition == {"server": "shop"}
        return self.value

    def offsets(self, partitions: Iterable[Partition]) -> list[Offset | None]:
        return list(map(self.offset, partitions))


@dataclass(slots=True)
class Context:
    config: Mapping[str, str]
    offsets: Any
    transaction: Any = None


@dataclass(slots=True)
class Running:
    task: PostgresConnectorTask
    stored: Stored
    retries: list[RetriableException] = field(default_factory=list)

    def poll(self, count: int, *, acknowledged: bool = True) -> list[SourceRecord]:
        """Polls until there are at least `count` records. Acknowledged records have a stored offset."""
        return list(itertools.chain(*self.batches(count, acknowledged=acknowledged)))

    def batches(self, count: int, *, acknowledged: bool = True) -> list[list[SourceRecord]]:
        """The records of each poll."""
        batches: list[list[SourceRecord]] = []
        deadline = time.monotonic() + PATIENCE_S
        while (size := sum(map(len, batches))) < count:
            assert time.monotonic() < deadline, f"only {size} of {count} records"
            batch = self._poll()
            self._check(batch)
            batches.append(batch)
            if acknowledged and batch:
                self.acknowledge(batch[-1])
        return batches

    def quiet(self) -> list[SourceRecord]:
        """The records of a few polls, of which a test expects none."""
        return [record for _ in range(3) for record in self._poll()]

    def acknowledge(self, record: SourceRecord) -> None:
        """Stores the offset of a record, as a worker does, and tells the task."""
        self.stored.value = json.loads(json.dumps(record.source_offset))
        self.task._next_confirmation = 0
        self.task.commit()

    def _poll(self) -> list[SourceRecord]:
        try:
            return list(self.task.poll() or [])
        except RetriableException as error:
            self.retries.append(error)
            return []

    def _check(self, records: list[SourceRecord]) -> None:
        for record in records:
            if isinstance(record.value, Struct):
                record.value.validate()


@contextmanager
def running(captured: Captured, stored: Stored | None = None, **keys: str) -> Iterator[Running]:
    """A task. Keys are written with _ for each dot."""
    config = {**captured.keys, **{name.replace("_", "."): value for name, value in keys.items()}}
    connector = PostgresConnector()
    assert connector.validate(config) == {}
    connector.start(config)
    (task_config,) = connector.task_configs(1)
    task = PostgresConnectorTask()
    it = Running(task, stored if stored is not None else Stored())
    task.context = Context(task_config, it.stored)
    try:
        task.start(task_config)
        yield it
    finally:
        task.stop()


def part(record: SourceRecord, name: str) -> Struct:
    """The field `before`, `after` or `source` of an event."""
    assert isinstance(record.value, Struct)
    struct = record.value.get(name)
    assert isinstance(struct, Struct)
    return struct


def events(records: Iterable[SourceRecord]) -> list[tuple[object, object]]:
    """The operation and the first field of each event. A tombstone is ("-", its key)."""
    shown: list[tuple[object, object]] = []
    for record in records:
        if record.value is None:
            assert isinstance(record.key, Struct)
            shown.append(("-", record.key.values[0]))
            continue
        assert isinstance(record.value, Struct)
        row = record.value.get("after") or record.value.get("before")
        shown.append((record.value.get("op"), row.values[0] if isinstance(row, Struct) else None))
    return shown
