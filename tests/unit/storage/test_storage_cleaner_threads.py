"""The cleaner looks for work in a thread while the event loop creates and deletes logs.

A thread may lose Python's lock wherever Python code runs, also in a collection of garbage. So each test lets a
collection run at every allocation, and changes the logs in it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kcli.config.topic import LogConfig
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.rng import SystemRng
from kcli.storage.cleaner.cleaner import LogCleaner
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client, batch_of, numbered
from simulation.runtime.disk import SimDisk

COMPACTED = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)


def store_of(topics: int) -> LogStore:
    disk, clock = SimDisk(), ManualClock()
    disk.make_dir("/data")
    write_meta_properties(disk, "/data", MetaProperties("cluster", 1), START_MS)
    store = LogStore.open(
        disk, clock, ["/data"], node_id=1, rng=SystemRng(1), default_config=COMPACTED, recovery_threads=1
    )
    for number in range(topics):
        store.create(f"t{number}", 0, None)
    return store


@contextmanager
def at_every_collection(change: Callable[[], None]) -> Iterator[None]:
    def changed(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            change()

    thresholds = gc.get_threshold()
    gc.callbacks.append(changed)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(changed)


def test_logs_are_created_and_deleted_during_a_search() -> None:
    store = store_of(1)
    cleaner = LogCleaner(store)
    (log,) = store.all_logs()
    # Python keeps 2,000 tuples for reuse, and a collection can run only after them.
    store.logs.update({TopicPartition(f"x{number}", 0): log for number in range(5_000)})
    spare = list(store.logs.items())[:10]
    changes = 0

    def change() -> None:
        nonlocal changes
        changes += 1
        for key, log in spare:
            if store.logs.pop(key, None) is None:
                store.logs[key] = log

    with at_every_collection(change):
        assert cleaner.clean_dirtiest(START_MS) is None
        assert cleaner.uncleanable() == ()
    assert changes > 0


def test_transactions_begin_and_end_during_a_search() -> None:
    """The cleaner reads the last stable offset of every log."""
    store = store_of(1)
    log = store.get("t0", 0)
    assert log is not None
    for producer in range(3):
        batch = batch_of(numbered(1), producer_id=producer, producer_epoch=0, sequence=0, transactional=True)
        append_client(log, batch, leader_epoch=0, now_ms=START_MS)
    producers = log.producers.state
    ongoing = dict(producers._ongoing)
    spare: list[list[int]] = []

    def change() -> None:
        if producers._ongoing:
            producers._ongoing.clear()
        else:
            producers._ongoing.update(ongoing)

    with at_every_collection(change):
        for _ in range(20):
            assert log.last_stable_offset == 0
            spare.append([])  # an allocation, so that a collection runs
