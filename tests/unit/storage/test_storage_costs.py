"""Calls to the disk that each log costs at its making, at a stop and at a start. A node has thousands of logs.

The figures are those of today: lower one when it falls, and raise one only for a reason.
"""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from kcli.model.ids import NO_PRODUCER_ID
from kcli.runtime.rng import SystemRng
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client, batch_of, numbered
from simulation.runtime.disk import SimDisk

LOGS = 40
TOPIC_ID = uuid.UUID(int=0xABCDEF << 80)


class Rig:
    """A store with `LOGS` logs, and the calls of its disk."""

    def __init__(self) -> None:
        self.disk = SimDisk(lambda: START_MS)
        self.disk.make_dir("/data")
        write_meta_properties(self.disk, "/data", MetaProperties("cluster", 1), START_MS)
        self.seen: Counter[str] = Counter()
        self.epoch = 0
        self.open()

    def open(self) -> None:
        self.store = LogStore.open(
            self.disk, ManualClock(), ["/data"], node_id=1, rng=SystemRng(5), recovery_threads=1
        )

    def sync_file_by_file(self) -> None:
        self.disk.sync_volume = lambda path: False  # as on a file system without it

    def make(self) -> None:
        for number in range(LOGS):
            self.store.create("t", number, TOPIC_ID, more=True)
        self.store.settle_soon()

    def lead(self) -> None:
        self.epoch += 1
        for log in self.store.logs.values():
            log.append_leader_epoch(self.epoch)

    def write(self, producer_id: int = NO_PRODUCER_ID) -> None:
        batch = batch_of(numbered(3))
        if producer_id != NO_PRODUCER_ID:
            batch = batch_of(numbered(3), producer_id=producer_id, producer_epoch=0, sequence=0)
        for log in self.store.logs.values():
            append_client(log, bytearray(batch), leader_epoch=self.epoch, now_ms=START_MS)

    def kill(self) -> None:
        self.disk = self.disk.kill_clone()
        self.seen = Counter()

    def per_log(self) -> dict[str, int]:
        """The calls for each log since the last look."""
        made = self.disk.counts - self.seen
        self.seen = self.disk.counts.copy()
        return {operation: count // LOGS for operation, count in sorted(made.items()) if count >= LOGS}


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.make()
    rig.lead()
    rig.write()
    rig.per_log()
    return rig


def test_many_new_logs_are_synced_together() -> None:
    rig = Rig()
    rig.per_log()
    rig.make()
    calls = rig.per_log()
    assert calls["rename"] == 1
    assert "sync" not in calls and "sync_dir" not in calls
    assert rig.disk.counts["sync_volume"] == 2  # the topic ids, then their names
    assert all(log.durability.is_settled for log in rig.store.logs.values())


def test_a_new_log_is_synced_twice() -> None:
    rig = Rig()
    rig.sync_file_by_file()
    rig.per_log()
    rig.make()
    calls = rig.per_log()
    assert (calls["sync"], calls["sync_dir"]) == (1, 1)  # its topic id and its names
    assert calls["rename"] == 1


def test_a_stop_syncs_many_logs_together(rig: Rig) -> None:
    synced = rig.disk.counts["sync_volume"]
    rig.store.close()
    calls = rig.per_log()
    assert "sync" not in calls and "sync_dir" not in calls
    assert rig.disk.counts["sync_volume"] - synced == 1  # the epochs were written before
    assert calls["write"] == 1  # a time index entry


def test_a_stop_syncs_what_was_written(rig: Rig) -> None:
    rig.sync_file_by_file()
    rig.store.close()
    calls = rig.per_log()
    assert (calls["sync"], calls["sync_dir"]) == (2, 1)  # the log and its time index; the names
    assert calls["write"] == 1  # a time index entry


def test_a_stop_writes_a_snapshot_of_idempotent_producers(rig: Rig) -> None:
    rig.write(producer_id=1)
    rig.per_log()
    rig.store.close()
    assert rig.per_log()["write"] == 2  # a time index entry, and a snapshot


def test_a_stop_without_writes_costs_no_call(rig: Rig) -> None:
    rig.store.close()
    rig.open()
    rig.lead()  # an epoch without records is not worth a file
    rig.per_log()
    rig.store.close()
    assert rig.per_log() == {}


def test_the_second_append_only_writes(rig: Rig) -> None:
    rig.write()
    assert rig.per_log() == {"write": 1}


def test_a_clean_start(rig: Rig) -> None:
    rig.store.close()
    rig.per_log()
    rig.open()
    calls = rig.per_log()
    assert calls == {"list": 1, "open": 3, "read": 3, "stat": 3}


def test_a_clean_start_reads_the_snapshot_of_idempotent_producers(rig: Rig) -> None:
    rig.write(producer_id=1)
    rig.store.close()
    rig.per_log()
    rig.open()
    assert rig.per_log() == {"list": 1, "open": 4, "read": 4, "stat": 3}
    assert {
        tuple(entry.producer_id for entry in log.producers.active()) for log in rig.store.logs.values()
    } == {(1,)}


@pytest.mark.parametrize("producer_id", [NO_PRODUCER_ID, 1])
def test_a_start_after_a_kill_writes_each_file_once(rig: Rig, producer_id: int) -> None:
    rig.write(producer_id=producer_id)
    rig.kill()
    rig.open()
    calls = rig.per_log()
    assert "remove" not in calls and "sync" not in calls
    assert calls["write"] == (1 if producer_id == NO_PRODUCER_ID else 2)  # a time index entry; a snapshot
    rig.kill()
    rig.open()
    calls = rig.per_log()
    assert not {"write", "truncate", "remove", "sync", "rename", "sync_dir"} & calls.keys()
    assert calls["open"] <= 8 and calls["read"] <= 9
