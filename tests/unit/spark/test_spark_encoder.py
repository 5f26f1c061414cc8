"""Records encoded by columns read back equal, record by record, through the broker's own decoder."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from kcli.model.topic_partition import TopicPartition  # noqa: E402
from kcli.protocol.batches.batch import Record, crc_is_valid, read_header, read_records  # noqa: E402
from kcli.protocol.batches.batch_headers import read_headers  # noqa: E402
from kcli.protocol.batches.columns import Depth, decode  # noqa: E402
from kcli.protocol.batches.compression import Codec  # noqa: E402
from kcli.spark.sink import encoder  # noqa: E402
from kcli.spark.sink.encoder import encode_records, seal, varint_columns, zigzag  # noqa: E402
from kcli.spark.source.arrow import record_batch  # noqa: E402

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)


def rows(rng: random.Random, count: int) -> list[dict[str, Any]]:
    def text(longest: int) -> bytes | None:
        return None if rng.random() < 0.15 else rng.randbytes(rng.randrange(longest))

    return [
        {
            "key": text(30),
            "value": text(400),
            "headers": None
            if rng.random() < 0.3
            else [{"key": f"h{nth}", "value": text(90)} for nth in range(rng.randrange(1, 4))],
        }
        for _ in range(count)
    ]


def columns(made: list[dict[str, Any]], skip: int = 0) -> tuple[object, object, object]:
    """The rows as Arrow columns that begin inside their buffers where `skip` is given."""
    padded = [made[0]] * skip + made
    key = pa.array([row["key"] for row in padded], pa.large_binary())[skip:]
    value = pa.array([row["value"] for row in padded], pa.large_binary())[skip:]
    return key, value, pa.array([row["headers"] for row in padded], HEADERS)[skip:]


@pytest.mark.parametrize("skip", [0, 3])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_rows_come_back(codec: Codec, skip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "BATCH_BYTES", 20_000)  # several batches from few rows
    made = rows(random.Random(skip), 600)
    groups = np.sort(np.random.default_rng(1).integers(0, 3, len(made)))
    records: list[Record] = []
    batches = 0
    for area in encode_records(groups, *columns(made, skip)):
        batch = seal(area, codec, 1234, 7, 2, 99)
        header = read_header(batch)
        assert crc_is_valid(batch, 0, header)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 99)
        assert header.last_offset_delta == area.count - 1
        assert {int(group) for group in groups[len(records) : len(records) + area.count]} == {area.group}
        records += read_records(batch)
        batches += 1
    assert batches > 3
    for record, row in zip(records, made, strict=True):
        headers = tuple((pair["key"], pair["value"]) for pair in row["headers"] or ())
        assert (record.key, record.value, record.headers) == (row["key"], row["value"], headers)
        assert record.timestamp_ms == 1234


def test_encode_then_decode_gives_the_same_arrow_columns() -> None:
    made = rows(random.Random(5), 500)
    [area] = encode_records(np.zeros(len(made), np.int64), *columns(made))
    [chunk] = decode(read_headers(seal(area, Codec.NONE, 5, -1, -1, -1), "t-3"), Depth.HEADERS)
    back = record_batch(chunk, TopicPartition("t", 3), SCHEMA)
    back.validate(full=True)
    assert back.schema.equals(SCHEMA)
    assert back.select(["key", "value", "headers"]).to_pylist() == made
    assert back.column("offset").to_pylist() == list(range(500))
    assert set(back.column("topic").to_pylist()) == {"t"}
    assert set(back.column("partition").to_pylist()) == {3}
    assert {moment.timestamp() for moment in back.column("timestamp").to_pylist()} == {0.005}
    assert set(back.column("timestampType").to_pylist()) == {0}


def test_large_types_are_taken_too() -> None:
    """As Spark sends them where spark.sql.execution.arrow.useLargeVarTypes is on."""
    made = rows(random.Random(8), 50)
    key, value, headers = columns(made)
    large = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    zeros = np.zeros(50, np.int64)
    [usual] = encode_records(zeros, key, value, headers)
    [other] = encode_records(zeros, key, value, pa.array([row["headers"] for row in made], large))
    assert bytes(usual.records) == bytes(other.records)


def test_only_wanted_columns_in_the_wanted_order() -> None:
    made = rows(random.Random(6), 20)
    [area] = encode_records(np.zeros(20, np.int64), *columns(made))
    [chunk] = decode(read_headers(seal(area, Codec.NONE, 5, -1, -1, -1), "t-3"), Depth.VALUE)
    schema = pa.schema([SCHEMA.field("offset"), SCHEMA.field("value")])
    assert record_batch(chunk, TopicPartition("t", 3), schema).schema.equals(schema)


def test_a_header_name_that_is_not_utf8_is_replaced() -> None:
    made: list[dict[str, Any]] = [{"key": None, "value": b"v", "headers": [{"key": "name", "value": b"x"}]}]
    [area] = encode_records(np.zeros(1, np.int64), *columns(made))
    raw = seal(area, Codec.NONE, 5, -1, -1, -1).replace(b"name", b"n\xffme")
    [chunk] = decode(read_headers(raw, "t-0", check_crc=False), Depth.HEADERS)
    back = record_batch(chunk, TopicPartition("t", 0), SCHEMA)
    assert back.column("headers").to_pylist() == [[{"key": "n�me", "value": b"x"}]]


def test_varints_of_every_size() -> None:
    numbers = np.array([0, -1, 63, 64, 8191, 8192, 2**20, 2**27, 2**31 - 1], np.int64)
    expected = [b"\0", b"\1", b"\x7e", b"\x80\1", b"\xfe\x7f", b"\x80\x80\1", b"\x80\x80\x80\1"]
    expected += [b"\x80\x80\x80\x80\1", b"\xfe\xff\xff\xff\x0f"]
    assert varint_columns(zigzag(numbers)).to_pylist() == expected
