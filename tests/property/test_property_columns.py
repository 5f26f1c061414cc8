"""Column decode against the record-by-record decoder, over whatever batches Hypothesis thinks of."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.errors import CorruptRecordError, KafkaError
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Columns, Depth, bytes_at, decode, headers_at
from kcli.protocol.batches.compression import Codec
from rigs.examples import examples

texts = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=3).map(tuple)
records = st.builds(
    Record,
    offset=st.integers(1, 300),  # a gap to the one before, made an offset below
    timestamp_ms=st.integers(-1, 2**42),
    key=texts,
    value=texts,
    headers=headers,
    sequence=st.just(-1),
)
Drawn = list[tuple[list[Record], Codec, bool]]
batches = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=12), st.sampled_from(list(Codec)), st.booleans()),
    min_size=1,
    max_size=50,
)
quickly = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def placed(made: Drawn) -> tuple[bytes, list[Record]]:
    """The batches one after another in a log, and their records with offsets; some repeat one record to make runs."""
    raw, expected, offset = b"", [], 0
    for drawn, codec, repeat in made:
        base, rows = offset, []
        for record in [drawn[0]] * (len(drawn) * 7) if repeat else drawn:
            rows.append(record._replace(offset=offset))
            offset += 1 if repeat else record.offset
        raw += encode_batch(rows, base_offset=base, codec=codec, last_offset_delta=offset - 1 - base)
        expected += rows
    return raw, expected


def rows_of(chunk: Columns) -> list[Record]:
    assert chunk.timestamps is not None
    assert chunk.keys is not None
    assert chunk.values is not None
    assert chunk.headers is not None
    return [
        Record(
            int(chunk.offsets[nth]),
            int(chunk.timestamps[nth]),
            bytes_at(chunk.buffer, chunk.keys, nth),
            bytes_at(chunk.buffer, chunk.values, nth),
            tuple(headers_at(chunk.buffer, chunk.headers, nth)),
        )
        for nth in range(len(chunk))
    ]


@quickly
@given(made=batches, first=st.integers(0, 3000), size=st.integers(0, 3000))
def test_columns_equal_records(made: Drawn, first: int, size: int) -> None:
    raw, expected = placed(made)
    table = read_headers(raw, "t-0")
    assert [row for chunk in decode(table, Depth.HEADERS) for row in rows_of(chunk)] == expected
    part = decode(table, Depth.HEADERS, first_offset=first, end_offset=first + size)
    wanted = [record for record in expected if first <= record.offset < first + size]
    assert [row for chunk in part for row in rows_of(chunk)] == wanted
    offsets = [int(offset) for chunk in decode(table, Depth.OFFSET) for offset in chunk.offsets]
    assert offsets == [record.offset for record in expected]


@quickly
@given(made=batches, data=st.data())
def test_damaged_bytes_are_refused_or_read_alike(made: Drawn, data: st.DataObject) -> None:
    raw, _ = placed(made)
    damaged = bytearray(raw)
    for at in data.draw(
        st.lists(st.integers(61, len(raw) - 1), min_size=1, max_size=3) if len(raw) > 61 else st.just([])
    ):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        table = read_headers(bytes(damaged), "t-0", check_crc=False)
        found = [row for chunk in decode(table, Depth.HEADERS) for row in rows_of(chunk)]
    except CorruptRecordError as error:
        assert "t-0" in str(error)
        return
    try:
        expected = [
            record
            for position, header in iter_batches(bytes(damaged))
            if not header.is_control
            for record in read_records(bytes(damaged), position)
        ]
    except (CorruptRecordError, KafkaError):
        return  # the other decoder also looks at what columns do not need, such as UTF-8 in header names
    assert [row[:4] for row in found] == [record[:4] for record in expected]
