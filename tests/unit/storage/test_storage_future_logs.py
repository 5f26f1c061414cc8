"""FutureLogs: copies that take a log's place in another directory, through any crash."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import InvalidTopicException, KafkaStorageException, LogDirNotFoundException, StorageError
from kcli.metadata.image import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.rng import SystemRng
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import (
    START_MS,
    ManualClock,
    append_client,
    batch_of,
    contents,
    flush_logs,
    marker_of,
    numbered,
)
from simulation.runtime.disk import SimDisk

DIRS = ("/a", "/b")
IDS = {"/a": uuid.UUID(int=0xA00), "/b": uuid.UUID(int=0xB00)}
TOPIC_ID = uuid.UUID(int=0xABCDEF << 80)


def formatted() -> SimDisk:
    disk = SimDisk(lambda: START_MS)
    for directory in DIRS:
        disk.make_dir(directory)
        write_meta_properties(disk, directory, MetaProperties("cluster", 1, IDS[directory]), START_MS)
    disk.sync_dir("/")
    return disk


def open_store(disk: SimDisk) -> LogStore:
    return LogStore.open(
        disk,
        ManualClock(),
        DIRS,
        node_id=1,
        rng=SystemRng(5),
        default_config=LogConfig(file_delete_delay_ms=0),
        recovery_threads=1,
    )


def append(log: PartitionLog, count: int = 1, **fields: Any) -> None:
    append_client(log, batch_of(numbered(count), **fields), leader_epoch=3, now_ms=START_MS)
    log.set_high_watermark(log.log_end_offset)


def begin(store: LogStore, path: str = "/b") -> PartitionLog:
    return store.futures.begin("t", 0, store.futures.check_target("t", 0, path))


def copy_all(store: LogStore) -> None:
    """As the mover does it, with slices of one batch."""
    current, copy = store.logs[TopicPartition("t", 0)], store.futures.logs[TopicPartition("t", 0)]
    while True:
        if store.futures.is_behind(copy, current):
            store.futures.follow(copy, current, START_MS)
        elif copy.log_end_offset < current.log_end_offset:
            piece = current.read(copy.log_end_offset, 1, end_offset=current.log_end_offset)
            store.futures.append(copy, current, piece.read(), START_MS)
        else:
            copy.durability.flush()
            return


def partition_names(disk: SimDisk, path: str) -> list[str]:
    return [entry.name for entry in disk.list_dir(path) if entry.is_dir]


def started(disk: SimDisk, batches: int = 5) -> LogStore:
    store = open_store(disk)
    store.placement.prefer("t", 0, "/a")
    log = store.create("t", 0, TOPIC_ID)
    for _ in range(batches):
        append(log, 2)
    return store


def test_a_copy_takes_the_place_of_its_log() -> None:
    disk = formatted()
    store = started(disk)
    log = store.logs[TopicPartition("t", 0)]
    append(log, producer_id=7, producer_epoch=0, sequence=0)
    before = contents(log)
    begin(store)
    copy_all(store)
    assert store.futures.is_complete(store.futures.logs[TopicPartition("t", 0)], log)
    moved = store.futures.promote("t", 0)
    assert store.get("t", 0) is moved
    assert contents(moved) == before
    assert moved.high_watermark == moved.log_end_offset == 11
    assert moved.leader_epochs.entries == [(3, 0)]
    assert [producer.producer_id for producer in moved.producers.active()] == [7]
    assert moved.topic_id == TOPIC_ID
    assert partition_names(disk, "/b") == ["t-0"]
    (aside,) = partition_names(disk, "/a")
    assert aside.startswith("t-0.") and aside.endswith("-delete")
    append(moved)
    store.close()
    again = open_store(disk)
    assert again.logs[TopicPartition("t", 0)].log_end_offset == 12
    assert again.logs[TopicPartition("t", 0)].directory.path == "/b"


def test_the_copy_shows_its_lag_and_counts_for_placement() -> None:
    store = started(formatted())
    begin(store)
    a, b = store.describe()
    assert [(each.size_bytes > 0, each.offset_lag, each.is_future) for each in a.partitions] == [
        (True, 0, False)
    ]
    assert [(each.offset_lag, each.is_future) for each in b.partitions] == [(10, True)]
    copy_all(store)
    assert store.describe()[1].partitions[0].offset_lag == 0
    store.create("u", 0, None)
    store.create("u", 1, None)
    assert sorted(log.directory.path for log in store.logs.values() if log.topic == "u") == ["/a", "/b"]


def test_the_copy_follows_deletions_and_truncations_of_the_log() -> None:
    store = started(formatted())
    log, copy = store.logs[TopicPartition("t", 0)], begin(store)
    copy_all(store)
    log.delete_records_before(4)
    assert not store.futures.is_complete(copy, log)
    copy_all(store)
    assert copy.log_start_offset == 4
    log.truncate_to(6)
    append(log, 4)
    assert not store.futures.is_complete(copy, log)
    copy_all(store)
    assert store.futures.is_complete(copy, log)
    assert contents(copy) == contents(log)


def test_a_copy_begins_at_the_log_start_even_inside_a_batch() -> None:
    store = started(formatted())
    log = store.logs[TopicPartition("t", 0)]
    log.delete_records_before(5)
    copy = begin(store)
    copy_all(store)
    assert (copy.log_start_offset, copy.log_end_offset) == (5, 10)
    expected = contents(log)
    assert contents(store.futures.promote("t", 0)) == expected


def test_transactions_move_with_their_index() -> None:
    store = started(formatted(), 0)
    log = store.logs[TopicPartition("t", 0)]
    append(log, 2, producer_id=9, producer_epoch=0, sequence=0, transactional=True)
    log.append(marker_of(commit=False, producer_id=9, producer_epoch=0), leader_epoch=3, now_ms=START_MS)
    log.set_high_watermark(log.log_end_offset)
    begin(store)
    copy_all(store)
    moved = store.futures.promote("t", 0)
    assert moved.last_stable_offset == 3
    assert [(each.first_offset, each.last_offset) for each in moved.local.aborted_transactions(0, 3)] == [
        (0, 2)
    ]


def test_a_copy_given_up_is_deleted() -> None:
    disk = formatted()
    store = started(disk)
    begin(store)
    store.futures.abandon("t", 0)
    assert not list(store.futures)
    (aside,) = partition_names(disk, "/b")
    assert aside.endswith("-delete")
    assert store.maintenance.has_due_files()
    store.maintenance.delete_due_files()
    assert partition_names(disk, "/b") == []
    assert not store.maintenance.has_due_files()


def test_deleting_the_partition_deletes_its_copy() -> None:
    disk = formatted()
    store = started(disk)
    begin(store)
    store.delete("t", 0)
    store.maintenance.delete_due_files()
    assert partition_names(disk, "/a") == partition_names(disk, "/b") == []


def test_a_stop_in_between_keeps_the_copy() -> None:
    disk = formatted()
    store = started(disk)
    begin(store)
    copy_all(store)
    append(store.logs[TopicPartition("t", 0)])
    store.close()
    again = open_store(disk)
    assert again.futures.logs[TopicPartition("t", 0)].log_end_offset == 10
    copy_all(again)
    assert again.futures.promote("t", 0).log_end_offset == 11


@pytest.mark.parametrize(
    ("topic", "path", "error"),
    [
        ("t", "/c", LogDirNotFoundException),
        ("t", "/b", KafkaStorageException),
        ("t" * 230, "/a", InvalidTopicException),
    ],
)
def test_targets_that_are_refused(topic: str, path: str, error: type[Exception]) -> None:
    store = started(formatted())
    store.directories[1].failed(OSError("gone"))
    with pytest.raises(error):
        store.futures.check_target(topic, 0, path)


def test_no_empty_log_in_the_place_of_one_that_cannot_be_reached() -> None:
    store = started(formatted())
    store.directories[1].failed(OSError("gone"))
    for assigned in (IDS["/b"], LOST_DIRECTORY, MIGRATING_DIRECTORY):
        with pytest.raises(KafkaStorageException):
            store.create("v", 0, None, assigned=assigned)
    assert store.create("v", 1, None, assigned=IDS["/a"]).directory.path == "/a"
    assert store.create("v", 2, None, assigned=UNASSIGNED_DIRECTORY).directory.path == "/a"


def _life(disk: SimDisk) -> list[tuple[int, bytes | None]]:
    """A move from start to end; returns what the log held before."""
    store = started(disk)
    flush_logs(store)
    before = contents(store.logs[TopicPartition("t", 0)])
    begin(store)
    copy_all(store)
    store.futures.promote("t", 0)
    store.maintenance.delete_due_files()
    store.close()
    return before


def _after(disk: SimDisk) -> list[tuple[int, bytes | None]]:
    """What is there at the next start, the metadata naming /b from the moment when the copy was whole."""
    store = open_store(disk)
    if store.get("t", 0) is None and store.futures.get("t", 0) is not None:
        store.futures.promote("t", 0)
    log = store.get("t", 0)
    found = [] if log is None else contents(log)
    store.close()
    return found


def test_nothing_is_lost_when_the_power_fails_at_any_call() -> None:
    reference = formatted()
    flush_logs(started(reference))
    began = reference.calls
    nth = 0
    while True:
        disk = formatted()
        store = started(disk)
        flush_logs(store)
        assert disk.calls == began, "every life is the same"
        expected = contents(store.logs[TopicPartition("t", 0)])
        nth += 1
        disk.fail(nth=nth)
        with contextlib.suppress(StorageError, KafkaStorageException):
            _move_and_stop(store)
        for seed in range(3):
            assert _found(disk.crash_clone(seed)) == expected, f"power failed at call {nth}, seed {seed}"
        if disk.has_faults:
            return  # the whole life was shorter than that


def _move_and_stop(store: LogStore) -> None:
    begin(store)
    copy_all(store)
    store.futures.promote("t", 0)
    store.maintenance.delete_due_files()
    store.close()


def _found(disk: SimDisk) -> list[tuple[int, bytes | None]]:
    """What is there at the next start, the metadata naming /b from the moment when the copy was whole."""
    store = open_store(disk)
    if store.get("t", 0) is None:
        store.futures.promote("t", 0)
    found = contents(store.logs[TopicPartition("t", 0)])
    store.close()
    return found
