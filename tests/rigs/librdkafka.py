"""Writes and reads with librdkafka, in tests of another client."""

from __future__ import annotations

import uuid
from typing import Any


def produce(bootstrap: str, topic: str, records: list[dict[str, Any]], **config: Any) -> None:
    """Writes `records` (keyword arguments of Producer.produce), and waits for all acknowledgements."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, **config})
    failures: list[Any] = []
    for record in records:
        producer.produce(
            topic, on_delivery=lambda error, _: failures.append(error) if error else None, **record
        )
    assert producer.flush(30) == 0
    assert not failures


def consume(bootstrap: str, topic: str, count: int, **config: Any) -> list[Any]:
    """Reads `count` messages from the beginning."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, **config})
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        found: list[Any] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), 20)
            assert messages, f"only {len(found)} of {count} messages came"
            assert all(message.error() is None for message in messages)
            found += messages
        return found
    finally:
        consumer.close()
