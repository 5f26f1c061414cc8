from __future__ import annotations

from uuid import UUID

import pytest

from kcli.errors import CorruptRecordError
from kcli.protocol.records import json_text, metadata
from kcli.protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_to_json,
    write_version_for,
)
from kcli.protocol.records.schema import schema_of

TOPIC_ID = UUID("99a14428-3b55-4bc2-b068-cbd37e3d004b")
TYPES = MetadataRecord.__args__


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_every_type_comes_back_at_every_version(cls: type[MetadataRecord]) -> None:
    schema = schema_of(cls)
    for version in range(schema.min_version, schema.max_version + 1):
        assert decode_metadata_record(encode_metadata_record(cls(), version)) == (cls(), version)


def test_api_keys_are_kafkas() -> None:
    keys = sorted(schema_of(cls).key for cls in TYPES)
    assert keys == [*range(6), *range(7, 13), 14, 15, *range(17, 30)]


def test_a_record_has_kafkas_bytes() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=27)
    # Frame 1, key 12, version 0; compact string of 16; int16; no tags.
    expected = bytes.fromhex("010c0011") + b"metadata.version" + bytes.fromhex("001b00")
    assert encode_metadata_record(record, 0) == expected
    assert encode_metadata_record(NoOpRecord(), 0) == bytes.fromhex("01140000")


def test_unchanged_parts_of_a_partition_are_left_out() -> None:
    change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, isr=(), leader=-1)
    encoded = encode_metadata_record(change, 2)
    # Two tags: an empty isr, leader -1.
    assert encoded.endswith(bytes.fromhex("020001010104ffffffff"))
    assert decode_metadata_record(encoded) == (change, 2)


def test_a_reserved_directory_keeps_its_id() -> None:
    migrating = UUID(int=0)
    record = PartitionRecord(topic_id=TOPIC_ID, replicas=(1,), directories=(migrating,))
    decoded, _ = decode_metadata_record(encode_metadata_record(record, 1))
    assert decoded == record


def test_json_is_kafkas() -> None:
    record = PartitionChangeRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        isr=(),
        leader=-1,
        eligible_leader_replicas=(1,),
        last_known_elr=(1,),
    )
    assert json_text.dumps(metadata_record_to_json(record, 2)) == (
        '{"type":"PARTITION_CHANGE_RECORD","version":2,"data":{"partitionId":0,"topicId":'
        '"maFEKDtVS8KwaMvTfj0ASw","isr":[],"leader":-1,"eligibleLeaderReplicas":[1],"lastKnownElr":[1]}}'
    )


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (NoOpRecord, "NO_OP_RECORD"),
        (TopicRecord, "TOPIC_RECORD"),
        (metadata.ClearElrRecord, "CLEAR_ELR_RECORD"),
    ],
)
def test_a_record_class_has_the_type_name_of_kafka(cls: type[MetadataRecord], name: str) -> None:
    assert metadata.metadata_record_type_name(cls()) == name


@pytest.mark.parametrize(
    ("record", "levels"),
    [
        (RegisterBrokerRecord(), {7: 1, 8: 2, 16: 2, 17: 3, 27: 3, 29: 3, 30: 4}),
        (PartitionRecord(), {7: 0, 16: 0, 17: 1, 22: 1, 23: 2, 33: 2}),
        (PartitionChangeRecord(), {7: 0, 17: 1, 27: 2}),
        (TopicRecord(), {7: 0, 33: 0}),
        (BrokerRegistrationChangeRecord(fenced=-1), {27: 0}),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), {27: 1}),
        (BrokerRegistrationChangeRecord(log_dirs=(TOPIC_ID,)), {27: 2}),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=()), {30: 3}),
    ],
)
def test_versions_follow_the_metadata_version(record: MetadataRecord, levels: dict[int, int]) -> None:
    assert {level: write_version_for(record, level) for level in levels} == levels


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "frame of a metadata record"),
        (b"\x63\x00\x00", r"unknown frame version 99\(only frame version 1 is supported\)"),
        (b"\x01\x06\x00\x00", "Unknown metadata id 6"),
        (b"\x01\x14\x00", "NoOpRecord"),
        (b"\x01\x14\x00\x00\x00", "1 byte.s. of garbage"),
    ],
)
def test_broken_records_are_corrupt(value: bytes, why: str) -> None:
    with pytest.raises(CorruptRecordError, match=why):
        decode_metadata_record(value)
