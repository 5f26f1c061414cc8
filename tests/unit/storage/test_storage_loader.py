"""Start-up: what a crash, a clean stop or an interrupted cleaner left."""

from __future__ import annotations

import uuid

import pytest

from kcli.config.topic import LogConfig
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.disk import read_file
from kcli.storage.checkpoint import PARTITION_METADATA_FILE, read_partition_metadata
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.loader import create_log
from rigs.logs import START_MS, LogRig, append_client, batch_of, contents, marker_of, numbered
from simulation.runtime.disk import SimDisk

BATCH = len(batch_of([b"00"]))
PATH = "/data/t-0"


def rig(**config: object) -> LogRig:
    values = {"internal_segment_bytes": 5 * BATCH, "index_interval_bytes": BATCH, **config}
    return LogRig(SimDisk(), config=LogConfig(**values))


def value(nth: int) -> bytes:
    return b"%02d" % nth


def filled(made: LogRig, count: int = 23) -> PartitionLog:
    log = made.create()
    for nth in range(count):
        append(log, value(nth))
    return log


def append(log: PartitionLog, content: bytes) -> None:
    append_client(log, batch_of([content]), leader_epoch=0, now_ms=START_MS)


def names(made: LogRig) -> list[str]:
    return [entry.name for entry in made.disk.list_dir(PATH)]


def content_of(made: LogRig, name: str) -> bytes:
    file = made.disk.open(f"{PATH}/{name}")
    return file.read_at(0, file.size())


def put(made: LogRig, name: str, content: bytes) -> None:
    file = made.disk.open(f"{PATH}/{name}", create=True)
    file.truncate(0)
    file.write_at(0, content)


def rename(made: LogRig, name: str, to: str) -> None:
    made.disk.rename(f"{PATH}/{name}", f"{PATH}/{to}")


def expected(count: int) -> list[tuple[int, bytes]]:
    return [(nth, value(nth)) for nth in range(count)]


LAST = "00000000000000000020"


class TestPowerFailure:
    def fail_power(self, made: LogRig, seed: int) -> None:
        """Loses a part of what was not flushed, but no names."""
        for path in ("/", "/data", PATH):
            made.disk.sync_dir(path)
        assert isinstance(made.disk, SimDisk)
        made.disk = made.disk.crash_clone(seed)

    @pytest.mark.parametrize("seed", range(8))
    def test_a_sealed_segment_whose_records_were_flushed(self, seed: int) -> None:
        """Every record was flushed at its append, so the roll has only the last entry of the time index to flush."""
        made = rig(flush_messages=1, index_interval_bytes=1 << 20)
        log = filled(made, 6)
        assert [segment.base_offset for segment in log.segments] == [0, 5]
        self.fail_power(made, seed)
        again = made.load(clean=False, recovery_point=5)
        assert again.segments[0].largest_timestamp_ms() == log.segments[0].largest_timestamp_ms() == START_MS

    @pytest.mark.parametrize("seed", range(8))
    def test_the_producers_of_flushed_records(self, seed: int) -> None:
        made = rig(flush_messages=1)
        log = made.create()
        for directory in ("/", "/data"):
            made.disk.sync_dir(directory)
        for nth in range(5):
            batch = batch_of([value(nth)], producer_id=1, producer_epoch=0, sequence=nth)
            append_client(log, batch, leader_epoch=0, now_ms=START_MS)
        log.roll()
        assert isinstance(made.disk, SimDisk)
        made.disk = made.disk.crash_clone(seed)
        again = made.load(clean=False, recovery_point=5)
        assert [producer.last_sequence for producer in again.producers.active()] == [4]
        assert "00000000000000000005.snapshot" in names(made)

    @pytest.mark.parametrize("seed", range(8))
    def test_the_last_segment_of_a_clean_stop(self, seed: int) -> None:
        made = rig(flush_messages=1, index_interval_bytes=1 << 20)
        filled(made, 3).close(clean=True)
        self.fail_power(made, seed)
        again = made.load(clean=True, recovery_point=3)
        assert again.segments[0].largest_timestamp_ms() == START_MS


class TestClean:
    def test_everything_is_as_it_was(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        before = {name: content_of(made, name) for name in names(made)}
        log = made.load(clean=True)
        assert contents(log) == expected(23)
        assert log.durability.recovery_point == 23
        log.close(clean=True)
        assert {name: content_of(made, name) for name in names(made)} == before

    def test_it_continues_where_it_stopped(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        log = made.load(clean=True)
        append(log, value(23))
        assert contents(log) == expected(24)

    def test_a_lost_offset_index_is_rebuilt(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        before = {name: content_of(made, name) for name in names(made)}
        made.disk.remove(f"{PATH}/00000000000000000005.index")
        log = made.load(clean=True)
        assert contents(log) == expected(23)
        log.close(clean=True)
        assert {name: content_of(made, name) for name in names(made) if not name.endswith(".snapshot")} == {
            name: content for name, content in before.items() if not name.endswith(".snapshot")
        }

    def test_a_torn_offset_index_is_rebuilt(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        whole = content_of(made, LAST + ".index")
        put(made, LAST + ".index", whole[:-3])
        made.load(clean=True).close(clean=True)
        assert content_of(made, LAST + ".index") == whole

    def test_a_cut_index_of_a_sealed_segment_serves_its_whole_entries(self) -> None:
        """After a clean stop the index is not read before its first use, as in Kafka; after a crash it is rebuilt."""
        made = rig()
        filled(made).close(clean=True)
        whole = content_of(made, "00000000000000000010.index")
        put(made, "00000000000000000010.index", whole[:-3])
        log = made.load(clean=True)
        assert contents(log) == expected(23)
        log.close(clean=True)
        made.load(clean=False).close(clean=True)
        assert content_of(made, "00000000000000000010.index") == whole

    def test_sealed_segments_are_not_looked_at(self) -> None:
        made = rig()
        filled(made, 203).close(clean=True)
        made.load(clean=True).close(clean=False)  # reads and writes snapshots of the last two segments
        assert isinstance(made.disk, SimDisk)
        before = made.disk.calls
        made.load(clean=True).close(clean=False)
        many = made.disk.calls - before
        few = rig()
        filled(few, 23).close(clean=True)
        few.load(clean=True).close(clean=False)
        assert isinstance(few.disk, SimDisk)
        before = few.disk.calls
        few.load(clean=True).close(clean=False)
        assert many == few.disk.calls - before

    def test_a_lost_time_index_is_rebuilt(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        made.disk.remove(f"{PATH}/00000000000000000005.timeindex")
        made.load(clean=True)
        assert content_of(made, "00000000000000000005.timeindex") == b""

    def test_a_lone_index_is_removed(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        put(made, "00000000000000000007.index", b"12345678")
        made.load(clean=True)
        assert "00000000000000000007.index" not in names(made)

    def test_bytes_after_the_last_batch_are_cut(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        put(made, LAST + ".log", content_of(made, LAST + ".log") + bytes(100))
        log = made.load(clean=True)
        assert contents(log) == expected(23)
        assert len(content_of(made, LAST + ".log")) == 3 * BATCH

    def test_stray_snapshots_go(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        snapshot = content_of(made, "00000000000000000023.snapshot")
        put(made, "00000000000000000022.snapshot", snapshot)
        made.load(clean=True)
        assert [name for name in names(made) if name.endswith(".snapshot")] == [
            f"{nth:020d}.snapshot" for nth in (5, 10, 15, 20, 23)
        ]

    def test_no_snapshot_at_all_means_no_producers(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        for name in names(made):
            if name.endswith(".snapshot"):
                made.disk.remove(f"{PATH}/{name}")
        made.load(clean=True)
        assert [name for name in names(made) if name.endswith(".snapshot")] == [
            f"{nth:020d}.snapshot" for nth in (15, 20, 23)
        ]

    def test_an_epoch_without_records_is_forgotten(self) -> None:
        made = rig()
        log = filled(made)
        log.append_leader_epoch(4)
        log.close(clean=True)
        assert content_of(made, "leader-epoch-checkpoint") == b"0\n2\n0 0\n4 23\n"
        assert made.load(clean=True).leader_epochs.entries == [(0, 0)]


class TestUnclean:
    @pytest.mark.parametrize("cut", range(1, BATCH))
    def test_a_torn_tail_is_cut(self, cut: int) -> None:
        made = rig()
        filled(made).close(clean=False)
        put(made, LAST + ".log", content_of(made, LAST + ".log")[:-cut])
        log = made.load(clean=False, recovery_point=20)
        assert contents(log) == expected(22)
        append(log, value(22))
        assert contents(log) == expected(23)

    @pytest.mark.parametrize("bit", range(0, 8 * BATCH, 13))
    def test_a_wrong_bit_ends_the_log_there(self, bit: int) -> None:
        made = rig()
        filled(made).close(clean=False)
        broken = bytearray(content_of(made, LAST + ".log"))
        broken[BATCH + bit // 8] ^= 1 << bit % 8
        put(made, LAST + ".log", bytes(broken))
        log = made.load(clean=False, recovery_point=20)
        unchecked = bit // 8 in (
            *range(8),
            12,
            13,
            14,
            15,
        )  # base offset and leader epoch are outside the CRC
        if not unchecked:
            assert contents(log) == expected(21)

    def test_later_segments_go_with_a_broken_one(self) -> None:
        made = rig()
        filled(made).close(clean=False)
        broken = bytearray(content_of(made, "00000000000000000010.log"))
        broken[2 * BATCH + 70] ^= 1
        put(made, "00000000000000000010.log", bytes(broken))
        log = made.load(clean=False, recovery_point=0)
        assert contents(log) == expected(12)
        assert log.log_end_offset == 12
        assert "00000000000000000015.log" not in names(made)
        assert "00000000000000000015.log.deleted" in names(made)

    def test_segments_before_the_recovery_point_are_not_read(self) -> None:
        made = rig()
        filled(made).close(clean=False)
        broken = bytearray(content_of(made, "00000000000000000005.log"))
        broken[70] ^= 1
        put(made, "00000000000000000005.log", bytes(broken))
        log = made.load(clean=False, recovery_point=12)
        assert log.log_end_offset == 23
        assert log.durability.recovery_point == 10, (
            "the segment that was read again has new indexes, not flushed yet"
        )

    def test_the_next_append_flushes_the_files_that_recovery_wrote(self) -> None:
        """The index of aborted transactions above all: without it a read_committed consumer sees them."""
        disk = SimDisk()
        made = LogRig(disk, config=LogConfig(flush_messages=1))
        disk.sync_dir("/")
        log = made.create()
        producer = {"producer_id": 7, "producer_epoch": 0}
        aborted = batch_of([b"x"], sequence=0, transactional=True, **producer)
        append_client(log, aborted, leader_epoch=0, now_ms=START_MS)
        marker = marker_of(commit=False, **producer)
        log.append(marker, leader_epoch=0, now_ms=START_MS)
        assert index_of_aborted(disk.crash_clone(1)), "its file is new, so is its name"
        log.close(clean=False)
        log = made.load(clean=False, recovery_point=2)
        log.roll()
        append_client(log, batch_of([b"y"]), leader_epoch=0, now_ms=START_MS)
        for seed in range(20):
            assert index_of_aborted(disk.crash_clone(seed)), f"crash {seed} lost the rewritten index"

    def test_indexes_padded_with_zeros_are_rebuilt(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        whole = {name: content_of(made, name) for name in names(made) if name.endswith("index")}
        for name, content in whole.items():
            size = 1200  # whole entries of either kind
            put(made, name, content + bytes(size - len(content)))
        log = made.load(clean=False, recovery_point=23)
        assert contents(log) == expected(23)
        log.close(clean=True)
        assert {name: content_of(made, name) for name in whole} == whole

    def test_a_preallocated_tail_is_cut(self) -> None:
        made = rig(preallocate=True)
        filled(made, 3).close(clean=False)
        assert len(content_of(made, "00000000000000000000.log")) == 5 * BATCH
        log = made.load(clean=False)
        assert contents(log) == expected(3)
        assert len(content_of(made, "00000000000000000000.log")) == 3 * BATCH

    def test_epochs_come_back_from_the_batches(self) -> None:
        made = rig()
        log = made.create()
        for epoch in (0, 0, 3, 3, 8):
            append_client(log, batch_of([b"x"]), leader_epoch=epoch, now_ms=START_MS)
        log.close(clean=False)
        made.disk.remove(f"{PATH}/leader-epoch-checkpoint")
        assert made.load(clean=False).leader_epochs.entries == [(0, 0), (3, 2), (8, 4)]

    def test_an_empty_directory_is_an_empty_log(self) -> None:
        made = rig()
        made.disk.make_dir(PATH)
        log = made.load(clean=False, log_start_offset=7)
        assert (log.log_start_offset, log.log_end_offset) == (7, 7)

    def test_a_log_that_ends_before_its_start_begins_again(self) -> None:
        made = rig()
        filled(made, 4).close(clean=False)
        log = made.load(clean=False, log_start_offset=9)
        assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (9, 9, [])
        append(log, b"x")
        assert contents(log) == [(9, b"x")]


class TestSwaps:
    def test_deleted_files_go(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        put(made, "00000000000000000099.log.deleted", b"old")
        made.load(clean=True)
        assert "00000000000000000099.log.deleted" not in names(made)

    def test_unfinished_cleaning_is_undone(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        put(made, "00000000000000000005.log.cleaned", b"half")
        put(made, "00000000000000000005.index.cleaned", b"")
        put(made, "00000000000000000010.log.swap", b"of the same, unfinished swap")
        log = made.load(clean=True)
        assert contents(log) == expected(23)
        assert not [name for name in names(made) if name.endswith((".cleaned", ".swap"))]

    def test_a_whole_swap_is_finished(self) -> None:
        """Segments 5 and 10 were compacted into one: a crash came before its name was installed."""
        made = rig()
        filled(made).close(clean=True)
        first, second = (content_of(made, f"{nth:020d}.log") for nth in (5, 10))
        kept = first[:BATCH] + second[4 * BATCH :]  # offsets 5 and 14
        put(made, "00000000000000000005.log.swap", kept)
        put(made, "00000000000000000005.index.swap", b"")
        put(made, "00000000000000000005.timeindex.swap", b"")
        log = made.load(clean=True)
        assert [segment.base_offset for segment in log.segments] == [0, 5, 15, 20]
        assert contents(log) == [(nth, content) for nth, content in expected(23) if nth not in range(6, 14)]

    def test_a_swap_that_was_nearly_done(self) -> None:
        made = rig()
        filled(made).close(clean=True)
        for suffix in (".log", ".index", ".timeindex"):
            rename(made, "00000000000000000010" + suffix, "00000000000000000010" + suffix + ".swap")
        log = made.load(clean=True)
        assert contents(log) == expected(23)


class TestRetention:
    def test_retention_by_size_deletes_committed_segments(self) -> None:
        made = rig(retention_bytes=10 * BATCH)
        log = filled(made)
        assert log.delete_old_segments(START_MS) == 0  # nothing is committed yet
        log.set_high_watermark(12)
        assert log.delete_old_segments(START_MS) == 2
        log.set_high_watermark(23)
        assert log.delete_old_segments(START_MS) == 0  # 13 batches are left: 8 would be too few
        assert (log.log_start_offset, log.size_bytes) == (10, 13 * BATCH)
        assert contents(log) == expected(23)[10:]

    def test_by_time_the_active_segment_too(self) -> None:
        made = rig(retention_ms=1000)
        log = filled(made)
        log.set_high_watermark(23)
        assert log.delete_old_segments(START_MS + 1000) == 0
        assert log.delete_old_segments(START_MS + 1001) == 5
        assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (23, 23, 1)
        assert log.delete_old_segments(START_MS + 9999) == 0
        append(log, b"x")
        assert contents(log) == [(23, b"x")]

    def test_a_future_timestamp_keeps_what_follows(self) -> None:
        made = rig(retention_ms=1000)
        log = made.create()
        append_client(
            log, batch_of([b"x"], timestamp_ms=START_MS + 3_000_000), leader_epoch=0, now_ms=START_MS
        )
        log.roll()
        append(log, b"y")
        log.set_high_watermark(2)
        assert log.delete_old_segments(START_MS + 2000) == 0

    def test_by_log_start_offset_whatever_the_policy(self) -> None:
        made = rig(cleanup_policy=("compact",), retention_ms=1)
        log = filled(made)
        log.set_high_watermark(23)
        assert log.delete_old_segments(START_MS + 9999) == 0
        log.delete_records_before(11)
        assert log.delete_old_segments(START_MS) == 2
        assert log.log_start_offset == 11

    def test_files_wait_for_their_readers(self) -> None:
        made = rig(retention_ms=1000, file_delete_delay_ms=500)
        log = filled(made)
        log.set_high_watermark(23)
        log.delete_old_segments(START_MS + 1001)
        waiting = [name for name in names(made) if name.endswith(".deleted")]
        assert "00000000000000000000.log.deleted" in waiting
        assert "00000000000000000005.snapshot.deleted" in waiting
        made.clock.ms += 499
        assert made.directory.deletions.run() == 0
        made.clock.ms += 1
        assert made.directory.deletions.run() == len(waiting)
        assert not [name for name in names(made) if name.endswith(".deleted")]

    def test_without_timestamps_the_file_s_date_counts(self) -> None:
        made = rig(retention_ms=1000)
        log = made.create()
        append_client(log, batch_of([b"x"], timestamp_ms=-1), leader_epoch=0, now_ms=START_MS)
        log.set_high_watermark(1)
        made.disk.set_modified_ms(f"{PATH}/00000000000000000000.log", START_MS)
        assert log.delete_old_segments(START_MS + 1000) == 0
        assert log.delete_old_segments(START_MS + 1001) == 1


def test_a_new_log_has_its_topic_id() -> None:
    made = rig()
    topic_id = uuid.UUID(int=1 << 70)
    log = create_log(made.directory, "t-0", TopicPartition("t", 0), topic_id, made.config, made.settings)
    assert log.topic_id == topic_id
    assert read_partition_metadata(made.disk, f"{PATH}/{PARTITION_METADATA_FILE}") == topic_id
    assert made.load(clean=True).topic_id == topic_id


def test_many_batches_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.storage.log.recovery.RECOVERY_CHUNK_BYTES", 150)
    made = rig(internal_segment_bytes=1 << 20)
    log = made.create()
    sizes = (1, 40, 3, 200, 7)
    for nth in range(20):
        append_client(log, batch_of(numbered(sizes[nth % 5])), leader_epoch=0, now_ms=START_MS)
    whole = contents(log)
    log.close(clean=False)
    assert contents(made.load(clean=False)) == whole


def index_of_aborted(disk: SimDisk) -> bytes:
    return read_file(disk, "/data/t-0/00000000000000000000.txnindex")
