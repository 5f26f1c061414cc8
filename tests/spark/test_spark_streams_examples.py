"""The examples of docs/examples: word count as a user runs it, fraud in the tests' own session."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigs.librdkafka import consume
from rigs.streams_support import MINUTE_MS, START_MS, received, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(autouse=True)
def one_task(spark: SparkSession) -> Iterator[None]:
    """Each shuffle partition is a task with a state store in every micro-batch; these streams have a few rows."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def counted(broker: BrokerProcess, topic: str, count: int) -> list[tuple[str, int]]:
    messages = consume(broker.bootstrap, topic, count)
    return [(message.key().decode(), int.from_bytes(message.value(), "big")) for message in messages]


def test_word_count_continues_from_its_checkpoint(
    spark: SparkSession, broker: BrokerProcess, topic: Make, kcli_program: list[str], tmp_path: Path
) -> None:
    """By spark-submit first. A second run continues from the checkpoint; without it, from the first record."""
    from kcli.spark.streams import Streams

    lines, counts = topic(2), topic()
    send(broker, lines, (None, "All streams lead to Kafka!"), (None, None), (None, ""))
    words = [str(EXAMPLES / "word_count.py"), "--bootstrap-server", broker.bootstrap, "--once"]
    topics = ["--input", lines, "--output", counts, "--checkpoint", str(tmp_path / "checkpoint")]
    quick = ["--conf", "spark.sql.shuffle.partitions=1", "--driver-java-options", QUICK]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))
    }
    submitted = subprocess.run(
        [*kcli_program, "spark-submit", *quick, *words, *topics],
        capture_output=True,
        text=True,
        timeout=200,
        env=environment,
        check=False,
    )
    assert submitted.returncode == 0, submitted.stderr[-3000:]
    first = [("all", 1), ("kafka", 1), ("lead", 1), ("streams", 1), ("to", 1)]
    assert sorted(counted(broker, counts, 5)) == first
    send(broker, lines, (None, "hello kafka, hello streams"))

    def run() -> None:
        app = Streams(
            spark,
            "word-count",
            bootstrap_servers=broker.bootstrap,
            checkpoint=str(tmp_path / "checkpoint"),
            # What decides which micro-batches are written already must not outlive the checkpoint.
            sink_options={"kafka.transactional.id": f"of-{counts}"},
        )
        runpy.run_path(str(EXAMPLES / "word_count.py"))["word_count"](app, lines, counts)
        app.run_available()

    run()
    more = [("hello", 2), ("kafka", 2), ("streams", 2)]
    assert sorted(counted(broker, counts, 8)[5:]) == more
    shutil.rmtree(tmp_path / "checkpoint")
    run()
    assert sorted(counted(broker, counts, 14)[8:]) == sorted({**dict(first), **dict(more)}.items())


def test_fraud_reports_each_card_over_its_limit(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    from kcli.spark.streams import Streams

    payments, cards, alarms, unknown = topic(), topic(2), topic(), topic()
    ada, bob = {"owner": "Ada", "limit": 500}, {"owner": "Bob", "limit": 500}
    send(broker, cards, ("c1", {**ada, "limit": 1}), ("c2", bob), ("c3", ada), ("c1", ada), ("c3", None))
    send(
        broker,
        payments,
        ("c1", {"amount": 400, "place": "Oslo"}, 0),
        ("c2", {"amount": 500, "place": "Rome"}, 1_000),  # no more than the limit
        ("c3", {"amount": 900}, 2_000),
        (None, {"amount": 1}, 3_000),
        ("c2", {"amount": 100, "place": "Rome"}, MINUTE_MS + 1),  # another minute
        ("c1", {"amount": 200, "place": "Rome"}, 59_999),
        ("c1", None, 50_000),
        ("c2", {"amount": 1}, 5 * MINUTE_MS),  # the first minutes are over
    )
    app = Streams(spark, "fraud", bootstrap_servers=broker.bootstrap, checkpoint=str(tmp_path))
    build = runpy.run_path(str(EXAMPLES / "fraud.py"))["fraud"]
    build(app, payments=payments, cards=cards, alarms=alarms, unknown=unknown)
    app.run_available()
    ((key, value),) = received(broker, alarms, 1)
    assert json.loads(key or "") == {"key": "c1", "start": START_MS, "end": START_MS + MINUTE_MS}
    assert json.loads(value) == {"owner": "Ada", "payments": 2, "places": ["Oslo", "Rome"], "total": 600}
    others = received(broker, unknown, 2)
    assert [(key, json.loads(value)["amount"]) for key, value in others] == [("c3", 900), (None, 1)]
