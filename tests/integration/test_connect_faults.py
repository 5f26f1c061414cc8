"""Connect through kill -9 of task, worker, broker and database, frozen workers and rolling restarts.

Rows of a table become records exactly once, and the rows of another table. Lines of a file become records exactly once.
No task runs twice at a time, and none stays without an owner for long. Each test prints its figures.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import random
import time
from pathlib import Path

import pytest

from rigs.connect_faults import DELAY_SECONDS, SESSION_SECONDS, Cluster, Database, PostgreSql, Sqlite
from rigs.databases import postgresql_program

SEED = int(os.environ.get("KCLI_SEED", "1"))
MARGIN_SECONDS = 60.0
"""The longest time of a restart of broker or worker and of a rebalance on a busy machine."""
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
TOPICS = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
SOURCE = {
    "tasks.max": "1",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "300",
    **TOPICS,
}
TABLE = "CREATE TABLE {} (id BIGINT PRIMARY KEY, name VARCHAR(40))"

ALL = (
    "kill_task",
    "kill_worker",
    "freeze_worker",
    "kill_broker",
    "freeze_machine",
    "kill_database",
    "roll_workers",
)


class Flow:
    """Rows and lines that were written until now, and the connectors that move them."""

    def __init__(self, cluster: Cluster, leases: int) -> None:
        self.cluster = cluster
        self.rows = 0
        self.connectors = leases + 3
        self.lines = cluster.directory / "lines.txt"
        self.lines.touch()
        database = cluster.database
        database.run(TABLE.format("source"))
        database.run(TABLE.format("target"))
        jdbc = {**database.config, "value.converter": JSON}
        cluster.put(
            "from-table",
            {**SOURCE, **jdbc, "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
             "mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "source",
             "topic.prefix": "t-", "poll.interval.ms": "100", "batch.max.rows": "500"},
        )  # fmt: skip
        cluster.put(
            "to-table",
            {**jdbc, "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "topics": "t-source",
             "tasks.max": "1", "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id",
             "table.name.format": "target"},
        )  # fmt: skip
        cluster.put(
            "from-file",
            {**SOURCE, "connector.class": "FileStreamSource", "file": str(self.lines), "topic": "lines",
             "value.converter": STRING},
        )  # fmt: skip
        for number in range(leases):
            cluster.put(
                f"lease{number}",
                {**SOURCE, "connector.class": "lease_source.LeaseSource", "value.converter": STRING,
                 "key.converter": STRING, "directory": str(cluster.directory / "lives")},
            )  # fmt: skip

    def write(self, count: int) -> None:
        rows = [(number, f"row {number}") for number in range(self.rows + 1, self.rows + count + 1)]
        self.cluster.database.run("INSERT INTO source VALUES (%s, %s)", rows)
        with self.lines.open("a") as file:
            file.writelines(f"line {number}\n" for number, _ in rows)
        self.rows += count

    def check_rows(self) -> None:
        cluster = self.cluster
        cluster.wait(lambda: self._is_through(), f"{self.rows} rows are in the target")
        query = "SELECT id, name FROM {} ORDER BY id"
        source, target = (cluster.database.run(query.format(name)) for name in ("source", "target"))
        assert len(source) == self.rows
        assert target == source
        ids = [json.loads(value)["payload"]["id"] for _, value in cluster.committed("t-source")]
        _check_once(ids, list(range(1, self.rows + 1)))
        lines = [value.decode() for _, value in cluster.committed("lines")]
        _check_once(lines, [f"line {number}" for number in range(1, self.rows + 1)])

    def _is_through(self) -> bool:
        try:
            ((count,),) = self.cluster.database.run("SELECT count(*) FROM target")
        except Exception:
            return False  # the database may be starting
        return count == self.rows and len(self.cluster.committed("lines")) >= self.rows


def _check_once(values: list[object] | list[str], expected: list[object] | list[str] | list[int]) -> None:
    """Fails with the numbers of duplicates and of lost values."""
    counts = collections.Counter(values)
    duplicates = sum(count - 1 for count in counts.values())
    lost = [value for value in expected if value not in counts]
    assert (duplicates, len(lost), values == expected) == (0, 0, True), (
        f"{duplicates=} {len(lost)=} {lost[:5]}"
    )


def check_leases(cluster: Cluster, leases: int) -> float:
    """Returns the longest time for which a task had no owner."""
    cluster.stop_connectors([f"lease{number}" for number in range(leases)])
    longest_s, all_lives = 0.0, cluster.lives()
    assert len(all_lives) == leases
    for name, lives in all_lives.items():
        for (_, end_s, pid), (begin_s, _, _) in itertools.pairwise(lives):
            if pid not in cluster.thawed:
                assert end_s <= begin_s, f"{name} ran twice for {end_s - begin_s:.2f} s"
            longest_s = max(longest_s, begin_s - end_s)
    numbers: dict[bytes, list[int]] = {}
    for key, value in cluster.committed("leases"):
        assert key is not None
        numbers.setdefault(key, []).append(int(value.decode().partition(":")[2]))
    for own in numbers.values():
        assert own == list(range(len(own))), "each number exactly once, in order"
    assert longest_s <= SESSION_SECONDS + DELAY_SECONDS + MARGIN_SECONDS
    return longest_s


def run(cluster: Cluster, kinds: list[str], *, leases: int, rows: int, waits: bool) -> None:
    cluster.start()
    rng = random.Random(SEED)
    flow = Flow(cluster, leases)
    cluster.wait_running(flow.connectors)
    for kind in kinds:
        flow.write(rows)
        cluster.fault(kind, rng)
        if waits or rng.random() < 0.3:
            cluster.wait_running(flow.connectors)
        else:
            cluster.states()
            time.sleep(rng.uniform(0, 10))
    flow.write(rows)
    flow.check_rows()
    cluster.wait_running(flow.connectors)
    longest_s = check_leases(cluster, leases)
    print(f"{flow.rows} rows, {longest_s:.1f} s without an owner, {dict(cluster.counts)}")


def _database(kind: str, directory: Path) -> Database:
    if kind == "sqlite":
        return Sqlite(directory)
    if postgresql_program("initdb") is None:
        pytest.skip("PostgreSQL's server is missing (Debian: postgresql)")
    return PostgreSql()


@pytest.mark.timeout(1200)  # processes start again and again, which takes long on a busy machine
def test_each_row_and_line_arrives_once_through_faults(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, Sqlite(tmp_path), workers=2)
    try:
        kinds = ["kill_task", "kill_broker", "freeze_worker", "kill_worker"]
        run(cluster, kinds, leases=2, rows=500, waits=True)
    finally:
        cluster.close()


@pytest.mark.full
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("workers", [2, 3])
def test_hundred_thousands_of_rows_arrive_once_through_faults(
    tmp_path: Path, kind: str, workers: int
) -> None:
    cluster = Cluster(tmp_path, _database(kind, tmp_path), workers=workers)
    try:
        kinds = list(ALL) * int(os.environ.get("KCLI_KILLS", "5"))
        random.Random(SEED).shuffle(kinds)
        run(cluster, kinds, leases=20, rows=300_000 // len(kinds), waits=False)
    finally:
        cluster.close()
