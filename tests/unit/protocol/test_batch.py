from __future__ import annotations

import pytest
from crc32c import crc32c

from kcli.errors import CorruptRecordError, CorruptRecordException, InvalidRecordException
from kcli.protocol.batches.batch import (
    HEADER_SIZE,
    Record,
    advance_sequence,
    assign,
    crc_is_valid,
    encode_batch,
    iter_batches,
    read_header,
    read_records,
    set_log_append_time,
    set_max_timestamp,
)
from kcli.protocol.batches.compression import Codec

RECORDS = (
    Record(timestamp_ms=1000, key=b"k", value=b"v", headers=(("h", b"1"), ("h", None))),
    Record(timestamp_ms=999, key=None, value=b""),
    Record(timestamp_ms=1500, key=b"", value=None),
)


def rebuilt(batch: bytes, body: bytes, count: int) -> bytes:
    """`batch` with another body and count, and a checksum that fits."""
    patched = bytearray(batch[:HEADER_SIZE] + body)
    patched[8:12] = (len(patched) - 12).to_bytes(4, "big")
    patched[57:61] = count.to_bytes(4, "big", signed=True)
    patched[17:21] = crc32c(bytes(patched[21:])).to_bytes(4, "big")
    return bytes(patched)


def test_a_batch_has_kafkas_bytes() -> None:
    batch = encode_batch(
        [Record(timestamp_ms=5, key=b"k", value=b"v")],
        base_offset=7,
        leader_epoch=3,
        producer_id=9,
        producer_epoch=1,
        base_sequence=4,
    )
    assert batch[:17].hex() == "0000000000000007" + "0000003a" + "00000003" + "02"
    assert batch[21:61].hex() == (
        "00000000000000000000000000050000000000000005000000000000000900010000000400000001"
    )  # fmt: skip
    assert batch[61:].hex() == "10000000026b027600"
    assert int.from_bytes(batch[17:21], "big") == crc32c(batch[21:])


@pytest.mark.parametrize("codec", Codec)
def test_records_come_back(codec: Codec) -> None:
    batch = encode_batch(
        RECORDS, base_offset=100, codec=codec, producer_id=1, producer_epoch=0, base_sequence=10
    )
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 102, 103)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 1500)
    assert header.codec is codec
    assert header.size_bytes == len(batch)
    assert (header.base_sequence, header.last_sequence) == (10, 12)
    assert crc_is_valid(batch, 0, header)
    expected = [
        record._replace(offset=100 + index, sequence=10 + index) for index, record in enumerate(RECORDS)
    ]
    assert list(read_records(batch)) == expected


def test_flags_reach_the_header() -> None:
    plain = read_header(encode_batch(RECORDS))
    assert not (plain.is_transactional or plain.is_control or plain.is_compressed or plain.has_producer_id)
    assert plain.last_sequence == -1
    marker = read_header(encode_batch(RECORDS[:1], transactional=True, control=True, producer_id=0))
    assert marker.is_transactional and marker.is_control and marker.has_producer_id
    assert marker.attributes == 0x30


def test_log_append_time_overrides_the_records_times() -> None:
    batch = encode_batch(RECORDS, log_append_time_ms=77_000)
    assert read_header(batch).is_log_append_time
    assert {record.timestamp_ms for record in read_records(batch)} == {77_000}


def test_a_delete_horizon_takes_the_base_timestamps_place() -> None:
    batch = encode_batch(RECORDS, delete_horizon_ms=9_999)
    header = read_header(batch)
    assert header.has_delete_horizon
    assert (header.delete_horizon_ms, header.base_timestamp_ms) == (9_999, 9_999)
    assert [record.timestamp_ms for record in read_records(batch)] == [1000, 999, 1500]
    assert read_header(encode_batch(RECORDS)).delete_horizon_ms is None


def test_compaction_keeps_offsets_and_range() -> None:
    kept = [record._replace(offset=offset) for record, offset in zip(RECORDS, (12, 15, 19), strict=True)]
    batch = encode_batch(kept, base_offset=10, last_offset_delta=20)
    assert read_header(batch).last_offset == 30
    assert [record.offset for record in read_records(batch)] == [12, 15, 19]


def test_an_empty_batch_keeps_its_range() -> None:
    batch = encode_batch((), base_offset=10, last_offset_delta=5, max_timestamp_ms=42, producer_id=3)
    header = read_header(batch)
    assert len(batch) == HEADER_SIZE
    assert (header.records_count, header.last_offset, header.base_timestamp_ms) == (0, 15, -1)
    assert header.max_timestamp_ms == 42
    assert list(read_records(batch)) == []


def test_sequences_wrap_to_zero() -> None:
    assert advance_sequence(2**31 - 1, 1) == 0
    batch = encode_batch(RECORDS, base_sequence=2**31 - 2, producer_id=1)
    assert [record.sequence for record in read_records(batch)] == [2**31 - 2, 2**31 - 1, 0]
    assert read_header(batch).last_sequence == 0


def test_assign_leaves_the_checksum_valid() -> None:
    buffer = bytearray(b"....") + encode_batch(RECORDS)
    assign(buffer, 4, 500, 7)
    header = read_header(buffer, 4)
    assert (header.base_offset, header.partition_leader_epoch) == (500, 7)
    assert crc_is_valid(buffer, 4, header)


def test_times_are_stamped_with_a_new_checksum() -> None:
    buffer = bytearray(encode_batch(RECORDS))
    set_log_append_time(buffer, 0, 123)
    header = read_header(buffer)
    assert header.is_log_append_time and header.max_timestamp_ms == 123
    assert crc_is_valid(buffer, 0, header)
    set_max_timestamp(memoryview(buffer), 0, 1500)
    header = read_header(buffer)
    assert not header.is_log_append_time and header.max_timestamp_ms == 1500
    assert bytes(buffer) == encode_batch(RECORDS)


def test_a_flipped_bit_is_seen() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[-1] ^= 1
    assert not crc_is_valid(batch, 0, read_header(batch))
    assert not crc_is_valid(batch[:-1], 0, read_header(batch))


def test_batches_follow_each_other_up_to_a_partial_one() -> None:
    first, second = encode_batch(RECORDS), encode_batch(RECORDS, base_offset=3)
    log = first + second
    positions = [(position, header.base_offset) for position, header in iter_batches(log)]
    assert positions == [(0, 0), (len(first), 3)]
    for cut in (1, 16, 17, 18, 60, 61, len(second) - 1):
        assert len(list(iter_batches(log[: len(first) + cut]))) == 1
    assert [header.base_offset for _, header in iter_batches(memoryview(log), len(first))] == [3]


@pytest.mark.parametrize(("at", "patch", "why"), [(8, b"\0\0\0\5", "size of 5"), (16, b"\3", "magic 3")])
def test_nonsense_headers_are_corrupt(at: int, patch: bytes, why: str) -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[at : at + len(patch)] = patch
    with pytest.raises(CorruptRecordError, match=why):
        list(iter_batches(batch))


def test_a_length_below_the_headers_is_corrupt() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[8:12] = b"\0\0\0\x30"
    with pytest.raises(CorruptRecordError, match="less than the 49 bytes"):
        list(iter_batches(batch))
    with pytest.raises(CorruptRecordError, match="cannot hold"):
        read_header(batch[:60])
    with pytest.raises(CorruptRecordError, match="cannot hold"):
        read_header(batch[:10])


def test_unknown_codecs_are_refused() -> None:
    batch = bytearray(encode_batch(RECORDS))
    batch[22] = 5
    with pytest.raises(InvalidRecordException, match="compression type id: 5"):
        list(read_records(batch))


def test_counts_and_lengths_must_add_up() -> None:
    batch = encode_batch(RECORDS)
    body = batch[HEADER_SIZE:]
    cases = [
        (body, 2, "still remaining"),
        (body, 4, "cut short"),
        (body, -1, "invalid record count"),
        (body[:-1], 3, "bytes in record payload|cut short"),
        (b"\x0e" + body[1:], 3, "expected to read|are left"),
        (bytes([12, 0, 0, 0, 1, 1, 3]), 1, "number of record headers"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), 1, "null key"),
        (bytes([12, 0, 0, 0, 80, 1, 0]), 1, "field of 40 bytes"),
    ]
    for broken, count, why in cases:
        with pytest.raises(InvalidRecordException, match=why):
            list(read_records(rebuilt(batch, broken, count)))


def test_a_batch_that_is_not_all_there_is_corrupt() -> None:
    batch = encode_batch(RECORDS)
    with pytest.raises(CorruptRecordException, match="are there"):
        list(read_records(batch[:-1]))


def test_records_are_decoded_as_they_are_asked_for() -> None:
    batch = encode_batch(RECORDS)
    records = read_records(rebuilt(batch, batch[HEADER_SIZE:] + b"\x00", 4))
    assert next(records).key == b"k"


def test_header_names_that_are_not_utf8_are_replaced_as_java_does() -> None:
    batch = encode_batch([Record(timestamp_ms=1, headers=(("xx", b""),))])
    broken = rebuilt(batch, batch[HEADER_SIZE:].replace(b"xx", b"\xff\xfe"), 1)
    assert next(read_records(broken)).headers == (("��", b""),)
