"""Offsets of sink connectors in REST requests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcli.connect.errors import BadRequest
from kcli.connect.workers.sink_offsets import from_request, to_request
from kcli.model.topic_partition import TopicPartition

PLACE = {"kafka_topic": "t", "kafka_partition": 0}


def test_offsets_of_a_request() -> None:
    offsets = [
        (PLACE, {"kafka_offset": 3}),
        ({"kafka_topic": "t", "kafka_partition": "1"}, {"kafka_offset": "4", "more": 1}),
        ({"kafka_topic": 5, "kafka_partition": 2}, None),
    ]
    parsed = from_request(offsets)
    assert parsed == {TopicPartition("t", 0): 3, TopicPartition("t", 1): 4, TopicPartition("5", 2): None}
    assert to_request({TopicPartition("t", 0): 3}) == [(PLACE, {"kafka_offset": 3})]


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        ({}, {"kafka_offset": 1}, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        (
            {"kafka_topic": None, "kafka_partition": 0},
            None,
            "Kafka topic names must be valid strings and may not be null",
        ),
        (
            {"kafka_topic": "t", "kafka_partition": None},
            None,
            "Kafka partitions must be valid numbers and may not be null",
        ),
        (
            {"kafka_topic": "t", "kafka_partition": 1.5},
            None,
            "Kafka partition value in the provided offsets: '1.5'",
        ),
        (PLACE, {}, "should either be null or contain the key 'kafka_offset'"),
        (
            PLACE,
            {"kafka_offset": None},
            "Kafka offset value in the provided offsets: 'null'. Offset values for sink",
        ),
        (PLACE, {"kafka_offset": True}, "Kafka offset value in the provided offsets: 'true'"),
    ],
)
def test_a_request_with_invalid_offsets_is_refused(
    partition: Mapping[str, object], offset: Mapping[str, object] | None, message: str
) -> None:
    with pytest.raises(BadRequest) as raised:
        from_request([(partition, offset)])
    assert message in str(raised.value)
