"""The directories of three Kafka 4.1 nodes become a cluster here: every replica catches up, and holds what Kafka held.

The life before the stop had failovers, a truncated tail, an unclean election, transactions and a reassignment.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
from pathlib import Path

import pytest

from kcli.config.start_up import node_config
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node
from kcli.storage.log.log import PartitionLog
from rigs.kafka_directories import IDS, OtherPorts, unpacked
from rigs.loops import until

SHOWN_DIGITS = 16
FIRST_PORT = 24940


@pytest.fixture
def directory(golden: Path, tmp_path: Path) -> Path:
    return unpacked(golden, tmp_path)


@pytest.fixture
def after_kafkas_restart(golden: Path) -> dict[tuple[str, int], str]:
    """The hash of each replica's log after Kafka itself was started on these directories, by partition and node."""
    path = golden.parent / "golden2" / "logdirs-a" / "replica-logs-after-restart.tsv"
    with path.open(encoding="utf-8") as lines:
        rows = csv.DictReader(lines, delimiter="\t")
        return {(row["partition"], int(row["replica"])): row["sha256 of the .log bytes"] for row in rows}


def make_node(directory: Path, node_id: int, network: OtherPorts) -> Node:
    broker, controller = (f"127.0.0.1:{FIRST_PORT + 2 * (node_id - 1) + nth}" for nth in (0, 1))
    servers = ",".join(f"127.0.0.1:{FIRST_PORT + 2 * (each - 1) + 1}" for each in IDS)
    listeners = f"PLAINTEXT://{broker},CONTROLLER://{controller}"
    config = node_config(
        {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": servers,
            "log.dirs": str(directory / f"node{node_id}"),
            "log.retention.hours": "-1",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "offsets.retention.minutes": "5256000",
            "transactional.id.expiration.ms": "2147483647",
            "auto.leader.rebalance.enable": "false",
        }
    )
    return Node(config, clock=SystemClock(), disk=SystemDisk(), network=network, rng=SystemRng())


def hash_of(log: PartitionLog) -> str:
    logs = sorted(Path(log.path).glob("*.log"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in logs)).hexdigest()[:SHOWN_DIGITS]


def in_sync(nodes: dict[int, Node]) -> bool:
    """Whether every replica of every partition is in the ISR, and ends where its leader ends."""
    image = nodes[1].metadata
    for topic in image.topics:
        for number, partition in topic.partitions.items():
            if partition.leader not in nodes or set(partition.isr) != set(partition.replicas):
                return False
            logs = [nodes[replica].logs.get(topic.name, number) for replica in partition.replicas]
            if None in logs or len({log.log_end_offset for log in logs if log is not None}) != 1:
                return False
    return len(image.brokers) == len(IDS) and not any(broker.fenced for broker in image.brokers.values())


async def lived(directory: Path) -> dict[tuple[str, int], str]:
    """Runs the cluster until every replica has caught up. Returns the hashes of all replicas' logs."""
    network = OtherPorts()
    nodes = {node_id: make_node(directory, node_id, network) for node_id in IDS}
    try:
        await asyncio.gather(*(node.start() for node in nodes.values()))
        await until(lambda: in_sync(nodes))
        return {
            (f"{topic.name}-{number}", replica): hash_of(log)
            for topic in nodes[1].metadata.topics
            for number, partition in topic.partitions.items()
            for replica in partition.replicas
            if (log := nodes[replica].logs.get(topic.name, number)) is not None
        }
    finally:
        await asyncio.gather(*(node.stop(clean=False) for node in nodes.values()))


def test_every_replica_ends_with_the_bytes_that_kafka_ended_with(
    directory: Path, after_kafkas_restart: dict[tuple[str, int], str]
) -> None:
    hashes = asyncio.run(lived(directory))
    assert hashes == after_kafkas_restart
