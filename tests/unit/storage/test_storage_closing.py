"""The clean close of many logs, whose files are synced together: no fault and no power failure loses a record."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from kcli.model.ids import LeaderEpoch, Offset
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import CLEAN_SHUTDOWN_FILE, read_epochs
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.parallel import MANY_LOGS
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client, batch_of, contents, numbered
from simulation.runtime.disk import SimDisk

TOPIC_ID = uuid.UUID(int=0xABCDEF << 80)
LOGS = MANY_LOGS + 1
EPOCH = LeaderEpoch(4)
SEEDS = range(6)


def formatted() -> SimDisk:
    disk = SimDisk(lambda: START_MS)
    disk.make_dir("/data")
    write_meta_properties(disk, "/data", MetaProperties("cluster", 1), START_MS)
    disk.sync_dir("/data")
    disk.sync_dir("/")
    return disk


def opened(disk: SimDisk, jobs: list[Callable[[], None]]) -> LogStore:
    return LogStore.open(
        disk,
        ManualClock(),
        ["/data"],
        node_id=1,
        rng=SystemRng(5),
        recovery_threads=1,
        background=lambda _path: jobs.append,
    )  # fmt: skip


def written() -> tuple[SimDisk, LogStore]:
    """A store whose records and epochs are in the page cache only, because its background work never runs."""
    disk = formatted()
    store = opened(disk, [])
    for number in range(LOGS):
        store.create("t", number, TOPIC_ID, more=True)
    for log in store.logs.values():
        log.append_leader_epoch(EPOCH)
        append_client(log, batch_of(numbered(3)), leader_epoch=EPOCH, now_ms=START_MS)
    return disk, store


def assert_whole(disk: SimDisk) -> None:
    store = opened(disk, [])
    assert len(store.logs) == LOGS
    for log in store.logs.values():
        assert (log.log_end_offset, log.durability.recovery_point, log.topic_id) == (3, 3, TOPIC_ID)
        assert contents(log) == contents(next(iter(store.logs.values())))
        assert log.leader_epochs.entries == [(EPOCH, 0)]


def test_after_a_clean_close_a_power_failure_takes_nothing() -> None:
    disk, store = written()
    store.close()
    for seed in SEEDS:
        after = disk.crash_clone(seed)
        assert after.exists(f"/data/{CLEAN_SHUTDOWN_FILE}")
        assert_whole(after)


@pytest.mark.parametrize("operation", ["sync_volume", "rename", "write", "open"])
def test_a_fault_during_the_close_leaves_no_clean_mark_without_all_records(operation: str) -> None:
    nth, marks = 1, 0
    while True:
        disk, store = written()
        disk.fail(operation, nth=nth)
        store.close()
        if disk.has_faults:
            break  # the close has fewer calls
        for seed in SEEDS:
            after = disk.crash_clone(seed)
            if after.exists(f"/data/{CLEAN_SHUTDOWN_FILE}"):
                marks += 1
                assert_whole(after)
        nth += 1 if operation == "sync_volume" else 17
    assert nth > 3, "the close has syncs of the whole file system"
    assert marks == 0 or operation != "sync_volume"


def test_logs_count_as_settled_only_after_the_sync_of_their_names() -> None:
    for nth in (1, 2, 3):
        disk = formatted()
        jobs: list[Callable[[], None]] = []
        store = opened(disk, jobs)
        for number in range(LOGS):
            store.create("t", number, TOPIC_ID, more=True)
        store.settle_soon()
        disk.fail("sync_volume", nth=nth)
        jobs.pop()()
        settled = [log for log in store.logs.values() if log.durability.is_settled]
        assert len(settled) == (LOGS if nth == 3 else 0)
        for seed in SEEDS:
            again = opened(disk.crash_clone(seed), [])
            assert nth < 3 or {log.topic_id for log in again.logs.values()} == {TOPIC_ID}
            assert nth < 3 or len(again.logs) == LOGS


def first_appends() -> tuple[SimDisk, LogStore, list[Callable[[], None]]]:
    """A store whose logs have just had their first appends in an epoch, and its background jobs."""
    disk, jobs = formatted(), list[Callable[[], None]]()
    store = opened(disk, jobs)
    for number in range(LOGS):
        store.create("t", number, TOPIC_ID, more=True)
    for log in store.logs.values():
        log.append_leader_epoch(EPOCH)
        append_client(log, batch_of(numbered(3)), leader_epoch=EPOCH, now_ms=START_MS)
    return disk, store, jobs


def test_the_epochs_of_many_first_appends_are_synced_together() -> None:
    disk, store, jobs = first_appends()
    before = disk.counts.copy()
    (job,) = jobs
    job()
    calls = disk.counts - before
    assert calls["sync_volume"] == 2
    assert "sync" not in calls and "sync_dir" not in calls
    for log in store.logs.values():
        assert log.leader_epochs.is_flushed()
        for seed in SEEDS:
            assert read_epochs(disk.crash_clone(seed), log.leader_epochs.path) == [(EPOCH, 0)]


def test_the_epochs_of_a_few_first_appends_are_synced_one_by_one() -> None:
    disk, jobs = formatted(), list[Callable[[], None]]()
    store = opened(disk, jobs)
    log = store.create("t", 0, TOPIC_ID, more=True)
    log.append_leader_epoch(EPOCH)
    append_client(log, batch_of(numbered(3)), leader_epoch=EPOCH, now_ms=START_MS)
    before = disk.counts.copy()
    (job,) = jobs
    job()
    assert "sync_volume" not in disk.counts - before
    assert log.leader_epochs.is_flushed()


@pytest.mark.parametrize("nth", [1, 2])
def test_epochs_whose_sync_failed_do_not_count_as_flushed(nth: int) -> None:
    disk, store, jobs = first_appends()
    disk.fail("sync_volume", nth=nth)
    (job,) = jobs
    job()
    assert store.directories[0].error is not None
    assert not any(log.leader_epochs.is_flushed() for log in store.logs.values())


def test_a_flush_between_the_steps_of_another_flush_keeps_the_newer_epochs() -> None:
    disk, store, _jobs = first_appends()
    epochs = next(iter(store.logs.values())).leader_epochs
    number = epochs.begin_flush(Offset(3))
    assert number is not None
    epochs.assign(LeaderEpoch(5), Offset(3))
    epochs.flush()
    epochs.install(number)
    epochs.end_flush(number)
    assert epochs.is_flushed()
    assert read_epochs(disk, epochs.path) == [(EPOCH, 0), (5, 3)]
