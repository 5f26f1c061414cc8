"""Offsets without a record, because compaction or a crash took the end of a segment."""

from __future__ import annotations

from kcli.config.topic import LogConfig
from rigs.logs import START_MS, LogRig, append_replicated, batch_of, marker_of
from simulation.runtime.disk import SimDisk


def test_aborted_transactions_after_a_gap_are_returned() -> None:
    """A read_committed consumer comes to the gap with the offset after the last record it saw."""
    rig = LogRig(SimDisk(lambda: START_MS), config=LogConfig(internal_segment_bytes=200))
    log = rig.create()
    batches = [
        batch_of([b"a" * 60, b"b" * 60], base_offset=0, leader_epoch=0),
        batch_of([b"c" * 30], base_offset=10, leader_epoch=0, producer_id=7, producer_epoch=0, sequence=0,
                 transactional=True),
    ]  # fmt: skip
    for batch in batches:
        append_replicated(log, batch, leader_epoch=-1, now_ms=START_MS)
    log.append(marker_of(commit=False, producer_id=7, producer_epoch=0), leader_epoch=0, now_ms=START_MS)  # fmt: skip
    assert [segment.base_offset for segment in log.segments] == [0, 10]
    piece = log.read(2, 1000, end_offset=12)
    upper = log.local.upper_bound_offset(2, piece.size_bytes)
    assert upper == 12
    assert [entry.first_offset for entry in log.local.aborted_transactions(2, upper)] == [10]
    assert log.local.upper_bound_offset(0, 100) == 10
    assert log.local.upper_bound_offset(12, 0) == 12
