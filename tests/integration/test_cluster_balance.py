"""`kcli reassign-partitions --balance` and `--decommission` on real processes: a controller and three brokers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kcli.testing.cluster_processes import ClusterProcesses

PARTITIONS = 6
PATIENCE_S = 60
VALUES = [f"{number:04}" for number in range(600)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcesses]:
    # The reader has a group, so the decommission also moves the topic of the groups. Two brokers must be enough for it.
    overrides = {"offsets.topic.num.partitions": "4", "offsets.topic.replication.factor": "2"}
    with ClusterProcesses(tmp_path, brokers=3, overrides=overrides) as started:
        yield started


def kcli(cluster: ClusterProcesses, directory: Path, *words: str) -> str:
    """Runs a tool in `directory` and returns its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "kcli", *words, "--bootstrap-server", cluster.bootstrap],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def described(cluster: ClusterProcesses, directory: Path) -> list[dict[str, Any]]:
    shown = kcli(cluster, directory, "topics", "--describe", "--topic", "orders", "--output", "json")
    found: list[dict[str, Any]] = json.loads(shown)["partitions"]
    return found


def counts(partitions: list[dict[str, Any]]) -> dict[str, Counter[int]]:
    """The replicas and the leaders of each broker."""
    assert len(partitions) == PARTITIONS
    assert all(sorted(each["isr"]) == sorted(each["replicas"]) for each in partitions)
    return {
        "replicas": Counter(broker for each in partitions for broker in each["replicas"]),
        "leaders": Counter(each["leader"] for each in partitions),
    }


def read(cluster: ClusterProcesses) -> list[str]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition("orders", number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    found: list[str] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        messages = consumer.consume(len(VALUES), 0.5)
        found += [message.value().decode() for message in messages if not message.error()]
    consumer.close()
    return sorted(found)


def test_a_third_broker_is_used_and_the_first_is_emptied(cluster: ClusterProcesses, tmp_path: Path) -> None:
    assignment = ",".join(("1:2", "2:1")[number % 2] for number in range(PARTITIONS))
    kcli(cluster, tmp_path, "topics", "--create", "--topic", "orders", "--replica-assignment", assignment)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for index, value in enumerate(VALUES):
        producer.produce("orders", value, partition=index % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0

    kcli(cluster, tmp_path, "reassign-partitions", "--balance", "--topics", "orders", "--yes")
    found = counts(described(cluster, tmp_path))
    assert found["replicas"] == {1: 4, 2: 4, 3: 4}
    assert found["leaders"] == {1: 2, 2: 2, 3: 2}
    assert read(cluster) == VALUES

    kcli(cluster, tmp_path, "reassign-partitions", "--decommission", "1", "--throttle", "100000000")
    found = counts(described(cluster, tmp_path))
    assert found["replicas"] == {2: 6, 3: 6}
    assert set(found["leaders"]) == {2, 3}
    assert read(cluster) == VALUES

    for kind in ("brokers", "topics"):
        shown = kcli(cluster, tmp_path, "configs", "--describe", "--entity-type", kind)
        assert "throttled" not in shown
    assert len(list(tmp_path.glob("reassignment-undo-*.json"))) == 2
