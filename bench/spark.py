"""Measures rows per second and CPU-seconds per million rows of Spark's source, tables, offline load and sink.

    python bench/spark.py [--only source|table|offline|sink] [--records 2000000] [--size 100] \
        [--connector spark-sql-kafka.jar,kafka-clients.jar,…]

The script starts a broker with a topic of four partitions, and a local session with as many tasks as there are cores.
The session has the settings of `kcli spark-submit`. In the same run a loop with confluent-kafka reads and writes the
same topic. Spark's own Kafka connector does the same if --connector gives the paths of its jars.

The CPU time is that of all processes that this script has started (JVM and Python workers), without the broker. The
broker's CPU time is a separate figure. Each step runs `--rounds` times, and the fastest round counts. Before these,
`--warm` rounds that do not count let the JVM compile its code. The time of a query before its first row is part of each
figure. The first line shows this time separately. The script prints a table, then one JSON line per figure.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kcli.model.topic_partition import TopicPartition
from kcli.spark.client.cluster import Cluster
from kcli.spark.jobs.export import job as export
from kcli.spark.jobs.export.options import COLUMN_TYPES, TABLE_FORMATS
from kcli.spark.options import sink_options
from kcli.spark.sink.encoder import encode_records
from kcli.spark.sink.producer import Producer
from kcli.spark.submit import worker_python, write_conf
from kcli.testing.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PARTITIONS = 4
KEY_BYTES = 16
LOAD_ROWS = 50_000
"""The number of rows that are encoded at a time when the topic is filled."""

WARM_QUERIES = 5
"""The number of queries over four rows before the first step.

These queries warm up the JVM, because most compiled code is the same for all queries.
"""

COUNT_GOAL = 1.5e6
"""The goal in rows per second for counting a topic on two cores."""

TABLE_GOAL = 1e6
"""The goal in rows per second from a topic to a table on two cores."""

CONNECTOR_GOAL = 2.0
"""The goal for the speed relative to Spark's own connector."""

COLUMNS = "key,value,offset,timestamp"
"""The columns that are written to files and tables."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The fastest round of a step."""

    name: str
    rows_per_second: float
    cpu_s_per_million: float
    broker_cpu_s_per_million: float
    goal: float | None = None

    def __str__(self) -> str:
        goal = f"   goal {self.goal / 1e6} M" if self.goal else ""
        return (
            f"{self.name:<52}{self.rows_per_second / 1e6:>8.3f} M rows/s{self.cpu_s_per_million:>8.2f} CPU-s/M"
            f"{self.broker_cpu_s_per_million:>8.2f} broker{goal}"
        )


def cpu_seconds(pid: int) -> float:
    """Returns the CPU seconds of a process and of its ended children. The result is 0 if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS_PER_SECOND


def descendants(pid: int) -> Iterator[int]:
    """Yields `pid` and the ids of all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # the process has ended meanwhile
            parents.setdefault(parent, []).append(int(entry.name))
    waiting = [pid]
    while waiting:
        yield (each := waiting.pop())
        waiting += parents.get(each, [])


class Bench:
    """A broker with a filled topic, a Spark session, and the figures so far."""

    def __init__(self, broker: BrokerProcess, spark: SparkSession, options: argparse.Namespace) -> None:
        self.broker, self.spark, self.options = broker, spark, options
        self.records: int = options.records
        self.figures: list[Figure] = []
        self.servers = {"kafka.bootstrap.servers": broker.bootstrap}

    @property
    def broker_pid(self) -> int:
        assert self.broker.process is not None
        return self.broker.process.pid

    def cpu(self) -> float:
        ours = set(descendants(os.getpid())) - set(descendants(self.broker_pid))
        return sum(map(cpu_seconds, ours))

    def step(
        self,
        name: str,
        work: Callable[[], int | None],
        goal: float | None = None,
    ) -> None:
        """Measures a step of Spark and prints its figure."""
        print(self.measured(name, work, self.records, self.options.warm, goal), flush=True)

    def loop(self, name: str, work: Callable[[], int]) -> None:
        """Measures a loop in this process and prints its figure.

        Only the CPU time of this process counts, and no warm-up is needed.
        """
        print(self.measured(name, work, self.records, 0, used=time.process_time), flush=True)

    def measured(
        self,
        name: str,
        work: Callable[[], int | None],
        records: int,
        warm: int,
        goal: float | None = None,
        used: Callable[[], float] | None = None,
    ) -> Figure:
        """Runs `work` in rounds and returns the figure of the fastest one.

        `work` returns the number of its rows, or None if it does not know it. `used` returns the CPU time so far
        (default: that of Spark).
        """
        used = used or self.cpu
        best: Figure | None = None
        for nth in range(warm + self.options.rounds):
            cpu, broker_cpu, began = used(), cpu_seconds(self.broker_pid), time.monotonic()
            rows = work()
            seconds = time.monotonic() - began
            cpu, broker_cpu = used() - cpu, cpu_seconds(self.broker_pid) - broker_cpu
            if rows not in (None, records):
                raise SystemExit(f"{name}: {rows} rows instead of {records}")
            millions = records / 1e6
            found = Figure(name, records / seconds, cpu / millions, broker_cpu / millions, goal)
            if nth >= warm and (best is None or found.rows_per_second > best.rows_per_second):
                best = found
        assert best is not None
        self.figures.append(best)
        return best

    def against_connector(self, ours: str, theirs: str) -> None:
        """Prints how many times as fast a step is as the same step with Spark's own connector."""
        rate = {figure.name: figure.rows_per_second for figure in self.figures}
        print(f"{ours}: {rate[ours] / rate[theirs]:.1f} times Spark's connector   goal {CONNECTOR_GOAL}")

    def topic(self, name: str) -> str:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 3})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
        return name

    def fill(self, name: str) -> None:
        """Fills a topic with keys and values of random bytes, which are encoded by columns."""
        rng, size = np.random.default_rng(1), self.options.size
        settings = sink_options({**self.servers, "topic": name})
        with Cluster(settings.client) as cluster:
            cluster.partitions([name])
            producer = Producer(cluster, settings)
            for first in range(0, self.records, LOAD_ROWS):
                rows = min(LOAD_ROWS, self.records - first)
                keys, values = (column(rng, rows, each) for each in (KEY_BYTES, size))
                for area in encode_records(np.arange(rows) * PARTITIONS // rows, keys, values, None):
                    producer.add(TopicPartition(name, area.group), area)
            producer.flush()

    def frame(self, schema: str | None = None, form: str = "kcli", **more: str) -> DataFrame:
        where = {} if "path" in more else self.servers
        reader = self.spark.read.format(form).options(subscribe="full", **where, **more)
        return (reader.schema(schema) if schema else reader).load()


def column(rng: np.random.Generator, rows: int, size: int) -> pa.Array:
    """Returns a column of `rows` different byte strings of `size` bytes."""
    edges = np.arange(rows + 1, dtype=np.int64) * size
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(rng.bytes(rows * size))]
    return pa.Array.from_buffers(pa.large_binary(), rows, buffers)


def length(frame: DataFrame) -> None:
    """Reads the length of every value, so that Spark cannot skip the decoding of values."""
    from pyspark.sql import functions

    frame.agg(functions.sum(functions.length("value"))).collect()


def parquet(frame: DataFrame, scratch: Path) -> None:
    frame.write.mode("overwrite").parquet(str(scratch / "parquet"))


def chosen() -> str:
    return ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in COLUMNS.split(","))


def start_up(bench: Bench) -> None:
    """Measures a query of one row of each partition. This time is contained in every other figure."""
    few = json.dumps({"full": dict.fromkeys(range(PARTITIONS), 1)})
    count = bench.frame("offset bigint", endingOffsets=few).count
    each = bench.measured(f"a query of {PARTITIONS} rows", count, PARTITIONS, WARM_QUERIES)
    cpu_s = each.cpu_s_per_million * PARTITIONS / 1e6
    print(f"{each.name:<52}{PARTITIONS / each.rows_per_second:>8.2f} s{cpu_s:>17.2f} CPU-s")


def sources(bench: Bench, scratch: Path) -> None:
    """Measures reading a topic: counting rows with one column and with all columns, and writing to Parquet by Spark."""
    pair = "key binary, value binary"
    bench.step("source: count, offsets only", bench.frame("offset bigint").count, COUNT_GOAL)
    bench.step("source: count, all columns", bench.frame().count)
    bench.step("source: length of values, key and value", lambda: length(bench.frame(pair)))
    bench.step("source: 4 columns to Parquet by Spark", lambda: parquet(bench.frame(chosen()), scratch))
    bench.loop("confluent-kafka loop: count", lambda: consumed(bench, None))
    bench.loop("confluent-kafka loop: length of values", lambda: consumed(bench, value_length))
    if bench.options.connector:
        theirs = bench.frame(form="kafka")
        bench.step("Spark's connector: count", theirs.count)
        bench.step("Spark's connector: length of values", lambda: length(theirs))
        four = theirs.select(*COLUMNS.split(","))
        bench.step("Spark's connector: 4 columns to Parquet", lambda: parquet(four, scratch))
        bench.against_connector("source: count, offsets only", "Spark's connector: count")
        bench.against_connector(
            "source: length of values, key and value", "Spark's connector: length of values"
        )
        bench.against_connector(
            "source: 4 columns to Parquet by Spark", "Spark's connector: 4 columns to Parquet"
        )


def offline(bench: Bench, scratch: Path) -> None:
    """Measures reading the topic from the broker's files."""
    files = {"path": str(bench.broker.directory / "data"), "readUpTo": "logEnd"}
    pair = "key binary, value binary"
    bench.step("offline: count, offsets only", bench.frame("offset bigint", **files).count)
    bench.step("offline: length of values, key and value", lambda: length(bench.frame(pair, **files)))
    bench.step(
        "offline: 4 columns to Parquet by Spark", lambda: parquet(bench.frame(chosen(), **files), scratch)
    )


def tables(bench: Bench, scratch: Path) -> None:
    """Measures the job `export` to a new table: workers write the files, and the driver commits them."""

    def exported(form: str) -> int:
        to = scratch / uuid.uuid4().hex
        source = ["--bootstrap-server", bench.broker.bootstrap, "--topic", "full", "--columns", COLUMNS]
        options = export.parse([*source, "--path", str(to), "--format", form, "--progress-interval", "0"])
        rows = export.run(bench.spark, options).rows
        shutil.rmtree(to)
        return rows

    for form in TABLE_FORMATS:
        bench.step(f"table: 4 columns to {form.title()}", lambda form=form: exported(form), TABLE_GOAL)


def sinks(bench: Bench, scratch: Path) -> None:
    """Measures writing: topic to topic, with and without transactions, as batch and as stream.

    Also measures writing rows that Spark makes, and the loop.
    """
    target = bench.topic("written")
    pair = "key binary, value binary"

    def write(frame: DataFrame, form: str = "kcli", **more: str) -> None:
        frame.write.format(form).options(topic=target, **bench.servers, **more).mode("append").save()

    def stream(**more: str) -> None:
        reader = bench.spark.readStream.format("kcli").schema(pair)
        rows = reader.options(subscribe="full", startingOffsets="earliest", **bench.servers).load()
        writer = rows.writeStream.format("kcli").options(topic=target, **bench.servers, **more)
        writer = writer.option("checkpointLocation", str(scratch / uuid.uuid4().hex))
        writer.trigger(availableNow=True).start().awaitTermination()

    made = bench.spark.range(bench.records).selectExpr(
        "cast(id as string) as key", f"repeat('x', {bench.options.size}) as value"
    )
    exactly, at_least = ({"kcli.transactional": each} for each in ("true", "false"))
    bench.step("sink: rows made by Spark", lambda: write(made))
    bench.step("sink: topic to topic", lambda: write(bench.frame(pair)))
    bench.step("sink: topic to topic, exactly once", lambda: write(bench.frame(pair), **exactly))
    bench.step("sink: topic to topic, exactly once, lz4", lambda: write(bench.frame(pair), **exactly, **LZ4))
    bench.step("sink: stream, topic to topic", lambda: stream(**at_least))
    bench.step("sink: stream, topic to topic, exactly once", lambda: stream(**exactly))
    bench.loop("confluent-kafka loop: produce", lambda: produced(bench, target))
    if bench.options.connector:
        theirs = bench.frame(form="kafka").select("key", "value")
        bench.step("Spark's connector: topic to topic", lambda: write(theirs, "kafka"))
        bench.against_connector("sink: topic to topic", "Spark's connector: topic to topic")


LZ4 = {"kafka.compression.type": "lz4"}


def value_length(message: Any) -> int:
    return len(message.key()) and len(message.value())


def consumed(bench: Bench, look: Callable[[Any], int] | None) -> int:
    """Reads the topic with confluent-kafka, and calls `look` for each record. Returns the number of records."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Part

    settings = {"bootstrap.servers": bench.broker.bootstrap, "group.id": uuid.uuid4().hex}
    consumer = Consumer(settings | {"queued.max.messages.kbytes": 1 << 18})
    consumer.assign([Part("full", nth, 0) for nth in range(PARTITIONS)])
    found = size = 0
    while found < bench.records:
        messages = consumer.consume(10_000, 10)
        found += len(messages)
        if look is not None:
            size += sum(map(look, messages))
    consumer.close()
    if look is not None and size != found * bench.options.size:
        raise SystemExit(f"the confluent-kafka loop saw {size} bytes of values in {found} records")
    return found


def produced(bench: Bench, target: str) -> int:
    from confluent_kafka import Producer as Librdkafka

    settings: dict[str, Any] = {"bootstrap.servers": bench.broker.bootstrap, "linger.ms": 5, "acks": "all"}
    producer = Librdkafka(settings | {"queue.buffering.max.messages": 500_000})
    value = b"x" * bench.options.size
    for nth in range(bench.records):
        while True:
            try:
                producer.produce(target, value, b"%016d" % nth)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0
    return bench.records


PARTS: dict[str, Callable[[Bench, Path], None]] = {
    "source": sources,
    "offline": offline,
    "table": tables,
    "sink": sinks,
}


def session(directory: Path, connector: str | None) -> SparkSession:
    from pyspark.sql import SparkSession

    write_conf(directory / "conf", directory / "none", is_local=True)
    os.environ |= {
        "SPARK_CONF_DIR": str(directory / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(worker_python(directory, str(ROOT))),
    }
    builder = SparkSession.builder.master(f"local[{len(os.sched_getaffinity(0))}]").appName("kcli bench")
    return (builder.config("spark.jars", connector) if connector else builder).getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--warm", type=int, default=2, help="rounds that do not count")
    parser.add_argument(
        "--connector", help="paths of the jars of Spark's own Kafka connector, comma separated"
    )
    parser.add_argument("--only", choices=sorted(PARTS), help="one part")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kcli-bench-"))
    try:
        overrides = {"log.initial.task.delay.ms": "86400000"}
        with BrokerProcess(directory / "broker", overrides) as broker:
            spark = session(directory, options.connector)
            bench = Bench(broker, spark, options)
            bench.topic("full")
            bench.fill("full")
            start_up(bench)
            for name, part in PARTS.items():
                if options.only in (None, name):
                    part(bench, directory)
            spark.stop()
        for figure in bench.figures:
            print(json.dumps(asdict(figure)))
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
