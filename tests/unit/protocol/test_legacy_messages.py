"""Message sets of the old formats, built here by hand because nothing writes them any more."""

from __future__ import annotations

import struct
import zlib

import pytest

from kcli.errors import CorruptRecordError, InvalidRecordException
from kcli.protocol.batches.batch import crc_is_valid, encode_batch, iter_batches, read_header, read_records
from kcli.protocol.batches.compression import Codec, compress
from kcli.protocol.batches.legacy import Record, read_checked_messages


def field(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def message(
    magic: int,
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    timestamp_ms: int = -1,
    attributes: int = 0,
) -> bytes:
    body = bytes([magic, attributes])
    if magic == 1:
        body += struct.pack(">q", timestamp_ms)
    body += field(key) + field(value)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_uncompressed_messages_of_old_formats_are_read() -> None:
    log = message(0, 5, b"old", key=b"k") + message(1, 6, None, timestamp_ms=99)
    headers = list(iter_batches(log))
    assert [(header.magic, header.base_offset, header.last_offset) for _, header in headers] == [
        (0, 5, 5),
        (1, 6, 6),
    ]
    assert [header.max_timestamp_ms for _, header in headers] == [-1, 99]
    assert all(crc_is_valid(log, position, header) for position, header in headers)
    records = [record for position, _ in headers for record in read_records(log, position)]
    assert records == [Record(5, -1, b"k", b"old"), Record(6, 99, None, None)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_a_wrapper_of_magic_1_counts_its_messages_from_zero(codec: Codec) -> None:
    inner = b"".join(message(1, index, b"%d" % index, timestamp_ms=10 + index) for index in range(3))
    wrapper = message(1, 102, compress(codec, inner), timestamp_ms=12, attributes=codec)
    header = read_header(wrapper)
    assert header.records_count == -1 and header.codec is codec
    assert [(record.offset, record.timestamp_ms, record.value) for record in read_records(wrapper)] == [
        (100, 10, b"0"),
        (101, 11, b"1"),
        (102, 12, b"2"),
    ]


def test_a_wrapper_of_magic_0_holds_absolute_offsets() -> None:
    inner = message(0, 7, b"a") + message(0, 9, b"b")
    wrapper = message(0, 9, compress(Codec.GZIP, inner), attributes=1)
    assert [record.offset for record in read_records(wrapper)] == [7, 9]


def test_a_wrapper_with_log_append_time_gives_it_to_its_messages() -> None:
    inner = message(1, 0, b"a", timestamp_ms=1) + message(1, 1, b"b", timestamp_ms=2)
    wrapper = message(1, 1, compress(Codec.GZIP, inner), timestamp_ms=50, attributes=1 | 8)
    assert read_header(wrapper).is_log_append_time
    assert [record.timestamp_ms for record in read_records(wrapper)] == [50, 50]


def test_an_lz4_frame_of_magic_0_has_a_wrong_header_checksum() -> None:
    frame = bytearray(compress(Codec.LZ4, message(0, 0, b"a")))
    frame[6] ^= 0xFF
    assert [record.value for record in read_records(message(0, 0, bytes(frame), attributes=3))] == [b"a"]


def test_each_message_tells_its_own_checksum() -> None:
    broken = bytearray(message(1, 1, b"bad"))
    broken[-1] ^= 1
    wrapper = message(1, 1, compress(Codec.GZIP, message(1, 0, b"good") + bytes(broken)), attributes=1)
    assert [checked.is_valid for checked in read_checked_messages(wrapper, limit=10_000)] == [True, False]


@pytest.mark.parametrize(
    ("value", "attributes", "why"),
    [
        (None, 1, "null value"),
        (compress(Codec.GZIP, b""), 1, "no inner records"),
        (compress(Codec.GZIP, message(0, 0, b"x")), 1, "does not match wrapper magic"),
        (compress(Codec.GZIP, message(1, 0, b"x", attributes=2)), 1, "itself compressed"),
        (b"x", 4, "compression type id: 4"),
    ],
)
def test_broken_wrappers_are_refused(value: bytes | None, attributes: int, why: str) -> None:
    with pytest.raises(InvalidRecordException, match=why):
        list(read_records(message(1, 0, value, attributes=attributes)))


def test_lengths_must_add_up() -> None:
    short = bytearray(message(1, 0, b"abc"))
    short[-7:-3] = struct.pack(">i", 2)
    with pytest.raises(InvalidRecordException, match="1 bytes are left after"):
        list(read_records(short))
    short[-7:-3] = struct.pack(">i", 9)
    with pytest.raises(InvalidRecordException, match="field of 9 bytes"):
        list(read_records(short))
    small = bytearray(message(1, 0, b"abc"))
    small[8:12] = struct.pack(">i", 21)
    with pytest.raises(CorruptRecordError, match="less than the 22 bytes"):
        list(iter_batches(small))


def test_formats_may_follow_each_other_in_one_log() -> None:
    log = message(0, 0, b"a") + message(1, 1, b"b") + encode_batch([Record(value=b"c")], base_offset=2)
    assert [header.magic for _, header in iter_batches(log)] == [0, 1, 2]
