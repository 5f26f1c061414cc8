"""Reading a batch in parts finds what reading it whole finds, however the bytes are cut and however broken they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.errors import CorruptRecordError, KafkaError
from kcli.protocol.batches import batch as batch_module
from kcli.protocol.batches import compression, record_parts
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch, read_header, read_records
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Depth, GiantBatch, bytes_at, walks
from kcli.protocol.batches.compression import Codec, compress, decompress, deflate, inflate
from kcli.protocol.batches.record_parts import LargeRecord, RecordPart
from rigs.examples import examples

BASE_MS = 1_700_000_000_000
CODECS = list(Codec)

fields = st.one_of(st.none(), st.binary(max_size=60), st.integers(0, 400).map(bytes))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=9))), max_size=3)
quickly = settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def batches(draw: st.DrawFn) -> list[Record]:
    """Runs of records of one size, and between them records of other sizes."""
    records: list[Record] = []
    for _ in range(draw(st.integers(1, 4))):
        record = Record(
            -1, BASE_MS + draw(st.integers(-90, 90)), draw(fields), draw(fields), tuple(draw(headers))
        )
        records += [record] * draw(st.sampled_from([1, 2, 5, 40, 300]))
    return records


def cut(payload: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield payload[at : at + size]
        at += size
    yield payload[at:]


def read_in_parts(batch: bytes, sizes: list[int], large_bytes: int) -> list[tuple[int, int, bool]]:
    """(timestamp delta, offset delta, whether the key is null) of each record."""
    header = read_header(batch)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_parts, "LARGE_BYTES", large_bytes)
        for part in record_parts.record_parts(cut(batch[HEADER_SIZE:], sizes), header.records_count):
            if isinstance(part, LargeRecord):
                found.append((part.timestamp_delta, part.offset_delta, part.check()))
                continue
            ends = [*part.starts[1:].tolist(), len(part.buffer)][: len(part)]
            for start, end in zip(part.starts.tolist(), ends, strict=True):
                record, at = batch_module._decode_record(header, part.buffer, start)
                assert at == end
                delta_ms = record.timestamp_ms - header.base_timestamp_ms
                found.append((delta_ms, record.offset - header.base_offset, record.key is None))
    return found


@quickly
@given(batches(), st.lists(st.integers(0, 200), max_size=30), st.sampled_from([16, 50, 1 << 20]))
def test_parts_equal_the_plain_reader(records: list[Record], sizes: list[int], large_bytes: int) -> None:
    batch = encode_batch(records)
    header = read_header(batch)
    plain = [
        (each.timestamp_ms - header.base_timestamp_ms, each.offset, each.key is None)
        for each in read_records(batch)
    ]
    assert read_in_parts(batch, sizes, large_bytes) == plain


@quickly
@given(batches(), st.lists(st.integers(0, 200), max_size=30), st.sampled_from([16, 1 << 20]), st.data())
def test_reading_in_parts_refuses_the_batches_that_the_plain_reader_refuses(
    records: list[Record], sizes: list[int], large_bytes: int, data: st.DataObject
) -> None:
    batch = bytearray(encode_batch(records))
    for _ in range(data.draw(st.integers(1, 2))):
        batch[data.draw(st.integers(HEADER_SIZE, len(batch) - 1))] = data.draw(
            st.sampled_from([0, 1, 2, 127, 128, 255])
        )
    try:
        plain = [(each.offset, each.key is None) for each in read_records(bytes(batch))]
    except KafkaError:
        plain = None
    try:
        found = [row[1:] for row in read_in_parts(bytes(batch), sizes, large_bytes)]
    except (KafkaError, IndexError, ValueError):
        found = None
    assert found == plain


@quickly
@given(batches(), st.sampled_from(CODECS), st.sampled_from([64, 300, 5_000]))
def test_the_plain_reader_in_pieces(records: list[Record], codec: Codec, piece_bytes: int) -> None:
    batch = encode_batch(records, codec=codec)
    whole = list(read_records(batch))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "PIECE_BYTES", piece_bytes)
        assert list(read_records(batch)) == whole


@quickly
@given(batches(), st.sampled_from(CODECS[1:]), st.integers(0, 4_000))
def test_a_giant_batch_is_walked_in_parts(records: list[Record], codec: Codec, limit: int) -> None:
    raw, offset = b"", 0
    for rows in ([Record(-1, BASE_MS, b"k", b"v")], records, records[:1], records):
        raw += encode_batch(rows, codec=codec, base_offset=offset)
        offset += len(rows)
    table = read_headers(raw, "t-0")
    expected = [record for at in table.positions.tolist() for record in read_records(raw, at)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "kcli.protocol.batches.columns.decompress", lambda codec, area: decompress(codec, area, limit)
        )
        patch.setattr(compression, "PIECE_BYTES", 200)
        found = []
        for walk in walks(table, np.arange(len(table))):
            columns = walk.columns(Depth.HEADERS)
            assert columns.timestamps is not None and columns.values is not None
            for nth in range(len(columns)):
                value = bytes_at(columns.buffer, columns.values, nth)
                found.append((int(columns.offsets[nth]), int(columns.timestamps[nth]), value))
    assert found == [(each.offset, each.timestamp_ms, each.value) for each in expected]


@pytest.mark.parametrize("codec", CODECS)
@quickly
@given(st.lists(st.one_of(st.binary(max_size=300), st.integers(0, 200_000).map(bytes)), max_size=6))
def test_pieces_compress_and_decompress_as_a_whole_does(codec: Codec, pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    packed = b"".join(deflate(codec, pieces))
    assert decompress(codec, packed) == whole
    if codec is not Codec.ZSTD:  # its frames depend on how the bytes come
        assert packed == compress(codec, whole)
    assert b"".join(inflate(codec, packed)) == whole


def test_a_part_and_a_giant_are_named_in_errors() -> None:
    raw = bytearray(
        encode_batch([Record(-1, BASE_MS, b"k", b"v")] * 3, codec=Codec.ZSTD, last_offset_delta=3)
    )
    raw[57:61] = (4).to_bytes(4, "big")
    table = read_headers(bytes(raw), "t-0", check_crc=False)
    with pytest.raises(CorruptRecordError, match="batch at offset 0 of t-0"):
        list(GiantBatch(table, 0).walks())


def test_empty_parts_show_progress() -> None:
    parts = list(record_parts.record_parts([b"", b"", encode_batch([Record(-1, 0, b"k")])[HEADER_SIZE:]], 1))
    assert [len(part) for part in parts if isinstance(part, RecordPart)] == [0, 0, 1]
