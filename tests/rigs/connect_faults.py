"""A broker, Connect workers and a database as processes, which can be killed, frozen and restarted."""

from __future__ import annotations

import collections
import contextlib
import inspect
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from kcli.testing.broker_process import BrokerProcess
from rigs import databases
from rigs.connect_worker import WorkerProcess
from rigs.lease_source import LeaseSource

PATIENCE_SECONDS = 600.0
SESSION_SECONDS = 6.0
DELAY_SECONDS = 2.0
"""scheduled.rebalance.max.delay.ms"""
BROKER = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
WORKER = {
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": str(round(SESSION_SECONDS * 1000)),
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": str(round(DELAY_SECONDS * 1000)),
    "offset.flush.interval.ms": "500",
    "consumer.isolation.level": "read_committed",
    "plugin.path": "plugins",
}


class Database(Protocol):
    """A database with the tables `source` (id, name) and `target`."""

    config: dict[str, str]

    def run(self, statement: str, rows: Sequence[Sequence[object]] = ()) -> list[tuple[Any, ...]]:
        """Returns the rows of a query, or inserts rows."""
        ...

    def crash(self) -> None: ...

    def close(self) -> None: ...


class Sqlite:
    """A file: no process runs, so none can crash."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "rows.db"
        self.config = {"connection.url": f"jdbc:sqlite:{self._path}"}
        self.run("PRAGMA journal_mode=WAL")

    def run(self, statement: str, rows: Sequence[Sequence[object]] = ()) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self._path, timeout=PATIENCE_SECONDS)) as connection:
            if rows:
                connection.executemany(statement.replace("%s", "?"), rows)
                connection.commit()
                return []
            return connection.execute(statement).fetchall()

    def crash(self) -> None: ...

    def close(self) -> None: ...


class PostgreSql:
    """A server of its own, because the one of the test run must not crash."""

    def __init__(self) -> None:
        self._server = databases.private_postgresql()
        url = f"jdbc:postgresql://127.0.0.1:{self._server.port}/postgres"
        self.config = {"connection.url": url, "connection.user": databases.USER}

    def run(self, statement: str, rows: Sequence[Sequence[object]] = ()) -> list[tuple[Any, ...]]:
        import psycopg

        server = self._server
        with psycopg.connect(
            host="127.0.0.1", port=server.port, user=databases.USER, dbname="postgres"
        ) as connection:
            cursor = connection.cursor()
            if rows:
                cursor.executemany(statement, rows)
                return []
            cursor.execute(cast("Any", statement))
            return cursor.fetchall() if cursor.description is not None else []

    def crash(self) -> None:
        self._server = databases.crash_postgresql(self._server)

    def close(self) -> None:
        databases.end_postgresql(self._server)


class Cluster:
    """The processes, and the faults that happen to them. `counts` has the number of faults of each kind."""

    def __init__(self, directory: Path, database: Database, workers: int) -> None:
        self.directory = directory
        self.database = database
        self.counts: collections.Counter[str] = collections.Counter()
        self.thawed: set[int] = set()
        """Processes of tasks that were frozen together with their worker."""
        (directory / "plugins").mkdir()
        (directory / "lives").mkdir()
        shutil.copy(inspect.getfile(LeaseSource), directory / "plugins/lease_source.py")
        self.broker = BrokerProcess(directory / "broker", BROKER)
        self.workers = [WorkerProcess(directory, self.broker.bootstrap, WORKER) for _ in range(workers)]

    def start(self) -> None:
        self.broker.start()
        for worker in self.workers:
            worker.start()

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        if self.broker.process is not None:
            self.broker.kill()
        self.database.close()

    # Connectors.

    def put(self, name: str, config: dict[str, str]) -> None:
        answer = self.workers[0].request("PUT", f"/connectors/{name}/config", config | {"name": name})
        assert answer.status in (200, 201), answer.text

    def states(self) -> dict[str, str]:
        """The state of each connector and each task by its name. Restarts those that have failed.

        Java's worker restarts no failed task either, so an operator or a script does.
        """
        worker = self.workers[0]
        states: dict[str, str] = {}
        try:
            shown = worker.request("GET", "/connectors?expand=status").body
            assert isinstance(shown, dict)
            for name, item in shown.items():
                status = item["status"]
                own = {f"{name}-{task['id']}": task["state"] for task in status["tasks"]}
                states |= {name: status["connector"]["state"], **(own or {f"{name}-0": "MISSING"})}
                if "FAILED" in (states[name], *own.values()):
                    path = f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true"
                    self.counts["restarts of failed tasks"] += worker.request("POST", path).status < 300
        except (OSError, AssertionError, TypeError, KeyError):
            return {}
        return states

    def wait(self, condition: Callable[[], bool], text: str) -> None:
        """Waits until the condition is true, and restarts failed tasks meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            states = self.states()
            if condition():
                return
            logs = "\n".join(worker.log_tail() for worker in self.workers)
            assert time.monotonic() < deadline, f"not in time: {text}; {states}\n{logs}"
            time.sleep(0.3)

    def wait_running(self, connectors: int) -> None:
        def is_running() -> bool:
            states = self.states()
            return len(states) == 2 * connectors and set(states.values()) == {"RUNNING"}

        self.wait(is_running, "all connectors run")

    def stop_connectors(self, names: Sequence[str]) -> None:
        for name in names:
            assert self.workers[0].request("PUT", f"/connectors/{name}/stop").status == 204

        def are_stopped() -> bool:
            states = self.states()
            return bool(states) and all(states[name] == "STOPPED" for name in names)

        self.wait(are_stopped, "the connectors stop")

    # Faults. The names of these methods are their kinds.

    def kill_task(self, rng: random.Random) -> None:
        tasks = [pid for worker in self.workers for pid in _tasks(worker)]
        if tasks:
            os.kill(rng.choice(tasks), signal.SIGKILL)

    def kill_worker(self, rng: random.Random) -> None:
        worker = rng.choice(self.workers)
        worker.kill()
        worker.start()

    def roll_workers(self, rng: random.Random) -> None:
        for worker in self.workers:
            worker.stop()
            worker.start()

    def freeze_worker(self, rng: random.Random) -> None:
        """The tasks of the worker run on, unless they notice."""
        process = rng.choice(self.workers).process
        assert process is not None
        with _frozen([process.pid]):
            time.sleep(SESSION_SECONDS + DELAY_SECONDS + 3)

    def freeze_machine(self, rng: random.Random) -> None:
        """The tasks of the worker are frozen too. For a moment, they are the zombies that exactly once must fence."""
        worker = rng.choice(self.workers)
        assert worker.process is not None
        tasks = _tasks(worker)
        self.thawed.update(tasks)
        with _frozen([worker.process.pid, *_children(worker.process.pid), *tasks]):
            time.sleep(SESSION_SECONDS + DELAY_SECONDS + 3)

    def kill_broker(self, rng: random.Random) -> None:
        self.broker.kill()
        time.sleep(rng.uniform(0, 3))
        self.broker.start()

    def kill_database(self, rng: random.Random) -> None:
        self.database.crash()

    def fault(self, kind: str, rng: random.Random) -> None:
        getattr(self, kind)(rng)
        self.counts[kind] += 1

    # Results.

    def committed(self, topic: str) -> list[tuple[bytes | None, bytes]]:
        """Key and value of all records that were committed until now."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "check", "enable.auto.commit": False,
             "isolation.level": "read_committed", "enable.partition.eof": True}
        )  # fmt: skip
        try:
            partitions = set(consumer.list_topics(topic, 60).topics[topic].partitions)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            records: list[tuple[bytes | None, bytes]] = []
            while partitions:
                for message in consumer.consume(10_000, 1):
                    error = message.error()
                    if error is None:
                        records.append((cast("bytes | None", message.key()), cast("bytes", message.value())))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        partitions.discard(cast("int", message.partition()))
            return records
        finally:
            consumer.close()

    def lives(self) -> dict[str, list[tuple[float, float, int]]]:
        """Begin, end and process of each life of each lease task, in the order of their begin."""
        lives: dict[str, list[tuple[float, float, int]]] = {}
        for file in (self.directory / "lives").iterdir():
            name, pid, _ = file.name.split("@")
            times = [float(text) for text in file.read_text().split()]
            if times:
                lives.setdefault(name, []).append((times[0], times[1], int(pid)))
        return {name: sorted(own) for name, own in lives.items()}


def _children(pid: int) -> list[int]:
    try:
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _tasks(worker: WorkerProcess) -> list[int]:
    """The processes of connectors and tasks: the children of the nursery."""
    if worker.process is None:
        return []
    return [task for nursery in _children(worker.process.pid) for task in _children(nursery)]


@contextlib.contextmanager
def _frozen(pids: Sequence[int]) -> Iterator[None]:
    def send(number: signal.Signals) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    send(signal.SIGSTOP)
    try:
        yield
    finally:
        send(signal.SIGCONT)
