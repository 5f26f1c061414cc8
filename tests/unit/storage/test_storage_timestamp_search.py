"""Searches by timestamp in batches that are read in parts, against a search in a list."""

from __future__ import annotations

import pytest

from kcli.config.topic import LogConfig
from kcli.protocol.batches import compression, record_parts
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.storage.log import lookup
from kcli.storage.log.index import TimestampOffset
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_replicated
from rigs.steps import last_of
from simulation.runtime.disk import SimDisk

TIMES = [START_MS + step for step in (5, 3, 9, 9, 40, 12, 41, 90)]


def log_of(codec: Codec, *, stamped: bool) -> tuple[PartitionLog, list[TimestampOffset]]:
    log = LogRig(SimDisk(), config=LogConfig(file_delete_delay_ms=0)).create()
    records: list[TimestampOffset] = []
    for base_ms in (0, 100, 50):
        rows = [Record(-1, base_ms + time_ms, b"k", bytes(time_ms % 37)) for time_ms in TIMES]
        stamp = max(row.timestamp_ms for row in rows) if stamped else None
        batch = encode_batch(
            rows, base_offset=len(records), codec=codec, log_append_time_ms=stamp, leader_epoch=0
        )
        records += [
            TimestampOffset(stamp or row.timestamp_ms, len(records) + nth) for nth, row in enumerate(rows)
        ]
        append_replicated(log, batch, leader_epoch=0, now_ms=START_MS)
    return log, records


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("large_bytes", [20, 1 << 20])
def test_in_parts_as_in_a_list(
    codec: Codec, stamped: bool, large_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "FEW_RECORDS", 0)
    monkeypatch.setattr(compression, "PIECE_BYTES", 50)
    monkeypatch.setattr(record_parts, "LARGE_BYTES", large_bytes)
    log, records = log_of(codec, stamped=stamped)
    log.set_high_watermark(log.log_end_offset)
    for log_start in (0, 3, 11):
        log.delete_records_before(log_start)
        for time_ms in range(START_MS, START_MS + 195):
            expected = next(
                (each for each in records if each.timestamp_ms >= time_ms and each.offset >= log_start), None
            )
            assert last_of(log.search_timestamp(time_ms)) == expected
    newest_ms = max(each.timestamp_ms for each in records)
    assert last_of(log.search_max_timestamp()) == next(
        each for each in records if each.timestamp_ms == newest_ms and each.offset >= 11
    )


def test_a_small_batch_is_found_in_one_step_and_a_large_one_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, _ = log_of(Codec.ZSTD, stamped=False)
    with pytest.raises(StopIteration):
        next(log.search_timestamp(START_MS))
    monkeypatch.setattr(lookup, "FEW_RECORDS", 0)
    search = log.search_timestamp(START_MS)
    next(search)
    found = last_of(search)
    assert found is not None and found.offset == 0


def test_a_segment_that_is_deleted_meanwhile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "FEW_RECORDS", 0)
    log, _ = log_of(Codec.ZSTD, stamped=False)
    log.roll()
    search = log.search_timestamp(START_MS)
    next(search)
    log.local.drop_segments(log.segments[:1])
    log.directory.deletions.run()
    last_of(search)
    assert log.directory.error is None
