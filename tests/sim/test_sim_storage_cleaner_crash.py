"""Compaction under power failures and failing calls: no latest value of a key is lost, no old one comes back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import KcliError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.runtime.rng import SystemRng
from kcli.storage.cleaner.cleaner import LogCleaner
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client, marker_of
from simulation.checks.dump_check import dump_complaints
from simulation.runtime.disk import SimDisk

CONFIG = LogConfig(
    cleanup_policy=("compact",),
    min_cleanable_dirty_ratio=0.0,
    internal_segment_bytes=700,
    index_interval_bytes=100,
    file_delete_delay_ms=0,
)
KEYS = 12

Values = dict[int, tuple[bytes, bytes]]
"""Offset -> (key, value) of what was written and not aborted."""


def open_store(disk: SimDisk) -> LogStore:
    return LogStore.open(
        disk, ManualClock(), ["/data"], node_id=1, rng=SystemRng(3), default_config=CONFIG, recovery_threads=1
    )


def written(seed: int) -> tuple[SimDisk, Values]:
    """A log on a disk, all of it synced, and what it says."""
    rng = random.Random(seed)
    disk = SimDisk(lambda: START_MS)
    disk.make_dir("/data")
    write_meta_properties(disk, "/data", MetaProperties("cluster", 1), START_MS)
    disk.sync_dir("/")
    store = open_store(disk)
    log = store.create("t", 0, None)
    values: Values = {}
    for nth in range(40):
        pairs = [
            (b"k%d" % rng.randrange(KEYS), b"%d" % rng.randrange(1 << 40)) for _ in range(rng.randrange(1, 4))
        ]
        records = [Record(-1, START_MS, key, value, (), -1) for key, value in pairs]
        transactional = rng.random() < 0.3
        producer: dict[str, Any] = (
            {"producer_id": nth, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
        )
        batch = encode_batch(records, transactional=transactional, **producer)
        base_offset = append_client(log, batch, leader_epoch=0, now_ms=START_MS).base_offset
        commit = rng.random() < 0.5
        if transactional:
            marker = marker_of(commit=commit, producer_id=nth, producer_epoch=0)
            log.append(marker, leader_epoch=0, now_ms=START_MS)
        if commit or not transactional:
            values |= enumerate(pairs, base_offset)
    log.set_high_watermark(log.log_end_offset)
    store.close()
    return disk, values


def clean(disk: SimDisk) -> None:
    try:
        store = open_store(disk)
        LogCleaner(store).clean(START_MS)
        store.maintenance.delete_due_files()
        store.close()
    except KcliError:
        pass


def check(disk: SimDisk, values: Values) -> int:
    """Returns how many records are left."""
    store = open_store(disk)
    log = store.logs[TopicPartition("t", 0)]
    aborted = log.local.aborted_transactions(0, log.log_end_offset)
    found: Values = {}
    for segment in log.segments:
        content = segment.log.file().read_at(0, segment.size_bytes)
        for position, header in iter_batches(content):
            is_aborted = any(
                entry.producer_id == header.producer_id
                and entry.first_offset <= header.base_offset <= entry.last_offset
                for entry in aborted
            )
            if not header.is_control and not is_aborted:
                for record in read_records(content, position):
                    assert record.offset not in found
                    found[record.offset] = (record.key or b"", record.value or b"")
    assert found.items() <= values.items()
    assert latest(found) == latest(values)
    # Reading from any offset on finds the next record that is left.
    offsets = [offset for offset in sorted(found) if offset >= log.log_start_offset]
    for offset in range(0, log.log_end_offset, 3):
        piece = log.read(offset, 1, end_offset=log.log_end_offset).read()
        ahead = next((left for left in offsets if left >= offset), None)
        assert ahead is None or next(iter_batches(piece))[1].base_offset <= ahead
    store.close()
    return len(found)


def latest(values: Values) -> dict[bytes, tuple[int, bytes]]:
    return {key: (offset, value) for offset, (key, value) in sorted(values.items())}


@pytest.mark.parametrize("seed", range(10))
def test_a_second_cleaning_changes_nothing(seed: int) -> None:
    disk, values = written(seed)
    before = check(disk, values)
    clean(disk)
    after = check(disk, values)
    assert after < before
    clean(disk)
    assert check(disk, values) == after


# Three seeds try every call. A run of the usual size has one of them with crashes, and one without.
@pytest.mark.parametrize(
    ("seed", "crash"),
    [
        (0, False),
        (1, True),
        *(
            pytest.param(*each, marks=pytest.mark.full)
            for each in ((0, True), (1, False), (2, False), (2, True), (3, False), (3, True))
        ),
    ],
)
def test_every_call_may_fail(seed: int, crash: bool) -> None:
    start, values = written(seed)
    nth = 0
    while True:
        nth += 3 if crash else 2  # every second or third call of this seed; the others are another seed's
        disk = start.crash_clone(0)  # all of it was synced
        disk.fail(nth=nth + seed % 3)
        clean(disk)
        untouched = disk.has_faults
        disk.heal()
        if crash:
            disk = disk.crash_clone(nth)
        else:
            disk._locks.clear()  # the process is gone
        check(disk, values)
        if nth % 12 == 0 or untouched:
            assert dump_complaints(disk, "/data/t-0", compacted=True) == ""
        if untouched:
            break
    assert nth > 100
