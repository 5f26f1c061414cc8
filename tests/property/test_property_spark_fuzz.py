"""Any bytes at all, given to the decoder of the Spark source: rows or an error with a name, never a crash.

Batches are spoilt and then given the checksum of their spoilt bytes, so that nothing but the decoder stands in the
way. That every value lies inside the buffer is checked before Arrow copies it.
"""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.errors import CorruptRecordError
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Columns, Depth, decode
from kcli.protocol.batches.compression import Codec
from rigs.examples import examples

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")
crc32c = pytest.importorskip("crc32c").crc32c

pytest.importorskip("pyspark")

from kcli.model.topic_partition import TopicPartition  # noqa: E402
from kcli.spark.options import source_options  # noqa: E402
from kcli.spark.source.arrow import record_batch, record_batches  # noqa: E402
from kcli.spark.source.offsets import DataLossError, OffsetRange  # noqa: E402
from kcli.spark.source.readers import fetched, opened  # noqa: E402

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
CRC_AT, ATTRIBUTES_AT, HEADER_SIZE = 17, 21, 61
MAX_CELL_BYTES = 1 << 24
"""A spoilt size that was believed would give far more."""

texts = st.none() | st.binary(max_size=150)
records = st.builds(
    Record,
    offset=st.just(-1),
    timestamp_ms=st.integers(0, 2**42),
    key=texts,
    value=texts,
    headers=st.lists(st.tuples(st.text(max_size=4), texts), max_size=3).map(tuple),
    sequence=st.just(-1),
)
batches = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=20), st.sampled_from(list(Codec)), st.integers(1, 6)),
    min_size=1,
    max_size=6,
)


def laid_out(drawn: list[tuple[list[Record], Codec, int]]) -> list[bytearray]:
    offset, made = 0, []
    for rows, codec, repeat in drawn:
        encoded = encode_batch(rows * repeat, base_offset=offset, codec=codec)
        offset += len(rows) * repeat
        made.append(bytearray(encoded))
    return made


def read_all(raw: bytes, aborted: tuple[AbortedTransaction, ...] | None) -> None:
    try:
        table = read_headers(raw, "fuzz-0")
        for columns in decode(table, Depth.HEADERS, aborted=aborted):
            check_bounds(columns)
            made = record_batch(columns, TopicPartition("fuzz", 0), SCHEMA)
            made.validate(full=True)
            assert made.nbytes < MAX_CELL_BYTES
            for chunk in decode(table, Depth.OFFSET, aborted=aborted):
                assert len(chunk) <= max(len(raw), 1) * 64
    except CorruptRecordError as error:
        assert "fuzz-0" in str(error) and "offset" in str(error)


def check_bounds(columns: Columns) -> None:
    """Before anything is copied: every span lies in the buffer."""
    assert columns.keys is not None
    assert columns.values is not None
    assert columns.headers is not None
    for spans in (columns.keys, columns.values, columns.headers.keys, columns.headers.values):
        assert (spans.starts >= 0).all()
        assert (spans.starts + np.maximum(spans.lengths, 0) <= len(columns.buffer)).all()


@settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(drawn=batches, data=st.data())
def test_spoilt_batches_with_right_checksums(
    drawn: list[tuple[list[Record], Codec, int]], data: st.DataObject
) -> None:
    made = laid_out(drawn)
    for batch in made:
        for _ in range(data.draw(st.integers(0, 4))):
            at = data.draw(st.integers(ATTRIBUTES_AT, len(batch) - 1))
            batch[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255))
        struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[ATTRIBUTES_AT:])))
    aborted = data.draw(st.none() | st.just((AbortedTransaction(-1, 0), AbortedTransaction(0, 3))))
    read_all(b"".join(made), aborted)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(drawn=batches, data=st.data())
def test_damaged_segments_give_the_written_records_or_a_named_error(
    drawn: list[tuple[list[Record], Codec, int]], data: st.DataObject
) -> None:
    """Of a log directory, with their checksums as they were: what is read is what was written, or an error says why."""
    made = laid_out(drawn)
    end = sum(len(rows) * repeat for rows, _, repeat in drawn)
    written = [(record.key, record.value) for rows, _, repeat in drawn for record in rows * repeat]
    for batch in made:
        for _ in range(data.draw(st.integers(0, 2))):  # base offset and leader epoch are not in the checksum
            at = data.draw(st.integers(8, 11) | st.integers(16, len(batch) - 1))
            batch[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255))
    raw = b"".join(made)[: -data.draw(st.integers(0, 40)) or None]
    part = TopicPartition("fuzz", 0)
    with tempfile.TemporaryDirectory() as directory:
        os.mkdir(f"{directory}/fuzz-0")
        Path(directory, "fuzz-0", f"{0:020d}.log").write_bytes(raw)
        options = source_options({"path": directory, "subscribe": "fuzz"}, streaming=False)
        try:
            with opened(options) as logs:
                wanted = OffsetRange(part, 0, end)
                rows = [
                    (row["offset"], row["key"], row["value"])
                    for batch in record_batches(fetched(logs, wanted, options), wanted, SCHEMA)
                    for row in batch.select(["offset", "key", "value"]).to_pylist()
                ]
        except (CorruptRecordError, DataLossError) as error:
            assert "fuzz-0" in str(error) and "offset" in str(error)
        else:
            assert rows == [(offset, *pair) for offset, pair in enumerate(written)]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=batches, cut=st.integers(0, 400), junk=st.binary(max_size=200))
def test_cut_batches_and_junk_after_them(
    drawn: list[tuple[list[Record], Codec, int]], cut: int, junk: bytes
) -> None:
    raw = b"".join(laid_out(drawn))
    read_all(raw[: max(0, len(raw) - cut)] + junk, None)


@settings(max_examples=examples(60), deadline=None)
@given(raw=st.binary(max_size=600))
def test_random_bytes_never_crash_the_reader(raw: bytes) -> None:
    read_all(raw, None)
    head = bytearray(raw.ljust(HEADER_SIZE, b"\0"))
    struct.pack_into(">qi", head, 0, 5, len(head) - 12)
    head[16] = 2
    struct.pack_into(">I", head, CRC_AT, crc32c(bytes(head[ATTRIBUTES_AT:])))
    read_all(bytes(head), (AbortedTransaction(0, 0),))
