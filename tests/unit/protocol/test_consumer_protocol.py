from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import CorruptRecordError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    assigned_partitions,
    assigned_topics,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
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


ASSIGNMENT = ConsumerProtocolAssignment(
    assigned_partitions=(
        TopicPartitions(topic="a", partitions=(0, 2)),
        TopicPartitions(topic="b", partitions=()),
    ),
    user_data=b"u",
)


@pytest.mark.parametrize("version", range(4))
def test_one_topic_at_a_time_is_the_same_as_all_at_once(version: int) -> None:
    assert tuple(assigned_topics(encode_assignment(ASSIGNMENT, version))) == ASSIGNMENT.assigned_partitions
    assert assigned_partitions(encode_assignment(ASSIGNMENT)) == (
        TopicPartition("a", 0),
        TopicPartition("a", 2),
    )
    assert tuple(subscribed_topics(encode_subscription(SUBSCRIPTION, version))) == ("a", "b")


def test_empty_bytes_are_an_assignment_without_partitions() -> None:
    assert assigned_partitions(b"") == ()


HEAD = struct.pack(">hi", 0, 1)
BROKEN = {
    "no version": b"\0",
    "a negative version": b"\xff\xff" + encode_assignment(ASSIGNMENT)[2:],
    "a negative count of topics": struct.pack(">hi", 0, -1),
    "2^31 - 1 topics": struct.pack(">hi", 0, 2**31 - 1),
    "a negative length, which leads back": struct.pack(">hihih", 0, 2**31 - 1, 0, 0, -6),
    "a topic that is null": HEAD + struct.pack(">hi", -1, 0) + b"\xff\xff\xff\xff",
    "a topic longer than the bytes": HEAD + b"\0\5t",
    "2^31 - 1 partitions": HEAD + b"\0\1t\x7f\xff\xff\xff",
    "a negative count of partitions": HEAD + b"\0\1t\xff\xff\xff\xff\xff\xff\xff\xff",
    "no user data": encode_assignment(ASSIGNMENT)[:-5],
    "user data longer than the bytes": encode_assignment(ASSIGNMENT)[:-1],
}


@pytest.mark.parametrize("embedded", BROKEN.values(), ids=BROKEN.keys())
def test_invalid_assignments_are_corrupt(embedded: bytes) -> None:
    for decoded in (decode_assignment, assigned_partitions):
        with pytest.raises(CorruptRecordError):
            decoded(embedded)


def test_names_that_are_not_utf8_are_replaced_as_in_java() -> None:
    assert assigned_partitions(HEAD + b"\0\2\xe9t\0\0\0\1\0\0\0\0\xff\xff\xff\xff") == (
        TopicPartition("\ufffdt", 0),
    )


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_corrupt(embedded: bytes) -> None:
    """An element has at least one byte, so the result is never longer than the bytes."""
    for each in (assigned_topics, subscribed_topics):
        with contextlib.suppress(CorruptRecordError):
            assert len(tuple(each(b"\0\0" + embedded))) <= len(embedded)
