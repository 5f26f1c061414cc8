"""LogStore: directories, identity, locks, checkpoints, deletion."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import InconsistentTopicIdException, KafkaStorageException, StorageError
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.disk import SystemDisk, read_file
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
)
from kcli.storage.directory import (
    parse_partition_dir_name,
    suffixed_dir_name,
)
from kcli.storage.files import Handle, HandlePool
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from kcli.storage.store.maintenance import Maintenance
from kcli.storage.store.store import LogStore
from rigs.logs import (
    START_MS,
    ManualClock,
    append_client,
    batch_of,
    contents,
    flush_logs,
    numbered,
    open_files,
)
from rigs.steps import last_of
from simulation.runtime.disk import SimDisk

TOPIC_ID = uuid.UUID(int=0xABCDEF << 80)
OTHER_ID = uuid.UUID(int=0xFEDCBA << 80)


def formatted(*directories: str) -> SimDisk:
    disk = SimDisk(lambda: START_MS)
    for directory in directories or ("/data",):
        disk.make_dir(directory)
        write_meta_properties(disk, directory, MetaProperties("cluster", 1), START_MS)
    return disk


def open_store(
    disk: SimDisk | SystemDisk, *directories: str, clock: ManualClock | None = None, **options: object
) -> LogStore:
    return LogStore.open(
        disk,
        clock or ManualClock(),
        directories or ["/data"],
        **{"node_id": 1, "rng": SystemRng(5), "recovery_threads": 1, **options},
    )


def append(log: PartitionLog, count: int = 1) -> None:
    append_client(log, batch_of(numbered(count)), leader_epoch=0, now_ms=START_MS)


def names(disk: SimDisk, path: str = "/data") -> list[str]:
    return [entry.name for entry in disk.list_dir(path)]


class TestIdentity:
    def test_an_unformatted_directory_is_refused(self) -> None:
        with pytest.raises(StorageError, match=r"No readable meta.properties files found"):
            open_store(SimDisk())

    def test_the_directory_of_another_node_is_refused(self) -> None:
        with pytest.raises(StorageError, match="belongs to node 1, but this is node 2"):
            open_store(formatted(), node_id=2)

    def test_directories_of_two_clusters_are_refused(self) -> None:
        disk = formatted("/a", "/b")
        write_meta_properties(disk, "/b", MetaProperties("other", 1), START_MS)
        with pytest.raises(StorageError, match="belongs to cluster other"):
            open_store(disk, "/a", "/b")

    def test_a_copied_directory_is_refused(self) -> None:
        disk = formatted("/a", "/b")
        for directory in ("/a", "/b"):
            write_meta_properties(disk, directory, MetaProperties("cluster", 1, TOPIC_ID), START_MS)
        with pytest.raises(StorageError, match=r"the same directory.id"):
            open_store(disk, "/a", "/b")

    def test_a_new_disk_gets_an_identity(self) -> None:
        disk = formatted("/a")
        store = open_store(disk, "/a", "/b")
        found = read_meta_properties(disk, "/b")
        assert found is not None
        assert (found.cluster_id, found.node_id, found.version) == ("cluster", 1, 1)
        assert found.directory_id == store.directories[1].id != store.directories[0].id
        assert store.cluster_id == "cluster"

    def test_a_directory_has_one_owner(self) -> None:
        disk = formatted()
        store = open_store(disk)
        with pytest.raises(StorageError, match=r"Failed to acquire lock on file .lock in /data"):
            open_store(disk)
        store.close()
        assert ".lock" not in names(disk)
        open_store(disk)

    def test_a_failed_start_leaves_no_lock(self) -> None:
        disk = formatted()
        with pytest.raises(StorageError):
            open_store(disk, node_id=2)
        open_store(disk)

    def test_a_directory_that_is_no_partition(self) -> None:
        disk = formatted()
        disk.make_dir("/data/photos")
        with pytest.raises(StorageError, match="'photos' is not in the form of topic-partition"):
            open_store(disk)

    def test_one_partition_in_two_directories(self) -> None:
        disk = formatted("/a", "/b")
        for directory in ("/a", "/b"):
            disk.make_dir(f"{directory}/t-0")
        with pytest.raises(StorageError, match="Duplicate log directories found: /b/t-0, /a/t-0"):
            open_store(disk, "/a", "/b")


class TestLogs:
    def test_created_where_there_are_fewest(self) -> None:
        store = open_store(formatted("/a", "/b"), "/a", "/b")
        for partition in range(5):
            store.create("t", partition, TOPIC_ID)
        paths = sorted(log.directory.path for log in store.logs.values())
        assert paths == ["/a", "/a", "/a", "/b", "/b"]

    def test_deleted_logs_do_not_count_as_partitions_of_a_directory(self) -> None:
        store = open_store(formatted("/a", "/b"), "/a", "/b")
        for partition in range(4):
            store.create("t", partition, TOPIC_ID)
        for log in [log for log in store.logs.values() if log.directory.path == "/a"]:
            store.delete(log.topic, log.partition)
        assert [directory.open_logs for directory in store.directories] == [0, 2]
        assert [store.create("u", nth, TOPIC_ID).directory.path for nth in range(2)] == ["/a", "/a"]

    def test_logs_from_before_a_restart_count_as_partitions_of_a_directory(self) -> None:
        disk = formatted("/a", "/b")
        store = open_store(disk, "/a", "/b")
        for partition in range(3):
            store.create("t", partition, TOPIC_ID)
        store.close()
        assert [directory.open_logs for directory in store.directories] == [0, 0]
        assert [directory.open_logs for directory in open_store(disk, "/a", "/b").directories] == [2, 1]

    def test_a_partition_has_one_log_and_one_topic_id(self) -> None:
        store = open_store(formatted())
        log = store.create("t", 0, TOPIC_ID)
        assert store.create("t", 0, TOPIC_ID) is log is store.get("t", 0)
        assert store.get("t", 1) is None
        with pytest.raises(InconsistentTopicIdException):
            store.create("t", 0, uuid.uuid4())

    def test_the_metadata_log_has_its_directory_and_no_checkpoints(self) -> None:
        disk = formatted("/a", "/b")
        store = open_store(disk, "/a", "/b", metadata_log_dir="/b")
        assert store.create("__cluster_metadata", 0, None).directory.path == "/b"
        store.maintenance.checkpoint_recovery_points()
        assert read_offsets(disk, "/b/recovery-point-offset-checkpoint") == {}
        assert store.describe()[1].partitions == ()

    def test_a_directory_for_the_metadata_log_alone_has_no_partitions(self) -> None:
        disk = formatted("/a", "/meta")
        disk.make_dir("/meta/t-7")
        store = open_store(disk, "/a", metadata_log_dir="/meta")
        assert store.create("__cluster_metadata", 0, None).directory.path == "/meta"
        store.create("t", 0, TOPIC_ID)
        store.create("t", 1, TOPIC_ID)
        assert [each.path for each in store.describe()] == ["/a"]
        assert store.get("t", 7) is None
        with pytest.raises(StorageError, match="Failed to acquire lock on file"):
            open_store(disk, "/meta")
        store.close()
        assert ".kafka_cleanshutdown" in names(disk, "/meta")
        again = open_store(disk, "/a", metadata_log_dir="/meta")
        metadata = again.get("__cluster_metadata", 0)
        assert metadata is not None and metadata.directory.path == "/meta"

    def test_a_metadata_log_in_another_directory_than_the_configured_one(self) -> None:
        disk = formatted("/a", "/b")
        disk.make_dir("/a/__cluster_metadata-0")
        with pytest.raises(
            StorageError, match=r"unexpected metadata location in data directory /a \(.* is /b\)"
        ):
            open_store(disk, "/a", "/b", metadata_log_dir="/b")

    def test_a_clean_close_keeps_checkpoints_and_the_broker_epoch(self) -> None:
        disk = formatted()
        store = open_store(disk)
        log = store.create("t", 0, TOPIC_ID)
        append(log, 5)
        append(log, 5)
        log.set_high_watermark(7)
        log.delete_records_before(4)
        store.close(broker_epoch=12)
        assert read_file(disk, "/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
        assert read_file(disk, "/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 10\n"
        assert read_file(disk, "/data/replication-offset-checkpoint") == b"0\n1\nt 0 7\n"
        assert read_file(disk, "/data/log-start-offset-checkpoint") == b"0\n1\nt 0 4\n"
        again = open_store(disk)
        assert ".kafka_cleanshutdown" not in names(disk)
        assert again.previous_broker_epoch == 12
        found = again.get("t", 0)
        assert found is not None
        assert (found.log_start_offset, found.high_watermark, found.log_end_offset) == (4, 7, 10)
        assert (found.durability.recovery_point, found.topic_id) == (10, TOPIC_ID)

    def test_an_unclean_close_leaves_no_mark_and_no_broker_epoch(self) -> None:
        disk = formatted()
        store = open_store(disk)
        append(store.create("t", 0, TOPIC_ID), 5)
        store.close(clean=False)
        assert ".kafka_cleanshutdown" not in names(disk)
        again = open_store(disk)
        assert again.previous_broker_epoch == -1
        assert contents(again.logs[TopicPartition("t", 0)]) == list(enumerate(numbered(5)))

    @pytest.mark.parametrize(
        ("clean", "told"), [(True, "after a clean shutdown, without recovery"), (False, "with recovery")]
    )
    def test_the_log_tells_whether_a_start_recovered(
        self, caplog: pytest.LogCaptureFixture, clean: bool, told: str
    ) -> None:
        disk = formatted()
        store = open_store(disk)
        store.create("t", 0, TOPIC_ID)
        store.close(clean=clean)
        with caplog.at_level(logging.INFO, "kcli.storage"):
            open_store(disk)
        lines = [line for line in caplog.messages if line.startswith("Loaded")]
        assert len(lines) == 1 and lines[0].startswith("Loaded 1 logs of /data in ") and told in lines[0]

    def test_configs_by_topic(self) -> None:
        disk = formatted()
        store = open_store(disk)
        store.create("a", 0, None)
        store.create("b", 0, None)
        store.close()
        again = open_store(disk, config_for=lambda topic: LogConfig(retention_ms=len(topic + "x")))
        assert {log.config.retention_ms for log in again.logs.values()} == {2}

    def test_many_logs_few_handles(self, tmp_path: Path) -> None:
        disk = SystemDisk()
        write_meta_properties(disk, str(tmp_path), MetaProperties("cluster", 1), START_MS)
        store = open_store(disk, str(tmp_path), handle_capacity=8)
        logs = [store.create("t", partition, None) for partition in range(30)]
        for _ in range(3):
            for log in logs:
                append(log, 2)
        assert all(contents(log) == [(nth, b"%d" % (nth % 2)) for nth in range(6)] for log in logs)
        assert logs[0].segments[0].files.log.open_file is None
        assert 0 < open_files(store) <= 8
        store.close()

    def test_recovery_in_threads_shows_how_far_it_is(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        disk = SystemDisk()
        write_meta_properties(disk, str(tmp_path), MetaProperties("cluster", 1), START_MS)
        store = open_store(disk, str(tmp_path))
        for partition in range(12):
            append(store.create("t", partition, None), 3)
        store.close(clean=False)
        meet = threading.Barrier(4, timeout=10)

        def config_for(_topic: str) -> LogConfig:
            meet.wait()  # asked for by each thread before it recovers a log: four are at work at a time
            return LogConfig()

        with caplog.at_level(logging.INFO, "kcli.storage"):
            again = open_store(disk, str(tmp_path), recovery_threads=4, config_for=config_for)
        assert [log.log_end_offset for log in again.logs.values()] == [3] * 12
        assert not [line for line in caplog.messages if "/t-3" in line]  # no line for each log
        assert [line for line in caplog.messages if line.startswith(f"Loaded 12 logs of {tmp_path} in ")]
        again.close()


class TestDeletion:
    def test_a_deleted_log_is_gone_at_once_its_files_later(self) -> None:
        disk, clock = formatted(), ManualClock()
        store = open_store(disk, clock=clock)
        log = store.create("t", 0, TOPIC_ID)
        append(log)
        store.delete("t", 0)
        assert store.get("t", 0) is None
        (directory,) = [name for name in names(disk) if name.startswith("t-0")]
        assert directory.startswith("t-0.")
        assert directory.endswith("-delete")
        assert len(directory) == len("t-0.") + 32 + len("-delete")
        clock.ms += 59_999
        assert store.maintenance.delete_due_files() == 0
        clock.ms += 1
        assert store.maintenance.delete_due_files() == 1
        assert not [name for name in names(disk) if name.startswith("t-0")]
        store.delete("t", 0)  # nothing to do

    def test_a_closed_log_refuses_its_remaining_users(self) -> None:
        store = open_store(formatted())
        log = store.create("t", 0, TOPIC_ID)
        append(log)
        store.delete("t", 0)
        with pytest.raises(StorageError, match="/data/t-0 is closed"):
            log.read(0, 10, end_offset=1)
        with pytest.raises(StorageError, match="closed"):
            append(log)
        assert store.directories[0].error is None

    def test_a_successor_of_the_same_name_starts_at_0(self) -> None:
        disk = formatted()
        store = open_store(disk)
        log = store.create("t", 0, TOPIC_ID)
        append(log, 9)
        log.set_high_watermark(9)
        log.delete_records_before(5)
        store.maintenance.checkpoint_log_start_offsets()
        store.delete("t", 0)
        append(store.create("t", 0, None), 2)
        store.close(clean=False)
        again = open_store(disk)
        assert contents(again.logs[TopicPartition("t", 0)]) == list(enumerate(numbered(2)))

    def test_a_successor_does_not_take_the_old_high_watermark(self) -> None:
        disk = formatted()
        store = open_store(disk)
        log = store.create("t", 0, TOPIC_ID)
        append(log, 9)
        log.set_high_watermark(9)
        store.maintenance.checkpoint_high_watermarks()
        store.delete("t", 0)
        append(store.create("t", 0, OTHER_ID), 12)
        store.close(clean=False)
        assert open_store(disk).logs[TopicPartition("t", 0)].high_watermark == 0

    @pytest.mark.parametrize(
        "checkpoint",
        [
            Maintenance.checkpoint_high_watermarks,
            Maintenance.checkpoint_log_start_offsets,
            Maintenance.checkpoint_recovery_points,
        ],
    )
    def test_a_successor_after_a_restart_takes_no_old_offset(
        self, checkpoint: Callable[[Maintenance], None]
    ) -> None:
        disk = formatted()
        store = open_store(
            disk, background=lambda _path: lambda _work: None
        )  # the broker dies before the work begins
        log = store.create("t", 0, TOPIC_ID)
        append(log, 9)
        log.set_high_watermark(9)
        log.delete_records_before(5)
        log.durability.flush()
        checkpoint(store.maintenance)
        store.delete("t", 0)
        store.close(clean=False)
        successor = open_store(disk)
        append(successor.create("t", 0, OTHER_ID), 12)
        successor.close(clean=False)
        for file in (HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE):
            assert read_offsets(disk, f"/data/{file}").get(TopicPartition("t", 0), 0) == 0
        assert open_store(disk).logs[TopicPartition("t", 0)].high_watermark == 0

    def test_deletion_continues_after_a_restart(self) -> None:
        disk = formatted()
        store = open_store(disk)
        store.create("t", 0, TOPIC_ID)
        store.delete("t", 0)
        store.close()
        clock = ManualClock()
        again = open_store(disk, clock=clock)
        assert again.logs == {}
        clock.ms += 60_000
        assert again.maintenance.delete_due_files() == 1

    def test_a_stray_is_kept_and_not_served(self) -> None:
        disk = formatted()
        store = open_store(disk)
        append(store.create("t", 0, TOPIC_ID))
        store.set_aside((), [store.logs[TopicPartition("t", 0)]])
        assert store.get("t", 0) is None
        store.close()
        clock = ManualClock()
        again = open_store(disk, clock=clock)
        assert again.logs == {}
        clock.ms += 1_000_000
        assert again.maintenance.delete_due_files() == 0
        assert [name for name in names(disk) if name.endswith("-stray")]

    def test_many_logs_are_set_aside_with_one_write_of_each_checkpoint(self) -> None:
        disk = formatted()
        store = open_store(disk)
        logs = [store.create("t", number, TOPIC_ID, more=True) for number in range(30)]
        store.settle_soon()
        store.maintenance.checkpoint_recovery_points()
        disk.sync_dir("/")
        before = disk.counts.copy()
        store.set_aside(logs[:15], logs[15:])
        made = disk.counts - before
        assert made["rename"] == 30 + 3  # the logs, and the three checkpoints
        assert (made["sync"], made["sync_dir"]) == (3, 1 + 3)
        assert read_offsets(disk, "/data/recovery-point-offset-checkpoint") == {}
        clock = ManualClock()
        after_power_failure = open_store(disk.crash_clone(1), clock=clock)
        assert after_power_failure.logs == {}
        clock.ms += 60_000
        assert after_power_failure.maintenance.delete_due_files() == 15


class TestCuts:
    def test_many_cuts_share_the_writes_of_the_checkpoints(self) -> None:
        disk = formatted()
        store = open_store(disk)
        logs = [store.create("t", number, TOPIC_ID) for number in range(30)]
        for log in logs:
            append(log, 9)
            append(log, 9)
        flush_logs(store)
        store.checkpoint_directory(store.directories[0])
        disk.sync_dir("/")
        for log in logs:
            log.truncate_to(9)
        assert all(log.durability.has_unsynced_cut for log in logs)
        before = disk.counts.copy()
        store.maintenance.sync_cuts(logs)
        assert (disk.counts - before)["rename"] == 1  # only the recovery points have changed
        assert not any(log.durability.has_unsynced_cut for log in logs)
        points = read_offsets(disk.crash_clone(1), f"/data/{RECOVERY_POINT_FILE}")
        assert set(points.values()) == {9}

    def test_a_cut_that_a_bad_disk_does_not_sync_stays_unsynced(self) -> None:
        disk = formatted()
        store = open_store(disk)
        log = store.create("t", 0, TOPIC_ID)
        append(log, 9)
        log.truncate_to(0)
        disk.fail("sync", "/data/t-0")
        store.maintenance.sync_cuts([log])
        assert store.directories[0].error is not None
        assert log.durability.has_unsynced_cut


class TestHousekeeping:
    def test_checkpoints_are_written_only_when_they_change(self) -> None:
        disk = formatted()
        store = open_store(disk)
        log = store.create("t", 0, TOPIC_ID)
        store.maintenance.checkpoint_high_watermarks()
        calls = disk.calls
        store.maintenance.checkpoint_high_watermarks()
        assert disk.calls == calls
        append(log)
        log.set_high_watermark(1)
        store.maintenance.checkpoint_high_watermarks()
        assert read_offsets(disk, "/data/replication-offset-checkpoint") == {("t", 0): 1}

    def test_a_log_is_flushed_when_flush_ms_has_passed(self) -> None:
        store = open_store(formatted(), default_config=LogConfig(flush_ms=100))
        log = store.create("t", 0, None)
        append(log, 3)
        store.maintenance.flush_due(START_MS + 99)
        assert log.durability.recovery_point == 0
        store.maintenance.flush_due(START_MS + 100)
        assert log.durability.recovery_point == 3
        append(log, 3)
        flush_logs(store)
        assert log.durability.recovery_point == 6

    def test_retention_spares_the_metadata_log(self) -> None:
        store = open_store(formatted(), default_config=LogConfig(retention_ms=1))
        for topic in ("t", "__cluster_metadata"):
            log = store.create(topic, 0, None)
            append(log)
            log.set_high_watermark(1)
        assert last_of(store.maintenance.delete_old_segments(START_MS + 1000)) == 1
        assert store.logs[TopicPartition("__cluster_metadata", 0)].log_start_offset == 0

    def test_describe_names_each_partition_with_its_size(self) -> None:
        store = open_store(formatted())
        append(store.create("t", 3, None))
        (described,) = store.describe()
        (partition,) = described.partitions
        assert (partition.topic, partition.partition) == ("t", 3)
        assert partition.size_bytes == store.logs[TopicPartition("t", 3)].size_bytes > 0
        assert described.total_bytes >= described.usable_bytes > 0
        assert described.directory_id == store.directories[0].id

    def test_a_broken_checkpoint_counts_as_missing(self) -> None:
        disk = formatted()
        store = open_store(disk)
        append(store.create("t", 0, None), 4)
        store.close()
        for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
            disk.open(f"/data/{name}").write_at(0, b"9")
        assert open_store(disk).logs[TopicPartition("t", 0)].log_end_offset == 4

    def test_the_last_directory_failing(self) -> None:
        disk = formatted()
        failures: list[str] = []
        store = open_store(disk, on_failure=lambda directory, _error: failures.append(directory.path))
        disk.fail("make_dir")
        with pytest.raises(StorageError):
            store.create("t", 0, None)
        assert failures == ["/data"]
        with pytest.raises(KafkaStorageException, match="No log directory is online"):
            store.create("t", 1, None)
        assert store.describe()[0].error is not None
        store.close()
        assert ".kafka_cleanshutdown" not in names(disk)


class TestNames:
    @pytest.mark.parametrize(
        ("name", "parsed"),
        [
            ("t-0", ("t", 0, "")),
            ("a-b.c_d-17", ("a-b.c_d", 17, "")),
            ("t-3.0123456789abcdef0123456789abcdef-delete", ("t", 3, "-delete")),
            ("x.y-3.0123456789abcdef0123456789abcdef-stray", ("x.y", 3, "-stray")),
            ("t-3.0123456789abcdef0123456789abcdef-future", ("t", 3, "-future")),
            ("t-x", None),
            ("t-", None),
            ("-1", None),
            ("t", None),
            ("t-3-delete", None),
            ("t-²", None),
        ],
    )
    def test_names_of_partition_directories_are_parsed(self, name: str, parsed: object) -> None:
        assert parse_partition_dir_name(name) == parsed

    def test_long_names_are_cut(self) -> None:
        unique = uuid.UUID(int=7)
        name = suffixed_dir_name("x" * 249, 12345, unique, "-delete")
        assert len(name) == 255
        assert name.endswith(f"x-12345.{unique.hex}-delete")
        assert parse_partition_dir_name(name) == ("x" * 209, 12345, "-delete")
        with pytest.raises(ValueError, match="characters long"):
            suffixed_dir_name("x" * 249, 0, unique, "-future")


class TestHandles:
    def test_the_idle_are_closed_first(self, tmp_path: Path) -> None:
        pool = HandlePool(SystemDisk(), 2)
        first, second, third = (Handle(pool, str(tmp_path / name)) for name in "abc")
        file = first.create()
        second.create()
        pool._evict()  # a sweep: all were used
        pool._evict()
        first.file()
        third.create()
        assert first.open_file is file
        assert second.open_file is None
        assert second.file() is second.open_file
        with pytest.raises(FileNotFoundError):
            Handle(pool, str(tmp_path / "absent")).file()

    def test_a_closed_file_does_not_displace_one_in_use(self, tmp_path: Path) -> None:
        pool = HandlePool(SystemDisk(), 2)
        kept = Handle(pool, str(tmp_path / "kept"))
        file = kept.create()
        for name in "abcd":
            passing = Handle(pool, str(tmp_path / name))
            passing.create()
            passing.close()
            assert passing.open_file is None
        assert kept.open_file is file


def test_another_process_holds_the_lock(tmp_path: Path) -> None:
    disk = SystemDisk()
    write_meta_properties(disk, str(tmp_path), MetaProperties("cluster", 1), START_MS)
    code = (
        "import sys; from kcli.runtime.disk import SystemDisk\n"
        f"lock = SystemDisk().lock({str(tmp_path / '.lock')!r}); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StorageError, match="Failed to acquire lock"):
            open_store(disk, str(tmp_path))
        other.stdin.close()
    open_store(disk, str(tmp_path)).close()
