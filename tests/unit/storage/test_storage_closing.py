"""The clean close of many logs, whose files are synced together: no fault and no power failure loses a record."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from kcli.model.ids import LeaderEpoch
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import CLEAN_SHUTDOWN_FILE
from kcli.storage.log.log import AppendOrigin
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.parallel import MANY_LOGS
from kcli.storage.store.store import LogStore
from kcli.testing.rigs.logs import START_MS, ManualClock, batch_of, contents, numbered
from kcli.testing.sim.disk import SimDisk

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
        disk, ManualClock(), ["/data"], node_id=1, rng=SystemRng(5), recovery_threads=1, background=jobs.append
    )  # fmt: skip


def written() -> tuple[SimDisk, LogStore]:
    """A store whose records and epochs are in the page cache only, because its background work never runs."""
    disk = formatted()
    store = opened(disk, [])
    for number in range(LOGS):
        store.create("t", number, TOPIC_ID, more=True)
    for log in store.logs.values():
        log.append_leader_epoch(EPOCH)
        log.append(batch_of(numbered(3)), leader_epoch=EPOCH, origin=AppendOrigin.CLIENT, now_ms=START_MS)
    return disk, store


def assert_whole(disk: SimDisk) -> None:
    store = opened(disk, [])
    assert len(store.logs) == LOGS
    for log in store.logs.values():
        assert (log.log_end_offset, log.recovery_point, log.topic_id) == (3, 3, TOPIC_ID)
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
        settled = [log for log in store.logs.values() if log.is_settled]
        assert len(settled) == (LOGS if nth == 3 else 0)
        for seed in SEEDS:
            again = opened(disk.crash_clone(seed), [])
            assert nth < 3 or {log.topic_id for log in again.logs.values()} == {TOPIC_ID}
            assert nth < 3 or len(again.logs) == LOGS
