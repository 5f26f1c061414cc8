"""Column decode of record batches: equal to the record-by-record decoder, and safe on bytes that are wrong."""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from pathlib import Path

import pytest

from kcli.errors import CorruptRecordError
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Columns, Depth, bytes_at, decode, headers_at
from kcli.protocol.batches.compression import Codec

NAME = "orders-0"


def rows_of(chunks: list[Columns]) -> list[Record]:
    """What the columns say, record by record."""
    return [record for chunk in chunks for record in records_of(chunk)]


def records_of(chunk: Columns) -> list[Record]:
    assert chunk.timestamps is not None
    assert chunk.keys is not None
    assert chunk.values is not None
    assert chunk.headers is not None
    return [
        Record(
            offset=int(chunk.offsets[nth]),
            timestamp_ms=int(chunk.timestamps[nth]),
            key=bytes_at(chunk.buffer, chunk.keys, nth),
            value=bytes_at(chunk.buffer, chunk.values, nth),
            headers=tuple(headers_at(chunk.buffer, chunk.headers, nth)),
        )
        for nth in range(len(chunk))
    ]


def random_records(rng: random.Random, count: int, base_offset: int, *, gaps: bool = False) -> list[Record]:
    def text(longest: int) -> bytes | None:
        return None if rng.random() < 0.1 else rng.randbytes(rng.randrange(longest))

    offset, records = base_offset, []
    for _ in range(count):
        headers = tuple((f"h{rng.randrange(3)}", text(90)) for _ in range(rng.randrange(4)))
        records.append(Record(offset, rng.randrange(1, 2**41), text(20), text(300), headers))
        offset += rng.randrange(1, 90) if gaps else 1
    return records


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("batches, most", [(1, 1), (3, 700), (120, 9)])
def test_equals_what_was_encoded(codec: Codec, batches: int, most: int) -> None:
    rng = random.Random(batches * 10 + codec)
    raw, expected, offset = b"", [], 5
    for _ in range(batches):
        records = random_records(rng, rng.randint(1, most), offset, gaps=rng.random() < 0.5)
        raw += encode_batch(records, base_offset=offset, codec=codec)
        expected += records
        offset = records[-1].offset + 1
    table = read_headers(raw + b"\0" * 30, NAME)
    assert table.next_offset == offset
    assert rows_of(list(decode(table, Depth.HEADERS))) == expected


@pytest.mark.parametrize("value_size", [0, 5, 100, 9000])
def test_equal_sized_records_across_varint_sizes(value_size: int) -> None:
    count = 9000 if value_size < 1000 else 300
    records = [Record(nth, 1000 + nth, b"k", bytes(value_size)) for nth in range(count)]
    [chunk] = decode(read_headers(encode_batch(records), NAME), Depth.HEADERS)
    assert rows_of([chunk]) == records


def test_each_depth_fills_only_its_columns() -> None:
    raw = encode_batch(
        [Record(timestamp_ms=7, key=b"k", value=b"v", headers=(("h", b"x"),))] * 3, base_offset=40
    )
    table = read_headers(raw, NAME)
    for depth in Depth:
        [chunk] = decode(table, depth)
        assert chunk.offsets.tolist() == [40, 41, 42]
        assert (chunk.timestamps is not None) == (depth >= Depth.TIMESTAMP)
        assert (chunk.keys is not None) == (depth >= Depth.KEY)
        assert (chunk.values is not None) == (depth >= Depth.VALUE)
        assert (chunk.headers is not None) == (depth >= Depth.HEADERS)


def test_offsets_of_a_compacted_batch_are_read_from_the_records() -> None:
    raw = encode_batch([Record(10, 1), Record(17, 1)], base_offset=8, last_offset_delta=12)
    [chunk] = decode(read_headers(raw, NAME), Depth.OFFSET)
    assert chunk.offsets.tolist() == [10, 17]


def test_a_count_that_the_size_belies_allocates_nothing() -> None:
    raw = bytearray(encode_batch([Record()]))
    raw[23:27] = struct.pack(">i", 2**31 - 2)  # last offset delta
    raw[57:61] = struct.pack(">i", 2**31 - 1)  # count
    for depth in Depth:
        with pytest.raises(CorruptRecordError, match="counts 2147483647 records in 7 bytes"):
            list(decode(read_headers(bytes(raw), NAME, check_crc=False), depth))


def test_range_cuts_inside_batches_and_keeps_headers_aligned() -> None:
    records = random_records(random.Random(3), 50, 0)
    raw = encode_batch(records[:20]) + encode_batch(records[20:], base_offset=20)
    chunks = list(decode(read_headers(raw, NAME), Depth.HEADERS, first_offset=13, end_offset=31))
    assert rows_of(chunks) == records[13:31]


def test_log_append_time_replaces_the_producers() -> None:
    raw = encode_batch([Record(timestamp_ms=1), Record(timestamp_ms=2)], log_append_time_ms=99)
    raw += encode_batch([Record(timestamp_ms=3)], base_offset=2)
    [chunk] = decode(read_headers(raw, NAME), Depth.TIMESTAMP)
    assert chunk.timestamps is not None
    assert chunk.log_append_time is not None
    assert chunk.timestamps.tolist() == [99, 99, 3]
    assert chunk.log_append_time.tolist() == [True, True, False]


ABORT, COMMIT = 0, 1


def marker(kind: int, offset: int, producer_id: int) -> bytes:
    """The end of a transaction as KIP-98 lays it out: version and type, then version and coordinator epoch."""
    return encode_batch(
        [Record(offset, 1, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def transactional(offset: int, producer_id: int, value: bytes) -> bytes:
    return encode_batch(
        [Record(offset, 1, None, value)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


def test_control_batches_and_aborted_transactions_are_dropped() -> None:
    raw = b"".join(
        (
            transactional(0, 7, b"aborted"),
            transactional(1, 8, b"other producer"),
            marker(ABORT, 2, 7),
            transactional(3, 7, b"next transaction"),
            marker(COMMIT, 4, 8),
            marker(COMMIT, 5, 7),
        )
    )
    table = read_headers(raw, NAME)
    everything = rows_of(list(decode(table, Depth.HEADERS)))
    assert [record.offset for record in everything] == [0, 1, 3]
    committed = rows_of(list(decode(table, Depth.HEADERS, aborted=[AbortedTransaction(7, 0)])))
    assert [record.value for record in committed] == [b"other producer", b"next transaction"]


def magic_one(offset: int, timestamp: int, key: bytes, value: bytes) -> bytes:
    """One message of the format of Kafka 0.10 (KIP-32)."""
    body = (
        struct.pack(">bbq", 1, 0, timestamp)
        + struct.pack(">i", len(key))
        + key
        + struct.pack(">i", len(value))
        + value
    )
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message


def test_messages_of_an_old_format_are_read_too() -> None:
    old = magic_one(3, 111, b"k", b"old, and long enough to be a whole header of the new format")
    raw = old + encode_batch([Record(4, 222, b"k", b"new")], base_offset=4)
    rows = rows_of(list(decode(read_headers(raw, NAME), Depth.HEADERS)))
    assert [(row.offset, row.timestamp_ms, row.key) for row in rows] == [(3, 111, b"k"), (4, 222, b"k")]
    assert rows[1].value == b"new"


def test_crc_is_checked_and_the_batch_named() -> None:
    raw = bytearray(
        encode_batch([Record(value=b"a")], base_offset=5) + encode_batch([Record(value=b"b")], base_offset=6)
    )
    raw[-2] ^= 1
    with pytest.raises(CorruptRecordError, match=r"batch at offset 6 of orders-0 \(position 69\) has CRC"):
        read_headers(bytes(raw), NAME)


def test_impossible_headers_are_refused() -> None:
    good = encode_batch([Record(value=b"a")], base_offset=5)
    unknown_magic = good[:16] + b"\x09" + good[17:]
    with pytest.raises(CorruptRecordError, match="magic 9; 0, 1 and 2 are known"):
        read_headers(unknown_magic, NAME)
    short = good[:8] + struct.pack(">i", 20) + good[12:]
    with pytest.raises(CorruptRecordError, match="says it is 32 bytes long"):
        read_headers(short, NAME)
    crowded = good[:57] + struct.pack(">i", 3) + good[61:]
    with pytest.raises(CorruptRecordError, match="counts 3 records over 1 offsets"):
        read_headers(crowded, NAME, check_crc=False)


def test_a_batch_that_does_not_decompress_is_named() -> None:
    raw = bytearray(encode_batch([Record(value=b"a" * 50)] * 4, base_offset=5, codec=Codec.ZSTD))
    raw[65] ^= 0xFF
    with pytest.raises(CorruptRecordError, match="offset 5 of orders-0"):
        list(decode(read_headers(bytes(raw), NAME, check_crc=False), Depth.VALUE))


def test_a_length_beyond_the_record_is_named() -> None:
    raw = bytearray(encode_batch([Record(key=b"k", value=b"v")] * 2, base_offset=5))
    at = raw.index(b"\x02k\x02v") + 2
    raw[at] = 0x7E  # value length 63
    with pytest.raises(CorruptRecordError, match="record 1 has a value that runs beyond its end"):
        list(decode(read_headers(bytes(raw), NAME, check_crc=False), Depth.VALUE))


@pytest.mark.parametrize("seed", range(40))
def test_no_damage_reads_out_of_bounds(seed: int) -> None:
    """Any flipped bytes in the records area: either refused by name or decoded inside the buffer."""
    rng = random.Random(seed)
    raw, offset = b"", 0
    for _ in range(rng.choice([1, 4, 60])):
        records = random_records(rng, rng.randint(1, 40), offset)
        raw += encode_batch(records, base_offset=offset)
        offset += len(records)
    for _ in range(12):
        damaged = bytearray(raw)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(61, len(damaged))
            damaged[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        try:
            chunks = list(decode(read_headers(bytes(damaged), NAME, check_crc=False), Depth.HEADERS))
        except CorruptRecordError as error:
            assert NAME in str(error)
            continue
        for chunk in chunks:
            for spans in (chunk.keys, chunk.values, chunk.headers and chunk.headers.keys):
                assert spans is not None
                assert ((spans.starts >= 0) & (spans.starts + spans.lengths <= len(chunk.buffer))).all()


GOLDEN = Path(__file__).resolve().parents[3] / ".." / "shared" / "golden"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden log directory is not on this machine")
def test_everything_apache_kafka_wrote_reads_back_equal() -> None:
    expected: dict[str, list[Record]] = {}
    for line in (GOLDEN / "manifest.jsonl").read_text().splitlines():
        each = json.loads(line)
        headers = tuple((name, plain(value)) for name, value in each["headers"])
        record = Record(each["offset"], each["timestamp"], plain(each["key"]), plain(each["value"]), headers)
        expected.setdefault(f"{each['topic']}-{each['partition']}", []).append(record)
    for partition, records in expected.items():
        found = []
        for segment in sorted((GOLDEN / "logdir-clean" / partition).glob("*.log")):
            table = read_headers(segment.read_bytes(), partition)
            found += rows_of(list(decode(table, Depth.HEADERS, first_offset=records[0].offset)))
        assert found == records


def plain(base64_text: str | None) -> bytes | None:
    return None if base64_text is None else base64.b64decode(base64_text)
