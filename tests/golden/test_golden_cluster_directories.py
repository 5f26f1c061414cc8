"""The directories of three Kafka 4.1 nodes become a cluster here: every replica catches up, and holds what Kafka held.
The leaders serve the records that Kafka served.

The life before the stop had failovers, a truncated tail, an unclean election, transactions and a reassignment.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.config.start_up import node_config
from kcli.errors import ErrorCode
from kcli.model.topic_names import is_internal
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import BatchHeader, Record, iter_batches, read_records
from kcli.protocol.batches.control import EndTransactionMarker, decode_control
from kcli.protocol.messages import fetch
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node
from kcli.storage.log.log import PartitionLog
from rigs.kafka_directories import IDS, OtherPorts, unpacked
from rigs.loops import until
from rigs.wire_client import connect

SHOWN_DIGITS = 16
FIRST_PORT = 24940
READ_COMMITTED = 1
MAX_BYTES = 10_000_000
"""More than any partition has."""
Json = dict[str, Any]


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
    """Whether every replica of every partition is in the ISR, ends where its leader ends, and knows that this end is
    the high watermark."""
    image = nodes[1].metadata
    for topic in image.topics:
        for number, partition in topic.partitions.items():
            if partition.leader not in nodes or set(partition.isr) != set(partition.replicas):
                return False
            logs = [nodes[replica].logs.get(topic.name, number) for replica in partition.replicas]
            known = [log for log in logs if log is not None]
            if len({end for log in known for end in (log.log_end_offset, log.high_watermark)}) != 1:
                return False
            if len(known) < len(logs):
                return False
    return len(image.brokers) == len(IDS) and not any(broker.fenced for broker in image.brokers.values())


@asynccontextmanager
async def caught_up(directory: Path) -> AsyncIterator[tuple[dict[int, Node], OtherPorts]]:
    """Runs the cluster, and waits until every replica has caught up."""
    network = OtherPorts()
    nodes = {node_id: make_node(directory, node_id, network) for node_id in IDS}
    try:
        await asyncio.gather(*(node.start() for node in nodes.values()))
        await until(lambda: in_sync(nodes))
        yield nodes, network
    finally:
        await asyncio.gather(*(node.stop(clean=False) for node in nodes.values()))


async def lived(directory: Path) -> dict[tuple[str, int], str]:
    """Returns the hashes of the logs of all replicas."""
    async with caught_up(directory) as (nodes, _):
        return {
            (f"{topic.name}-{number}", replica): hash_of(log)
            for topic in nodes[1].metadata.topics
            for number, partition in topic.partitions.items()
            for replica in partition.replicas
            if (log := nodes[replica].logs.get(topic.name, number)) is not None
        }


def test_every_replica_ends_with_the_bytes_that_kafka_ended_with(
    directory: Path, after_kafkas_restart: dict[tuple[str, int], str]
) -> None:
    hashes = asyncio.run(lived(directory))
    assert hashes == after_kafkas_restart


@dataclass(slots=True)
class Served:
    """The answers of a leader to Fetch requests, from the first record of a partition to the last one."""

    partition: TopicPartition
    start: int
    answers: list[fetch.PartitionData]

    @property
    def last(self) -> fetch.PartitionData:
        return self.answers[-1]

    def batches(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """The batches with their records. The first batch may begin before the first record."""
        for answer in self.answers:
            content = bytes(answer.records or b"")
            for position, header in iter_batches(content):
                yield header, [each for each in read_records(content, position) if each.offset >= self.start]

    def records(self) -> list[Json]:
        """The records as a line of the manifest has them. Control records are no records of a consumer."""
        return [
            {
                "topic": self.partition.topic,
                "partition": self.partition.partition,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
                "key": text(record.key),
                "value": text(record.value),
                "headers": [[name, text(value)] for name, value in record.headers],
                "leader_epoch": header.partition_leader_epoch,
            }
            for header, records in self.batches()
            if not header.is_control
            for record in records
        ]

    def committed_offsets(self) -> list[int]:
        """The offsets that a consumer with read_committed returns: all but those of aborted transactions."""
        aborts = (each for answer in self.answers for each in answer.aborted_transactions or ())
        begins = sorted({(each.first_offset, each.producer_id) for each in aborts})
        aborted: set[int] = set()
        found = []
        for header, records in self.batches():
            while begins and begins[0][0] <= header.last_offset:
                aborted.add(begins.pop(0)[1])
            if header.is_control:
                marker = decode_control(records[0].key, records[0].value)
                if isinstance(marker, EndTransactionMarker) and not marker.committed:
                    aborted.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in aborted:
                found += [record.offset for record in records]
        return found


def text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


async def fetched(port: int, partition: TopicPartition, start: int, isolation: int) -> Served:
    """Asks until an answer has no records, because an answer ends at the end of a segment."""
    served = Served(partition, start, [])
    client = await connect(port)
    try:
        while not served.answers or served.last.records:
            offset = max((header.next_offset for header, _ in served.batches()), default=start)
            request = fetch_request(partition, offset, isolation)
            (topic,) = (await client.call(request, ApiKey.FETCH, 12)).responses
            served.answers += topic.partitions
            assert served.last.error_code == ErrorCode.NONE, partition
    finally:
        client.close()
    return served


def fetch_request(partition: TopicPartition, offset: int, isolation: int) -> fetch.FetchRequest:
    part = fetch.FetchPartition(
        partition=partition.partition, fetch_offset=offset, partition_max_bytes=MAX_BYTES
    )
    topics = (fetch.FetchTopic(topic=partition.topic, partitions=(part,)),)
    return fetch.FetchRequest(max_wait_ms=0, max_bytes=MAX_BYTES, isolation_level=isolation, topics=topics)


async def check_served(
    directory: Path, bounds: list[Json], manifest: dict[TopicPartition, list[Json]]
) -> None:
    async with caught_up(directory) as (nodes, network):
        for bound in bounds:
            partition, start = place_of(bound), bound["log_start_offset"]
            port = network.ports[FIRST_PORT + 2 * (leader_of(nodes[1], partition) - 1)]
            served = await fetched(port, partition, start, 0)
            assert served.last.log_start_offset == start, partition
            if is_internal(partition.topic):
                # The coordinators may write to the internal topics as soon as they have loaded.
                assert served.records()[: bound["records"]] == manifest[partition]
                continue
            assert served.records() == manifest[partition]
            assert served.last.high_watermark == bound["high_watermark"], partition
            committed = await fetched(port, partition, start, READ_COMMITTED)
            expected = bound.get("read_committed_offsets", [each["offset"] for each in manifest[partition]])
            assert committed.committed_offsets() == expected, partition
            assert committed.last.last_stable_offset == bound["last_stable_offset"], partition


def leader_of(node: Node, partition: TopicPartition) -> int:
    topic = node.metadata.topics.topic(partition.topic)
    assert topic is not None
    return topic.partitions[partition.partition].leader


def test_every_leader_serves_the_records_that_kafka_served(directory: Path, golden: Path) -> None:
    recorded = golden.parent / "golden2" / "logdirs-a"
    bounds = lines_of(recorded / "partitions.jsonl")
    manifest: dict[TopicPartition, list[Json]] = {place_of(bound): [] for bound in bounds}
    for record in lines_of(recorded / "manifest.jsonl"):
        manifest[place_of(record)].append(record)
    asyncio.run(check_served(directory, bounds, manifest))


def place_of(line: Json) -> TopicPartition:
    return TopicPartition(line["topic"], line["partition"])


def lines_of(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
