"""The tasks of the Spark connectors, with a program in the place of spark-submit: start, end, stop, log and offsets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kcli.config.properties import load
from kcli.connectors.interface import Config, JobProgress
from kcli.formats.connect.errors import ConnectException
from kcli.model.topic_partition import TopicPartition
from kcli.spark.connectors.classes import ExportTask, FileTask, IngestTask, TransformTask
from kcli.spark.connectors.process import TAIL_LINES, JobProcess
from kcli.spark.connectors.task import SparkTask
from kcli.spark.jobs.export.options import ExportOptions
from kcli.spark.jobs.shared.job import load_job
from rigs.spark_jobs import checkpoint

PATIENCE_S = 20.0
LAUNCHER = """
import os, signal, subprocess, sys, time
print("words", *sys.argv[1:], flush=True)
directory, mode = os.environ["JOB_DIRECTORY"], os.environ["JOB_MODE"]
with open(f"{directory}/runs", "a") as file:
    file.write(f"{os.getpid()}\\n")
if mode == "fail":
    for nth in range(100):
        print(f"line {nth}")
    sys.stdout.flush()
    print("no brokers \\N{SNOWMAN}", file=sys.stderr)
    sys.exit(3)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # As PySpark's daemon, the child has a process group of its own.
    child = subprocess.Popen([sys.executable, "-S", "-c", "import os, time; os.setpgid(0, 0); time.sleep(600)"])
    print("child", child.pid, flush=True)
if mode != "end":
    print("ready", flush=True)
    time.sleep(600)
"""


@dataclass
class Context:
    config: Config = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=lambda: {"bootstrap.servers": "broker:9092"})


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Returns a program that stands for spark-submit. Its mode says how it behaves."""

    def make(mode: str) -> list[str]:
        monkeypatch.setenv("JOB_MODE", mode)
        monkeypatch.setenv("JOB_DIRECTORY", str(tmp_path))
        return [sys.executable, "-S", "-c", LAUNCHER]

    return make


@contextmanager
def running(task: SparkTask, config: Config, **client: str) -> Iterator[SparkTask]:
    task.context = Context(config, {"bootstrap.servers": "broker:9092"} | client)
    try:
        task.start(config)
        yield task
    finally:
        task.stop()


def export(directory: Path, **more: str) -> Config:
    return {
        "topics": "a, b",
        "export.path": str(directory / "out"),
        "export.checkpoint": str(directory / "checkpoint"),
        **more,
    }


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.02)


def logged(caplog: pytest.LogCaptureFixture, start: str) -> str:
    """The line of the job's log that begins so."""
    until(lambda: any(line.startswith(start) for line in caplog.messages))
    return next(line for line in caplog.messages if line.startswith(start))


def checks(task: SparkTask) -> bool:
    task.check()
    return True


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


Launcher = Callable[[str], list[str]]


def test_a_job_gets_the_options_the_topics_and_the_cluster(
    tmp_path: Path, launcher: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    config = export(
        tmp_path,
        **{"export.write.option": "a=1,b=2", "export.include.headers": "true ", "spark.master": "local[1]"},
    )
    with running(ExportTask(launcher("wait")), config) as task:
        words = logged(caplog, "words").split()[1:]
        assert words[0] == "--properties-file" and load(words[1]) == {"spark.master": "local[1]"}
        assert words[2:] == [
            "export", "--bootstrap-server=broker:9092", "--topic=a,b", "--mode=continuous",
            f"--path={tmp_path}/out", f"--checkpoint={tmp_path}/checkpoint",
            "--write-option=a=1", "--write-option=b=2", "--include-headers",
        ]  # fmt: skip
        task.check()
    assert not os.path.exists(words[1]), "the files are deleted with the job"


def test_secrets_are_in_files_and_not_on_the_command_line(
    tmp_path: Path, launcher: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    url = "postgresql://me:hush@host/db"
    config = {
        "ingest.topic": "t", "ingest.format": "jdbc", "ingest.url": url, "ingest.table": "x",
        "ingest.incrementing.column": "id", "ingest.checkpoint": str(tmp_path / "c"), "spark.ssl.keyPassword": "hush",
    }  # fmt: skip
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush";'
    client = {"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas, "linger.ms": "5"}
    with running(IngestTask(launcher("wait")), config, **client):
        words = logged(caplog, "words").split()[1:]
        files = [word.rpartition("=")[2] for word in words if ".properties" in word]
        assert "hush" not in " ".join(words)
        assert [dict(load(file)) for file in files] == [
            {"spark.ssl.keyPassword": "hush"},
            {"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas},
            {"ingest.url": url},
        ]
        assert {os.stat(file).st_mode & 0o777 for file in files} == {0o600}


def test_a_secret_of_an_option_with_several_values_is_in_a_file(
    tmp_path: Path, launcher: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    config = export(tmp_path, **{"export.write.option": "user=u,password=hush"})
    with running(ExportTask(launcher("wait")), config):
        words = logged(caplog, "words").split()[1:]
        assert "hush" not in " ".join(words)
        options = load_job("export").parse(words[words.index("export") + 1 :])
    assert isinstance(options, ExportOptions)
    assert options.write_option == ("user=u", "password=hush")


def test_a_program_of_the_user_gets_its_arguments(
    launcher: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with running(
        FileTask(launcher("wait")), {"job.file": "/x/y.py ", "job.arguments": "--day 'a b'"}
    ) as task:
        assert logged(caplog, "words") == "words /x/y.py --day a b"
        assert task.progress() == JobProgress(topics=[])


def test_an_error_of_the_job_has_the_end_of_its_log(tmp_path: Path, launcher: Launcher) -> None:
    with running(ExportTask(launcher("fail")), export(tmp_path)) as task:
        with pytest.raises(ConnectException) as raised:
            until(lambda: not checks(task))
        text = str(raised.value)
        assert text.startswith("The Spark job has ended with exit code 3. The end of its log:\n")
        assert text.endswith("line 99\nno brokers \N{SNOWMAN}")
        assert len(text.splitlines()) == TAIL_LINES + 1


def test_a_job_that_ends_runs_again_after_the_interval(tmp_path: Path, launcher: Launcher) -> None:
    runs = tmp_path / "runs"

    def count() -> int:
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    with running(ExportTask(launcher("end")), export(tmp_path, **{"run.interval.ms": "0"})) as task:
        until(lambda: checks(task) and count() >= 3)
    runs.unlink()
    with running(ExportTask(launcher("end")), export(tmp_path, **{"run.interval.ms": "-1"})) as task:
        until(lambda: checks(task) and count() == 1 and task._next_run == float("inf"))
        task.check()
        assert count() == 1


def test_a_stop_sends_sigterm(tmp_path: Path, launcher: Launcher, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with running(ExportTask(launcher("wait")), export(tmp_path)) as task:
        logged(caplog, "ready")
        task.stop()
        assert "killed" not in caplog.text
        assert not is_alive(int((tmp_path / "runs").read_text()))


def test_a_stop_kills_all_processes_of_a_job_that_does_not_end(
    tmp_path: Path, launcher: Launcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with running(ExportTask(launcher("stubborn")), export(tmp_path, **{"stop.timeout.ms": "50"})) as task:
        logged(caplog, "ready")
        child = int(logged(caplog, "child").split()[1])
        task.stop()
        assert "did not stop within" in caplog.text
        assert not is_alive(child) and not is_alive(int((tmp_path / "runs").read_text()))


def test_a_task_that_is_killed_leaves_no_job(tmp_path: Path, launcher: Launcher) -> None:
    files = tmp_path / "files"
    files.mkdir()
    code = (
        "import sys, time; from kcli.spark.connectors.process import JobProcess; "
        f"JobProcess(sys.argv[1:], {str(files)!r}); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, *launcher("stubborn")]) as task:
        until(lambda: (tmp_path / "runs").exists() and (tmp_path / "runs").read_text().endswith("\n"))
        job = int((tmp_path / "runs").read_text())
        task.send_signal(signal.SIGKILL)
    until(lambda: not is_alive(job) and not files.exists())


def test_a_command_that_cannot_start_ends_with_an_error(tmp_path: Path) -> None:
    process = JobProcess(["/no/such/program"], str(tmp_path))
    until(lambda: process.exit_code() is not None)
    assert process.exit_code() == 1
    assert "No such file or directory: '/no/such/program'" in process.tail()


def test_offsets_of_topics_come_from_the_last_committed_micro_batch(
    tmp_path: Path, launcher: Launcher
) -> None:
    sql = {"topics": "a", "transform.sql": "SELECT * FROM a", "transform.target.topic": "t"}
    path = tmp_path / "checkpoint"
    config = {**sql, "transform.checkpoint": path.as_uri()}
    with running(TransformTask(launcher("wait")), config) as task:
        assert task.progress() == JobProgress(topics=[])
        checkpoint(path, {"a": {"0": 5, "1": 6}}, batch=7, planned=8)
        offsets = {TopicPartition("a", 0): 5, TopicPartition("a", 1): 6}
        assert task.progress() == JobProgress(topic_offsets=offsets, topics=["a"])


def test_offsets_of_other_sources_are_source_offsets(tmp_path: Path, launcher: Launcher) -> None:
    checkpoint(tmp_path / "all" / "q", {"a": {"0": 5}}, {"position": 9}, {"shards": [1, 2]}, 4)
    config = {"job.file": "x.py", "job.checkpoint": str(tmp_path / "all")}
    with running(FileTask(launcher("wait")), config) as task:
        progress = task.progress()
    assert progress.topics == ["a"]
    assert progress.source_offsets == [
        ({"query": "q", "kafka_topic": "a", "kafka_partition": 0}, {"kafka_offset": 5}),
        ({"query": "q", "source": 0}, {"position": 9}),
        ({"query": "q", "source": 1}, {"offset": '{"shards": [1, 2]}'}),
        ({"query": "q", "source": 2}, {"offset": "4"}),
    ]


def test_a_checkpoint_elsewhere_is_not_read(launcher: Launcher, caplog: pytest.LogCaptureFixture) -> None:
    config = {"job.file": "x.py", "job.checkpoint": "s3a://bucket/c"}
    with running(FileTask(launcher("wait")), config) as task:
        assert task.progress() == JobProgress(topics=[])
    assert (
        "No offsets are reported, because the checkpoint s3a://bucket/c is not in a directory" in caplog.text
    )
