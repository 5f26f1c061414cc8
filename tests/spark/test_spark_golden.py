"""What Apache Kafka 4.1 wrote, served by our broker and read as Spark's executors read it; also read_committed."""

from __future__ import annotations

import base64
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.model.request_values import EARLIEST, LATEST
from kcli.model.topic_partition import TopicPartition
from kcli.spark.client.cluster import Cluster
from kcli.spark.options import source_options
from kcli.spark.source.fetcher import fetch_range
from kcli.spark.source.offsets import OffsetRange
from kcli.testing.broker_process import BrokerProcess

pa = pytest.importorskip("pyarrow")

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


@pytest.fixture
def served(golden: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    shutil.copytree(golden / "logdir-clean", tmp_path / "data")
    overrides = {
        "log.retention.hours": "-1",
        "offsets.topic.num.partitions": "3",
        "log.cleaner.enable": "false",
    }
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        yield broker


def read(cluster: Cluster, part: TopicPartition, **more: str) -> list[dict[str, Any]]:
    from kcli.spark.source.arrow import record_batches

    settings = {
        "kafka.bootstrap.servers": cluster.settings.bootstrap_servers,
        "subscribe": part.topic,
        **more,
    }
    options = source_options(settings, streaming=False)
    level = options.client.isolation_level
    start = cluster.list_offsets({part: EARLIEST}, level)[part].offset
    end = cluster.list_offsets({part: LATEST}, level)[part].offset
    offset_range = OffsetRange(part, start, end)
    batches = record_batches(fetch_range(cluster, offset_range, options), offset_range, SCHEMA)
    return [row for batch in batches for row in batch.to_pylist()]


def as_row(record: dict[str, Any]) -> dict[str, Any]:
    headers = [{"key": name, "value": plain(value)} for name, value in record["headers"]]
    return {
        "offset": record["offset"],
        "timestampType": 1 if record["timestamp_type"] == "LogAppendTime" else 0,
        "key": plain(record["key"]),
        "value": plain(record["value"]),
        "headers": headers or None,
        "timestamp_ms": record["timestamp"],
    }


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def found(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"timestamp_ms": round(row.pop("timestamp").timestamp() * 1000)}


def read_files(directory: Path, part: TopicPartition, **more: str) -> tuple[list[dict[str, Any]], int, int]:
    """Rows, first offset and end of a partition, straight from the log directory; a task for each segment."""
    from kcli.spark.source.arrow import record_batches
    from kcli.spark.source.log_directory import LogDirectories, read_range

    options = source_options({"path": str(directory), "subscribe": part.topic, **more}, streaming=False)
    level = options.client.isolation_level
    with LogDirectories(options.log_directories, isolation_level=level, to_log_end=False) as logs:
        start, end = (logs.list_offsets({part: edge})[part].offset for edge in (EARLIEST, LATEST))
        rows = []
        for piece in logs.cut(OffsetRange(part, start, end)):
            for batch in record_batches(read_range(logs, piece, options), piece, SCHEMA):
                rows += batch.to_pylist()
    return rows, start, end


def test_files_are_read_as_a_consumer_reads(golden: Path) -> None:
    expected: dict[TopicPartition, list[dict[str, Any]]] = defaultdict(list)
    for line in (golden / "manifest.jsonl").read_text().splitlines():
        record = json.loads(line)
        expected[TopicPartition(record["topic"], record["partition"])].append(as_row(record))
    committed = 0
    for line in (golden / "partitions.jsonl").read_text().splitlines():
        bound = json.loads(line)
        part = TopicPartition(bound["topic"], bound["partition"])
        if part.topic.startswith("__"):
            continue
        rows, start, end = read_files(golden / "logdir-clean", part)
        assert [found(row) for row in rows] == expected[part], part
        assert (start, end) == (bound["log_start_offset"], bound["high_watermark"]), part
        rows, _, end = read_files(
            golden / "logdir-clean", part, **{"kafka.isolation.level": "read_committed"}
        )
        assert end == bound["last_stable_offset"], part
        if "read_committed_offsets" in bound:
            assert [row["offset"] for row in rows] == bound["read_committed_offsets"], part
            committed += 1
    assert committed >= 3


def test_every_record_and_only_committed_ones(golden: Path, served: BrokerProcess) -> None:
    expected: dict[TopicPartition, list[dict[str, Any]]] = defaultdict(list)
    for line in (golden / "manifest.jsonl").read_text().splitlines():
        record = json.loads(line)
        expected[TopicPartition(record["topic"], record["partition"])].append(as_row(record))
    committed = 0
    options = source_options({"kafka.bootstrap.servers": served.bootstrap, "subscribe": "x"}, streaming=False)
    with Cluster(options.client) as cluster:
        for line in (golden / "partitions.jsonl").read_text().splitlines():
            bound = json.loads(line)
            part = TopicPartition(bound["topic"], bound["partition"])
            if part.topic.startswith("__"):
                continue
            cluster.partitions([part.topic])
            assert [found(row) for row in read(cluster, part)] == expected[part], part
            if "read_committed_offsets" in bound:
                rows = read(cluster, part, **{"kafka.isolation.level": "read_committed"})
                assert [row["offset"] for row in rows] == bound["read_committed_offsets"], part
                committed += 1
    assert committed >= 3
