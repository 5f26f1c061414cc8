"""Wrong bits in a log's files: each damage is reported, and no other record is lost."""

from __future__ import annotations

import logging
import struct

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import CorruptRecordError
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_client, batch_of, contents, marker_of
from rigs.steps import last_of
from simulation.runtime.disk import FaultKind, SimDisk

LOG = "/data/t-0/00000000000000000000.log"
INDEX = "/data/t-0/00000000000000000000.index"
CONFIG = LogConfig(internal_segment_bytes=1200, index_interval_bytes=100)


def filled(disk: SimDisk, count: int = 30) -> tuple[LogRig, PartitionLog]:
    rig = LogRig(disk, config=CONFIG)
    log = rig.create()
    for number in range(count):
        append_client(log, batch_of([b"%d" % number]), leader_epoch=0, now_ms=START_MS + number)
    return rig, log


def values(count: int = 30) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(count)]


@pytest.mark.parametrize("bit", [0, 2, 7])
@pytest.mark.parametrize("at", range(8, 16))
def test_an_index_that_lies_costs_no_record(at: int, bit: int) -> None:
    disk = SimDisk(lambda: START_MS)
    rig, log = filled(disk)
    log.close(clean=True)
    disk.flip(INDEX, at, bit)
    log = rig.load(clean=True)
    assert contents(log, max_bytes=300) == values()
    found = last_of(log.search_timestamp(START_MS))
    assert found is not None and found.offset == 0


def test_a_wrong_index_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk(lambda: START_MS)
    rig, log = filled(disk)
    log.close(clean=True)
    assert struct.unpack_from(">ii", disk.open(INDEX).read_at(0, 8)) == (2, 140)
    disk.flip(INDEX, 7, 0)  # the last byte of the position
    log = rig.load(clean=True)
    caplog.clear()
    assert log.read(2, 10, end_offset=30).base_position == 140
    assert f"{INDEX} is damaged: it has offset 2 at byte 141" in caplog.text


def test_a_batch_that_states_too_much_does_not_hide_what_follows() -> None:
    disk = SimDisk(lambda: START_MS)
    rig, log = filled(disk)
    log.close(clean=True)
    assert len(log.segments) > 1
    index = disk.open(INDEX)
    second_entry = struct.unpack_from(">ii", index.read_at(8, 8))
    disk.flip(LOG, second_entry[1] + 8, 5)  # its length
    log = rig.load(clean=True)
    for offset in range(second_entry[0]):
        assert log.read(offset, 1 << 20, end_offset=30).size_bytes
    with pytest.raises(CorruptRecordError, match=r"states \d+ bytes, but the segment ends"):
        log.read(second_entry[0] + 1, 1 << 20, end_offset=30)


@pytest.mark.parametrize(("at", "bit"), [(23, 7), (26, 1)])
def test_a_batch_that_states_too_few_offsets_is_read_nevertheless(at: int, bit: int) -> None:
    """Its checksum tells the reader; what follows it, or the next segment, would not."""
    disk = SimDisk(lambda: START_MS)
    rig = LogRig(disk)
    log = rig.create()
    for _ in range(2):
        append_client(log, batch_of([b"x"] * 3), leader_epoch=0, now_ms=START_MS)
    log.close(clean=True)
    size = disk.size(LOG) // 2
    disk.flip(LOG, at, bit)
    log = rig.load(clean=True)
    assert log.read(2, 1000, end_offset=6).base_position == 0
    assert log.read(3, 1000, end_offset=6).base_position == size


def test_a_batch_is_read_twice_before_it_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk(lambda: START_MS)
    rig, log = filled(disk, 1)
    log.close(clean=False)
    disk.fail("read", ".log", nth=2, kind=FaultKind.FLIP)  # the first is of the header alone
    caplog.set_level(logging.WARNING)
    assert contents(rig.load(clean=False, recovery_point=0)) == values(1)
    assert not disk.has_faults


@pytest.mark.parametrize("at", [8, 11, 22, 60])
def test_a_damaged_batch_stops_neither_a_start_nor_a_producer(at: int) -> None:
    """In the active segment after a clean stop, where its producers' snapshot is gone too."""
    disk = SimDisk(lambda: START_MS)
    rig = LogRig(disk)
    log = rig.create()
    append_client(log, batch_of([b"0"]), leader_epoch=0, now_ms=START_MS)
    log.roll()
    append_client(
        log,
        batch_of([b"1"], producer_id=5, producer_epoch=0, sequence=0, transactional=True),
        leader_epoch=0,
        now_ms=START_MS,
    )
    marker = log.log_end_offset
    log.append(marker_of(commit=True, producer_id=5, producer_epoch=0), leader_epoch=0, now_ms=START_MS)  # fmt: skip
    append_client(log, batch_of([b"2"]), leader_epoch=0, now_ms=START_MS)
    path, found = log.segments[1].log.path, log.segments[1].locate(marker)
    assert found is not None
    log.close(clean=True)
    disk.remove("/data/t-0/00000000000000000004.snapshot")
    disk.flip(path, found[0] + at, 1)
    log = rig.load(clean=True)
    append_client(log, batch_of([b"3"]), leader_epoch=0, now_ms=START_MS)
    log.close(clean=True)
    disk.flip(path, at, 1)
    log = rig.load(clean=True)
    append_client(log, batch_of([b"4"]), leader_epoch=0, now_ms=START_MS)


def test_a_flush_does_not_count_what_came_in_the_place_of_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush in a thread, and meanwhile its follower is cut back and continues with other records."""
    _rig, log = filled(SimDisk(lambda: START_MS), 4)

    def meanwhile() -> None:
        log.truncate_to(1)
        for _ in range(3):
            append_client(log, batch_of([b"other"]), leader_epoch=0, now_ms=START_MS)

    monkeypatch.setattr(log.leader_epochs, "flush", meanwhile)
    log.durability.flush()
    assert (log.log_end_offset, log.durability.recovery_point) == (4, 0)
