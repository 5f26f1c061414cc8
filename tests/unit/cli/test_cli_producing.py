"""Java's producer on librdkafka: what it is configured with, and where records without a key go."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcli.cli import producing
from kcli.cli.options import CommandError


@pytest.mark.parametrize(
    ("properties", "idempotent"),
    [
        ({}, True),
        ({"acks": "all", "retries": "3"}, True),
        ({"acks": "1"}, False),
        ({"retries": "0"}, False),
        ({"max.in.flight.requests.per.connection": "10"}, False),
        ({"acks": "1", "enable.idempotence": "TRUE"}, "true"),
    ],
)
def test_idempotent_unless_ruled_out(properties: dict[str, str], idempotent: object) -> None:
    assert producing.configuration(properties)["enable.idempotence"] == idempotent


def test_a_record_has_time_to_wait_and_to_be_answered() -> None:
    assert producing.configuration({})["message.timeout.ms"] == 120_000
    assert producing.configuration({"linger.ms": "100000"})["message.timeout.ms"] == 130_000
    with pytest.raises(CommandError, match="should be equal to or larger than linger"):
        producing.configuration({"delivery.timeout.ms": "30000"})


class Topic:
    """A producer that knows one topic, whose partitions have these leaders."""

    def __init__(self, *leaders: int, error: int | None = None) -> None:
        self.leaders = leaders
        self.error = None if error is None else SimpleNamespace(code=lambda: error)
        self.asked = 0

    def list_topics(self, topic: str, timeout: float) -> object:
        self.asked += 1
        partitions = {
            at: SimpleNamespace(id=at, leader=leader)
            for at, leader in enumerate(self.leaders[: max(0, self.asked)])
        }
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions, error=self.error)})


def test_a_run_of_records_stays_together() -> None:
    topic = Topic(1, 1, -1)
    topic.asked = 3
    sticky = producing.StickyPartition(topic, "t")
    runs = [{sticky.take(1023) for _ in range(16)} for _ in range(200)]
    assert all(len(run) == 1 for run in runs), "16 records of 1024 bytes are a batch"
    assert Counter(map(min, runs)).keys() == {0, 1}, "a partition without a leader is left out"
    assert topic.asked == 4


def test_a_topic_that_is_being_made_is_waited_for() -> None:
    topic = Topic(1, error=KafkaError.UNKNOWN_TOPIC_OR_PART)
    topic.asked = -2
    sticky = producing.StickyPartition(topic, "t")
    assert sticky.take(1) == 0
    assert topic.asked == 1


def test_a_topic_that_cannot_be_is_left_to_librdkafka() -> None:
    refused = Topic(error=KafkaError.TOPIC_EXCEPTION)
    assert producing.StickyPartition(refused, "t").take(1) == producing.PARTITION_UA
    assert refused.asked == 1

    def away(topic: str, timeout: float) -> object:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    away_too = SimpleNamespace(list_topics=away)
    assert producing.StickyPartition(away_too, "t").take(1) == producing.PARTITION_UA
