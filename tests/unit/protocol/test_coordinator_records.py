from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kcli.errors import CorruptRecordError
from kcli.protocol.records import consumer_offsets, json_text, share_state, transaction_state
from kcli.protocol.records.consumer_offsets import (
    CONSUMER_OFFSETS,
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kcli.protocol.records.coordinator import CoordinatorRecords, UnknownRecordTypeError
from kcli.protocol.records.schema import schema_of
from kcli.protocol.records.share_state import SHARE_STATE
from kcli.protocol.records.transaction_state import TRANSACTION_STATE, TransactionLogKey, TransactionLogValue

KEY = OffsetCommitKey(group="g", topic="t", partition=3)


@pytest.mark.parametrize("records", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_STATE])
def test_every_key_and_value_comes_back_at_every_version(records: CoordinatorRecords[Any, Any]) -> None:
    for key_class, (value_class, _) in records._types.items():
        key, value = key_class(), value_class()
        assert records.decode_key(records.encode_key(key)) == key
        schema = schema_of(value_class)
        for version in range(schema.min_version, schema.max_version + 1):
            assert records.decode_value(key, records.encode_value(value, version)) == (value, version)


def test_record_types_are_kafkas() -> None:
    types = sorted(schema_of(key).key for key in CONSUMER_OFFSETS._types)
    assert types == [*range(9), *range(10, 18), *range(19, 24)]


def test_an_offset_commit_has_kafkas_bytes() -> None:
    assert consumer_offsets.encode_key(KEY).hex() == "000100016700017400000003"
    value = OffsetCommitValue(offset=5, leader_epoch=1, metadata="m", commit_timestamp=9)
    assert consumer_offsets.encode_value(value).hex() == (
        "0004000000000000000500000001026d000000000000000900"
    )
    with_topic = OffsetCommitValue(offset=5, topic_id=UUID(int=1))
    assert consumer_offsets.encode_value(with_topic).hex().endswith("010010" + UUID(int=1).hex)
    assert consumer_offsets.decode_value(KEY, consumer_offsets.encode_value(with_topic)) == (with_topic, 4)


def test_a_commit_with_an_explicit_retention_is_written_as_version_1() -> None:
    value = OffsetCommitValue(offset=5, metadata="", commit_timestamp=9, expire_timestamp=11)
    encoded = consumer_offsets.encode_value(value)
    assert encoded[:2] == b"\x00\x01"
    assert consumer_offsets.decode_value(KEY, encoded) == (value, 1)


def test_legacy_offset_keys_have_the_same_value() -> None:
    legacy = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=1)
    assert consumer_offsets.decode_value(legacy, consumer_offsets.encode_value(value, 0)) == (value, 0)


def test_classic_groups_are_written_as_version_3() -> None:
    member = MemberMetadata(
        member_id="m", group_instance_id="i", client_id="c", client_host="/h", assignment=b"a"
    )
    group = GroupMetadataValue(protocol_type="consumer", protocol=None, leader=None, members=(member,))
    encoded = consumer_offsets.encode_value(group)
    assert encoded[:2] == b"\x00\x03"
    assert consumer_offsets.decode_value(GroupMetadataKey(group="g"), encoded) == (group, 3)
    older, _ = consumer_offsets.decode_value(GroupMetadataKey(), consumer_offsets.encode_value(group, 0))
    assert isinstance(older, GroupMetadataValue)
    assert older.members[0].group_instance_id is None


def test_members_of_the_consumer_protocol_say_so_with_a_null() -> None:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    encoded = consumer_offsets.encode_value(ConsumerGroupMemberMetadataValue(client_id="c"))
    assert encoded.endswith(bytes.fromhex("01000100"))
    assert consumer_offsets.decode_value(key, encoded) == (ConsumerGroupMemberMetadataValue(client_id="c"), 0)
    absent, _ = consumer_offsets.decode_value(key, encoded[:-4] + b"\x00")
    assert isinstance(absent, ConsumerGroupMemberMetadataValue)
    assert absent.classic_member_metadata == ClassicMemberMetadata()
    assert consumer_offsets.value_to_json(ConsumerGroupMemberMetadataValue(), 0)["data"] == {
        "instanceId": "",
        "rackId": "",
        "clientId": "",
        "clientHost": "",
        "subscribedTopicNames": [],
        "subscribedTopicRegex": "",
        "rebalanceTimeoutMs": -1,
        "serverAssignor": "",
        "classicMemberMetadata": None,
    }


def test_a_transaction_record_has_the_bytes_and_json_of_kafka() -> None:
    value = TransactionLogValue(producer_id=4, transaction_partitions=None, previous_producer_id=3)
    encoded = transaction_state.encode_value(value)
    assert encoded[:2] == b"\x00\x01"
    assert transaction_state.decode_value(TransactionLogKey(), encoded) == (value, 1)
    assert json_text.dumps(transaction_state.value_to_json(value, 1)) == (
        '{"version":1,"data":{"producerId":4,"previousProducerId":3,"producerEpoch":0,"transactionTimeoutMs":0,'
        '"transactionStatus":0,"transactionPartitions":null,"transactionLastUpdateTimestampMs":0,'
        '"transactionStartTimestampMs":0}}'
    )


def test_a_share_record_has_the_bytes_of_kafka() -> None:
    key = share_state.ShareUpdateKey(group_id="g", topic_id=UUID(int=5), partition=1)
    assert share_state.encode_key(key).hex() == "0001000167" + UUID(int=5).hex + "00000001"
    value = share_state.ShareUpdateValue(
        start_offset=3,
        state_batches=(share_state.StateBatch(first_offset=3, last_offset=9, delivery_state=2),),
    )
    assert share_state.decode_value(key, share_state.encode_value(value)) == (value, 0)


def test_types_of_a_newer_kafka_differ_from_broken_bytes() -> None:
    with pytest.raises(UnknownRecordTypeError, match="Unknown record type 25455") as caught:
        consumer_offsets.decode_key(b"commit1-0")
    assert caught.value.record_type == 25455
    with pytest.raises(CorruptRecordError, match="has no version"):
        consumer_offsets.decode_key(b"\x00")
    with pytest.raises(CorruptRecordError, match="ConsumerGroupMetadataKey"):
        consumer_offsets.decode_key(b"\x00\x03\x00\x09a")
    with pytest.raises(CorruptRecordError):
        consumer_offsets.decode_value(ConsumerGroupMetadataKey(), b"\x00\x00\x00")
