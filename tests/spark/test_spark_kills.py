"""Topic to Spark to topic through kill -9 of the driver, of a Python worker and of the broker: every row once.

Each round kills all three. `KCLI_KILLS=20 pytest --full tests/spark/test_spark_kills.py` continues for twenty rounds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.spark.submit import write_conf
from kcli.testing.broker_process import BrokerProcess
from rigs.librdkafka import produce
from rigs.pyspark_processes import TASK_DAEMON

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("KCLI_KILLS", "1"))
ROWS_PER_ROUND = 2_500
ROWS_PER_BATCH = 500
PATIENCE_SECONDS = 120.0

JOB = """
import sys
from pyspark.sql import SparkSession
bootstrap, rows, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2,4]").getOrCreate()
servers = {"kafka.bootstrap.servers": bootstrap}
source = spark.readStream.format("kcli").options(subscribe="source", startingOffsets="earliest", **servers)
frame = source.option("maxOffsetsPerTrigger", rows).load().select("key", "value")
sink = frame.writeStream.format("kcli").options(topic="target", checkpointLocation=checkpoint, **servers)
sys.exit(0 if sink.trigger(availableNow=True).start().awaitTermination(280) else 3)
"""


class Job:
    """The query in its own process group; with the shared checkpoint it continues where it was."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        (directory / "job.py").write_text(JOB)
        write_conf(directory / "conf", directory / "none", is_local=True)
        self.directory, self.bootstrap = directory, bootstrap
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "SPARK_CONF_DIR": str(self.directory / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PYSPARK_SUBMIT_ARGS": '--driver-java-options "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" pyspark-shell',
        }
        command = [sys.executable, str(self.directory / "job.py"), self.bootstrap, str(ROWS_PER_BATCH)]
        with (self.directory / "job.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(self.directory / "checkpoint")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        return self.process

    def kill(self) -> None:
        """The driver, its JVM and all its workers at once."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def kill_a_worker(self) -> None:
        """A Python process that serves tasks: a child of a pyspark daemon of this job."""
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            daemons = {pid for pid, _, line in self._processes() if line.endswith(TASK_DAEMON)}
            for pid, parent, _ in self._processes():
                if parent in daemons:
                    os.kill(pid, signal.SIGKILL)
                    return
            time.sleep(0.02)
        raise AssertionError(f"there was no worker; {self.tail()}")

    def _processes(self) -> Iterator[tuple[int, int, bytes]]:
        """Process id, parent and command line of each process of the job's session."""
        assert self.process is not None
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    line = (entry / "cmdline").read_bytes()
                except OSError:
                    continue  # it ended meanwhile
                if int(fields[3]) == self.process.pid:
                    yield int(entry.name), int(fields[1]), line

    def tail(self) -> str:
        return (self.directory / "job.log").read_text()[-3000:]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    overrides = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    with BrokerProcess(tmp_path / "broker", overrides) as process:
        yield process


@contextmanager
def watching(broker: BrokerProcess) -> Iterator[Callable[[], int]]:
    """Asks how far the target's partitions reach, committed or not, with one client for all questions."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "watch"})

    def reached() -> int:
        try:
            return sum(
                consumer.get_watermark_offsets(TopicPartition("target", nth), 5)[1] for nth in range(2)
            )
        except KafkaException:
            return 0

    try:
        yield reached
    finally:
        consumer.close()


def written(broker: BrokerProcess) -> int:
    with watching(broker) as reached:
        return reached()


def wait_until_written(job: Job, broker: BrokerProcess, offset: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    with watching(broker) as reached:
        while reached() < offset:
            assert job.process is not None and job.process.poll() is None, f"the job ended; {job.tail()}"
            assert time.monotonic() < deadline, f"nothing more is written; {job.tail()}"
            time.sleep(0.05)


def committed(broker: BrokerProcess) -> list[bytes]:
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": uuid.uuid4().hex,
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    try:
        consumer.assign([TopicPartition("target", nth, 0) for nth in range(2)])
        values, ends = [], 0
        while ends < 2:
            message = consumer.poll(20)
            assert message is not None
            if message.error() is not None:
                ends += 1
            else:
                values.append(message.value())
        return values
    finally:
        consumer.close()


@pytest.mark.full  # the test of an aggregate that is killed runs always
@pytest.mark.timeout(300 + 200 * ROUNDS)
def test_every_row_arrives_once_through_kills_of_driver_worker_and_broker(
    own_broker: BrokerProcess, tmp_path: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": own_broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in ("source", "target")]).values():
        future.result(30)
    job, sent = Job(tmp_path, own_broker.bootstrap), 0
    try:
        for _ in range(ROUNDS):
            rows = range(sent, sent + ROWS_PER_ROUND)
            produce(
                own_broker.bootstrap,
                "source",
                [{"key": b"%d" % row, "value": b"%d" % row, "partition": row % 2} for row in rows],
            )
            before = written(own_broker)
            job.start()
            wait_until_written(job, own_broker, before + ROWS_PER_BATCH + 1)
            job.kill()
            before = written(own_broker)
            process = job.start()
            wait_until_written(job, own_broker, before + 1)
            job.kill_a_worker()
            wait_until_written(job, own_broker, before + 2 * ROWS_PER_BATCH)
            own_broker.kill()
            own_broker.start()
            assert process.wait(PATIENCE_SECONDS) == 0, job.tail()
            sent += ROWS_PER_ROUND
            assert sorted(map(int, committed(own_broker))) == list(range(sent))
    finally:
        job.kill()
