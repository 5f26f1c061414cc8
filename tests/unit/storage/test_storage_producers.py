"""LogProducers: the state of producers after a truncation."""

from __future__ import annotations

from kcli.model.ids import LeaderEpoch, Offset
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_client, batch_of, marker_of, numbered
from simulation.runtime.disk import SimDisk


def truncated_log() -> PartitionLog:
    """A log with an aborted transaction at the offsets 0 to 2, and its producers not restored after a truncation."""
    log = LogRig(SimDisk()).create()
    batch = batch_of(numbered(2), producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    append_client(log, batch, leader_epoch=0, now_ms=START_MS)
    marker = marker_of(producer_id=7, producer_epoch=0, commit=False)
    log.append(marker, leader_epoch=LeaderEpoch(0), now_ms=START_MS)
    for _ in range(2):
        append_client(log, batch_of(numbered(1)), leader_epoch=0, now_ms=START_MS)
    log.truncate_to(Offset(4))
    assert log.producers.ready is None
    return log


def test_a_restored_state_has_the_high_watermark_of_the_time_of_its_restoration() -> None:
    log = truncated_log()
    log.set_high_watermark(Offset(3))
    assert log.last_stable_offset == 3, "the marker is below the high watermark"
    log = truncated_log()
    log.set_high_watermark(Offset(2))
    assert log.last_stable_offset == 0


def test_a_state_that_another_thread_restored_has_the_present_high_watermark() -> None:
    log = truncated_log()
    work, truncations = log.producers.begin_restoring(), log.local.truncations
    assert work is not None
    work.run()
    log.set_high_watermark(Offset(3))
    log.producers.end_restoring(work, truncations)
    assert log.producers.ready is work.producers
    assert log.last_stable_offset == 3


def test_a_restoration_begins_at_the_present_log_start() -> None:
    log = truncated_log()
    log.set_high_watermark(Offset(4))
    log.delete_records_before(Offset(3))
    assert not list(log.producers.active()), "all records of the producer are deleted"


def test_a_new_expiration_holds_for_a_state_that_is_restored_later() -> None:
    log = truncated_log()
    log.local.settings.producer_expiration_ms = 5
    log.producers.expire_after(5)
    assert log.producers.state.expiration_ms == 5
