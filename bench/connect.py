"""Measures a worker of Connect: its start, and the CPU time per record from file and table to topic, and back.

    python bench/connect.py [--records 200000] [--only file,table] [--url URL --pid PID --bootstrap HOST:PORT]

The worker is distributed, with one task for each connector. The broker runs on the first core. Every worker with the
file and JDBC connectors can be measured beside ours, because only the REST API is used: with --url, that worker is
measured, and --pid is its process. The last lines are JSON, one line per figure.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, TopicPartition
from measure import HEADER, Bench, cpu_s, print_json, processes, resident_mb, running

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rigs.connect_worker import WorkerProcess, rest_request

TIMEOUT_S = 600.0
POLL_S = 0.05
START_GOAL_S = 1.0
LINE = "{number:08d} the quick brown fox jumps over the lazy dog, and over the fence behind it"
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Measured:
    """A worker, by its REST API and its process."""

    def __init__(
        self, bench: Bench, bootstrap: str, url: str, pid: int, directory: Path, records: int
    ) -> None:
        self._bench = bench
        self._bootstrap = bootstrap
        self._url = url
        self._pid = pid
        self._directory = directory
        self._records = records

    def file(self) -> None:
        source, target = self._directory / "in.txt", self._directory / "out.txt"
        with source.open("w") as lines:
            lines.writelines(LINE.format(number=number) + "\n" for number in range(self._records))
        names = {"value.converter": STRING, "key.converter": STRING, "tasks.max": "1"}
        self._measure(
            "file to topic",
            names | {"connector.class": "FileStreamSource", "file": str(source), "topic": "lines"},
            lambda: self._end_offset("lines"),
        )
        self._measure(
            "topic to file",
            names | {"connector.class": "FileStreamSink", "file": str(target), "topics": "lines"},
            lambda: _lines(target),
        )

    def table(self) -> None:
        source, target = self._directory / "source.db", self._directory / "target.db"
        with sqlite3.connect(source) as database:
            database.execute("create table orders (id integer primary key, name text, amount real)")
            rows = (
                (number, LINE.format(number=number), number / 8) for number in range(1, self._records + 1)
            )
            database.executemany("insert into orders values (?, ?, ?)", rows)
        names = {"value.converter": JSON, "key.converter": STRING, "tasks.max": "1"}
        self._measure(
            "table to topic",
            names
            | {
                "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
                "connection.url": f"jdbc:sqlite:{source}",
                "mode": "incrementing",
                "incrementing.column.name": "id",
                "table.whitelist": "orders",
                "topic.prefix": "t-",
                "batch.max.rows": "2000",
                "poll.interval.ms": "100",
            },
            lambda: self._end_offset("t-orders"),
        )
        self._measure(
            "topic to table",
            names
            | {
                "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
                "connection.url": f"jdbc:sqlite:{target}",
                "topics": "t-orders",
                "table.name.format": "copied",
                "auto.create": "true",
                "consumer.override.max.poll.records": "2000",
            },
            lambda: _rows(target),
        )

    def _measure(self, name: str, config: Mapping[str, str], count: Callable[[], int]) -> None:
        """Runs a connector until `count` returns the number of records, and adds its rate and CPU time."""
        connector = name.replace(" ", "-")
        before_s, start = self._cpu_s(), time.perf_counter()
        response = rest_request(f"{self._url}/connectors/{connector}/config", "PUT", dict(config))
        assert response.status == 201, response.text
        while count() < self._records:
            assert time.perf_counter() - start < TIMEOUT_S, f"{name}: {count()} records after {TIMEOUT_S} s"
            time.sleep(POLL_S)
        seconds, used_s = time.perf_counter() - start, self._cpu_s() - before_s
        rest_request(f"{self._url}/connectors/{connector}/stop", "PUT")
        self._bench.add(f"{name}: rate", self._records / seconds / 1000, "k records/s")
        self._bench.add(f"{name}: worker CPU", used_s / self._records * 1e6, "CPU-s/M records")

    def _cpu_s(self) -> float:
        return sum(map(cpu_s, processes(self._pid)))

    def _end_offset(self, topic: str) -> int:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "bench", "log_level": 0})
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
        except Exception:
            return 0  # the topic does not exist yet
        finally:
            consumer.close()


def _lines(path: Path) -> int:
    try:
        return path.read_bytes().count(b"\n")
    except OSError:
        return 0


def _rows(path: Path) -> int:
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return cast(int, database.execute("select count(*) from copied").fetchone()[0])
    except sqlite3.Error:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--only", default="file,table")
    parser.add_argument("--url", help="measure this worker, instead of one that is started here")
    parser.add_argument("--pid", type=int, help="the process of that worker")
    parser.add_argument("--bootstrap", help="the broker of that worker")
    options = parser.parse_args()
    kinds = options.only.split(",")
    print(HEADER)
    with (
        running(overrides={"group.initial.rebalance.delay.ms": "0", "num.partitions": "1"}) as bench,
        tempfile.TemporaryDirectory(prefix="kcli-bench-connect-") as directory,
        WorkerProcess(Path(directory), bench.broker.bootstrap) as worker,
    ):
        if options.url:
            measured = Measured(
                bench, options.bootstrap, options.url, options.pid, Path(directory), options.records
            )
        else:
            start = time.perf_counter()
            worker.start()
            assert worker.process is not None, "started"
            pid = worker.process.pid
            bench.add(
                "start until /health is 200", time.perf_counter() - start, "s", f"<= {START_GOAL_S:g} s"
            )
            bench.add("memory after the start", resident_mb(pid), "MB")
            measured = Measured(
                bench, bench.broker.bootstrap, worker.url, pid, Path(directory), options.records
            )
        for kind in kinds:
            {"file": measured.file, "table": measured.table}[kind]()
    print_json(bench.figures)


if __name__ == "__main__":
    main()
