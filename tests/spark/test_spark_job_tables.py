"""`export` to Delta and Iceberg tables: what is in them, upkeep, and a driver that dies after the table's commit."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.running import Done
from rigs.librdkafka import produce
from rigs.pyspark_processes import TASK_DAEMON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

Make = Callable[..., str]
FIRST_MS, HOUR_MS = 1_700_000_000_000, 3_600_000
NAMED: dict[str, list[str]] = {"delta": [], "iceberg": ["--table", "a.b"], "parquet": []}


def filled(broker: BrokerProcess, topic: Make, count: int = 60) -> tuple[str, list[dict[str, Any]]]:
    """A topic of two partitions, and its records."""
    name = topic(2)
    records = [
        {
            "key": f"k{nth % 7}",
            "value": json.dumps({"id": nth, "amount": nth / 4}),
            "timestamp": FIRST_MS + nth * HOUR_MS,
            "partition": nth % 2,
        }
        for nth in range(count)
    ]
    produce(broker.bootstrap, name, records)
    return name, records


def exported(spark: SparkSession, broker: BrokerProcess, *words: str) -> Done:
    return export.run(spark, export.parse(["--bootstrap-server", broker.bootstrap, *words]))


def table_of(path: Path, kind: str) -> Any:
    """The table as pandas, read by the table library alone."""
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(str(path)).to_pandas()
    return iceberg(path).scan().to_pandas()


def iceberg(path: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("kcli", type="sql", uri=f"sqlite:///{path}/catalog.db").load_table("a.b")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_holds_what_pandas_makes_of_the_records(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path, kind: str
) -> None:
    import pandas as pd

    name, records = filled(broker, topic)
    path = tmp_path / kind
    words = [
        "--topic",
        name,
        "--path",
        str(path),
        "--format",
        kind,
        *NAMED[kind],
        "--values-as",
        "string",
    ]
    words += ["--partition-by", "date", "--columns", "key,value,partition,offset,timestamp"]
    done = exported(spark, broker, *words)
    assert done.rows == len(records)
    expected = pd.DataFrame(records)
    expected["offset"] = expected.groupby("partition").cumcount()
    expected["timestamp"] = pd.to_datetime(expected["timestamp"], unit="ms", utc=True)
    expected["date"] = expected["timestamp"].dt.date
    table = table_of(path, kind)
    order = ["timestamp", "partition", "offset", "key", "value", "date"]
    table, expected = (
        frame[order].sort_values("timestamp").reset_index(drop=True) for frame in (table, expected)
    )
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)
    days = {datetime.date.isoformat(day) for day in expected["date"]}
    directories = {directory.name for directory in path.rglob("date=*")}
    assert directories == {f"date={day}" for day in days}
    # A second write without a save mode is refused, because each row would be in the table twice.
    with pytest.raises(JobError, match="exists: use --save-mode append"):
        exported(spark, broker, *words)
    one = json.dumps({name: {"0": 29, "1": 30}})
    run = [*words, "--starting-offsets", one, "--run-id", "tonight", "--save-mode"]
    assert exported(spark, broker, *run, "append").rows == 1
    # The table already contains the run.
    assert exported(spark, broker, *run, "overwrite").details["skipped_batches"] == 1
    assert len(table_of(path, kind)) == len(records) + 1
    assert exported(spark, broker, *words, "--run-id", "b", "--save-mode", "overwrite").rows == len(records)
    assert len(table_of(path, kind)) == len(records)
    with pytest.raises(JobError, match="the table has the columns"):
        exported(spark, broker, *words[:6], *NAMED[kind], "--columns", "value", "--save-mode", "append")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_small_files_are_put_together_and_orphans_go(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path, kind: str
) -> None:
    name, _ = filled(broker, topic)
    path = tmp_path / kind
    words = [
        "--topic",
        name,
        "--path",
        str(path),
        "--format",
        kind,
        *NAMED[kind],
        "--mode",
        "available-now",
    ]
    words += ["--checkpoint", str(tmp_path / "checkpoint"), "--max-offsets-per-trigger", "20"]
    directory = path if kind == "delta" else path / "a" / "b" / "data"
    directory.mkdir(parents=True)
    orphan = directory / "part-of-a-task-that-died.parquet"
    orphan.write_bytes(b"PAR1")
    os.utime(orphan, (1, 1))
    done = exported(spark, broker, *words, "--compact-every", "3", "--vacuum-hours", "0")
    assert (done.rows, done.details["files"], done.details["compacted_files"]) == (60, 6, 6)
    assert not orphan.exists()
    assert len(list(directory.glob("*.parquet"))) == 1
    assert sorted(table_of(path, kind)["offset"]) == sorted(list(range(30)) * 2)


KILLED = """
import contextlib, os, signal, sys, time
from pyspark.sql import SparkSession
from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.export import rows as export_rows
from kcli.spark.jobs.export import tables as export_tables
from kcli.spark.jobs.export import table_commits as tables
from kcli.spark.jobs.shared.running import Counts, start_stream

spark = SparkSession.builder.getOrCreate()
committed = []

def and_then_hang(commit):
    def both(self, files, batch, **options):
        commit(self, files, batch, **options)
        if batch.number == 1:
            committed.append(self)
            time.sleep(600)
    return both

for kind in (tables.DeltaTarget, tables.IcebergTarget):
    kind.commit = and_then_hang(kind.commit)

def its_options(kind, *words):
    where = ["--path", f"{sys.argv[1]}/{kind}", "--format", kind, "--checkpoint", f"{sys.argv[1]}/{kind}.checkpoint"]
    return export.parse([*sys.argv[2:], *where, *words])

queries = []
for options in (its_options("delta"), its_options("iceberg", "--table", "a.b")):
    writer, _, _ = export_tables.stream_writer(spark, options, Counts(streaming=True))
    queries.append(start_stream(writer, options))
while len(committed) < 2:
    time.sleep(0.1)
    if failed := [query.exception() for query in queries if query.exception() is not None]:
        sys.exit(str(failed))

options = its_options("parquet", "--max-offsets-per-trigger", "6")
frame = export_rows.selected(spark, options, Counts(streaming=True))
jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
query = start_stream(frame.writeStream.format("parquet").option("path", options.path), options)
with contextlib.suppress(OSError):  # where it is allowed: a busy machine may not keep us from looking
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
for batch in range(10):
    while not os.path.exists(f"{options.path}/_spark_metadata/{batch}"):
        time.sleep(0.001)
    os.kill(jvm, signal.SIGSTOP)
    time.sleep(0.05)  # until all its threads stand still
    if not os.path.exists(f"{options.checkpoint}/commits/{batch}"):
        print("killed", batch, flush=True)
        os.killpg(0, signal.SIGKILL)
    os.kill(jvm, signal.SIGCONT)
sys.exit("each of Spark's commits was there before the one of the files was seen")
"""


@pytest.mark.full
def test_a_driver_killed_after_the_commit_of_the_table(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    """The next run gets the micro-batch again: the table has it, so it is skipped, and nothing is lost or doubled."""
    name, records = filled(broker, topic)
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    words = ["--bootstrap-server", broker.bootstrap, "--topic", name]
    words += ["--mode", "available-now", "--max-offsets-per-trigger", "20"]
    environment = dict(os.environ)  # of the session, which is set up
    environment["PYSPARK_SUBMIT_ARGS"] = "--master local[2,4] " + os.environ["PYSPARK_SUBMIT_ARGS"]
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        process_group=0,
        timeout=270,
    )
    assert done.stdout.startswith("killed ") and done.returncode == -9, done.stderr
    batch = done.stdout.split()[1]
    assert (tmp_path / "parquet" / "_spark_metadata" / batch).exists()
    assert not (tmp_path / "parquet.checkpoint" / "commits" / batch).exists()
    for kind in ("delta", "iceberg"):
        assert len(table_of(tmp_path / kind, kind)) == 40
    for kind in ("delta", "iceberg", "parquet"):
        path, checkpoint = tmp_path / kind, tmp_path / f"{kind}.checkpoint"
        more = ["--path", str(path), "--format", kind, "--checkpoint", str(checkpoint), *NAMED[kind]]
        again = exported(spark, broker, *words[2:], *more)
        if kind != "parquet":
            assert (again.rows, again.details["skipped_batches"]) == (20, 1)
        rows = spark.read.parquet(str(path)).toPandas() if kind == "parquet" else table_of(path, kind)
        assert sorted(zip(rows["partition"], rows["offset"], strict=True)) == [
            (partition, offset) for partition in (0, 1) for offset in range(len(records) // 2)
        ]


def workers(jvm: int) -> list[int]:
    """The Python processes that serve the tasks of a session."""
    parents: dict[int, int] = {}
    daemons = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if (entry / "cmdline").read_bytes().endswith(TASK_DAEMON):
                    daemons.add(int(entry.name))
            except OSError:
                continue  # it ended meanwhile
    ours = {daemon for daemon in daemons if parents[daemon] == jvm}
    return [process for process, parent in parents.items() if parent in ours]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_workers_that_are_killed(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path, kind: str
) -> None:
    """Spark runs their tasks again; what the dead ones wrote belongs to no table."""
    name, records = filled(broker, topic)
    jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    ended = threading.Event()
    killed = []

    def kill() -> None:
        while len(killed) < 3 and not ended.wait(0.02):
            for process in workers(jvm)[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)
                ended.wait(0.5)

    words = ["--topic", name, "--path", str(tmp_path / kind), "--format", kind, *NAMED[kind]]
    words += [
        "--mode",
        "available-now",
        "--checkpoint",
        str(tmp_path / "c"),
        "--max-offsets-per-trigger",
        "10",
    ]
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        done = exported(spark, broker, *words)
    finally:
        ended.set()
        killer.join()
    assert killed and done.rows == len(records)
    table = table_of(tmp_path / kind, kind)
    assert sorted(zip(table["partition"], table["offset"], strict=True)) == [
        (partition, offset) for partition in (0, 1) for offset in range(len(records) // 2)
    ]
