from __future__ import annotations

from uuid import UUID

import pytest

from kcli.errors import InvalidRecordException
from kcli.protocol.batches.batch import read_header, read_records
from kcli.protocol.batches.control import (
    EndTransactionMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    RaftControl,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    UnknownControlRecord,
    Voter,
    VoterEndpoint,
    VoterRecord,
    VotersRecord,
    control_type_of,
    decode_control,
    encode_marker_batch,
    encode_raft_batch,
)


def test_a_marker_batch_is_kafkas() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=7)
    batch = encode_marker_batch(marker, producer_id=13, producer_epoch=2, timestamp_ms=99, base_offset=40)
    header = read_header(batch)
    assert len(batch) == 78
    assert header.attributes == 0x30
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (13, 2, -1)
    (record,) = read_records(batch)
    assert (record.key, record.value) == (bytes.fromhex("00000001"), bytes.fromhex("000000000007"))
    assert decode_control(record.key, record.value) == marker
    assert control_type_of(record.key) == 1


def test_an_abort_marker_has_type_0() -> None:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    (record,) = read_records(encode_marker_batch(marker, producer_id=1, producer_epoch=0, timestamp_ms=1))
    assert record.key == bytes(4)
    assert decode_control(record.key, record.value) == marker


@pytest.mark.parametrize(
    ("control", "control_type", "value"),
    [
        (
            LeaderChangeMessage(
                leader_id=1, voters=(Voter(voter_id=1),), granting_voters=(Voter(voter_id=1),)
            ),
            2,
            "00000000000102000000010002000000010000",
        ),
        (SnapshotHeaderRecord(last_contained_log_timestamp=5), 3, "0000000000000000000500"),
        (SnapshotFooterRecord(), 4, "000000"),
        (KRaftVersionRecord(k_raft_version=1), 5, "0000000100"),
    ],
)
def test_raft_records_have_kafkas_bytes(control: RaftControl, control_type: int, value: str) -> None:
    batch = encode_raft_batch((control,), base_offset=3, leader_epoch=4, timestamp_ms=1)
    assert (read_header(batch).attributes, read_header(batch).partition_leader_epoch) == (0x20, 4)
    (record,) = read_records(batch)
    assert control_type_of(record.key) == control_type
    assert record.value is not None and record.value.hex() == value
    assert decode_control(record.key, record.value) == control


def test_voters_come_back() -> None:
    voters = VotersRecord(
        voters=(
            VoterRecord(
                voter_id=1,
                voter_directory_id=UUID(int=9),
                endpoints=(VoterEndpoint(name="CONTROLLER", host="h", port=9093),),
            ),
        )
    )
    batch = encode_raft_batch((SnapshotHeaderRecord(), voters), base_offset=0, leader_epoch=1, timestamp_ms=1)
    decoded = [decode_control(record.key, record.value) for record in read_records(batch)]
    assert decoded == [SnapshotHeaderRecord(), voters]


def test_unknown_types_are_named_not_refused() -> None:
    assert decode_control(b"\x00\x00\x00\x63", None) == UnknownControlRecord(type=99)


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\x00\x00", b""), (b"\xff\xff\x00\x00", b""), (bytes(4), b"\x00")]
)
def test_broken_control_records_are_refused(key: bytes | None, value: bytes) -> None:
    with pytest.raises(InvalidRecordException):
        decode_control(key, value)
    assert control_type_of(b"\x00") is None
