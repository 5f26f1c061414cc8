"""Appends of fetched batches in runs, and the state of producers after a truncation."""

from __future__ import annotations

import struct
import threading

import pytest
from crc32c import crc32c

from kcli.config.topic import LogConfig
from kcli.errors import CorruptRecordException, InvalidRecordException
from kcli.model.ids import MAX_OFFSET, NO_LEADER_EPOCH, LeaderEpoch, Offset
from kcli.protocol.batches.batch import CRC_END, HEADER_SIZE
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.replicated import STEP_BATCHES, STEP_BYTES
from rigs.logs import START_MS, LogRig, append_replicated, batch_of, contents
from simulation.runtime.disk import SimDisk

CRC_AT, ATTRIBUTES_AT, PRODUCER_AT = 17, 21, 43
TRANSACTIONAL_CONTROL = 0x30


def new_log(**config: object) -> PartitionLog:
    return LogRig(SimDisk(), config=LogConfig(**config)).create()


def fetched(count: int, *, epoch: int = 1, first: int = 0, size: int = 1) -> bytes:
    values = [[b"%d" % nth + b"." * size] for nth in range(first, first + count)]
    return b"".join(
        batch_of(value, base_offset=first + nth, leader_epoch=epoch) for nth, value in enumerate(values)
    )


def sizes(log: PartitionLog, records: bytes, epoch: int = 1) -> list[int]:
    """The number of records of each step."""
    return [
        result.last_offset - result.base_offset + 1
        for result in log.replicate(records, leader_epoch=LeaderEpoch(epoch), now_ms=START_MS)
    ]


def test_a_step_has_a_limited_number_of_batches_and_bytes() -> None:
    log = new_log()
    assert sizes(log, fetched(STEP_BATCHES + 3)) == [STEP_BATCHES, 3]
    first = STEP_BATCHES + 3
    assert sizes(log, fetched(5, first=first, size=STEP_BYTES // 3)) == [2, 2, 1]
    assert sizes(log, fetched(1, first=first + 5, size=2 * STEP_BYTES)) == [1]
    assert len(contents(log, max_bytes=4 * STEP_BYTES)) == first + 6


def test_the_bytes_of_a_step_are_written_once_and_as_they_came() -> None:
    disk = SimDisk()
    log = LogRig(disk).create()
    records = fetched(10)
    before = disk.counts["write"]
    append_replicated(log, records, leader_epoch=LeaderEpoch(1), now_ms=START_MS)
    assert log.read(Offset(0), 10_000, end_offset=Offset(10)).read() == records
    assert disk.counts["write"] - before <= 2, "one write of records, and one of the checkpoint of epochs"


def test_a_batch_of_a_newer_epoch_ends_the_append() -> None:
    log = new_log()
    assert sizes(log, fetched(2) + fetched(2, epoch=2, first=2)) == [2]
    assert sizes(log, fetched(2, epoch=2, first=2)) == []
    assert log.log_end_offset == 2
    assert sizes(log, fetched(2, epoch=2, first=2), epoch=int(NO_LEADER_EPOCH)) == [2]


def test_an_incomplete_batch_at_the_end_is_skipped() -> None:
    log = new_log()
    records = fetched(3)
    for cut in (1, 20, 70):
        log.truncate_fully_and_start_at(Offset(0))
        assert sizes(log, records[:-cut]) == [2]
    assert sizes(log, b"") == []


def test_a_damaged_batch_is_refused_and_the_run_before_it_stays() -> None:
    log = new_log()
    records = bytearray(fetched(STEP_BATCHES + 2))
    records[-1] ^= 1
    steps = log.replicate(records, leader_epoch=LeaderEpoch(1), now_ms=START_MS)
    next(steps)
    with pytest.raises(CorruptRecordException, match="stored crc"):
        next(steps)
    assert log.log_end_offset == STEP_BATCHES


def test_an_invalid_header_after_valid_batches_is_refused_in_its_own_step() -> None:
    log = new_log()
    steps = log.replicate(fetched(2) + bytes(16) + b"\x07" * 60, leader_epoch=LeaderEpoch(1), now_ms=START_MS)
    assert next(steps).last_offset == 1
    with pytest.raises(CorruptRecordException):
        next(steps)


def test_offsets_inside_a_run_never_go_back() -> None:
    log = new_log()
    records = fetched(3) + fetched(1, first=1)
    with pytest.raises(InvalidRecordException, match="expected 3 or more"):
        sizes(log, records)
    assert log.log_end_offset == 0


def test_a_truncation_at_the_end_drops_an_epoch_without_records() -> None:
    log = new_log()
    sizes(log, fetched(2))
    log.append_leader_epoch(LeaderEpoch(5))
    log.truncate_to(Offset(2))
    assert log.leader_epochs.entries == [(1, 0)]
    assert sizes(log, fetched(1, first=2)) == [1]
    assert log.leader_epochs.entries == [(1, 0)]


def test_a_log_that_begins_again_has_no_epochs() -> None:
    log = new_log()
    sizes(log, fetched(2))
    log.truncate_fully_and_start_at(Offset(10))
    assert log.leader_epochs.entries == []
    assert log.end_offset_for_epoch(LeaderEpoch(1)) == (-1, -1)


def idempotent(count: int) -> bytes:
    return b"".join(
        batch_of([b"v"], base_offset=nth, leader_epoch=1, producer_id=7, producer_epoch=0, sequence=nth)
        for nth in range(count)
    )


def last_sequence(log: PartitionLog) -> int:
    (entry,) = log.producers.active()
    return entry.last_sequence


def test_a_truncated_log_restores_its_producers_at_their_next_use() -> None:
    log = new_log()
    sizes(log, idempotent(5))
    log.truncate_to(Offset(3))
    assert last_sequence(log) == 2
    assert log.producers.begin_restoring() is None


def test_producers_are_restored_in_another_thread() -> None:
    log = new_log()
    sizes(log, idempotent(5))
    log.roll()
    log.truncate_to(Offset(3))
    work = log.producers.begin_restoring()
    assert work is not None
    thread = threading.Thread(target=work.run)
    thread.start()
    thread.join()
    log.producers.end_restoring(work, log.local.truncations)
    assert log.producers.begin_restoring() is None
    assert last_sequence(log) == 2
    assert sizes(log, idempotent(5)[len(idempotent(3)) :]) == [2]
    assert last_sequence(log) == 4


def test_restored_producers_of_an_earlier_truncation_are_dropped() -> None:
    log = new_log()
    sizes(log, idempotent(5))
    log.truncate_to(Offset(4))
    work, truncations = log.producers.begin_restoring(), log.local.truncations
    assert work is not None
    work.run()
    log.truncate_to(Offset(2))
    log.producers.end_restoring(work, truncations)
    assert last_sequence(log) == 1


def test_producers_that_were_used_meanwhile_are_kept() -> None:
    log = new_log()
    sizes(log, idempotent(5))
    log.truncate_to(Offset(3))
    work = log.producers.begin_restoring()
    assert work is not None
    sizes(log, idempotent(4)[len(idempotent(3)) :])
    work.run()
    log.producers.end_restoring(work, log.local.truncations)
    assert last_sequence(log) == 3


def test_a_clean_close_after_a_truncation_writes_the_right_snapshot() -> None:
    rig = LogRig(SimDisk())
    log = rig.create()
    sizes(log, idempotent(5))
    log.truncate_to(Offset(3))
    log.close(clean=True)
    assert last_sequence(rig.load(clean=True, recovery_point=3)) == 2


def test_an_append_after_a_truncation_counts_its_batch_once() -> None:
    log = new_log()
    records = idempotent(5)
    sizes(log, records)
    log.truncate_to(Offset(3))
    sizes(log, records[len(idempotent(3)) :])
    (entry,) = log.producers.active()
    assert [batch.last_sequence for batch in entry.batches] == [0, 1, 2, 3, 4]


def resealed(batch: bytearray) -> bytes:
    """The batch with a valid checksum."""
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[CRC_END:])))
    return bytes(batch)


def test_a_marker_that_cannot_be_read_leaves_nothing_in_the_log() -> None:
    log = new_log()
    control = bytearray(fetched(1, size=6))
    struct.pack_into(">h", control, ATTRIBUTES_AT, TRANSACTIONAL_CONTROL)
    struct.pack_into(">qhi", control, PRODUCER_AT, 7, 0, -1)
    control[HEADER_SIZE] = 0x7E  # a wrong length of the record
    for _ in range(2):
        with pytest.raises((CorruptRecordException, InvalidRecordException)):
            sizes(log, resealed(control))
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    assert sizes(log, fetched(1)) == [1]
    assert log.read(Offset(0), 10_000, end_offset=Offset(1)).read() == fetched(1)


def test_no_batch_ends_after_the_largest_offset() -> None:
    log = new_log()
    with pytest.raises(InvalidRecordException, match="largest offset"):
        sizes(log, fetched(1, first=MAX_OFFSET))
    assert log.log_end_offset == 0
