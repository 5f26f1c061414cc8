"""The log directory that Apache Kafka 4.1 wrote starts here, and a consumer reads what it read there."""

from __future__ import annotations

import base64
import json
import shutil
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from kcli.testing.broker_process import BrokerProcess

pytestmark = pytest.mark.compat


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def test_every_record_of_every_topic(golden: Path, tmp_path: Path) -> None:
    from confluent_kafka import Consumer, TopicPartition

    shutil.copytree(golden / "logdir-clean", tmp_path / "data")
    expected: dict[tuple[str, int], list[dict[str, object]]] = defaultdict(list)
    for line in (golden / "manifest.jsonl").read_text().splitlines():
        record = json.loads(line)
        expected[record["topic"], record["partition"]].append(record)
    bounds = [json.loads(line) for line in (golden / "partitions.jsonl").read_text().splitlines()]
    overrides = {
        "node.id": "1", "log.retention.hours": "-1", "offsets.topic.num.partitions": "3",
        "log.index.size.max.bytes": "65536", "log.cleaner.enable": "false",
    }  # fmt: skip
    with BrokerProcess(tmp_path, overrides=overrides) as broker:
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False,
             "check.crcs": True, "isolation.level": "read_uncommitted", "auto.offset.reset": "error",
             "fetch.wait.max.ms": 10}  # each partition waits for the fetch of the one before
        )  # fmt: skip
        for bound in bounds:
            topic, partition = bound["topic"], bound["partition"]
            if topic.startswith("__") and topic != "__consumer_offsets":
                continue
            part = TopicPartition(topic, partition, bound["log_start_offset"])
            low, high = consumer.get_watermark_offsets(part, 30)
            assert low == bound["log_start_offset"], part
            assert high >= bound["high_watermark"], part
            if topic.startswith("__"):
                continue
            wanted = expected[topic, partition]
            consumer.assign([part])
            got: list[dict[str, object]] = []
            deadline = time.monotonic() + 60
            while len(got) < len(wanted) and time.monotonic() < deadline:
                got += [_record(message) for message in consumer.consume(len(wanted) - len(got), 1)]
            keys = ("offset", "timestamp", "key", "value", "headers")
            assert got == [{key: record[key] for key in keys} for record in wanted], part
        consumer.close()


def _record(message: Any) -> dict[str, object]:
    assert message.error() is None, message.error()
    return {
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": [[name, _text(value)] for name, value in message.headers() or ()],
    }
