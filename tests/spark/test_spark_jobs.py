"""The built-in jobs and spark-submit: files to topic and back, dry runs, exit codes, stopping a stream."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kcli.cli.main import run
from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.ingest import job as ingest
from kcli.spark.jobs.shared.errors import JobError
from kcli.spark.jobs.shared.options import JobOptions
from kcli.spark.jobs.shared.running import run_batch
from rigs.librdkafka import consume, produce

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
BARE = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}
"""No activated environment: spark-submit must find everything itself."""

QUICK = ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
"""Options of Spark for a JVM that starts faster."""


def exported(spark: SparkSession, *words: str) -> int:
    return export.run(spark, export.parse(words)).rows


def ingested(spark: SparkSession, *words: str) -> int:
    return ingest.run(spark, ingest.parse(words)).rows


def test_parquet_there_and_back(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    first, second = topic(2), topic(1)
    sent: list[dict[str, Any]] = [
        {"key": f"k{nth}", "value": b"\xff%d" % nth, "headers": [("n", b"%d" % nth)]} for nth in range(50)
    ]
    produce(broker.bootstrap, first, sent)
    path, common = str(tmp_path / "out"), ("--bootstrap-server", broker.bootstrap)
    assert exported(spark, *common, "--topic", first, "--path", path, "--include-headers") == 50
    assert ingested(spark, *common, "--topic", second, "--path", path, "--format", "parquet") == 50
    records = sorted(
        (message.key(), message.value(), message.headers())
        for message in consume(broker.bootstrap, second, 50)
    )
    assert records == sorted((record["key"].encode(), record["value"], record["headers"]) for record in sent)


def test_csv_rows_become_json_values(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(1)
    source = tmp_path / "in.csv"
    source.write_text('id,text\n1,one\n2,"two, or more"\n')
    words = (
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        name,
        "--path",
        str(source),
        "--format",
        "csv",
    )
    assert ingested(spark, *words, "--key-column", "id", "--compression-type", "lz4") == 2
    values = {message.key(): json.loads(message.value()) for message in consume(broker.bootstrap, name, 2)}
    assert values == {b"1": {"id": "1", "text": "one"}, b"2": {"id": "2", "text": "two, or more"}}
    other = tmp_path / "other.csv"
    other.write_text("text,id\nthree,3\n")
    with pytest.raises(Exception, match="CSV header does not conform to the schema"):
        ingested(spark, *(str(tmp_path) if word == str(source) else word for word in words))


def test_lines_and_json_fields(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(1)
    source = tmp_path / "in.json"
    lines = ['{"user": "ann",  "n": 1}', '{"user": "bob", "n": 2}']
    source.write_text("\n".join(lines) + "\n")
    words = ("--bootstrap-server", broker.bootstrap, "--topic", name, "--path", str(source))
    assert ingested(spark, *words, "--format", "json", "--key-column", "user") == 2
    assert ingested(spark, *words) == 2
    records = [(message.key(), message.value().decode()) for message in consume(broker.bootstrap, name, 4)]
    assert records == [(b"ann", lines[0]), (b"bob", lines[1]), (None, lines[0]), (None, lines[1])]


def test_an_export_that_continues(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(1)
    path, checkpoint = tmp_path / "out", str(tmp_path / "checkpoint")
    words = ("--bootstrap-server", broker.bootstrap, "--topic", name, "--path", str(path), "--format", "csv")
    words += ("--mode", "available-now", "--checkpoint", checkpoint, "--columns", "offset,key,value,headers")
    for expected in ([0, 1, 2], [3, 4, 5]):
        records = [{"key": "k", "value": f"v{nth}", "headers": {"h": b"x"}} for nth in expected]
        produce(broker.bootstrap, name, records)
        assert exported(spark, *words) == 3
    rows = [
        row
        for file in path.glob("*.csv")
        for row in csv.DictReader(file.read_text().splitlines(), escapechar="\\")
    ]
    assert sorted((row["offset"], row["key"], row["value"]) for row in rows) == [
        (str(nth), "k", f"v{nth}") for nth in range(6)
    ]
    assert json.loads(rows[0]["headers"]) == [{"key": "h", "value": "x"}]


def test_partitions_by_date_in_json(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(1)
    day = 86_400_000
    produce(
        broker.bootstrap,
        name,
        [{"value": f"v{nth}", "timestamp": 19_700 * day + nth * day} for nth in range(2)],
    )
    words = ("--bootstrap-server", broker.bootstrap, "--topic", name, "--path", str(tmp_path / "out"))
    words += ("--format", "json", "--columns", "value", "--partition-by", "date")
    assert exported(spark, *words) == 2
    [file] = (tmp_path / "out" / "date=2023-12-09").glob("*.json")
    assert json.loads(file.read_text()) == {"value": "v0"}


def test_a_dry_run_starts_no_spark(
    broker: BrokerProcess,
    topic: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic(2)
    produce(broker.bootstrap, name, [{"value": "v", "partition": 1}] * 3)

    def started(*words: object, **_: object) -> None:
        raise AssertionError(f"a process was started: {words}")

    monkeypatch.setattr(subprocess.Popen, "__init__", started)
    settings = tmp_path / "pipeline.properties"
    settings.write_text(f"bootstrap.servers={broker.bootstrap}\nexport.format=csv\ningest.format=json\n")
    words = ["--config", str(settings), "--topic", name, "--dry-run"]
    assert run(["spark-submit", "export", *words, "--path", str(tmp_path / "x")]) == 0
    assert run(["spark-submit", "ingest", *words, "--path", str(settings)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"export 3 offsets of 2 partitions to {tmp_path / 'x'} as csv (batch)",
        "columns: key, value, topic, partition, offset, timestamp, timestampType",
        f"{name}-0 0..0",
        f"{name}-1 0..3",
        f"ingest json files of {settings} (1 files, {settings.stat().st_size} bytes) to topic {name} (batch)",
        f"topic {name} has 2 partitions",
        str(settings),
    ]
    assert export.main([*words, "--path", "y"]) == 0  # the job file itself, under another spark-submit
    assert capsys.readouterr().out.startswith("export 3 offsets of 2 partitions to y as csv")
    assert run(["spark-submit", "export", *words[:2], "--topic", "nosuch", "--path", "x", "--dry-run"]) == 1
    assert capsys.readouterr().err == "export: topic nosuch does not exist\n"


def test_new_files_as_they_come(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(1)
    source = tmp_path / "in"
    source.mkdir()
    words = (
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        name,
        "--path",
        str(source),
        "--format",
        "csv",
    )
    words += (
        "--mode",
        "available-now",
        "--checkpoint",
        str(tmp_path / "checkpoint"),
        "--value-column",
        "text",
    )
    for nth in (1, 2):
        (source / f"{nth}.csv").write_text(f"id,text\n{nth},line {nth}\n")
        assert ingested(spark, *words) == 1
    assert [message.value() for message in consume(broker.bootstrap, name, 2)] == [b"line 1", b"line 2"]


def test_a_directory_that_is_there_is_not_touched(
    broker: BrokerProcess, topic: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--bootstrap-server", broker.bootstrap, "--topic", topic(1), "--path", str(tmp_path)]
    assert run(["spark-submit", "export", *words]) == 1
    assert f"export: {tmp_path} exists: use --save-mode append" in capsys.readouterr().err


def test_the_exit_code_is_sparks(kcli_program: list[str], tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text("import sys, kcli, pyspark\nprint(sys.argv[1:], sys.executable)\nsys.exit(7)\n")
    words = ["spark-submit", "--conf", "spark.log.level=ERROR", str(job), "one", "--two"]
    done = subprocess.run(
        [*kcli_program, *words], env=BARE, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (7, f"['one', '--two'] {kcli_program[0]}\n"), done.stderr


SIGNALS = [
    pytest.param(signal.SIGTERM, os.kill, marks=pytest.mark.full, id="TERM"),
    pytest.param(signal.SIGTERM, os.killpg, id="TERM to the group"),
    pytest.param(signal.SIGINT, os.kill, marks=pytest.mark.full, id="INT"),
    pytest.param(signal.SIGINT, os.killpg, marks=pytest.mark.full, id="INT to the group"),
]
"""Signals to one process, and to the driver, the JVM and the Python workers too."""


@pytest.mark.parametrize(("number", "send"), SIGNALS)
def test_a_stream_ends_cleanly_on_a_signal(
    broker: BrokerProcess,
    topic: Make,
    tmp_path: Path,
    kcli_program: list[str],
    number: signal.Signals,
    send: Callable[[int, int], None],
) -> None:
    """The signals reach the driver too. The JVM and the Python workers continue until the micro-batch is done."""
    name = topic(1)
    produce(broker.bootstrap, name, [{"value": f"v{nth}"} for nth in range(10)])
    path = tmp_path / "out"
    process = stream(broker, name, path, kcli_program)
    try:
        wait_for(process, (path.parent / "checkpoint" / "commits" / "0").exists, "a micro-batch is committed")
        send(process.pid, number)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out.startswith("export: 10 records in ")
    assert out.endswith("(stopped on request)\n")
    assert all(line.startswith("export: ") for line in err.splitlines()), err  # nothing of Spark's own log
    assert sum(len(file.read_text().splitlines()) for file in path.glob("*.json")) == 10


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_spark_starts_ends_everything_in_silence(
    broker: BrokerProcess, tmp_path: Path, kcli_program: list[str], number: signal.Signals
) -> None:
    words = [
        *kcli_program,
        "spark-submit",
        *QUICK,
        "sql",
        "--bootstrap-server",
        broker.bootstrap,
        "-e",
        "SELECT 1",
    ]
    files = tmp_path / "files"
    files.mkdir()
    process = subprocess.Popen(
        words,
        env=BARE | {"TMPDIR": str(files)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 90
        while not (java := machines(process.pid)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no JVM was started"
            time.sleep(0.05)
        os.killpg(process.pid, number)
        out, _ = process.communicate(timeout=60)  # the pipe ends when the JVM has ended
    finally:
        process.kill()
    assert (process.returncode, out) == (128 + number, b"")
    assert not any(os.path.exists(f"/proc/{pid}") for pid in java)
    assert not list(files.iterdir())


def machines(pid: int) -> list[int]:
    """The processes of a JVM that starts, below a process: they are in sessions of their own."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    pids = [int(child) for child in children]
    return [child for child in pids if os.getsid(child) == child] + [
        deep for child in pids for deep in machines(child)
    ]


def stream(broker: BrokerProcess, topic: str, path: Path, program: list[str]) -> subprocess.Popen[str]:
    """Starts an export that runs until a signal stops it, in a process group of its own."""
    words = [
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        "--path",
        str(path),
        "--format",
        "json",
    ]
    words += ["--mode", "continuous", "--checkpoint", str(path.parent / "checkpoint")]
    return subprocess.Popen(
        [*program, "spark-submit", *QUICK, "export", *words],
        env=BARE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=path.parent,
        start_new_session=True,
    )


def wait_for(process: subprocess.Popen[str], happened: Callable[[], bool], event: str) -> None:
    """Waits for an event. Fails if the process ends before."""
    deadline = time.monotonic() + 90
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"not in 90 s: {event}"
        time.sleep(0.1)


def test_lines_of_text_and_values_with_columns(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(1)
    values = ['{"id": 1, "tags": ["a"]}', "no JSON", '{"id": 2}', None]
    produce(broker.bootstrap, name, [{"value": value} for value in values])
    words = ("--bootstrap-server", broker.bootstrap, "--topic", name)
    assert exported(spark, *words, "--path", str(tmp_path / "text"), "--format", "text") == 4
    [file] = (tmp_path / "text").glob("*.txt")
    assert file.read_text().splitlines() == [value or "" for value in values]
    words += ("--path", str(tmp_path / "rows"), "--value-format", "json", "--columns", "offset,value")
    done = export.run(spark, export.parse([*words, "--on-bad-record", "drop"]))
    assert (done.rows, done.bad_records) == (3, 1)
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [(row.offset, row.value.id, row.value.tags) for row in rows] == [
        (0, 1, ["a"]),
        (2, 2, None),
        (3, None, None),
    ]


def test_a_record_that_does_not_parse_fails_the_job_at_once(
    broker: BrokerProcess, topic: Make, tmp_path: Path, kcli_program: list[str]
) -> None:
    name = topic(1)
    produce(broker.bootstrap, name, [{"value": value} for value in ('{"id": 1}', "no JSON")])
    words = ["--bootstrap-server", broker.bootstrap, "--topic", name, "--path", str(tmp_path / "rows")]
    words += ["--value-format", "json", "--value-schema", "id bigint", "--columns", "value"]
    words += ["--progress-interval", "0"]
    done = subprocess.run(
        [*kcli_program, "spark-submit", *QUICK, "export", *words],
        env=BARE | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (1, "")
    where, last = done.stderr.splitlines()
    wrong = "the value is not JSON of id bigint"
    assert last == f"export: a record does not parse, topic {name}, partition 0, offset 1: {wrong}"
    log = Path(where.removeprefix("export: the log of Spark is ")).read_text()
    assert 1 <= log.count(": Exception in task ") < 4  # Spark itself would try four times


def test_an_export_without_a_broker(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kcli.testing.broker_process import BrokerProcess

    with BrokerProcess(tmp_path / "broker") as own:
        produce(own.bootstrap, "t", [{"value": f"v{nth}"} for nth in range(20)])
    settings = tmp_path / "pipeline.properties"
    settings.write_text("bootstrap.servers=nobody:1\nexport.format=text\n")
    words = ["--config", str(settings), "--log-dir", f"{tmp_path}/broker/data", "--topic", "t"]
    words += ["--path", str(tmp_path / "out")]
    assert export.main([*words, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        f"export 20 offsets of 1 partitions to {tmp_path}/out as text (batch)"
    )
    assert exported(spark, *words) == 20
    [file] = (tmp_path / "out").glob("*.txt")
    assert file.read_text().splitlines() == [f"v{nth}" for nth in range(20)]


def test_a_batch_job_is_cut_off_on_sigterm(spark: SparkSession) -> None:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(60)
        yield from batches

    frame = spark.range(10).mapInArrow(slow, "id bigint")
    timer = threading.Timer(2, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    began = time.monotonic()
    with pytest.raises(JobError, match="stopped on request before the batch was done"):
        run_batch(spark, JobOptions(progress_interval=0), "slow", frame.collect)
    timer.join()
    assert time.monotonic() - began < 50
