"""A broker that restarts under a reader or a writer: nothing is lost and nothing comes twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.columns import Depth, decode
from kcli.spark.client.cluster import Cluster
from kcli.spark.options import sink_options, source_options
from kcli.spark.source.fetcher import fetch_range
from kcli.spark.source.offsets import OffsetRange
from kcli.testing.broker_process import BrokerProcess

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as process:
        yield process


def test_writing_and_reading_over_restarts(own_broker: BrokerProcess) -> None:
    from kcli.spark.sink.producer import Producer
    from kcli.spark.sink.rows import Router

    servers = {"kafka.bootstrap.servers": own_broker.bootstrap}
    values = [b"%d" % nth for nth in range(3000)]
    sink = sink_options({**servers, "topic": "t"})
    with Cluster(sink.client) as cluster:
        producer, router = Producer(cluster, sink), Router(cluster, "t")
        for nth in range(0, len(values), 100):
            rows = pa.RecordBatch.from_arrays([pa.array(values[nth : nth + 100])], names=["value"])
            for part, area in router.areas(rows):
                producer.add(part, area)
            producer.flush()
            if nth == 1500:
                own_broker.restart()
    source = source_options(
        {**servers, "subscribe": "t", "kafka.max.partition.fetch.bytes": "5000"}, streaming=False
    )
    offsets: list[int] = []
    restarted = False
    with Cluster(source.client) as cluster:
        for fetched in fetch_range(cluster, OffsetRange(TopicPartition("t", 0), 0, len(values)), source):
            for chunk in decode(fetched.table, Depth.VALUE, first_offset=fetched.first_offset):
                assert chunk.values is not None
                offsets += chunk.offsets.tolist()
                first = int(chunk.values.starts[0])
                text = chunk.buffer[first : first + int(chunk.values.lengths[0])]
                assert text == values[int(chunk.offsets[0])]
            if len(offsets) > 1000 and not restarted:
                own_broker.restart()
                restarted = True
                time.sleep(0.1)
    assert restarted
    assert offsets == list(range(len(values)))
