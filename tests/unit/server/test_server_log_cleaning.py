"""The cleaner's rounds: what it is allowed, when it comes by, and that it ends with the broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.properties import Properties
from kcli.config.topic import LogConfig
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.runtime.disk import SystemDisk
from kcli.runtime.rng import SystemRng
from kcli.server.partitions.log_cleaning import LogCleaning, limits_of
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client
from rigs.loops import PATIENCE_S, until
from simulation.runtime.disk import SimDisk


def config_of(**values: str) -> BrokerConfig:
    texts = Properties()
    texts.update_from({"node.id": "1", "process.roles": "broker,controller"}, where="test")
    texts.update_from({key.replace("_", "."): value for key, value in values.items()}, where="test")
    return BrokerConfig(texts)


def open_store(disk: SimDisk | SystemDisk, path: str, clock: ManualClock, *policies: str) -> LogStore:
    disk.make_dir(path)
    write_meta_properties(disk, path, MetaProperties("cluster", 1), START_MS)
    config = LogConfig(cleanup_policy=policies, min_cleanable_dirty_ratio=0.0, retention_ms=1000)
    return LogStore.open(disk, clock, [path], node_id=1, rng=SystemRng(1), default_config=config)


def fill(log: PartitionLog, *values: bytes, timestamp_ms: int = START_MS) -> None:
    for value in values:
        batch = encode_batch([Record(-1, timestamp_ms, b"k", value, (), -1)])
        append_client(log, batch, leader_epoch=0, now_ms=START_MS)
    log.roll()
    log.set_high_watermark(log.log_end_offset)


def test_a_thread_has_its_share() -> None:
    limits = limits_of(
        config_of(
            log_cleaner_threads="4",
            log_cleaner_dedupe_buffer_size="100000000",
            log_cleaner_io_buffer_size="400000",
            log_cleaner_io_buffer_load_factor="0.8",
            log_cleaner_io_max_bytes_per_second="1000",
        )
    )
    assert limits.dedupe_buffer_bytes == 25_000_000
    assert limits.io_buffer_bytes == 100_000
    assert limits.load_factor == 0.8
    assert limits.bytes_per_second == 250


def test_a_map_has_at_most_an_int_of_bytes() -> None:
    assert limits_of(config_of(log_cleaner_dedupe_buffer_size=str(1 << 40))).dedupe_buffer_bytes == 2**31 - 1


@pytest.mark.parametrize("simulated", [True, False])
def test_one_round_cleans_every_dirty_log(tmp_path: Path, simulated: bool) -> None:
    """On a simulated disk in this process, else in one of its own."""

    async def run() -> None:
        clock = ManualClock()
        disk = SimDisk(clock.now_ms) if simulated else SystemDisk()
        store = open_store(disk, "/data" if simulated else str(tmp_path), clock, "compact")
        logs = [store.create("t", partition, None) for partition in range(3)]
        for log in logs:
            fill(log, b"1", b"2", b"3")
        threads = "1" if simulated else "2"  # a simulated disk is not for threads
        cleaning = LogCleaning(store, clock, lambda: config_of(log_cleaner_threads=threads))
        await cleaning.clean_once()
        assert [log.segments[0].size_bytes for log in logs] == [70] * 3
        assert cleaning.counts.io_bytes > 3 * 70, "three passes have read more than they have written"
        assert cleaning.last_result is not None and 0 < cleaning.last_result.buffer_use <= 1
        assert not cleaning.is_dead
        await cleaning.stop()
        store.close()

    asyncio.run(run())


def test_each_round_reads_the_settings_again() -> None:
    async def run() -> None:
        clock = ManualClock()
        store = open_store(SimDisk(clock.now_ms), "/data", clock, "compact")
        log = store.create("t", 0, None)
        configs = [config_of(log_cleaner_backoff_ms="0")]
        cleaning = LogCleaning(store, clock, lambda: configs[-1])
        cleaning.start()
        for number in range(2):
            fill(log, b"1", b"%d" % number)
            async with asyncio.timeout(60):
                while log.segments[0].size_bytes != 70:  # noqa: ASYNC110  # a log does not report its compaction
                    await asyncio.sleep(0.01)
            configs.append(config_of(log_cleaner_backoff_ms="1"))
        await cleaning.stop()
        fill(log, b"1", b"2")
        await asyncio.sleep(0.05)
        assert log.size_bytes > 70
        store.close()

    asyncio.run(run())


def test_a_pass_under_way_starts_again_with_other_settings(tmp_path: Path) -> None:
    async def run() -> None:
        clock = ManualClock()
        store = open_store(SystemDisk(), str(tmp_path), clock, "compact")
        log = store.create("t", 0, None)
        fill(log, b"1", b"2", b"3")
        configs = [config_of(log_cleaner_io_max_bytes_per_second="0.001")]
        cleaning = LogCleaning(store, clock, lambda: configs[-1])
        slow = asyncio.ensure_future(cleaning.clean_once())
        await until(lambda: any(process.pid for process in cleaning._processes))
        configs.append(config_of(log_cleaner_backoff_ms="77"))
        cleaning.reconfigure()
        async with asyncio.timeout(PATIENCE_S):
            await slow
        assert log.size_bytes > 70 and cleaning.uncleanable() == ()
        fast = asyncio.ensure_future(cleaning.clean_once())
        configs.append(config_of(log_cleaner_backoff_ms="78"))
        cleaning.reconfigure()  # of no matter to a pass
        await fast
        assert log.segments[0].size_bytes == 70
        await cleaning.stop()
        store.close()

    asyncio.run(run())


def test_a_disabled_cleaner_cleans_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        clock = ManualClock()
        store = open_store(SimDisk(clock.now_ms), "/data", clock, "compact")
        log = store.create("t", 0, None)
        fill(log, b"1", b"2")
        off = config_of(log_cleaner_enable="false", log_cleaner_backoff_ms="0")
        cleaning = LogCleaning(store, clock, lambda: off)
        with caplog.at_level("INFO"):
            cleaning.start()
        await asyncio.sleep(0.05)
        assert log.size_bytes == 140
        await cleaning.stop()
        store.close()

    asyncio.run(run())
    assert "log.cleaner.enable is false" in caplog.text


def test_retention_of_compacted_topics_is_the_cleaners() -> None:
    async def run() -> None:
        clock = ManualClock()
        store = open_store(SimDisk(clock.now_ms), "/data", clock, "compact", "delete")
        log = store.create("t", 0, None)
        fill(log, b"old", timestamp_ms=START_MS - 1001)
        fill(log, b"new")
        cleaning = LogCleaning(store, clock, config_of)
        await cleaning.clean_once()
        assert log.log_start_offset == 1
        assert [segment.base_offset for segment in log.segments] == [1, 2]
        await cleaning.stop()
        store.close()

    asyncio.run(run())
