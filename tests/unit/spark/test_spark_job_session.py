"""How jobs report errors of Spark, silent brokers and a slow start; no Spark needed."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

from kcli.spark.client.cluster import ClientSettings
from kcli.spark.jobs.shared import session
from kcli.spark.jobs.shared.broker_watch import BrokerWatch
from kcli.spark.jobs.shared.failures import cause
from kcli.spark.jobs.shared.progress import stream_progress
from kcli.spark.submit import SPARK_BEGAN, SPARK_LOG

ROOT = Path(__file__).resolve().parents[3]

PY4J = """\
An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3391)
"""
UNREADABLE = """\
[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///a.csv.  SQLSTATE: KD001

JVM stacktrace:
org.apache.spark.SparkException
\tat x
Caused by: org.apache.spark.SparkIllegalArgumentException: CSV header does not conform to the schema.
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PY4J, "Could not parse Master URL: 'local[x]'"),
        (
            UNREADABLE,
            UNREADABLE.splitlines()[0] + " (CSV header does not conform to the schema.)",
        ),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_an_error_of_java_is_one_line_without_classes(text: str, said: str) -> None:
    assert cause(text) == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'Exception in thread "main" org.apache.spark.SparkException: Master must be known',
            "Master must be known",
        ),
        ("Error: Unrecognized option: --nosuch", "Unrecognized option: --nosuch"),
        (
            "26/11/28 11:00:22 ERROR StandaloneSchedulerBackend: All masters are unresponsive!",
            "All masters are unr",
        ),
    ],
)
def test_the_log_of_spark_names_the_cause_of_its_end(line: str, said: str, tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(f"WARNING: Using incubator modules\n{line}\n\tat x\nUsage: spark-submit\n")
    lost = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    assert session.said(lost, str(log)).startswith(f"Spark did not start: {said}")
    assert session.said(Py4JNetworkError("x"), str(log)).startswith(
        f"Spark's virtual machine has ended: {said}"
    )
    assert session.said(Py4JNetworkError("x"), None) == "Spark's virtual machine has ended"


def test_a_traceback_is_in_the_named_file_and_not_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark.log"
    monkeypatch.setenv(SPARK_LOG, str(log))
    try:
        raise KeyError("missing")
    except KeyError as error:
        session.report("sql", error)
    assert capsys.readouterr().err == f"sql: the log of Spark is {log}\nsql: 'missing'\n"
    assert "Traceback (most recent call last)" in log.read_text()
    monkeypatch.delenv(SPARK_LOG)  # the user has asked for Spark's log
    session.report("sql", ValueError("one"))
    assert capsys.readouterr().err == "ValueError: one\nsql: one\n"


def test_figures_are_unknown_if_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{unused.getsockname()[1]}"
        watch = BrokerWatch(ClientSettings(servers))
        assert watch.silence() is None
        watch._answered -= 7
        with watch:
            silence = watch.silence()
    assert silence is not None
    assert silence.startswith(f"no broker of {servers} has answered since ")
    last = SimpleNamespace(sources=[], durationMs={}, processedRowsPerSecond=0, batchId=1)
    query = SimpleNamespace(lastProgress=last)
    assert stream_progress(query, 5) == "5 rows, 0 rows/s, batch 1 took 0.0 s"
    assert stream_progress(query, 5, silence) == f"5 rows, lag unknown: {silence}"
    offline = BrokerWatch(None)
    offline._answered -= 7
    assert offline.silence() is None


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_slow_start_is_announced_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SPARK_BEGAN, "0.0")  # long ago
    for terminal, announce, said in (
        (_Terminal(), True, True),
        (_Terminal(), False, False),
        (io.StringIO(), True, False),
    ):
        with session._announced("sql", terminal, announce):
            while said and not terminal.getvalue():
                pass
        assert terminal.getvalue() == (f"sql: {session.STARTING}\n" if said else "")


def test_ctrl_c_ends_a_driver_without_a_traceback() -> None:
    code = (
        "import importlib, sys, time\n"
        "from kcli.spark.driver import drive\n"
        "def slow(name):\n    print(flush=True)\n    time.sleep(60)\n"
        "importlib.import_module = slow\n"
        "drive('sql')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == -signal.SIGINT
