"""Java's consumer on librdkafka: what one poll returns, and where a group stands in what it has not read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kcli.rdkafka import consumer as rdkafka_consumer

UNKNOWN = -1001


class Message:
    def __init__(
        self, partition: int, offset: int, epoch: int | None = None, topic: str = "vf", is_end: bool = False
    ) -> None:
        self.at = (topic, partition, offset, epoch)
        self.is_end = is_end

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None

    def topic(self) -> str:
        return self.at[0]

    def partition(self) -> int:
        return self.at[1]

    def offset(self) -> int:
        return self.at[2]

    def leader_epoch(self) -> int | None:
        return self.at[3]


class Fetching:
    """A consumer of partitions whose messages come in these portions; each portion is an answer of its partition."""

    def __init__(self, partitions: int, *portions: list[Message]) -> None:
        self.assigned = [TopicPartition("vf", number) for number in range(partitions)]
        self.portions = list(portions)
        self.answered = {0}

    def assignment(self) -> list[TopicPartition]:
        return self.assigned

    def consume(self, count: int, timeout: float) -> list[Message]:
        portion = self.portions.pop(0) if self.portions else []
        self.answered |= {message.partition() for message in portion}
        return portion[:count]

    def get_watermark_offsets(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return (0, 5) if partition.partition in self.answered else (0, UNKNOWN)


def _gathered(consumer: Fetching, first: Message) -> list[tuple[int, int]]:
    return [(each.partition(), each.offset()) for each in rdkafka_consumer.gathered(consumer, first)]


def test_partitions_come_in_the_order_of_javas_map() -> None:
    consumer = Fetching(2, [Message(0, 1)], [Message(1, 0)], [Message(1, 1)])
    assert _gathered(consumer, Message(0, 0)) == [(1, 0), (1, 1), (0, 0), (0, 1)]


def test_a_slow_partition_is_waited_for_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Fetching(2, [], [], [], [Message(1, 0)])
    assert _gathered(slow, Message(0, 0)) == [(1, 0), (0, 0)]
    now = [0.0]

    def later() -> float:
        now[0] += 0.1
        return now[0]

    monkeypatch.setattr(rdkafka_consumer, "time", SimpleNamespace(monotonic=later))
    assert _gathered(Fetching(2), Message(0, 0)) == [(0, 0)]


def test_no_more_than_one_poll_returns() -> None:
    many = [Message(0, at) for at in range(1, 2000)]
    assert len(_gathered(Fetching(2, many), Message(0, 0))) == rdkafka_consumer.POLL_RECORDS


class Group:
    """A consumer whose group has committed these offsets; every partition ends at 9 and begins at 2."""

    def __init__(self, *committed: int, is_down: bool = False) -> None:
        self.offsets = committed
        self.is_down = is_down
        self.calls: list[Any] = []

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        if self.is_down:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return [
            TopicPartition("t", each.partition, offset)
            for each, offset in zip(partitions, self.offsets, strict=True)
        ]

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition("t", each.partition, {-1: 9, -2: 2}[each.offset]) for each in partitions]

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("assign", [(each.partition, each.offset) for each in partitions]))

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(("incremental", [(each.partition, each.offset) for each in partitions]))

    def store_offsets(self, *, offsets: list[TopicPartition]) -> None:
        self.calls.append(("store", [(each.partition, each.offset, each.leader_epoch) for each in offsets]))


PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]


def test_where_nothing_is_committed_the_start_is_noted() -> None:
    group = Group(4, UNKNOWN)
    told: list[Any] = []
    rdkafka_consumer.JavaPositions({"auto.offset.reset": "latest"}, lambda *call: told.append(call)).assigned(
        group, PARTITIONS
    )
    assert group.calls == [("assign", [(0, 4), (1, 9)]), ("store", [(1, 9, None)])]
    assert told == [(group, PARTITIONS)]


@pytest.mark.parametrize(
    ("config", "call"),
    [
        ({"auto.offset.reset": "earliest", "enable.auto.commit": "false"}, ("assign", [(0, 2), (1, 2)])),
        (
            {"auto.offset.reset": "earliest", "enable.auto.commit": "false", "group.protocol": "consumer"},
            ("incremental", [(0, 2), (1, 2)]),
        ),
        (
            {"enable.auto.commit": "false", "partition.assignment.strategy": "cooperative-sticky"},
            ("incremental", [(0, 9), (1, 9)]),
        ),
    ],
)
def test_each_protocol_is_assigned_in_its_way(config: dict[str, object], call: object) -> None:
    group = Group(UNKNOWN, UNKNOWN)
    rdkafka_consumer.JavaPositions(config).assigned(group, PARTITIONS)
    assert group.calls == [call]


def test_an_unknown_position_is_left_to_librdkafka() -> None:
    for group, config in ((Group(4, UNKNOWN), {"auto.offset.reset": "error"}), (Group(is_down=True), {})):
        rdkafka_consumer.JavaPositions(config).assigned(group, PARTITIONS)
        assert group.calls == []


def test_store_offsets_keeps_the_next_offset_of_each_partition() -> None:
    group = Group()
    rdkafka_consumer.store_offsets(group, [])
    rdkafka_consumer.store_offsets(group, [Message(0, 3), Message(1, 7, epoch=2), Message(0, 4)])
    assert group.calls == [("store", [(0, 5, None), (1, 8, 2)])]


def test_the_end_of_a_partition_is_after_the_marker_of_a_transaction() -> None:
    group = Group()
    rdkafka_consumer.store_offsets(group, [Message(0, 3), Message(1, 7), Message(0, 5, is_end=True)])
    assert group.calls == [("store", [(0, 5, None), (1, 8, None)])]
