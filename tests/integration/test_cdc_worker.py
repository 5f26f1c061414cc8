"""The PostgreSQL source in a worker: its topic equals the table, whatever is killed while the table changes."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from kcli.testing.broker_process import BrokerProcess
from rigs.cdc import PATIENCE_S, Captured, captured_database
from rigs.connect_worker import JSON_CONVERTER, WorkerProcess
from rigs.databases import Server
from rigs.jdbc import connect

ROWS = 200
Row = dict[str, Any]


@pytest.fixture
def captured(postgresql: Server) -> Iterator[Captured]:
    with captured_database(postgresql) as it:
        yield it


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


class Writer(threading.Thread):
    """Changes the table in small transactions, until it is stopped."""

    def __init__(self, captured: Captured) -> None:
        super().__init__()
        self._captured = captured
        self._random = random.Random(1)
        self._stopping = threading.Event()
        self._next_id = ROWS + 1
        self.transactions = 0

    def run(self) -> None:
        with connect(
            "postgresql", self._captured.database.server, self._captured.database.path
        ) as connection:
            while not self._stopping.wait(0.002):
                with connection.transaction():
                    for _ in range(self._random.randint(1, 4)):
                        connection.execute(*self._statement())
                self.transactions += 1

    def _statement(self) -> tuple[str, tuple[object, ...]]:
        row = self._random.randint(1, self._next_id)
        self._next_id += 1
        return self._random.choice(
            (
                ("INSERT INTO orders (id, note) VALUES (%s, 'new')", (self._next_id,)),
                ("UPDATE orders SET note = note || 'x' WHERE id = %s", (row,)),
                ("UPDATE orders SET id = %s WHERE id = %s", (self._next_id, row)),
                ("DELETE FROM orders WHERE id = %s", (row,)),
            )
        )

    def more(self, count: int = 30) -> None:
        """Waits for more transactions."""
        goal = self.transactions + count
        until(lambda: self.transactions >= goal)

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def task_process(captured: Captured) -> int | None:
    """The process of the task, which has the connection that the slot's reader uses."""
    name = captured.keys["slot.name"]
    ports = captured.database.rows(
        "SELECT client_port FROM pg_stat_replication r JOIN pg_replication_slots s ON s.active_pid = r.pid"
        f" WHERE slot_name = '{name}'"
    )
    for (port,) in ports:
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        sockets = {f"socket:[{line[9]}]" for line in lines if line[1].endswith(f":{port:04X}")}
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            try:
                if os.readlink(link) in sockets:
                    return int(link.parts[2])
            except OSError:
                continue
    return None


class Topic:
    """Reads the topic of the table, and applies its records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.rows: dict[int, Row] = {}
        self.events: list[tuple[object, ...]] = []
        settings = {
            "bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest",
            "isolation.level": "read_committed", "enable.auto.commit": False,
        }  # fmt: skip
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def read(self) -> None:
        for message in self._consumer.consume(1000, timeout=0.2):
            if message.error() is not None:
                continue
            key = json.loads(message.key())["id"]
            if message.value() is None:
                self.rows.pop(key, None)
                continue
            value = json.loads(message.value())
            source, row = value["source"], value["after"]
            self.events.append((source["txId"], source["lsn"], value["op"], key))
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = row

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.parametrize("guarantee", ["at least once", "exactly once"])
def test_the_topic_equals_the_table_after_crashes(
    request: pytest.FixtureRequest, tmp_path: Path, broker: BrokerProcess, captured: Captured, guarantee: str
) -> None:
    if guarantee == "exactly once" and not request.config.getoption("--full"):
        pytest.skip("`make full` runs the story with both guarantees")
    name = captured.keys["slot.name"]
    captured.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT NOT NULL)",
        f"INSERT INTO orders SELECT n, 'note ' || n FROM generate_series(1, {ROWS}) n",
    )
    exactly = guarantee == "exactly once"
    overrides = {"group.id": name, "exactly.once.source.support": "enabled" if exactly else "disabled"}
    config = {
        **captured.keys, "topic.prefix": name, "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "key.converter": JSON_CONVERTER, "value.converter": JSON_CONVERTER,
        "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false", "max.batch.size": "64",
    }  # fmt: skip
    worker = WorkerProcess(tmp_path, broker.bootstrap, overrides)
    writer, topic = Writer(captured), Topic(broker.bootstrap, f"{name}.public.orders")

    def state() -> object:
        body: Any = worker.request("GET", f"/connectors/{name}/status").body
        return [task["state"] for task in body.get("tasks", ())]

    def kill_the_task() -> None:
        until(lambda: task_process(captured) is not None)
        pid = task_process(captured)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: state() == ["FAILED"])
        assert worker.request("POST", f"/connectors/{name}/tasks/0/restart").status in (200, 202, 204)
        until(lambda: state() == ["RUNNING"])

    try:
        worker.start()
        answer = worker.request("PUT", f"/connectors/{name}/config", config)
        assert answer.status == 201, answer.text
        until(lambda: task_process(captured) is not None)
        ((_, first_confirmed),) = captured.slots()
        writer.start()
        writer.more()
        kill_the_task()
        writer.more()
        captured.execute("ALTER TABLE orders ADD size INTEGER NOT NULL DEFAULT 7")
        writer.more()
        captured.execute(
            f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{name}'"
        )
        writer.more()
        worker.kill()
        writer.more()
        worker.start()
        writer.more()
        writer.stop()
        expected = {
            id: {"id": id, "note": note} for id, note in captured.database.rows("SELECT id, note FROM orders")
        }

        def is_equal() -> bool:
            topic.read()
            return {
                key: {"id": row["id"], "note": row["note"]} for key, row in topic.rows.items()
            } == expected

        until(is_equal)
        assert any(row.get("size") == 7 for row in topic.rows.values()), "the new column appears"
        changes = [event for event in topic.events if event[2] != "r"]
        assert len({event[0] for event in changes}) >= 30
        until(lambda: captured.slots()[0][1] > first_confirmed)
        if exactly:
            assert len(changes) == len(set(changes))
    finally:
        if writer.is_alive():
            writer.stop()
        topic.close()
        worker.close()
