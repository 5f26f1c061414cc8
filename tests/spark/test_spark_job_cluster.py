"""A standalone cluster out of the PySpark package: a master, workers, and a file of the user; kcli is shipped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from kcli.spark.submit import spark_home, worker_python
from rigs.librdkafka import consume, produce

if TYPE_CHECKING:
    from kcli.testing.broker_process import BrokerProcess

START_SECONDS = 90
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

JOB = """
import json, os, sys, time
from pyspark.sql import SparkSession

def where(batches):
    import kcli.spark.data_source, pyarrow
    time.sleep(1)
    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.RecordBatch.from_pydict({"rows": [rows], "kcli": [kcli.__file__], "place": [os.getcwd()]})

spark = SparkSession.builder.appName("mine").getOrCreate()
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
rows = spark.read.format("kcli").options(**options).load()
found = rows.mapInArrow(where, "rows bigint, kcli string, place string").collect()
rows.select("key", "value").write.format("kcli").options(**options, topic=sys.argv[3]).mode("append").save()
print(json.dumps([row.asDict() for row in found]))
"""


@pytest.fixture
def master(tmp_path: Path, workers: int) -> Iterator[str]:
    """Its URL; workers of one core and little memory have joined."""
    with ExitStack() as stack:
        url = daemon(stack, tmp_path, "master.Master", r"Starting Spark master at (spark://\S+)")
        for nth in range(workers):
            words = ["--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / f"work{nth}"), url]
            daemon(stack, tmp_path, "worker.Worker", r"Successfully registered with master (\S+)", *words)
        yield url


def daemon(stack: ExitStack, directory: Path, name: str, ready: str, *words: str) -> str:
    """Start a daemon of Spark; what its log says when it is there."""
    home = spark_home()
    environment = {"PATH": os.environ["PATH"], "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
    environment |= {"SPARK_DAEMON_JAVA_OPTS": QUICK, "SPARK_LOCAL_IP": "127.0.0.1"}
    log = directory / f"{name}-{len(list(directory.iterdir()))}.log"
    file: IO[str] = stack.enter_context(log.open("w"))
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *words]
    process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, cwd=directory)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    deadline = time.monotonic() + START_SECONDS
    while (match := re.search(ready, log.read_text())) is None:
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return match[1]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_job_on_workers_of_a_cluster_and_a_file_of_the_user(
    master: str,
    broker: BrokerProcess,
    topic: Callable[..., str],
    kcli_program: list[str],
    tmp_path: Path,
    workers: int,
) -> None:
    source, target = topic(2), topic(1)
    produce(broker.bootstrap, source, [{"key": f"k{nth}", "value": f"v{nth}"} for nth in range(100)])
    job = tmp_path / "mine.py"
    job.write_text(JOB)
    words = ["--master", master, "--driver-memory", "512m", "--executor-memory", "512m"]
    words += ["--conf", "spark.scheduler.minRegisteredResourcesRatio=1.0", "--driver-java-options", QUICK]
    words += ["--conf", "spark.scheduler.maxRegisteredResourcesWaitingTime=90s"]
    words += ["--conf", f"spark.executor.extraJavaOptions={QUICK}"]
    done = subprocess.run(
        [*kcli_program, "spark-submit", *words, str(job), broker.bootstrap, source, target],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(worker_python(tmp_path, "")),  # with compiled modules: it saves seconds
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    assert sum(row["rows"] for row in rows) == 100
    assert len({row["place"] for row in rows}) == workers, "each worker did something"
    assert all("kcli.zip" in row["kcli"] for row in rows)
    assert sorted(message.value() for message in consume(broker.bootstrap, target, 100)) == sorted(
        b"v%d" % nth for nth in range(100)
    )
