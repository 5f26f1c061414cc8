"""Durability: the recovery point, and truncations that are not durable yet."""

from __future__ import annotations

import uuid

import pytest

from kcli.config.topic import LogConfig
from kcli.model.ids import Offset
from kcli.storage.checkpoint import PARTITION_METADATA_FILE, read_partition_metadata
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.segment import Segment
from rigs.logs import START_MS, LogRig, append_client, batch_of, numbered
from simulation.runtime.disk import SimDisk


def filled(count: int) -> PartitionLog:
    log = LogRig(SimDisk()).create()
    append_client(log, batch_of(numbered(count)), leader_epoch=0, now_ms=START_MS)
    return log


def test_a_flush_moves_the_recovery_point_to_the_log_end_at_most() -> None:
    log = filled(3)
    assert (log.durability.recovery_point, log.durability.is_flushed) == (0, False)
    log.durability.flush(Offset(9))
    assert (log.durability.recovery_point, log.durability.is_flushed) == (3, True)


def test_a_truncation_during_a_flush_keeps_the_recovery_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush does not know whether it wrote the records before the truncation or those after it."""
    log = filled(3)
    flush = Segment.flush

    def flush_and_truncate(segment: Segment) -> None:
        flush(segment)
        log.truncate_to(Offset(0))
        append_client(log, batch_of(numbered(5)), leader_epoch=0, now_ms=START_MS)

    monkeypatch.setattr(Segment, "flush", flush_and_truncate)
    log.durability.flush()
    assert (log.durability.recovery_point, log.log_end_offset) == (0, 5)


def test_a_truncation_moves_the_recovery_point_back() -> None:
    log = LogRig(SimDisk()).create()
    for _ in range(3):
        append_client(log, batch_of(numbered(1)), leader_epoch=0, now_ms=START_MS)
    log.durability.flush()
    log.truncate_to(Offset(1))
    assert log.durability.recovery_point == 1


def test_each_truncation_must_become_durable() -> None:
    log = filled(3)
    log.truncate_to(Offset(0))
    noted = log.local.truncations
    append_client(log, batch_of(numbered(1)), leader_epoch=0, now_ms=START_MS)
    log.truncate_to(Offset(0))
    log.durability.note_durable_cuts(noted)
    assert log.durability.has_unsynced_cut
    log.durability.note_durable_cuts(log.local.truncations)
    assert not log.durability.has_unsynced_cut


def test_a_log_that_gets_its_topic_id_late_is_settled_again() -> None:
    made = LogRig(SimDisk())
    log = made.create()
    topic_id = uuid.UUID(int=1 << 70)
    log.durability.begin(topic_id)
    assert not log.durability.is_settled
    log.durability.settle()
    assert log.durability.is_settled
    assert read_partition_metadata(made.disk, f"{log.path}/{PARTITION_METADATA_FILE}") == topic_id


def test_a_background_flush_of_a_roll_includes_the_sealed_segment() -> None:
    waiting = []
    made = LogRig(SimDisk(), config=LogConfig(internal_segment_bytes=100), background=waiting.append)
    log = made.create()
    for _ in range(2):
        append_client(log, batch_of(numbered(1)), leader_epoch=0, now_ms=START_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.durability.recovery_point == 0
    for work in waiting:
        work()
    assert log.durability.recovery_point == 1
