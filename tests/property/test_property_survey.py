"""The survey of a producer's records agrees with reading them one by one, whatever their shape and however broken.

What it vouches for, `read_records` reads too, and both find the same; what `read_records` refuses it never vouches for.
Whole batches of clients it must vouch for: else each would be read slowly.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kcli.errors import KafkaError
from kcli.protocol.batches import survey as survey_module
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch, read_header, read_records
from kcli.protocol.batches.survey import survey
from kcli.protocol.wire.varint import read_varint
from rigs.examples import examples

BASE_MS = 1_700_000_000_000

fields = st.one_of(st.none(), st.binary(max_size=90), st.integers(0, 300).map(bytes))
headers = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=9))), max_size=3)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Runs of records of one shape, between them uneven ones; times that continue, stand, jump or go back."""
    records: list[Record] = []
    now_ms = BASE_MS
    for _ in range(draw(st.integers(1, 5))):
        key, value, tags = draw(fields), draw(fields), tuple(draw(headers))
        step_ms = draw(st.sampled_from([0, 0, 1, 3, -1, 700]))
        now_ms += draw(st.sampled_from([0, 0, 1, 90, -90, 9_000, 2**40]))
        for _ in range(draw(st.sampled_from([1, 2, 5, 25, 60, 70, 200]))):
            now_ms += step_ms
            records.append(Record(-1, now_ms, key, value, tags))
    return encode_batch(records)


@st.composite
def uneven(draw: st.DrawFn) -> bytes:
    """No two records alike; keys and values of one to three bytes of length, times near and far."""
    rng = draw(st.randoms(use_true_random=False))
    largest, span_ms = draw(st.sampled_from([(20, 0), (200, 90), (9_000, 30_000), (40_000, 4_000_000)]))
    key_size = draw(st.sampled_from([0, 10, 100, 9_000]))
    count = draw(st.integers(1, 120))
    return encode_batch(
        Record(
            -1,
            BASE_MS + (nth * span_ms // count),
            rng.choice([None, bytes(rng.randrange(key_size + 1))]),
            rng.choice([None, bytes(rng.randrange(largest))]),
        )
        for nth in range(count)
    )


def read(batch: bytes) -> tuple[int, int, bool, bool] | None:
    """The same by the slow and plain way."""
    try:
        records = list(read_records(batch))
    except KafkaError:
        return None
    times = [record.timestamp_ms for record in records]
    dense = [record.offset for record in records] == list(range(len(records)))
    return max(times), min(times), dense, any(record.key is None for record in records)


def compare(batch: bytes) -> None:
    plain = read(batch)
    for given_as in (batch, bytearray(batch), memoryview(bytearray(batch))):
        found = survey(read_header(batch), given_as)
        if found is None:
            continue
        assert plain is not None, "vouched for what cannot be read"
        newest_ms, oldest_ms, dense, null_key = plain
        assert found.newest_ms == newest_ms
        assert found.oldest_ms <= oldest_ms
        assert (found.is_dense, found.has_null_key) == (dense, null_key)


@given(batches())
@settings(max_examples=examples(150), deadline=None)
def test_whole_batches_are_vouched_for(batch: bytes) -> None:
    header = read_header(batch)
    found = survey(header, batch)
    newest_ms, oldest_ms, dense, null_key = read(batch)
    assert found is not None or newest_ms < header.base_timestamp_ms
    if found is not None:
        assert found.newest_ms == newest_ms and found.oldest_ms <= oldest_ms
        assert (found.is_dense, found.has_null_key) == (dense, null_key)


@given(batches(), st.data())
@settings(max_examples=examples(300), deadline=None)
def test_nothing_broken_is_vouched_for(batch: bytes, data: st.DataObject) -> None:
    broken = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_SIZE, len(broken) - 1))
        broken[at] = data.draw(
            st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, broken[at] ^ 1, broken[at] ^ 0x80])
        )
    compare(bytes(broken))


@given(batches(), st.integers(-9, 9).filter(bool), st.integers(-2, 2))
@settings(max_examples=examples(100), deadline=None)
def test_neither_too_many_bytes_nor_too_few_nor_a_wrong_count(
    batch: bytes, bytes_more: int, records_more: int
) -> None:
    cut = batch[:bytes_more] if bytes_more < 0 else batch + bytes(bytes_more)
    resized = bytearray(cut)
    resized[8:12] = (len(cut) - 12).to_bytes(4, "big")
    count = max(read_header(batch).records_count + records_more, 1)
    resized[57:61] = count.to_bytes(4, "big")
    if len(resized) >= HEADER_SIZE:
        compare(bytes(resized))


@given(batches() | uneven(), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_by_columns_and_by_steps_alike(batch: bytes, data: st.DataObject) -> None:
    """Each way on its own: which one is taken depends on sizes only."""
    broken = bytearray(batch)
    if data.draw(st.booleans()):
        broken[data.draw(st.integers(HEADER_SIZE, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    for many, columns_from in ((1 << 40, 1 << 40), (0, 1 << 40), (0, 1)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(survey_module, "MANY", many)
            patch.setattr(survey_module, "COLUMNS_FROM", columns_from)
            compare(bytes(broken))


@pytest.mark.parametrize("count", [63, 64, 65, 8_191, 8_192, 8_193, 17_000])
@pytest.mark.parametrize("span_ms", [0, 63, 64, 9_000, 3_000_000])
def test_offset_and_timestamp_deltas_of_every_width(count: int, span_ms: int) -> None:
    records = [Record(-1, BASE_MS + nth * span_ms // count, b"key", b"value") for nth in range(count)]
    batch = encode_batch(records)
    assert survey(read_header(batch), batch) == (records[-1].timestamp_ms, BASE_MS, True, False)


@pytest.mark.parametrize("size", [10, 100])
@pytest.mark.parametrize("broken_at", [0, 1, 2, 150, 298, 299])
def test_a_negative_size_is_no_size(broken_at: int, size: int) -> None:
    """An odd varint: half of it is the size of the record nonetheless, so that the rest of the batch looks sound."""
    batch = bytearray(encode_batch(Record(-1, BASE_MS, None, bytes(size + nth % 3)) for nth in range(300)))
    at = HEADER_SIZE
    for _ in range(broken_at):
        length, at = read_varint(batch, at)
        at += length
    batch[at] ^= 1
    assert read(bytes(batch)) is None
    compare(bytes(batch))


@pytest.mark.parametrize("gap_at", [0, 1, 30, 63, 64, 100, 299])
def test_offsets_with_a_gap_are_not_dense(gap_at: int) -> None:
    batch = encode_batch([Record(nth + (nth >= gap_at), BASE_MS, b"k", b"value") for nth in range(300)])
    found = survey(read_header(batch), batch)
    assert found is not None and not found.is_dense
    assert read_header(batch).last_offset_delta == 300


@example(BASE_MS - 5)
@given(st.integers(0, 2**50))
def test_a_newest_time_that_the_header_does_not_say(max_timestamp_ms: int) -> None:
    records = [Record(-1, BASE_MS + nth, b"k", b"value") for nth in range(40)]
    batch = encode_batch(records, max_timestamp_ms=max_timestamp_ms)
    assert survey(read_header(batch), batch).newest_ms == BASE_MS + 39
