"""Compaction: what stays, what goes, and when."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import replace

import pytest

from kcli.config.topic import LogConfig
from kcli.model.ids import Position
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import BatchHeader, Record, encode_batch, read_records
from kcli.protocol.batches.compression import Codec
from kcli.runtime.rng import SystemRng
from kcli.storage.checkpoint import read_offsets
from kcli.storage.cleaner.cleaner import DEFAULT_LIMITS, LogCleaner
from kcli.storage.cleaner.one_pass import CleaningPass
from kcli.storage.cleaner.plan import CleanedSegment, CleanerLimits, CleaningEvent, CleaningPlan
from kcli.storage.log.batch_search import headers
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, ManualClock, append_client, marker_of
from simulation.runtime.disk import SimDisk

DAY_MS = 86_400_000


class Rig:
    """A compacted topic of one partition."""

    def __init__(self, **config: object) -> None:
        self.disk = SimDisk(lambda: self.clock.ms)
        self.clock = ManualClock()
        self.disk.make_dir("/data")
        write_meta_properties(self.disk, "/data", MetaProperties("cluster", 1), START_MS)
        values: dict[str, object] = {
            "cleanup_policy": ("compact",),
            "min_cleanable_dirty_ratio": 0.0,
            **config,
        }
        self.config = LogConfig(**values)
        self.open()
        self.store.create("t", 0, None)

    def open(self) -> None:
        self.store = LogStore.open(
            self.disk,
            self.clock,
            ["/data"],
            node_id=1,
            rng=SystemRng(1),
            default_config=self.config,
            recovery_threads=1,
        )
        self.cleaner = LogCleaner(self.store)

    @property
    def log(self) -> PartitionLog:
        return self.store.logs[TopicPartition("t", 0)]

    def append(self, *pairs: tuple[str, str | None], codec: Codec = Codec.NONE, **producer: object) -> None:
        records = [
            Record(-1, self.clock.ms, key.encode(), None if value is None else value.encode(), (), -1)
            for key, value in pairs
        ]
        append_client(
            self.log, encode_batch(records, codec=codec, **producer), leader_epoch=0, now_ms=self.clock.ms
        )

    def transact(self, sequence: int, *pairs: tuple[str, str | None], producer: int = 1) -> None:
        self.append(
            *pairs, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True
        )

    def end(self, *, commit: bool, producer: int = 1) -> None:
        marker = marker_of(commit=commit, producer_id=producer, producer_epoch=0, timestamp_ms=self.clock.ms)
        self.log.append(marker, leader_epoch=0, now_ms=self.clock.ms)

    def seal(self) -> None:
        """Everything so far may be cleaned."""
        self.log.roll()
        self.log.set_high_watermark(self.log.log_end_offset)

    def clean(self) -> int:
        """Passes made."""
        return len(self.cleaner.clean(self.clock.ms))

    def batches(self) -> list[tuple[BatchHeader, list[Record]]]:
        found = []
        for segment in self.log.segments:
            file = segment.files.log.file()
            for position, header in headers(segment):
                found.append((header, list(read_records(file.read_at(position, header.size_bytes)))))
        return found

    def records(self) -> list[tuple[int, str, str | None]]:
        return [
            (
                record.offset,
                (record.key or b"").decode(),
                None if record.value is None else record.value.decode(),
            )
            for header, records in self.batches()
            if not header.is_control
            for record in records
        ]

    def markers(self) -> list[int]:
        return [header.base_offset for header, records in self.batches() if header.is_control and records]


class TestKeys:
    def test_the_latest_value_of_each_key_stays(self) -> None:
        rig = Rig()
        rig.append(("a", "1"), ("b", "1"))
        rig.append(("a", "2"), ("c", "1"))
        rig.append(("b", "2"))
        rig.seal()
        rig.append(("a", "3"))
        assert rig.clean() == 1
        assert rig.records() == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3")]

    def test_a_filtered_batch_keeps_its_place(self) -> None:
        rig = Rig()
        rig.append(("a", "1"), ("b", "1"), ("c", "1"), codec=Codec.ZSTD)
        rig.append(("a", "2"), ("c", "2"))
        rig.seal()
        rig.clean()
        header = rig.batches()[0][0]
        assert (header.base_offset, header.last_offset, header.records_count) == (0, 2, 1)
        assert header.codec is Codec.ZSTD
        assert header.partition_leader_epoch == 0

    def test_untouched_batches_are_copied(self) -> None:
        rig = Rig()
        rig.append(("a", "1"))
        rig.append(("b", "1"), ("c", "1"), codec=Codec.GZIP)
        rig.seal()
        before = rig.log.read(0, 1 << 20, end_offset=3).read()
        rig.clean()
        assert rig.log.read(0, 1 << 20, end_offset=3).read() == before

    def test_long_keys_are_compacted_too(self) -> None:
        rig = Rig()
        for value in ("1", "2"):
            rig.append(("x" * 1000, value), ("x" * 1001, value))
        rig.seal()
        rig.clean()
        assert [(offset, value) for offset, _, value in rig.records()] == [(2, "2"), (3, "2")]

    def test_small_segments_are_merged(self) -> None:
        rig = Rig()
        for nth in range(6):
            rig.append(("a", str(nth)), (f"b{nth}", "x"))
            rig.seal()
        assert len(rig.log.segments) == 7
        rig.clean()
        assert [segment.base_offset for segment in rig.log.segments] == [0, 12]
        assert [record for record in rig.records() if record[1] == "a"] == [(10, "a", "5")]
        snapshots = [
            entry.name for entry in rig.disk.list_dir("/data/t-0") if entry.name.endswith(".snapshot")
        ]
        assert snapshots == ["00000000000000000012.snapshot"]

    def test_but_not_beyond_the_size_of_a_segment(self) -> None:
        rig = Rig(internal_segment_bytes=400)
        for nth in range(20):
            rig.append((f"k{nth}", "x" * 30))
        rig.seal()
        before = len(rig.log.segments)
        rig.clean()
        assert len(rig.log.segments) == before
        assert all(segment.size_bytes <= 400 for segment in rig.log.segments)
        assert len(rig.records()) == 20

    def test_indexes_find_what_is_left(self) -> None:
        rig = Rig(index_interval_bytes=100)
        for nth in range(200):
            rig.append((f"k{nth % 50}", str(nth)))
        rig.seal()
        rig.clean()
        assert [offset for offset, _, _ in rig.records()] == list(range(150, 200))
        for offset in range(200):
            piece = rig.log.read(offset, 1, end_offset=200).read()
            assert next(read_records(piece)).offset == max(offset, 150)
        assert rig.log.segments[0].offset_index.entries.count > 10

    def test_a_small_map_takes_several_passes(self) -> None:
        rig = Rig()
        for nth in range(60):
            rig.append((f"k{nth % 30}", str(nth)))
        rig.seal()
        rig.cleaner.limits = replace(DEFAULT_LIMITS, dedupe_buffer_bytes=11 * 24, load_factor=0.9)
        assert rig.clean() > 3
        assert [offset for offset, _, _ in rig.records()] == list(range(30, 60))


class TestTombstones:
    def test_they_stay_for_a_while(self) -> None:
        rig = Rig(delete_retention_ms=1000)
        rig.append(("a", "1"), ("b", "1"))
        rig.append(("a", None))
        rig.seal()
        rig.clean()
        assert rig.records() == [(1, "b", "1"), (2, "a", None)]
        assert rig.batches()[1][0].delete_horizon_ms == START_MS + 1000
        assert rig.batches()[1][1][0].timestamp_ms == START_MS
        rig.append(("z", "1"))
        rig.seal()
        rig.clock.ms += 999
        rig.clean()
        assert (2, "a", None) in rig.records()
        rig.append(("z", "2"))
        rig.seal()
        rig.clock.ms += 1
        rig.clean()
        assert rig.records() == [(1, "b", "1"), (4, "z", "2")]


class TestTransactions:
    def test_aborted_records_count_for_nothing(self) -> None:
        rig = Rig()
        rig.append(("a", "kept"))
        rig.transact(0, ("a", "aborted"), ("b", "aborted"))
        rig.end(commit=False)
        rig.transact(2, ("c", "committed"))
        rig.end(commit=True)
        rig.seal()
        rig.clean()
        assert rig.records() == [(0, "a", "kept"), (4, "c", "committed")]
        assert rig.markers() == [3, 5]
        assert [entry.first_offset for entry in rig.log.local.aborted_transactions(0, 9)] == [1]

    def test_a_transaction_after_an_aborted_one_that_is_clean_already(self) -> None:
        rig = Rig()
        rig.transact(0, ("a", "aborted"))
        rig.end(commit=False)
        rig.append(("z", "1"))
        rig.seal()
        assert rig.clean() == 1
        rig.append(("a", "1"))
        rig.transact(1, ("a", "2"))
        rig.end(commit=True)
        rig.seal()
        assert rig.clean() == 1
        assert rig.records() == [(2, "z", "1"), (4, "a", "2")]

    def test_nothing_undecided_is_cleaned(self) -> None:
        rig = Rig()
        rig.append(("a", "1"))
        rig.append(("a", "2"))
        rig.seal()
        rig.transact(0, ("a", "3"))
        rig.seal()
        rig.append(("a", "4"))
        rig.seal()
        rig.clean()
        assert [value for _, _, value in rig.records()] == ["2", "3", "4"]
        rig.end(commit=True)
        rig.seal()
        rig.clean()
        assert [value for _, _, value in rig.records()] == ["4"]

    def test_markers_go_after_their_data(self) -> None:
        rig = Rig(delete_retention_ms=1000)
        rig.transact(0, ("a", "1"))
        rig.end(commit=True)
        rig.transact(1, ("b", "aborted"), producer=1)
        rig.end(commit=False)
        rig.append(("a", "2"))
        rig.append(("x", "1"), producer_id=1, producer_epoch=0, base_sequence=2)
        rig.seal()
        rig.clean()
        assert rig.markers() == [1, 3]  # their data was there in this pass
        for nth in range(2):
            rig.append(("z", str(nth)))
            rig.seal()
            rig.clock.ms += 2000
            rig.clean()
        assert rig.markers() == []
        assert rig.log.local.aborted_transactions(0, 99) == []

    def test_the_last_batch_of_a_producer_stays_as_a_header(self) -> None:
        rig = Rig()
        rig.append(("a", "1"), producer_id=7, producer_epoch=2, base_sequence=0)
        rig.append(("a", "2"), ("a", "3"), producer_id=7, producer_epoch=2, base_sequence=1)
        rig.append(("a", "4"))
        rig.seal()
        rig.clean()
        headers = [header for header, records in rig.batches() if not records]
        (empty,) = headers
        assert (empty.base_offset, empty.last_offset, empty.last_sequence, empty.size_bytes) == (1, 2, 2, 61)
        assert (empty.producer_id, empty.producer_epoch, empty.base_timestamp_ms) == (7, 2, -1)
        rig.store.close(clean=False)
        rig.open()
        (entry,) = rig.log.producers.active()
        assert entry.last_sequence == 2


class TestChoice:
    def test_the_active_segment_is_never_cleaned(self) -> None:
        rig = Rig()
        rig.append(("a", "1"))
        rig.append(("a", "2"))
        rig.log.set_high_watermark(2)
        assert rig.clean() == 0

    def test_uncommitted_records_are_not_cleaned(self) -> None:
        rig = Rig()
        rig.append(("a", "1"))
        rig.append(("a", "2"))
        rig.log.roll()
        assert rig.clean() == 0

    def test_the_ratio_must_be_exceeded(self) -> None:
        rig = Rig(min_cleanable_dirty_ratio=0.5)
        rig.append(("a", "1"))
        rig.seal()
        assert rig.clean() == 1
        rig.append(("b", "1"))
        rig.seal()
        assert rig.clean() == 0  # half is dirty
        rig.append(("c", "1"))
        rig.seal()
        assert rig.clean() == 1

    def test_young_records_are_spared(self) -> None:
        rig = Rig(min_compaction_lag_ms=1000)
        rig.append(("a", "1"))
        rig.seal()
        rig.clock.ms += 500
        rig.append(("a", "2"))
        rig.seal()
        rig.clock.ms += 500
        rig.clean()
        assert len(rig.records()) == 2
        rig.clock.ms += 500
        rig.clean()
        assert len(rig.records()) == 1

    def test_old_records_must_be_cleaned(self) -> None:
        rig = Rig(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
        rig.append(("a", "1"))
        rig.seal()
        rig.append(("a", "2"))
        rig.seal()
        rig.clock.ms += 1000
        assert rig.clean() == 0
        rig.clock.ms += 1
        assert rig.clean() == 1

    def test_only_compacted_topics(self) -> None:
        rig = Rig(cleanup_policy=("delete",))
        rig.append(("a", "1"))
        rig.append(("a", "2"))
        rig.seal()
        assert rig.clean() == 0
        rig.log.update_config(LogConfig(cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0.0))
        assert rig.clean() == 1

    def test_the_checkpoint_keeps_the_cleaned_offset(self) -> None:
        rig = Rig()
        rig.append(("a", "1"), ("a", "2"))
        rig.seal()
        rig.clean()
        path = "/data/cleaner-offset-checkpoint"
        assert read_offsets(rig.disk, path) == {("t", 0): 2}
        rig.store.close()
        rig.open()
        assert rig.clean() == 0
        rig.store.delete("t", 0)
        assert read_offsets(rig.disk, path) == {}

    def test_a_broken_log_is_left_alone(self, caplog: pytest.LogCaptureFixture) -> None:
        rig = Rig()
        rig.append(("a", "1"))
        rig.seal()
        rig.log.segments[0].files.log.file().write_at(61, b"\xff\xff\xff\xff")
        assert rig.cleaner.uncleanable() == ()
        assert rig.clean() == 0
        assert "left alone until restart" in caplog.text
        assert rig.cleaner.uncleanable() == (rig.log,)
        calls = rig.disk.calls
        assert rig.clean() == 0
        assert rig.disk.calls == calls

    def test_offsets_too_far_apart(self, caplog: pytest.LogCaptureFixture) -> None:
        """Such a segment is split by recovery; what a pass over it could write has no place in an index."""
        rig = Rig()
        rig.append(("a", "1"))
        rig.seal()
        segment = rig.log.segments[0]
        far = encode_batch([Record(-1, START_MS, b"b", b"2", (), -1)], base_offset=1 << 31)
        segment.files.log.file().write_at(segment.size_bytes, far)
        segment.end_position = Position(segment.end_position + len(far))
        assert rig.clean() == 0
        assert "left alone until restart" in caplog.text
        assert f"offset {1 << 31} is too far from the base offset" in caplog.text

    @pytest.mark.parametrize("max_message_bytes", [1000, 100_000])
    def test_a_batch_that_has_grown(self, max_message_bytes: int, caplog: pytest.LogCaptureFixture) -> None:
        """A client had packed it tighter than the broker does, and the limit was lowered."""
        rig = Rig()
        rng = random.Random(3)
        words = [rng.randbytes(3).hex() for _ in range(200)]
        value = "".join(rng.choice(words) for _ in range(3000))
        rig.append(("k", value), ("a", "1"), codec=Codec.ZSTD, level=19)
        before = rig.log.size_bytes
        rig.append(("a", "2"))
        rig.seal()
        rig.log.update_config(replace(rig.config, max_message_bytes=max_message_bytes))
        assert rig.clean() == 1
        after = rig.batches()[0][0].size_bytes
        assert after > before
        told = (
            f"the batch that ends at offset 1 has {after} bytes after cleaning, more than max.message.bytes"
        )
        assert (told in caplog.text) == (max_message_bytes == 1000)


class TestChanges:
    """Something else happens to the log between reading and installing."""

    def interrupted(self, rig: Rig, change: str) -> None:
        def clean_then_change(
            plan: CleaningPlan, limits: CleanerLimits
        ) -> Generator[CleaningEvent, None, None]:
            for event in CleaningPass(plan, limits, rig.disk).run():
                match change if isinstance(event, CleanedSegment) else "":
                    case "truncate":
                        rig.log.truncate_to(1)
                    case "retain":
                        rig.log.delete_records_before(3)
                        rig.log.delete_old_segments(rig.clock.ms)
                    case "delete":
                        rig.store.delete("t", 0)
                    case "policy":
                        rig.log.update_config(LogConfig(cleanup_policy=("delete",)))
                    case "roll":
                        rig.append(("new", "1"))
                        rig.log.roll()
                yield event

        rig.cleaner = LogCleaner(rig.store, run_pass=clean_then_change)

    @pytest.mark.parametrize("change", ["truncate", "retain", "delete", "policy"])
    def test_the_pass_is_given_up(self, change: str) -> None:
        rig = Rig()
        rig.append(("a", "1"), ("b", "1"))
        rig.append(("a", "2"))
        rig.seal()
        rig.append(("a", "3"))
        self.interrupted(rig, change)
        assert rig.clean() == 0
        assert rig.store.directories[0].error is None
        if change != "delete":
            names = [entry.name for entry in rig.disk.list_dir("/data/t-0")]
            assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
        if change == "truncate":
            assert rig.records() == []
        elif change == "retain":
            assert rig.records() == [(3, "a", "3")]
        elif change == "policy":
            assert len(rig.records()) == 4

    def test_a_roll_does_not_matter(self) -> None:
        rig = Rig()
        rig.append(("a", "1"))
        rig.append(("a", "2"))
        rig.seal()
        self.interrupted(rig, "roll")
        assert rig.clean() == 1
        assert rig.records() == [(1, "a", "2"), (2, "new", "1")]
