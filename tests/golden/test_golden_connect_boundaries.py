"""Source tasks with exactly once and each kind of transaction boundary, recorded with Kafka Connect 4.1.0.

The committed records of each topic are compared, and the offsets in their order. Transactions by an interval depend on
the time, so only their last offset is compared.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kcli.connect.model import State, TaskId
from rigs import connect_engine, golden3, node
from rigs.loops import on_a_loop, until

STORY = "eos-boundaries"
OFFSETS = "connect-offsets"
BY_TIME = "i"
FAILS = "e"
PATIENCE_S = 20.0
TRANSACTIONS = {
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "num_partitions": "1",
}

Topics = Mapping[str, list[tuple[str, str]]]


def recorded_connectors() -> list[dict[str, str]]:
    """The configurations of the connectors, in their order."""
    bodies = [
        json.loads(action["request_body"])
        for step in golden3.steps(golden3.recording("connect/eos.jsonl"))
        if step["story"] == STORY
        for action in step.get("actions", ())
        if action.get("method") == "POST" and action.get("path") == "/connectors"
    ]
    return [{"name": body["name"], **body["config"]} for body in bodies]


def recorded_topics() -> Topics:
    (story,) = (
        story
        for story in golden3.steps(golden3.recording("connect/eos-stories.jsonl"))
        if story["story"] == STORY
    )
    return by_topic((r["topic"], r["key"], r["value"]) for r in story["committed"])


def by_topic(records: Iterable[tuple[str, str, str]]) -> Topics:
    topics = defaultdict(list)
    for topic, key, value in records:
        topics[OFFSETS if topic.endswith("-offsets") else topic].append((key, value))
    return topics


def committed(port: int, names: Iterable[str]) -> Topics:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    left = set(names)
    consumer.assign([TopicPartition(name, 0, 0) for name in left])
    records = []
    while left:
        message: Any = consumer.poll(PATIENCE_S)
        assert message is not None, left
        if message.error() is not None:
            left.discard(message.topic())
        else:
            records.append((message.topic(), message.key().decode(), message.value().decode()))
    consumer.close()
    return by_topic(records)


def offsets_of(topics: Topics, connector: str) -> list[str]:
    values = [value for key, value in topics[OFFSETS] if json.loads(key)[0] == connector]
    return values[-1:] if connector == BY_TIME else values


@on_a_loop
async def test_transactions_end_where_the_recorded_ones_do(tmp_path: Path) -> None:
    recorded = recorded_topics()
    connectors = recorded_connectors()
    assert len(connectors) >= 5
    worker = {
        "exactly_once_source_support": "enabled",
        "key_converter": connect_engine.JSON,
        "value_converter": connect_engine.JSON,
    }
    async with (
        node.running(tmp_path, **TRANSACTIONS) as broker,
        connect_engine.running(broker.port(), **worker) as it,
    ):
        for config in connectors:
            # The recorded pauses make each poll a request of its own. Shorter ones do too.
            await it.start(config["name"], {**config, "pause.ms": "20"})
        trace = await it.statuses.reach(TaskId(FAILS, 0), State.FAILED)
        assert trace is not None
        assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: counter fails at 3\n")
        names = {config["topic"] for config in connectors} - {f"t{FAILS}"}
        ours: Topics = {}

        async def is_complete() -> bool:
            nonlocal ours
            ours = await asyncio.to_thread(committed, broker.port(), [*names, OFFSETS])
            await asyncio.sleep(0.2)
            return all(len(ours[name]) == len(recorded[name]) for name in names)

        await until(is_complete)
        for name in names:
            assert ours[name] == recorded[name], name
        for config in connectors:
            assert offsets_of(ours, config["name"]) == offsets_of(recorded, config["name"]), config["name"]
