"""The consumer of a sink task: where it reads from new partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from kcli.connect.tasks.sinks import consuming
from kcli.connect.tasks.sinks.consuming import UNKNOWN_OFFSET, SinkConsumer
from kcli.connect.tasks.spec import SinkSpec
from kcli.model.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class SilentGroup:
    """A client of librdkafka whose coordinator does not answer."""

    def __init__(self) -> None:
        self.assigned: list[tuple[int, int]] = []
        self.callbacks: dict[str, Any] = {}

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.callbacks = callbacks

    def committed(self, places: list[Place], timeout: float) -> list[Place]:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def assign(self, places: list[Place]) -> None:
        self.assigned += [(place.partition, place.offset) for place in places]


class Loop:
    """Reads the first partition from an offset of its own."""

    def __init__(self) -> None:
        self.opened: dict[TopicPartition, int] = {}

    def assigned(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.opened |= offsets
        return {**offsets, T0: 42}

    def positioned(self) -> None: ...

    def revoked(self, partitions: Collection[TopicPartition], *, lost: bool) -> None: ...


def test_a_task_sets_offsets_even_if_those_of_the_group_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group, loop = SilentGroup(), Loop()
    monkeypatch.setattr(consuming, "new_client", lambda kind, config: group)
    consumer = SinkConsumer(SinkSpec({}, ("t",)), loop)
    consumer.subscribe()
    group.callbacks["on_assign"](group, [Place("t", 0), Place("t", 1)])
    assert loop.opened == {T0: UNKNOWN_OFFSET, T1: UNKNOWN_OFFSET}
    assert group.assigned == [(0, 42), (1, OFFSET_INVALID)]
    assert consumer.assignment == {T0, T1}
