"""A shortage of descriptors or memory is no failure of a disk: directories stay online, and no record is lost."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from functools import partial

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import ShortageError, StorageError
from kcli.model.ids import LeaderEpoch, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.rng import SystemRng
from kcli.storage.log.index import TimestampOffset
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.segment import Segment
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import (
    START_MS,
    ManualClock,
    append_client,
    append_replicated,
    batch_of,
    contents,
    marker_of,
    open_files,
)
from simulation.runtime.disk import FaultKind, SimDisk

APPENDS = 12
SHORT_IN_A_ROW = 3
"""Calls that fail one after another, so that the second try of the pool fails too."""
SMALL = LogConfig(internal_segment_bytes=200, flush_messages=5)


def formatted() -> SimDisk:
    disk = SimDisk(lambda: START_MS)
    disk.make_dir("/data")
    write_meta_properties(disk, "/data", MetaProperties("cluster", 1), START_MS)
    return disk


def opened(disk: SimDisk) -> LogStore:
    return LogStore.open(
        disk,
        ManualClock(),
        ["/data"],
        node_id=1,
        rng=SystemRng(5),
        recovery_threads=1,
        config_for=lambda _topic: SMALL,
    )


def values(log: PartitionLog) -> list[bytes | None]:
    return [value for _offset, value in contents(log)]


def append(log: PartitionLog, value: bytes) -> None:
    """Appends a record, as often as a producer would send it again."""
    for _ in range(2 * SHORT_IN_A_ROW):
        try:
            append_client(
                log,
                batch_of([value], producer_id=7, producer_epoch=0, sequence=int(value)),
                leader_epoch=0,
                now_ms=START_MS,
            )
            return
        except ShortageError:
            continue
    raise AssertionError("the shortage is over, but the append still fails")


def test_faults_in_a_row_fail_one_call_after_another() -> None:
    disk = formatted()
    for nth in range(1, SHORT_IN_A_ROW + 1):
        disk.fail("open", nth=nth, kind=FaultKind.SHORT)
    for _ in range(SHORT_IN_A_ROW):
        with pytest.raises(OSError, match="shortage"):
            disk.open("/data/file", create=True)
    disk.open("/data/file", create=True)
    assert not disk.has_faults


def test_an_append_succeeds_after_a_shortage_at_any_open() -> None:
    """The n-th `open` and the next ones fail, for each n until a run has fewer calls."""
    nth = 1
    while True:
        disk = formatted()
        store = opened(disk)
        log = store.create("t", 0, uuid.UUID(int=1 << 80), SMALL)
        for later in range(SHORT_IN_A_ROW):
            disk.fail("open", nth=nth + later, kind=FaultKind.SHORT)
        for number in range(APPENDS):
            append(log, b"%d" % number)
        store.maintenance.checkpoint_recovery_points()
        store.maintenance.checkpoint_high_watermarks()
        store.settle_soon()
        assert [each.error for each in store.directories] == [None]
        expected = [b"%d" % number for number in range(APPENDS)]
        was_reached = not disk.has_faults
        disk.heal()
        assert values(log) == expected
        store.close()
        again = opened(disk)
        assert values(again.logs[TopicPartition("t", 0)]) == expected
        again.close()
        if not was_reached:
            return
        nth += 1


def write(append: Callable[[], object]) -> None:
    """Appends a batch, as often as a client, a coordinator or a fetcher would repeat the append."""
    for _ in range(2 * SHORT_IN_A_ROW):
        try:
            append()
            return
        except ShortageError:
            continue
    raise AssertionError("the shortage is over, but the write still fails")


def write_transaction(log: PartitionLog) -> None:
    """Writes two records and the marker that aborts them."""
    sent = batch_of([b"0", b"1"], producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    write(lambda: append_client(log, bytearray(sent), leader_epoch=0, now_ms=START_MS))
    marker = marker_of(producer_id=7, producer_epoch=0, commit=False)
    write(lambda: log.append(bytearray(marker), leader_epoch=LeaderEpoch(0), now_ms=START_MS))


@pytest.mark.parametrize("is_replicated", [False, True])
def test_a_shortage_loses_no_aborted_transaction(is_replicated: bool) -> None:
    """Before, the batch was written and the producer was updated, but the transaction index had no entry."""
    nth = 1
    while True:
        disk = formatted()
        store = opened(disk)
        log = store.create("t", 0, uuid.UUID(int=1 << 80), LogConfig())
        for later in range(SHORT_IN_A_ROW):
            disk.fail("open", "t-0/", nth=nth + later, kind=FaultKind.SHORT)
        if is_replicated:
            leader = store.create("u", 0, uuid.UUID(int=2 << 80), LogConfig())
            write_transaction(leader)
            run = leader.read(Offset(0), 1 << 20, end_offset=leader.log_end_offset).read()
            write(partial(append_replicated, log, run, leader_epoch=0, now_ms=START_MS))
        else:
            write_transaction(log)
        log.set_high_watermark(log.log_end_offset)
        was_reached = not disk.has_faults
        disk.heal()
        assert [each.error for each in store.directories] == [None]
        assert [each.first_offset for each in log.local.aborted_transactions(0, 3)] == [0]
        assert log.last_stable_offset == log.log_end_offset == 3
        if not was_reached:
            return
        nth += 1


def test_a_shortage_after_a_write_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has the batch and the log does not, so the write must not be repeated."""
    store = opened(formatted())
    log = store.create("t", 0, uuid.UUID(int=1 << 80), LogConfig())

    def add(*_arguments: object) -> None:
        raise OSError(errno.EMFILE, "no more")

    monkeypatch.setattr(Segment, "add", add)
    with pytest.raises(StorageError) as raised:
        append_client(log, batch_of([b"0"]), leader_epoch=0, now_ms=START_MS)
    assert not isinstance(raised.value, ShortageError)
    assert store.directories[0].error is not None


def short_later(disk: SimDisk, nth: int) -> None:
    for later in range(SHORT_IN_A_ROW):
        disk.fail("open", "t-0/", nth=nth + later, kind=FaultKind.SHORT)


@pytest.mark.parametrize(
    "path_part", [f"{1:020d}.log", f"{1:020d}.index", f"{1:020d}.timeindex", f"{1:020d}.snapshot"]
)
def test_a_small_batch_after_a_failed_roll_is_found(path_part: str) -> None:
    """The failed roll leaves no file, and the segment is completed again at the next roll."""
    disk = formatted()
    store = opened(disk)
    log = store.create("t", 0, uuid.UUID(int=1 << 80), LogConfig(internal_segment_bytes=300))
    append(log, b"0")
    for later in range(1, 3):
        disk.fail("open", path_part, nth=later, kind=FaultKind.SHORT)
    large = batch_of([b"x" * 200], producer_id=7, producer_epoch=0, sequence=1)
    with pytest.raises(ShortageError):
        append_client(log, large, leader_epoch=0, now_ms=START_MS)
    assert not disk.has_faults
    assert not [name for name in disk.contents("/data/t-0") if name.startswith(f"{1:020d}")]
    small = batch_of([b"1"], producer_id=7, producer_epoch=0, sequence=1, timestamp_ms=START_MS + 5)
    write(lambda: append_client(log, bytearray(small), leader_epoch=0, now_ms=START_MS))
    log.roll()
    append(log, b"2")
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert log.segments[0].time_index.last() == TimestampOffset(START_MS + 5, Offset(1))
    again = opened(disk.kill_clone()).logs[TopicPartition("t", 0)]
    assert values(again) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("offset", [3, 5, 8])
def test_a_truncation_succeeds_after_a_shortage(offset: int) -> None:
    nth = 1
    while True:
        disk = formatted()
        store = opened(disk)
        log = store.create("t", 0, uuid.UUID(int=1 << 80), SMALL)
        for number in range(9):
            append(log, b"%d" % number)
        for segment in log.segments:
            segment.files.close()
        short_later(disk, nth)
        before = [segment.base_offset for segment in log.segments]
        for _ in range(2 * SHORT_IN_A_ROW):
            try:
                log.truncate_to(Offset(offset))
                break
            except ShortageError:
                assert log.log_end_offset == 9
                assert [segment.base_offset for segment in log.segments] == before
        was_reached = not disk.has_faults
        disk.heal()
        assert store.directories[0].error is None
        assert values(log) == [b"%d" % number for number in range(offset)]
        if not was_reached:
            return
        nth += 1


def test_an_emptied_log_has_a_segment_after_a_shortage() -> None:
    nth = 1
    while True:
        disk = formatted()
        store = opened(disk)
        log = store.create("t", 0, uuid.UUID(int=1 << 80), SMALL)
        for number in range(6):
            append(log, b"%d" % number)
        for segment in log.segments:
            segment.files.close()
        short_later(disk, nth)
        for _ in range(2 * SHORT_IN_A_ROW):
            try:
                log.truncate_fully_and_start_at(Offset(20))
                break
            except ShortageError:
                assert len(log.segments) > 1 and log.log_end_offset == 6
                assert not [name for name in disk.contents("/data/t-0") if name.startswith(f"{20:020d}")]
        was_reached = not disk.has_faults
        disk.heal()
        assert store.directories[0].error is None
        assert [segment.base_offset for segment in log.segments] == [20] == [log.log_end_offset]
        append(log, b"6")
        if not was_reached:
            return
        nth += 1


def test_a_shortage_in_the_middle_of_a_truncation_is_a_failure() -> None:
    """A log without segments must not stay in service."""
    disk = formatted()
    store = opened(disk)
    log = store.create("t", 0, uuid.UUID(int=1 << 80), SMALL)
    for nth in range(1, 3):
        disk.fail("open", "t-0/", nth=nth, kind=FaultKind.SHORT)
    with pytest.raises(StorageError) as raised:
        log.truncate_fully_and_start_at(Offset(0))
    assert not isinstance(raised.value, ShortageError)
    assert store.directories[0].error is not None


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_shortage_leaves_the_directory_online(number: int, caplog: pytest.LogCaptureFixture) -> None:
    (directory,) = opened(formatted()).directories
    for _ in range(3):
        assert isinstance(directory.failed(OSError(number, "no more")), ShortageError)
    assert directory.error is None
    assert len(caplog.records) == 1, "the lines are limited"
    directory.failed(OSError(errno.EIO, "broken"))
    assert directory.error is not None


def test_a_start_without_descriptors_fails_and_forgets_no_log() -> None:
    disk = formatted()
    store = opened(disk)
    store.create("t", 0, uuid.UUID(int=1 << 80), SMALL)
    store.close()
    for nth in (1, 2, 3, 4):
        disk.fail("open", "t-0", nth=nth, kind=FaultKind.SHORT)
    disk.fail("read", "t-0", kind=FaultKind.SHORT)
    with pytest.raises(ShortageError):
        opened(disk)
    disk.heal()
    assert list(opened(disk).logs) == [TopicPartition("t", 0)]


def test_the_pool_closes_files_if_no_descriptor_is_free() -> None:
    disk = formatted()
    store = opened(disk)
    log = store.create("t", 0, uuid.UUID(int=1 << 80), SMALL)
    append(log, b"0")
    before = open_files(store)
    disk.fail("open", "u-0/00", kind=FaultKind.SHORT)
    other = store.create("u", 0, uuid.UUID(int=2 << 80), SMALL)
    assert open_files(store) == before, "the files of the first log are closed"
    append(other, b"0")
    assert values(log) == values(other) == [b"0"], "closed files open again"
