"""Batches and codecs: whatever goes in comes out, and no garbage makes a reader fail in another way than it says."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import KcliError
from kcli.protocol.batches.batch import (
    Record,
    crc_is_valid,
    encode_batch,
    iter_batches,
    read_header,
    read_records,
)
from kcli.protocol.batches.compression import Codec, compress, decompress
from kcli.protocol.wire.varint import encode_varint, read_varint, read_varlong

maybe_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=4).map(tuple)
records = st.lists(
    st.builds(
        Record,
        timestamp_ms=st.integers(-1, 2**53),
        key=maybe_bytes,
        value=maybe_bytes,
        headers=headers,
        offset=st.just(-1),
        sequence=st.just(-1),
    ),
    max_size=20,
)


@given(
    records,
    st.sampled_from(Codec),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
)
def test_records_come_back(written: list[Record], codec: Codec, base_offset: int, base_sequence: int) -> None:
    batch = encode_batch(
        written, base_offset=base_offset, codec=codec, base_sequence=base_sequence, producer_id=1
    )
    header = read_header(batch)
    assert crc_is_valid(batch, 0, header)
    read = list(read_records(batch))
    assert [record.offset for record in read] == [base_offset + index for index in range(len(written))]
    assert [record._replace(offset=-1, sequence=-1) for record in read] == written
    assert header.max_timestamp_ms == max((record.timestamp_ms for record in written), default=-1)
    assert all(0 <= record.sequence < 2**31 for record in read)


@given(st.sampled_from(Codec), st.binary(max_size=2000).map(lambda seed: seed * 90))
def test_compressed_bytes_come_back(codec: Codec, payload: bytes) -> None:
    assert decompress(codec, compress(codec, payload)) == payload


@given(st.sampled_from(Codec), st.binary(max_size=300), st.booleans())
def test_garbage_is_refused_or_read_but_never_worse(codec: Codec, garbage: bytes, with_head: bool) -> None:
    head = compress(codec, b"some text that is long enough")[:16] if with_head else b""
    with contextlib.suppress(KcliError):
        decompress(codec, head + garbage, limit=10_000_000)


@given(records, st.sampled_from(Codec), st.data())
def test_a_damaged_batch_fails_as_it_says(written: list[Record], codec: Codec, data: st.DataObject) -> None:
    batch = bytearray(encode_batch(written, codec=codec))
    at = data.draw(st.integers(0, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    try:
        for position, header in iter_batches(batch):
            assert at > 16 or 8 <= at <= 12 or crc_is_valid(batch, position, header)
            if at >= 21:
                assert not crc_is_valid(batch, position, header)
            list(read_records(batch, position, limit=10_000_000))
    except KcliError:
        pass


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varlong(encoded, 0) == (value, len(encoded))
    if -(2**31) <= value < 2**31:
        assert read_varint(encoded, 0) == (value, len(encoded))
