"""New and deleted logs: served at once, on the device later, and never with what an older log of the name left."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kcli.errors import KafkaStorageException
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.disk import Disk
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import LOG_START_OFFSET_FILE, read_offsets
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore, NewLog
from rigs.logs import START_MS, ManualClock, append_client, batch_of, contents, numbered
from simulation.runtime.disk import SimDisk

TOPIC_ID = uuid.UUID(int=0xABCDEF << 80)
OTHER_ID = uuid.UUID(int=0xFEDCBA << 80)


class Rig:
    """A store whose background work waits until it is let go."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = disk or SimDisk(lambda: START_MS)
        if disk is None:
            self.disk.make_dir("/data")
            write_meta_properties(self.disk, "/data", MetaProperties("cluster", 1), START_MS)
            self.disk.sync_dir("/data")
            self.disk.sync_dir("/")
        self.jobs: list = []
        self.store = LogStore.open(
            self.disk, ManualClock(), ["/data"], node_id=1, rng=SystemRng(5), recovery_threads=1,
            background=lambda _path: self.jobs.append,
        )  # fmt: skip

    def let_go(self) -> None:
        while self.jobs:
            self.jobs.pop(0)()

    def after_power_failure(self, seed: int = 3) -> Rig:
        return Rig(self.disk.crash_clone(seed))


def append(log: PartitionLog, count: int = 3) -> None:
    append_client(log, batch_of(numbered(count)), leader_epoch=0, now_ms=START_MS)


def syncs(disk: Disk, work: Callable[..., Any]) -> int:
    """How often `work` waits for the device."""
    count = 0
    sync_dir = disk.sync_dir

    def counted(path: str) -> None:
        nonlocal count
        count += 1
        sync_dir(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "sync_dir", counted)
        work()
    return count


def test_a_new_log_waits_for_no_device() -> None:
    rig = Rig()
    assert syncs(rig.disk, lambda: append(rig.store.create("t", 0, TOPIC_ID))) == 0
    assert not rig.disk.exists("/data/t-0/partition.metadata")
    rig.let_go()
    assert rig.store.logs[TopicPartition("t", 0)].durability.is_settled
    assert rig.disk.exists("/data/t-0/partition.metadata")
    for seed in range(20):
        assert rig.after_power_failure(seed).store.logs[TopicPartition("t", 0)].topic_id == TOPIC_ID


def test_the_first_flush_settles_a_log() -> None:
    rig = Rig()
    log = rig.store.create("t", 0, TOPIC_ID)
    append(log)
    log.durability.flush()
    for seed in range(20):
        found = rig.after_power_failure(seed).store.logs[TopicPartition("t", 0)]
        assert (found.topic_id, found.log_end_offset) == (TOPIC_ID, 3)


def test_many_names_are_synced_at_once() -> None:
    rig = Rig()
    for number in range(30):
        rig.store.create("t", number, None, more=True)
    assert rig.jobs == []
    rig.store.settle_soon()
    assert len(rig.jobs) == 1
    assert syncs(rig.disk, rig.let_go) == 30 + 1
    for number in range(30):
        rig.store.delete("t", number, more=True)
    rig.store.settle_soon()
    assert syncs(rig.disk, rig.let_go) < 6


def test_a_log_deleted_before_it_was_settled_does_no_harm() -> None:
    rig = Rig()
    rig.store.create("t", 0, TOPIC_ID)
    rig.store.delete("t", 0)
    rig.let_go()
    assert rig.store.directories[0].error is None
    append(rig.store.create("t", 0, OTHER_ID))
    assert rig.store.logs[TopicPartition("t", 0)].topic_id == OTHER_ID


def test_a_new_log_does_not_inherit_where_an_older_one_was_cut() -> None:
    rig = Rig()
    log = rig.store.create("t", 0, TOPIC_ID)
    append(log)
    log.set_high_watermark(3)
    log.delete_records_before(2)
    rig.store.maintenance.checkpoint_log_start_offsets()
    assert read_offsets(rig.disk, f"/data/{LOG_START_OFFSET_FILE}") == {("t", 0): 2}
    rig.store.delete("t", 0)
    new = rig.store.create("t", 0, OTHER_ID)  # before the background came to it
    assert read_offsets(rig.disk, f"/data/{LOG_START_OFFSET_FILE}") == {}
    append(new, 1)
    new.durability.flush()
    found = rig.after_power_failure().store.logs[TopicPartition("t", 0)]
    assert (found.log_start_offset, found.log_end_offset) == (0, 1)


def test_a_clean_close_leaves_nothing_owed() -> None:
    rig = Rig()
    rig.store.create("t", 0, TOPIC_ID)
    rig.store.create("gone", 0, TOPIC_ID)
    rig.store.delete("gone", 0)
    rig.store.close()
    rig.let_go()  # a job that comes too late
    found = rig.after_power_failure().store
    assert list(found.logs) == [("t", 0)]
    assert found.logs[TopicPartition("t", 0)].topic_id == TOPIC_ID


def test_logs_made_ahead_are_the_ones_that_are_created() -> None:
    rig = Rig()
    config = rig.store.default_config
    rig.store.make_ahead([NewLog("t", number, TOPIC_ID, config) for number in range(3)])
    assert rig.store.logs == {}
    before = rig.disk.list_dir("/data")
    for number in range(3):
        append(rig.store.create("t", number, TOPIC_ID, config))
    assert rig.disk.list_dir("/data") == before
    rig.let_go()
    assert len(contents(rig.store.logs[TopicPartition("t", 2)])) == 3


def test_create_reports_a_directory_that_breaks_meanwhile() -> None:
    rig = Rig()
    rig.disk.fail("make_dir")
    rig.store.make_ahead([NewLog("t", number, TOPIC_ID, rig.store.default_config) for number in range(3)])
    assert rig.store.directories[0].error is not None
    with pytest.raises(KafkaStorageException, match="No log directory is online"):
        rig.store.create("t", 0, TOPIC_ID)
