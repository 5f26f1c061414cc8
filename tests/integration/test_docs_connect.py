"""docs/connect.md: the connector of the page runs in a worker, and continues after a restart."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer

from kcli.local_cluster.ports import free_port
from kcli.testing.broker_process import BrokerProcess

PAGE = Path("docs/connect.md")
PATIENCE_SECONDS = 60.0

WORKER = """
bootstrap.servers={bootstrap}
listeners=http://127.0.0.1:{port}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
offset.storage.file.filename=offsets
offset.flush.interval.ms=100
plugin.path=plugins
"""


def block(language: str) -> str:
    """The only block of the page in a language."""
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(text)


def test_the_connector_has_few_lines() -> None:
    code = block("python").partition("\n\n\n")[2]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 15


def test_the_connector_runs_and_continues_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/clock.py").write_text(block("python"))
    (tmp_path / "clock.properties").write_text(block("properties"))
    with BrokerProcess(tmp_path / "broker", {"group.initial.rebalance.delay.ms": "0"}) as broker:
        (tmp_path / "worker.properties").write_text(
            WORKER.format(bootstrap=broker.bootstrap, port=free_port())
        )
        with _consumer(broker.bootstrap) as consumer:
            ticks: list[str] = []
            for run in (1, 2):
                with _worker(tmp_path):
                    count = len(ticks) + 3
                    while len(ticks) < count:
                        ticks += _next(consumer, PATIENCE_SECONDS)
                while tick := _next(consumer, 0.5):
                    ticks += tick
                assert ticks == [f'"tick {number}"' for number in range(1, len(ticks) + 1)], f"run {run}"


@contextlib.contextmanager
def _consumer(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["ticks"])
    try:
        yield consumer
    finally:
        consumer.close()


def _next(consumer: Consumer, seconds: float) -> list[str]:
    """The next tick, or nothing if none comes in this time."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        message = consumer.poll(left)
        value = None if message is None or message.error() is not None else message.value()
        if value is not None:
            return [value.decode()]
    return []


@contextlib.contextmanager
def _worker(directory: Path) -> Iterator[None]:
    with (directory / "worker.log").open("ab") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "kcli", "connect-standalone", "worker.properties", "clock.properties"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ,
            cwd=directory,
        )
    try:
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE_SECONDS)
