"""What jobs say (summary, reasons, lag), how they stop, slices of a database, orphans of a table; no Spark needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
pytest.importorskip("sqlalchemy")

from kcli.spark.jobs.export.table_commits import delete_orphans
from kcli.spark.jobs.export.table_files import Layout, filesystem, split_by, write_files
from kcli.spark.jobs.ingest.database import (
    SqlReader,
    SqlSettings,
    SqlStreamReader,
    engine,
    read_rows,
    shown,
    slices,
    table_columns,
)
from kcli.spark.jobs.shared.errors import JobError, require
from kcli.spark.jobs.shared.failures import TaskFailures, is_permanent, reason
from kcli.spark.jobs.shared.progress import ProgressLine, lag
from kcli.spark.jobs.shared.running import Done, summary

ROOT = Path(__file__).resolve().parents[3]


def test_the_summary_as_text_and_json() -> None:
    done = Done(3, stopped=True, bad_records=1, details={"skipped_batches": 2})
    assert summary("x", done, 1.25, "text").splitlines() == [
        "x: 3 records in 1.2 s, 1 bad records (stopped on request)",
        "skipped batches: 2",
    ]
    assert json.loads(summary("x", done, 1.25, "json")) == {
        "job": "x",
        "rows": 3,
        "bad_records": 1,
        "seconds": 1.2,
        "stopped": True,
        "skipped_batches": 2,
    }


def test_the_line_that_says_what_went_wrong() -> None:
    raised = "[USER_RAISED_EXCEPTION] a record does not parse, offset 7: no JSON SQLSTATE: P0001\nmore"
    assert reason(Exception(raised)) == "a record does not parse, offset 7: no JSON"
    traceback = (
        "org.apache.spark.X: a\nTraceback\nkcli.spark.offsets.DataLossError: set failOnDataLoss to false"
    )
    assert reason(Exception(traceback)) == "use --ignore-data-loss"
    assert reason(JobError("plain")) == "plain"


PYTHON_ERROR = """\
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "x.py", line 1, in read
{}

\tat org.apache.spark.api.python.BasePythonRunner
Caused by: java.io.EOFException: x
"""


@pytest.mark.parametrize(
    ("text", "permanent"),
    [
        ("org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] offset 7 SQLSTATE: P0001", True),
        ("org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.", True),
        (PYTHON_ERROR.format("ValueError: timestamp -1 ms"), True),
        (PYTHON_ERROR.format("kcli.errors.UnknownTopicOrPartitionException: topic t does not exist"), True),
        (PYTHON_ERROR.format("kcli.spark.client.cluster.UnreachableError: gave up"), False),
        (PYTHON_ERROR.format("ConnectionError: no broker"), False),
        (PYTHON_ERROR.format("kcli.errors.InvalidProducerEpochException: x"), False),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", False),
    ],
)
def test_errors_that_a_repetition_cannot_mend(text: str, permanent: bool) -> None:
    assert is_permanent(text) == permanent


class _Store:
    """The status store of Spark's JVM, with an error for each stage of which a task has failed."""

    def __init__(self) -> None:
        self.errors: dict[int, str] = {}

    def activeStages(self) -> _ScalaList:
        return _ScalaList(
            SimpleNamespace(stageId=lambda stage=stage: stage, attemptId=lambda: 0, numFailedTasks=lambda: 1)
            for stage in self.errors
        )

    def taskList(self, stage: int, *_: object) -> _ScalaList:
        message = SimpleNamespace(isDefined=lambda: True, get=lambda: self.errors[stage])
        return _ScalaList([SimpleNamespace(errorMessage=lambda: message)])


class _ScalaList(list[SimpleNamespace]):
    def size(self) -> int:
        return len(self)

    def apply(self, nth: int) -> SimpleNamespace:
        return self[nth]


def test_a_late_failure_of_the_batch_before_is_not_counted() -> None:
    store = _Store()
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)))
    status = SimpleNamespace(TaskStatus=SimpleNamespace(FAILED=0), TaskSorting=SimpleNamespace(ID=0))
    apache = SimpleNamespace(
        apache=SimpleNamespace(spark=SimpleNamespace(status=SimpleNamespace(api=SimpleNamespace(v1=status))))
    )
    java = SimpleNamespace(util=SimpleNamespace(List=SimpleNamespace(of=lambda *items: list(items))))
    jvm = SimpleNamespace(org=apache, java=java)
    store.errors[4] = PYTHON_ERROR.format("ValueError: of the batch before")
    failures = TaskFailures(SimpleNamespace(sparkContext=context, _jvm=jvm))
    assert failures.permanent() is None
    store.errors[5] = PYTHON_ERROR.format("ValueError: of this batch")
    assert failures.permanent() == "of this batch"


def test_lag_is_what_was_there_and_not_taken() -> None:
    source = SimpleNamespace(latestOffset='{"t": {"0": 10, "1": 5}}', endOffset='{"t": {"0": 7}}')
    other = SimpleNamespace(latestOffset='{"position": 3}', endOffset='{"position": 1}')
    assert lag(SimpleNamespace(sources=[source, other])) == 8
    assert lag(SimpleNamespace(sources=[other])) is None


def test_progress_can_be_silenced() -> None:
    assert not ProgressLine("x", 0).is_due


STOPPED = """
import signal, sys, time
from kcli.spark.submit import _run
child = '''
import signal, sys, time
def stop(number, frame):
    time.sleep(1.5)  # the micro-batch under way
    sys.exit(3)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
time.sleep(60)
'''
sys.exit(_run([sys.executable, "-c", child], {}, is_ours=True))
"""


def test_a_job_has_time_to_end_after_sigterm() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 3


def test_slices_meet_and_leave_nothing_out() -> None:
    assert [piece.value for piece in slices(None, 10, 3, least=1)] == [(None, 4), (4, 7), (7, 10)]
    assert [piece.value for piece in slices(5, 6, 4)] == [(5, 6)]
    assert [piece.value for piece in slices("a", "z", 4)] == [("a", "z")]


def test_positions_of_a_database(tmp_path: Path) -> None:
    import sqlite3

    url = f"sqlite:///{tmp_path}/x.db"
    database = sqlite3.connect(tmp_path / "x.db")
    with database:
        database.execute('create table "a b" (n integer, at text, blob blob)')
        database.executemany(
            'insert into "a b" values (?, ?, ?)',
            [(nth, f"2026-01-01T00:00:0{nth}", b"\xff") for nth in range(1, 7)],
        )
    by_number = SqlSettings(url, table="a b", column="n", by="incrementing", tasks=2, max_rows=4)
    reader = SqlStreamReader(by_number)
    start = reader.initialOffset()
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert first == {"position": 4}
    positions = [
        json.loads(row)["n"]
        for part in reader.partitions(start, first)
        for batch in reader.read(part)
        for row in batch.column("value").to_pylist()
    ]
    assert positions == [1, 2, 3, 4]
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert second == {"position": 6}
    assert reader.latestOffset(second, reader.getDefaultReadLimit()) == second
    assert len(SqlReader(by_number).partitions()) == 2
    assert table_columns(by_number) == ["n", "at", "blob"]
    by_time = SqlStreamReader(SqlSettings(url, query='select * from "a b"', column="at", by="timestamp"))
    end = by_time.latestOffset(by_time.initialOffset(), by_time.getDefaultReadLimit())
    assert "T" in str(end["position"])  # as the column's own values are written
    # The clock has moved, but there are no new rows.
    assert by_time.latestOffset(end, by_time.getDefaultReadLimit()) == end
    with database:
        database.execute("insert into \"a b\" values (9, '2000-01-01T00:00:00', null)")
    database.close()
    [batch] = read_rows(by_time.settings, None, "2026-01-01T00:00:02")
    rows = [json.loads(row) for row in batch.column("value").to_pylist()]
    assert [row["n"] for row in rows] == [9, 1]  # up to the end, without it
    assert rows[1]["blob"] == "/w=="


def test_databases_that_cannot_be_used() -> None:
    assert shown("postgresql://ann:secret@h/shop") == "postgresql://ann:***@h/shop"
    with pytest.raises(JobError, match="expected DIALECT:") as caught:
        engine("ann:secret@h")
    assert "secret" not in str(caught.value)
    with pytest.raises(JobError, match="does not know this database"):
        engine("nosuch://h/x")
    with pytest.raises(JobError, match=r"nosuchmodule is not installed: pip install 'x\[y\]'"):
        require("nosuchmodule", "x[y]")


def test_files_by_directory_and_their_statistics(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.RecordBatch.from_pydict({"offset": [1, 2, 3, 4], "topic": ["a", "b/c", "a", None]})
    assert [(key, part.num_rows) for key, part in split_by(rows, ["topic"])] == [
        (("a",), 2),
        (("b/c",), 1),
        ((None,), 1),
    ]
    layout = Layout(str(tmp_path), ("offset", "topic"), ("topic",))
    assert Layout.from_json(layout.to_json()) == layout
    files = {file.partition["topic"]: file for file in write_files(iter([rows, rows]), layout)}
    assert files["b/c"].path.startswith("topic=b%2Fc/part-")
    assert files[None].path.startswith("topic=__HIVE_DEFAULT_PARTITION__/")
    assert files["a"].stats == {
        "numRecords": 4,
        "minValues": {"offset": 1},
        "maxValues": {"offset": 3},
        "nullCount": {"offset": 0},
    }
    table = pq.ParquetFile(tmp_path / files["a"].path).read()
    assert table.column_names == ["offset"]
    assert table.column("offset").to_pylist() == [1, 3, 1, 3]
    assert files["a"].size_bytes == (tmp_path / files["a"].path).stat().st_size


def test_orphans_are_old_and_unused(tmp_path: Path) -> None:
    names = ["used.parquet", "orphan.parquet", "young.parquet", "not-ours.txt"]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
        if name != "young.parquet":
            os.utime(tmp_path / name, (1, 1))
    _, root = filesystem(str(tmp_path))
    assert delete_orphans(str(tmp_path), {f"{root}/used.parquet"}, before_ms=100_000) == 1
    assert sorted(os.listdir(tmp_path)) == ["not-ours.txt", "used.parquet", "young.parquet"]
