"""Reading and writing on a cluster of three nodes that is not ours: the test brokers that come inside librdkafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.model.request_values import EARLIEST, LATEST
from kcli.spark.client.cluster import Cluster
from kcli.spark.options import sink_options, source_options
from kcli.spark.source.fetcher import fetch_range
from kcli.spark.source.offsets import OffsetRange, subscribed

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def three_nodes() -> Iterator[str]:
    from confluent_kafka import Producer

    owner = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0})
    nodes = owner.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{node.host}:{node.port}" for node in nodes)
    owner.flush(5)


def test_each_partition_from_its_leader(three_nodes: str) -> None:
    from kcli.spark.sink.producer import Producer
    from kcli.spark.sink.rows import Router
    from kcli.spark.source.arrow import record_batches

    servers = {"kafka.bootstrap.servers": three_nodes}
    keys = [f"k{nth}".encode() for nth in range(500)]
    topics = [f"t{nth % 8}" for nth in range(500)]  # 32 partitions, whose leaders are drawn by lot
    sink = sink_options({**servers, "kafka.compression.type": "lz4"})
    with Cluster(sink.client) as cluster:
        producer, router = Producer(cluster, sink), Router(cluster, None)
        rows = pa.RecordBatch.from_pydict({"key": keys, "value": keys, "topic": topics})
        for part, area in router.areas(rows):
            producer.add(part, area)
        producer.flush()
    source = source_options({**servers, "subscribePattern": "t."}, streaming=False)
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string())])
    offsets = []
    with Cluster(source.client) as cluster:
        parts = subscribed(cluster, source.subscription)
        assert len(parts) == 32
        assert len({cluster.leader(part) for part in parts}) > 1
        first = cluster.list_offsets(dict.fromkeys(parts, EARLIEST))
        last = cluster.list_offsets(dict.fromkeys(parts, LATEST))
        for part in parts:
            offset_range = OffsetRange(part, first[part].offset, last[part].offset)
            for batch in record_batches(fetch_range(cluster, offset_range, source), offset_range, schema):
                offsets += batch.to_pylist()
    assert sorted((row["key"], row["topic"]) for row in offsets) == sorted(zip(keys, topics, strict=True))
    assert all(row["key"] == row["value"] for row in offsets)
