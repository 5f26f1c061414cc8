"""`kcli cluster`: three real nodes of one parent, a node that is killed or paused, a rolling stop, and the same data
again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kcli.local_cluster.directory import CLUSTER_FILE, CLUSTER_LOCK, lock_holder

PATIENCE_S = 60.0
PARTITIONS = 3
SOON = ("broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=500")
"""Properties with which a killed broker may soon register again."""


def kcli(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kcli", *words], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[str]:
    """The directory of a cluster. Two signals end the cluster quickly: the second one kills the nodes."""
    path = tmp_path / "cluster"
    yield str(path)
    parent = lock_holder(path / CLUSTER_LOCK)
    while parent is not None and lock_holder(path / CLUSTER_LOCK) == parent:
        os.kill(parent, signal.SIGTERM)
        time.sleep(0.3)
    if (path / CLUSTER_FILE).exists():
        assert {row["state"] for row in status(str(path)).values()} == {"down"}


def up(directory: str, *more: str) -> str:
    """Starts the cluster, and returns the addresses for clients."""
    bootstrap = json.loads(kcli("cluster", "up", "--dir", directory, "--daemon", "--output", "json", *more))[
        "bootstrap"
    ]
    assert isinstance(bootstrap, str)
    return bootstrap


def status(directory: str) -> dict[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "kcli", "cluster", "status", "--dir", directory, "--output", "json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.stderr == ""
    return {row["node"]: row for row in map(json.loads, done.stdout.splitlines())}


def wait_until_active(directory: str) -> dict[int, dict[str, object]]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        rows = status(directory)
        if all(row["state"] == "running" and row["broker"] == "active" for row in rows.values()):
            return rows
        assert time.monotonic() < deadline, rows
        time.sleep(0.2)


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(90):
        producer.produce(topic, f"{number:02}", partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def read(bootstrap: str, topic: str) -> list[str]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < 90 and time.monotonic() < deadline:
        found += [message.value().decode() for message in consumer.consume(90, 0.5) if not message.error()]
    consumer.close()
    return sorted(found)


def test_a_cluster_is_started_watched_stopped_and_started_again(directory: str) -> None:
    overrides = [word for each in SOON for word in ("--override", each)]
    bootstrap = up(directory, "--nodes", "3", "--racks", "a,b,c", *overrides)
    rows = status(directory)
    assert sorted(str(row["quorum"]) for row in rows.values()) == ["leader", "voter", "voter"]
    assert [row["rack"] for row in rows.values()] == ["a", "b", "c"]
    assert bootstrap == ",".join(str(row["address"]) for row in rows.values())
    assert "runs already" in kcli("cluster", "up", "--dir", directory, code=1)

    kcli("topics", "--bootstrap-server", bootstrap, "--create", "--topic", "t", "--partitions", str(PARTITIONS),
         "--replication-factor", "1")  # fmt: skip
    produce(bootstrap, "t")
    assert sorted(row["leads"] for row in wait_until_active(directory).values()) == [1, 1, 1]  # type: ignore[type-var]

    killed = rows[2]["pid"]
    assert isinstance(killed, int)
    os.kill(killed, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while status(directory)[2]["pid"] in (killed, None):
        assert time.monotonic() < deadline, "the parent starts the node again"
        time.sleep(0.2)
    again = wait_until_active(directory)
    assert again[1]["pid"] == rows[1]["pid"] and again[2]["address"] == rows[2]["address"]

    paused = again[3]["pid"]
    assert isinstance(paused, int)
    os.kill(paused, signal.SIGSTOP)
    try:
        assert status(directory)[3]["state"] == "no answer"
    finally:
        os.kill(paused, signal.SIGCONT)
    wait_until_active(directory)

    assert "has stopped" in kcli("cluster", "down", "--dir", directory)
    assert {row["state"] for row in status(directory).values()} == {"down"}
    log = (Path(directory) / "cluster.log").read_text()
    assert "node 2: died (killed by SIGKILL" in log and "did not stop in time" not in log

    assert up(directory) == bootstrap
    assert read(bootstrap, "t") == [f"{number:02}" for number in range(90)]
