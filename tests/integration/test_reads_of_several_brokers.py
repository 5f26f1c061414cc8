"""Reading from a cluster of real processes: consumers at followers, deleted records, and throttled moves."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.errors import ErrorCode
from kcli.protocol.messages import delete_records, fetch, list_offsets, metadata
from kcli.protocol.wire.api import ApiKey
from kcli.testing.cluster_processes import ClusterProcesses
from rigs.wire_client import connect

PATIENCE_S = 60.0
RACKS = {1: "west", 2: "east"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """Two brokers in different racks, which send consumers to the replica in their rack."""
    selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    made = ClusterProcesses(tmp_path_factory.mktemp("cluster"), brokers=2, overrides=selector)
    for broker_id, rack in RACKS.items():
        made.brokers[broker_id].overrides["broker.rack"] = rack
    with made as started:
        yield started


def create(cluster: ClusterProcesses, topic: str, replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, 1, replica_assignment=[replicas])
    (created,) = admin.create_topics([new], operation_timeout=PATIENCE_S).values()
    created.result(PATIENCE_S)


def produce(cluster: ClusterProcesses, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def ask(cluster: ClusterProcesses, broker: int, request: Any, key: ApiKey, version: int) -> Any:
    """The response of one broker."""

    async def asking() -> Any:
        client = await connect(int(cluster.brokers[broker].bootstrap.rpartition(":")[2]))
        try:
            return await client.call(request, key, version)
        finally:
            client.close()

    return asyncio.run(asking())


def read(cluster: ClusterProcesses, broker: int, topic: str, offset: int, rack: str) -> fetch.PartitionData:
    part = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    topics = (fetch.FetchTopic(topic=topic, partitions=(part,)),)
    request = fetch.FetchRequest(max_wait_ms=0, rack_id=rack, topics=topics)
    response = ask(cluster, broker, request, ApiKey.FETCH, 12)
    row: fetch.PartitionData = response.responses[0].partitions[0]
    return row


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.1)


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: ClusterProcesses) -> None:
    create(cluster, "near", [1, 2])
    produce(cluster, "near", [b"a", b"b", b"c"])
    eventually(lambda: read(cluster, 1, "near", 0, "east").preferred_read_replica == 2)
    row = read(cluster, 1, "near", 0, "west")
    assert (row.preferred_read_replica, row.high_watermark) == (-1, 3)
    assert row.records
    eventually(lambda: read(cluster, 2, "near", 0, "east").high_watermark == 3)
    from_follower = read(cluster, 2, "near", 0, "east")
    assert from_follower.records == row.records, "the follower has the bytes of the leader"
    assert read(cluster, 2, "near", 3, "east").error_code is ErrorCode.NONE
    assert read(cluster, 2, "near", 4, "east").error_code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleted_records_are_gone_on_every_replica_when_the_answer_comes(cluster: ClusterProcesses) -> None:
    create(cluster, "shorter", [1, 2])
    produce(cluster, "shorter", [b"a", b"b", b"c"])
    part = delete_records.DeleteRecordsPartition(partition_index=0, offset=2)
    request = delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name="shorter", partitions=(part,)),), timeout_ms=30_000
    )
    response = ask(cluster, 1, request, ApiKey.DELETE_RECORDS, 2)
    row = response.topics[0].partitions[0]
    assert (row.error_code, row.low_watermark) == (ErrorCode.NONE, 2)
    assert read(cluster, 2, "shorter", 1, "east").error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    earliest = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-2)
    asked = list_offsets.ListOffsetsRequest(
        replica_id=-2, topics=(list_offsets.ListOffsetsTopic(name="shorter", partitions=(earliest,)),)
    )
    answer = ask(cluster, 2, asked, ApiKey.LIST_OFFSETS, 7)
    assert answer.topics[0].partitions[0].offset == 2


def test_a_move_obeys_its_throttle(cluster: ClusterProcesses, tmp_path: Path) -> None:
    create(cluster, "slow", [1])
    produce(cluster, "slow", [b"x" * 500_000] * 12)
    plan = tmp_path / "plan.json"
    move = {"topic": "slow", "partition": 0, "replicas": [1, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    # In its first seconds, a rate may use the bytes of the ten seconds before. That is 1 MB of the 6 MB.
    reassign(cluster, plan, "--execute", "--throttle", "100000")
    time.sleep(3)
    assert isr_of(cluster, "slow") == (1,)
    reassign(cluster, plan, "--execute", "--additional", "--throttle", "1000000000")
    eventually(lambda: set(isr_of(cluster, "slow")) == {1, 2})
    assert "is completed" in reassign(cluster, plan, "--verify")


def reassign(cluster: ClusterProcesses, plan: Path, *options: str) -> str:
    files = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan))
    command = [sys.executable, "-m", "kcli", "reassign-partitions", *files, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout


def isr_of(cluster: ClusterProcesses, topic: str) -> tuple[int, ...]:
    request = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name=topic),))
    response = ask(cluster, 1, request, ApiKey.METADATA, 9)
    isr: tuple[int, ...] = response.topics[0].partitions[0].isr_nodes
    return isr
