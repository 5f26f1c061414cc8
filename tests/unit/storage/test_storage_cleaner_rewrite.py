"""Batches without some of their records, against the encoder of whole batches."""

from __future__ import annotations

import numpy as np
import pytest

from kcli.model.ids import NO_SEQUENCE
from kcli.protocol.batches.batch import Record, encode_batch, read_header, read_records
from kcli.protocol.batches.batch_headers import read_headers
from kcli.protocol.batches.columns import Depth, RecordWalk, walks
from kcli.protocol.batches.compression import Codec
from kcli.storage.cleaner.rewrite import (
    NO_HORIZON,
    Survivors,
    empty_batch,
    lasting_horizons,
    rewritten_batches,
)

BASE_MS = 1_700_000_000_000
FAR_MS = 1 << 61


def records(*timestamps: int, value: bytes | None = b"value", first: int = 100) -> list[Record]:
    return [
        Record(first + nth, at, b"key-%d" % nth, value, (("h", b"x"), ("h", None)), NO_SEQUENCE)
        for nth, at in enumerate(timestamps)
    ]


def walk_of(*batches: bytes) -> RecordWalk:
    table = read_headers(b"".join(batches), "t-0")
    (walk,) = walks(table, np.arange(len(table)))
    return walk


def rewrite(
    batches: list[bytes], kept: list[list[bool]], horizons: list[int] | None = None
) -> list[tuple[bytes, int]]:
    walk = walk_of(*batches)
    columns = walk.columns(Depth.VALUE)
    assert columns.timestamps is not None
    flags = np.array([flag for flags in kept for flag in flags])
    chosen = np.array(horizons) if horizons else lasting_horizons(walk.headers)
    return list(
        rewritten_batches(Survivors(walk, columns.timestamps, flags, chosen), np.arange(len(batches)))
    )


@pytest.mark.parametrize("codec", list(Codec))
def test_as_if_the_others_had_never_been(codec: Codec) -> None:
    all_records = records(BASE_MS, BASE_MS + 5, BASE_MS + 3, BASE_MS + 900)
    batch = encode_batch(
        all_records,
        base_offset=100,
        leader_epoch=7,
        codec=codec,
        producer_id=4,
        producer_epoch=1,
        base_sequence=9,
    )
    ((found, newest),) = rewrite([batch], [[False, True, True, False]])
    assert found == encode_batch(
        all_records[1:3],
        base_offset=100,
        leader_epoch=7,
        codec=codec,
        producer_id=4,
        producer_epoch=1,
        base_sequence=9,
        last_offset_delta=3,
    )
    assert newest == BASE_MS + 5
    header = read_header(found)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (BASE_MS + 5, BASE_MS + 5)
    assert [record.offset for record in read_records(found)] == [101, 102]


@pytest.mark.parametrize("horizon_ms", [BASE_MS + 86_400_000, 0, FAR_MS])
def test_a_horizon_takes_the_place_of_the_base_timestamp(horizon_ms: int) -> None:
    """Deltas become negative, and up to ten bytes long."""
    all_records = records(BASE_MS, BASE_MS + 1, 0, value=None)
    batch = encode_batch(all_records, base_offset=100, leader_epoch=0)
    ((found, newest),) = rewrite([batch], [[True] * 3], [horizon_ms])
    assert found == encode_batch(all_records, base_offset=100, leader_epoch=0, delete_horizon_ms=horizon_ms)
    assert [record.timestamp_ms for record in read_records(found)] == [BASE_MS, BASE_MS + 1, 0]
    assert newest == BASE_MS + 1


def test_a_horizon_stays_when_records_go() -> None:
    all_records = records(BASE_MS, BASE_MS + 1, BASE_MS + 2, value=None)
    batch = encode_batch(all_records, base_offset=100, leader_epoch=0, delete_horizon_ms=BASE_MS + 99)
    ((found, _),) = rewrite([batch], [[False, True, True]])
    assert read_header(found).delete_horizon_ms == BASE_MS + 99
    assert list(read_records(found)) == all_records[1:]


def test_log_append_time_is_every_records_time() -> None:
    batch = encode_batch(records(1, 2, 3), base_offset=100, leader_epoch=0, log_append_time_ms=BASE_MS)
    ((found, newest),) = rewrite([batch], [[False, True, True]])
    header = read_header(found)
    assert header.is_log_append_time
    assert (header.base_timestamp_ms, header.max_timestamp_ms, newest) == (BASE_MS, BASE_MS, BASE_MS)
    assert {record.timestamp_ms for record in read_records(found)} == {BASE_MS}


@pytest.mark.parametrize("size", [40, 55, 56, 57, 58, 60, 8180, 8190, 100_000])
def test_lengths_that_grow_by_a_byte(size: int) -> None:
    """A longer timestamp delta can make the record's length need another byte."""
    all_records = records(BASE_MS, BASE_MS, BASE_MS, value=b"v" * size)
    batch = encode_batch(all_records, base_offset=100, leader_epoch=0)
    ((found, _),) = rewrite([batch], [[True] * 3], [1])
    assert found == encode_batch(all_records, base_offset=100, leader_epoch=0, delete_horizon_ms=1)


def test_many_batches_at_once() -> None:
    wholes = [records(BASE_MS + nth, BASE_MS + 2 * nth, BASE_MS, first=100 * nth) for nth in range(1, 6)]
    batches = [encode_batch(each, base_offset=each[0].offset, leader_epoch=0) for each in wholes]
    kept = [[True, False, True], [False, False, True], [True, True, False], [False, True, False], [True] * 3]
    found = rewrite(batches, kept, [NO_HORIZON, 5, NO_HORIZON, NO_HORIZON, 7])
    for (batch, _), whole, flags in zip(found, wholes, kept, strict=True):
        assert list(read_records(batch)) == [
            record for record, flag in zip(whole, flags, strict=True) if flag
        ]


def test_only_a_header() -> None:
    batch = encode_batch(
        records(BASE_MS, BASE_MS + 1),
        base_offset=100,
        leader_epoch=3,
        codec=Codec.LZ4,
        delete_horizon_ms=BASE_MS,
        producer_id=4,
        producer_epoch=1,
        base_sequence=9,
        transactional=True,
    )
    header = read_header(empty_batch(read_header(batch)))
    assert (header.size_bytes, header.records_count, header.codec) == (61, 0, Codec.NONE)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (100, 101, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, 9)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (-1, BASE_MS + 1)
    assert header.is_transactional and not header.has_delete_horizon
