from __future__ import annotations

import pytest

from kcli.errors import CorruptRecordError
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=("a", "b"),
    user_data=b"u",
    owned_partitions=(TopicPartitions(topic="a", partitions=(0, 1)),),
    generation_id=4,
    rack_id="r",
)


def test_subscriptions_come_back() -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION)) == (SUBSCRIPTION, 3)
    old, version = decode_subscription(encode_subscription(SUBSCRIPTION, 0))
    assert (old, version) == (ConsumerProtocolSubscription(topics=("a", "b"), user_data=b"u"), 0)


def test_assignments_have_kafkas_bytes() -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=(TopicPartitions(topic="t", partitions=(2,)),)
    )
    encoded = encode_assignment(assignment)
    assert encoded.hex() == "0003000000010001740000000100000002ffffffff"
    assert decode_assignment(encoded) == (assignment, 3)


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    encoded = b"\x00\x09" + encode_subscription(SUBSCRIPTION)[2:] + b"what is to come"
    assert decode_subscription(encoded) == (SUBSCRIPTION, 3)


@pytest.mark.parametrize("embedded", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x00"])
def test_broken_bytes_are_corrupt(embedded: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_subscription(embedded)
