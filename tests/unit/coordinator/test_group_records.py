"""The records of __consumer_offsets: the short cut for offsets and the general codec, old versions, broken bytes."""

from __future__ import annotations

import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.classic.subscription import NAMES_MAX_BYTES, union_of_topics
from kcli.coordinator.group.consumer.state.record import ConsumerRecord
from kcli.coordinator.group.records import OffsetRecord, encode
from kcli.coordinator.group.types import decode
from kcli.coordinator.group.unserved import RawRecord
from kcli.errors import CorruptRecordError, UnsupportedVersionException
from kcli.protocol.records import consumer_offsets as general
from kcli.protocol.records.consumer_offsets import (
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

_INT64 = st.integers(-(2**63), 2**63 - 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_VALUES = st.builds(
    OffsetCommitValue,
    offset=_INT64,
    leader_epoch=_INT32,
    metadata=st.text(max_size=200),
    commit_timestamp=_INT64,
    topic_id=st.none() | st.just(uuid.UUID(int=77)),
)


@given(st.text(max_size=50), st.text(max_size=50), _INT32, st.none() | _VALUES)
def test_an_offset_is_packed_as_the_general_codec_does(
    group: str, topic: str, partition: int, value: OffsetCommitValue | None
) -> None:
    key_bytes, value_bytes = encode(OffsetRecord(group, topic, partition, value))
    assert key_bytes == general.encode_key(OffsetCommitKey(group=group, topic=topic, partition=partition))
    assert value_bytes == (None if value is None else general.encode_value(value))
    assert decode(key_bytes, value_bytes) == OffsetRecord(group, topic, partition, value)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_an_offset_is_read(version: int) -> None:
    value = OffsetCommitValue(
        offset=5, metadata="m", commit_timestamp=7, expire_timestamp=9 if version == 1 else -1
    )
    key = general.encode_key(OffsetCommitKey(group="g", topic="t", partition=3))
    assert decode(key, general.encode_value(value, version)) == OffsetRecord("g", "t", 3, value)


def test_an_offset_with_its_own_retention_is_written_in_version_1() -> None:
    value = OffsetCommitValue(offset=5, commit_timestamp=7, expire_timestamp=9)
    _, packed = encode(OffsetRecord("g", "t", 0, value))
    assert packed is not None
    assert packed[:2] == b"\x00\x01"


def test_the_first_key_type_is_an_offset_too() -> None:
    key = general.encode_key(LegacyOffsetCommitKey(group="g", topic="t", partition=3))
    value = OffsetCommitValue(offset=1, commit_timestamp=2)
    assert decode(key, general.encode_value(value)) == OffsetRecord("g", "t", 3, value)


def test_a_group_goes_round() -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", subscription=b"s", assignment=b"a"
    )
    metadata = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m", members=(member,)
    )
    record = GroupRecord("g", metadata)
    key, value = encode(record)
    assert value is not None
    assert value[:2] == b"\x00\x03", "Kafka 4.1 writes version 3"
    assert decode(key, value) == record
    assert decode(key, None) == GroupRecord("g", None) == decode(*encode(GroupRecord("g", None)))


def test_records_of_newer_groups_are_kept_as_they_are() -> None:
    key = struct.pack(">hh", 19, 1) + b"g" + struct.pack(">h", 1) + b"m"
    record = decode(key, b"whatever")
    assert record == RawRecord("streams", "g", key, b"whatever")
    assert encode(record) == (key, b"whatever")


def test_a_type_that_only_a_newer_kafka_knows_is_passed_over() -> None:
    assert decode(struct.pack(">hh", 99, 1) + b"g", b"x") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00\x01", None),
        (struct.pack(">hh", 1, 500) + b"g", None),
        (struct.pack(">hh", 1, 1) + b"g" + struct.pack(">h", 9) + b"t", None),
        (encode(OffsetRecord("g", "t", 0, None))[0], b"\x00"),
        (encode(OffsetRecord("g", "t", 0, None))[0], b"\x00\x04" + b"\x00" * 9),
        (encode(GroupRecord("g", None))[0], b"\x00\x03\x00"),
        (encode(GroupRecord("g", None))[0], b"\x00\x09" + b"\x00" * 50),
    ],
)
def test_broken_bytes_are_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises((CorruptRecordError, UnsupportedVersionException)):
        decode(key, value)


def test_text_that_is_not_utf8_is_replaced_and_the_log_can_be_loaded() -> None:
    """Kafka reads such a record in the same way, with the general codec and with the fast one."""
    key = struct.pack(">hh", 1, 1) + b"\xff" + struct.pack(">h", 1) + b"t\x00\x00\x00\x00"
    value = struct.pack(">hqiBsqB", 4, 1, 1, 2, b"\xff", 7, 0)
    offset = OffsetCommitValue(offset=1, leader_epoch=1, metadata="\ufffd", commit_timestamp=7)
    assert decode(key, value) == OffsetRecord("\ufffd", "t", 0, offset)
    assert general.decode_value(OffsetCommitKey(), value)[0] == offset
    consumer = decode(struct.pack(">hh", 3, 1) + b"\xff", None)
    assert isinstance(consumer, ConsumerRecord) and consumer.group_id == "\ufffd"


def _subscription(*topics: str, version: int = 0) -> bytes:
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1)


@given(st.binary(max_size=60))
def test_any_bytes_may_be_a_members_metadata(raw: bytes) -> None:
    topics = union_of_topics([raw])
    assert topics is None or all(isinstance(topic, str) for topic in topics)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00",
        b"connect",
        _subscription("a")[:-6],
        _subscription("a")[:-1],
        struct.pack(">hi", 0, 2**30),
        struct.pack(">hih", 0, 1, -5),
    ],
)
def test_an_invalid_subscription_has_no_topics(raw: bytes) -> None:
    assert union_of_topics([_subscription("b"), raw]) is None


def test_the_union_of_subscriptions() -> None:
    assert list(union_of_topics([_subscription("b", "a"), _subscription("a", "c")]) or ()) == ["b", "a", "c"]
    assert union_of_topics([_subscription("a", "日本"), _subscription(version=3)]) == {
        "a": None,
        "日本": None,
    }
    assert union_of_topics([b"\0\0\0\0\0\1\0\1\xff\xff\xff\xff\xff"]) == {"\ufffd": None}


def test_equal_names_of_many_members_count_once_and_too_many_names_are_unknown() -> None:
    names = [f"topic-{number:04}" for number in range(NAMES_MAX_BYTES // 24)]
    members = [_subscription(*names, version=version) for version in range(4)]
    assert list(union_of_topics(members) or ()) == names
    assert union_of_topics([*members, *(_subscription("x", *names) for _ in range(3))]) is not None
    assert union_of_topics([_subscription("x", *names), _subscription("y", *names), *members]) is None


def test_names_that_are_not_utf_8_are_read_with_replacements() -> None:
    key = struct.pack(">hh", 1, 1) + b"\xff" + struct.pack(">h", 1) + b"\xfe\x00\x00\x00\x00"
    value = struct.pack(">hqiBsqB", 4, 1, 1, 2, b"\xff", 7, 0)
    expected = OffsetCommitValue(offset=1, leader_epoch=1, metadata="\ufffd", commit_timestamp=7)
    assert decode(key, value) == OffsetRecord("\ufffd", "\ufffd", 0, expected)


def test_an_expiry_time_that_wrapped_around_is_kept() -> None:
    value = OffsetCommitValue(offset=5, commit_timestamp=7, expire_timestamp=-(2**62))
    key, packed = encode(OffsetRecord("g", "t", 0, value))
    assert packed is not None
    assert packed[:2] == b"\x00\x01"
    assert decode(key, packed) == OffsetRecord("g", "t", 0, value)
