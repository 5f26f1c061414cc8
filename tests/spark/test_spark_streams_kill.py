"""An aggregate's changes, written through foreachBatch, while its driver is killed: each change once."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.spark.submit import write_conf
from rigs.librdkafka import produce
from rigs.streams_support import received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]
KEYS = 4
BATCHES = 5
ROWS_PER_BATCH = 8
KILL_AT = 2 * KEYS
"""So many changes are written, if not committed, when the driver is killed."""
PATIENCE_SECONDS = 130.0

JOB = """
import sys
from pyspark.sql import SparkSession
from kcli.spark.streams import Streams, Text

def run(spark, bootstrap, source, target, rows, checkpoint):
    options = {"maxOffsetsPerTrigger": rows}
    app = Streams(spark, "kill", bootstrap_servers=bootstrap, checkpoint=checkpoint, source_options=options)
    app.stream(source, key=Text(), value=Text()).group_by_key().count().to(target)
    app.run_available()

if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2,4]").config("spark.sql.shuffle.partitions", "1")
    run(builder.getOrCreate(), *sys.argv[1:])
"""


@contextlib.contextmanager
def watching(broker: BrokerProcess, topic: str) -> Iterator[Callable[[], int]]:
    """Asks where the topic ends, committed or not, with one client for all questions."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "watch"})
    try:
        yield lambda: int(consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)[1])
    finally:
        consumer.close()


def test_changes_of_an_aggregate(
    spark: SparkSession, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The second driver is the tests' own session: all it has of the first is the checkpoint."""
    source, target = topic(), topic()
    rows = BATCHES * ROWS_PER_BATCH
    produce(broker.bootstrap, source, [{"key": f"k{nth % KEYS}", "value": str(nth)} for nth in range(rows)])
    (tmp_path / "job.py").write_text(JOB)
    write_conf(tmp_path / "conf", tmp_path / "none", is_local=True)
    environment = os.environ | {
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYSPARK_SUBMIT_ARGS": '--driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell',
    }
    arguments = [broker.bootstrap, source, target, str(ROWS_PER_BATCH), str(tmp_path / "checkpoint")]
    log = tmp_path / "job.log"
    with log.open("wb") as output:
        job = subprocess.Popen(
            [sys.executable, str(tmp_path / "job.py"), *arguments],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        with watching(broker, target) as reached:
            while reached() < KILL_AT:
                assert job.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)  # the driver, its JVM and all its workers
        job.wait()
    runpy.run_path(str(tmp_path / "job.py"))["run"](spark, *arguments)
    changes = received(broker, target, BATCHES * KEYS)
    rows_per_key = ROWS_PER_BATCH // KEYS
    expected = [str(count) for count in range(rows_per_key, BATCHES * rows_per_key + 1, rows_per_key)]
    assert {key: [value for k, value in changes if k == key] for key, _ in changes} == {
        f"k{nth}": expected for nth in range(KEYS)
    }
    # Nothing is open, and nothing follows: an end that is beyond the last change by the transactions' marks only.
    assert not left_over(broker, target, changes)


def left_over(broker: BrokerProcess, topic: str, seen: list[tuple[str | None, str]]) -> list[bytes | None]:
    """Values of committed records after those seen."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "rest", "enable.partition.eof": True}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes | None] = []
        while (message := consumer.poll(20)) is not None:
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values[len(seen) :]
            else:
                raise AssertionError(error)
        raise AssertionError("the topic's end did not come")
    finally:
        consumer.close()
