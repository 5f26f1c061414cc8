"""PartitionLog: append, roll, read, cut."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import (
    CorruptRecordException,
    InvalidRecordException,
    InvalidTimestampException,
    OffsetOutOfRangeException,
    RecordBatchTooLargeException,
    RecordTooLargeException,
    StorageError,
)
from kcli.model.ids import Offset
from kcli.protocol.batches.batch import iter_batches, read_header
from kcli.protocol.batches.compression import Codec
from kcli.runtime.disk import SystemDisk
from kcli.storage.log.log import AppendResult, PartitionLog
from kcli.storage.log.segment import Segment
from rigs.logs import START_MS, LogRig, append_client, append_replicated, batch_of, contents, numbered
from rigs.steps import last_of
from simulation.runtime.disk import SimDisk

DAY_MS = 86_400_000


def append(
    log: PartitionLog,
    batch: bytes | bytearray | memoryview,
    *,
    now_ms: int = START_MS,
    leader_epoch: int = 0,
) -> AppendResult:
    return append_client(log, batch, leader_epoch=leader_epoch, now_ms=now_ms)


def replicate(log: PartitionLog, batches: bytes, *, leader_epoch: int = 0) -> None:
    append_replicated(log, batches, leader_epoch=leader_epoch, now_ms=START_MS)


def rig(**config: object) -> LogRig:
    return LogRig(SimDisk(), config=LogConfig(**config))


class TestAppend:
    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
    def test_gives_offsets_and_epoch_to_any_buffer(self, kind: type) -> None:
        log = rig().create()
        append(log, batch_of([b"a", b"b"]))
        result = append(log, kind(batch_of([b"c", b"d", b"e"])), leader_epoch=3)
        assert (result.base_offset, result.last_offset, log.log_end_offset) == (2, 4, 5)
        assert result.log_append_time_ms == -1
        header = read_header(log.read(2, 1000, end_offset=5).read())
        assert (header.base_offset, header.partition_leader_epoch) == (2, 3)
        assert log.leader_epochs.epoch_for_offset(4) == 3

    def test_a_large_read_only_batch_is_not_touched(self, tmp_path: Path) -> None:
        log = LogRig(SystemDisk(), str(tmp_path)).create()
        batch = batch_of([b"x" * 40_000])
        before = bytes(batch)
        append(log, batch_of([b"first"]))
        append(log, batch)
        assert batch == before
        assert contents(log) == [(0, b"first"), (1, b"x" * 40_000)]

    def test_a_writable_batch_is_patched_in_place(self) -> None:
        log = rig().create()
        append(log, batch_of([b"a"]))
        batch = bytearray(batch_of([b"b"]))
        append(log, batch)
        assert read_header(batch).base_offset == 1

    def test_log_append_time_stamps_the_batch(self) -> None:
        log = rig(message_timestamp_type="LogAppendTime").create()
        result = append(log, batch_of([b"a"], timestamp_ms=5), now_ms=START_MS + 9)
        assert result.log_append_time_ms == START_MS + 9
        header = read_header(log.read(0, 1000, end_offset=1).read())
        assert header.is_log_append_time
        assert header.max_timestamp_ms == START_MS + 9

    @pytest.mark.parametrize("codec", list(Codec))
    @pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
    def test_another_codec_is_recompressed(self, codec: Codec, target: str) -> None:
        log = rig(compression_type=target).create()
        append(log, batch_of([b"first"]))
        append(log, batch_of(numbered(50), codec=codec, producer_id=9, producer_epoch=1, sequence=0))
        header = read_header(log.read(1, 10_000, end_offset=51).read())
        assert header.codec.label == target.replace("uncompressed", "none")
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 0)
        assert contents(log)[1:] == list(enumerate(numbered(50), 1))

    def test_coordinator_may_append_several_batches(self) -> None:
        log = rig().create()
        batches = batch_of([b"a", b"b"]) + batch_of([b"c"])
        result = log.append(batches, leader_epoch=0, now_ms=START_MS)
        assert (result.base_offset, result.last_offset) == (0, 2)
        assert contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]

    def test_replicated_batches_keep_their_bytes(self) -> None:
        log = rig().create()
        batches = batch_of([b"a"], leader_epoch=4) + batch_of([b"b", b"c"], base_offset=1, leader_epoch=6)
        replicate(log, batches, leader_epoch=6)
        assert log.read(0, 10_000, end_offset=3).read() == batches
        assert log.leader_epochs.entries == [(4, 0), (6, 1)]

    def test_replicated_offsets_may_have_gaps_but_not_go_back(self) -> None:
        log = rig().create()
        replicate(log, batch_of([b"a"], base_offset=5, leader_epoch=0))
        assert log.log_end_offset == 6
        with pytest.raises(InvalidRecordException, match="expected 6"):
            replicate(log, batch_of([b"b"], base_offset=5, leader_epoch=0))

    def test_replicated_batch_that_straddles_an_empty_log_s_end_restarts_it(self) -> None:
        log = rig().create()
        log.truncate_fully_and_start_at(10)
        replicate(log, batch_of(numbered(5), base_offset=8, leader_epoch=0))
        assert (log.log_start_offset, log.log_end_offset) == (8, 13)

    def test_replicated_more_than_a_segment_rolls_in_between(self) -> None:
        log = rig(internal_segment_bytes=200).create()
        fetched = b"".join(batch_of([b"x" * 20], base_offset=nth, leader_epoch=0) for nth in range(6))
        replicate(log, fetched)
        assert log.log_end_offset == 6
        assert len(log.segments) == 3


class TestRefusals:
    def refused(self, batch: bytes, error: type[Exception], match: str, **config: object) -> None:
        log = rig(**config).create()
        with pytest.raises(error, match=match):
            append(log, batch)
        assert (log.log_end_offset, log.size_bytes) == (0, 0)

    def test_a_batch_above_max_message_bytes_is_refused(self) -> None:
        self.refused(batch_of([b"x" * 100]), RecordTooLargeException, "exceeds", max_message_bytes=100)

    def test_larger_than_a_segment(self) -> None:
        self.refused(
            batch_of([b"x" * 100]), RecordBatchTooLargeException, "segment", internal_segment_bytes=100
        )

    def test_a_batch_with_a_wrong_checksum_is_refused(self) -> None:
        batch = bytearray(batch_of([b"abc"]))
        batch[-2] ^= 1
        self.refused(bytes(batch), CorruptRecordException, "stored crc")

    def test_a_batch_that_is_cut_short_is_refused(self) -> None:
        self.refused(batch_of([b"abc"])[:-1], CorruptRecordException, "states")
        self.refused(batch_of([b"abc"])[:40], CorruptRecordException, "header")

    def test_a_client_sends_one_batch_a_partition(self) -> None:
        self.refused(batch_of([b"a"]) + batch_of([b"b"]), InvalidRecordException, "exactly one record batch")

    def test_a_client_batch_begins_at_offset_0(self) -> None:
        self.refused(batch_of([b"a"], base_offset=3), InvalidRecordException, "should be 0")

    def test_a_batch_with_an_old_magic_is_refused(self) -> None:
        batch = bytearray(batch_of([b"a"]))
        batch[16] = 1
        self.refused(bytes(batch), InvalidRecordException, "magic 1")

    def test_producer_without_sequence(self) -> None:
        batch = batch_of([b"a"], producer_id=1, producer_epoch=0)
        self.refused(batch, InvalidRecordException, "Invalid sequence number -1")

    def test_a_timestamp_too_far_ahead_is_refused(self) -> None:
        batch = batch_of([b"a"], timestamp_ms=START_MS + 3_600_001)
        self.refused(batch, InvalidTimestampException, "invalid timestamp")

    def test_too_old_names_the_record(self) -> None:
        log = rig(message_timestamp_before_max_ms=1000).create()
        with pytest.raises(InvalidTimestampException) as caught:
            append(log, batch_of([b"a", b"b"], timestamp_ms=START_MS - 1001))
        assert [index for index, _ in caught.value.record_errors] == [0, 1]
        assert "out of range" in caught.value.record_errors[0][1]
        append(log, batch_of([b"a"], timestamp_ms=START_MS - 1000))
        append(log, batch_of([b"a"], timestamp_ms=-1))

    def test_no_key_on_a_compacted_topic(self) -> None:
        log = rig(cleanup_policy=("compact",)).create()
        with pytest.raises(InvalidRecordException) as caught:
            append(log, batch_of([b"a"], key=None))
        assert caught.value.record_errors[0][0] == 0
        append(log, batch_of([b"a"]))

    def test_replicated_with_a_wrong_checksum(self) -> None:
        batch = bytearray(batch_of([b"abc"], leader_epoch=0))
        batch[-1] ^= 1
        log = rig().create()
        with pytest.raises(CorruptRecordException):
            replicate(log, bytes(batch))


class TestRolling:
    def test_a_segment_rolls_before_it_exceeds_its_size(self) -> None:
        size = len(batch_of([b"x" * 50]))
        log = rig(internal_segment_bytes=3 * size).create()
        for _ in range(7):
            append(log, batch_of([b"x" * 50]))
        assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
        assert all(segment.size_bytes <= 3 * size for segment in log.segments)

    def test_by_message_time(self) -> None:
        log = rig(segment_ms=1000).create()
        for ms in (0, 1000, 1001, 2001, 2002):
            append(log, batch_of([b"x"], timestamp_ms=START_MS + ms))
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4]

    def test_by_wall_time_without_timestamps(self) -> None:
        log = rig(segment_ms=1000).create()
        append(log, batch_of([b"x"], timestamp_ms=-1))
        append(log, batch_of([b"x"], timestamp_ms=-1), now_ms=START_MS + 1001)
        assert len(log.segments) == 2

    def test_a_compacted_log_rolls_within_its_compaction_lag(self) -> None:
        log = rig(cleanup_policy=("compact",), max_compaction_lag_ms=10).create()
        append(log, batch_of([b"x"]))
        append(log, batch_of([b"x"], timestamp_ms=START_MS + 11))
        assert len(log.segments) == 2

    def test_by_full_index(self) -> None:
        log = rig(segment_index_bytes=24, index_interval_bytes=0).create()  # one time entry, one place kept
        for _ in range(4):
            append(log, batch_of([b"x"]))
        assert len(log.segments) > 1

    def test_when_offsets_no_longer_fit(self) -> None:
        log = rig().create()
        append(log, batch_of([b"x"]))
        replicate(log, batch_of([b"x"], base_offset=1 << 31, leader_epoch=0))
        assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]

    def test_snapshot_and_sealed_files(self) -> None:
        made = rig(preallocate=True, internal_segment_bytes=4096)
        log = made.create()
        append(log, batch_of([b"x"]))
        assert made.disk.open("/data/t-0/00000000000000000000.log").size() == 4096
        log.roll()
        names = {entry.name: entry.size_bytes for entry in made.disk.list_dir("/data/t-0")}
        assert names["00000000000000000000.log"] == log.segments[0].size_bytes
        assert names["00000000000000000000.timeindex"] == 12
        assert names["00000000000000000001.snapshot"] == 10
        assert names["00000000000000000001.log"] == 4096
        assert log.durability.recovery_point == 1  # a roll flushes what it leaves behind

    def test_an_empty_active_segment_is_replaced(self) -> None:
        log = rig().create()
        log.roll()
        assert [segment.base_offset for segment in log.segments] == [0]
        append(log, batch_of([b"x"]))
        assert contents(log) == [(0, b"x")]

    def test_an_old_segment_without_records_is_not_rolled(self) -> None:
        log = rig(segment_ms=1000).create()
        append(log, batch_of([b"x"]), now_ms=START_MS + DAY_MS)
        append(log, batch_of([b"x"], timestamp_ms=START_MS + 1000))
        assert len(log.segments) == 1
        append(log, batch_of([b"x"], timestamp_ms=START_MS + 1001))
        assert len(log.segments) == 2


class TestIndexing:
    def test_an_entry_when_more_than_the_interval_was_written(self) -> None:
        size = len(batch_of([b"x"]))
        for interval, positions in (
            (size, [2 * size, 4 * size]),
            (size - 1, [size, 2 * size, 3 * size, 4 * size]),
        ):
            log = rig(index_interval_bytes=interval).create()
            for _ in range(5):
                append(log, batch_of([b"x"]))
            assert [position for _, position in log.segments[0].offset_index.entries.entries()] == positions


class TestRead:
    def filled(self, *, batches: int = 700, **config: object) -> PartitionLog:
        log = rig(**config).create()
        for nth in range(batches):
            append(log, batch_of([b"%d.0" % nth, b"%d.1" % nth]))
        return log

    @pytest.mark.parametrize("forget", [False, True])
    def test_every_offset_finds_its_batch(self, forget: bool) -> None:
        log = self.filled()
        if forget:
            log.segments[-1].forget()
        for offset in range(0, 1400, 7):
            header = read_header(log.read(offset, 1, end_offset=1400).read())
            assert header.base_offset == offset // 2 * 2

    @pytest.mark.parametrize("forget", [False, True])
    @pytest.mark.parametrize("offset", [0, 600, 1001, 1399])
    @pytest.mark.parametrize("max_bytes", [1, 100, 5000, 50_000, 1 << 30])
    def test_whole_batches_within_max_bytes(self, forget: bool, offset: int, max_bytes: int) -> None:
        log = self.filled()
        if forget:
            log.segments[-1].forget()
        piece = log.read(offset, max_bytes, end_offset=1400).read()
        headers = [header for _, header in iter_batches(piece)]
        assert sum(header.size_bytes for header in headers) == len(piece)
        assert len(piece) <= max_bytes or len(headers) == 1
        following = headers[-1].next_offset
        if following < 1400:  # as many as fit
            assert len(piece) + len(log.read(following, 1, end_offset=1400).read()) > max_bytes

    def test_not_even_one_when_not_asked(self) -> None:
        log = self.filled(batches=3)
        assert log.read(0, 10, end_offset=6, at_least_one=False).read() == b""

    def test_never_past_the_end_offset(self) -> None:
        log = self.filled(batches=10)
        headers = [header for _, header in iter_batches(log.read(4, 1 << 20, end_offset=8).read())]
        assert [header.base_offset for header in headers] == [4, 6]
        assert log.read(8, 1 << 20, end_offset=8).size_bytes == 0
        assert log.read(20, 1 << 20, end_offset=20).read_cached() == b""

    def test_one_segment_at_a_time(self) -> None:
        log = self.filled(batches=6, internal_segment_bytes=200)
        assert len(log.segments) == 3
        piece = log.read(0, 1 << 20, end_offset=12)
        assert piece.size_bytes == log.segments[0].size_bytes

    def test_reads_outside_the_log_are_refused(self) -> None:
        log = self.filled(batches=3)
        log.set_high_watermark(6)
        log.delete_records_before(3)
        for offset in (2, 7, -1):
            with pytest.raises(OffsetOutOfRangeException, match=f"offset {offset}"):
                log.read(offset, 100, end_offset=6)

    def test_a_gap_leads_to_the_next_batch(self) -> None:
        log = rig().create()
        for base in (0, 10, 20):
            replicate(log, batch_of([b"x"], base_offset=base, leader_epoch=0))
        log.roll()
        replicate(log, batch_of([b"x"], base_offset=40, leader_epoch=0))
        assert read_header(log.read(3, 1, end_offset=41).read()).base_offset == 10
        assert read_header(log.read(25, 1, end_offset=41).read()).base_offset == 40

    def test_a_slice_outlives_its_segment(self, tmp_path: Path) -> None:
        made = LogRig(SystemDisk(), str(tmp_path), handle_capacity=1)
        log = made.create()
        append(log, batch_of([b"x"]))
        piece = log.read(0, 100, end_offset=1)
        log.truncate_fully_and_start_at(9)
        made.clock.ms += DAY_MS
        made.directory.deletions.run()
        assert read_header(piece.read()).base_offset == 0
        assert piece.read_cached() == piece.read()


class TestTimes:
    def test_first_record_at_or_past_a_time(self) -> None:
        log = rig(index_interval_bytes=100, internal_segment_bytes=1000).create()
        for nth in range(40):
            append(log, batch_of([b"x"], timestamp_ms=START_MS + 10 * nth))
        for nth in range(40):
            found = last_of(log.search_timestamp(START_MS + 10 * nth - 3))
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (nth, START_MS + 10 * nth)
        assert last_of(log.search_timestamp(START_MS + 391)) is None
        log.set_high_watermark(40)
        log.delete_records_before(7)
        found = last_of(log.search_timestamp(0))
        assert found is not None
        assert found.offset == 7

    def test_max_timestamp_is_the_first_that_has_it(self) -> None:
        log = rig().create()
        assert last_of(log.search_max_timestamp()) is None
        for ms in (5, 9, 9, 2):
            append(log, batch_of([b"x"], timestamp_ms=START_MS + ms))
        found = last_of(log.search_max_timestamp())
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (1, START_MS + 9)


class TestCutting:
    def filled(self) -> PartitionLog:
        log = rig(internal_segment_bytes=300).create()
        for nth in range(20):
            append(log, batch_of([b"%d" % nth]), leader_epoch=nth // 8)
        log.set_high_watermark(20)
        return log

    @pytest.mark.parametrize("offset", [0, 1, 4, 7, 8, 13, 19, 20])
    def test_a_truncated_log_keeps_the_records_before_the_offset(self, offset: int) -> None:
        log = self.filled()
        log.truncate_to(offset)
        assert (log.log_end_offset, log.high_watermark) == (offset, offset)
        assert contents(log) == list(enumerate(numbered(offset)))
        append(log, batch_of([b"new"]), leader_epoch=9)
        assert contents(log) == [*enumerate(numbered(offset)), (offset, b"new")]
        assert log.leader_epochs.entries[-1] == (9, offset)

    def test_truncate_inside_a_batch_drops_it_whole(self) -> None:
        log = rig().create()
        append(log, batch_of(numbered(5)))
        append(log, batch_of(numbered(5)))
        log.truncate_to(7)
        assert log.size_bytes == len(batch_of(numbered(5)))

    def test_truncate_takes_times_back(self) -> None:
        log = rig(index_interval_bytes=0).create()
        for ms in (10, 5, 20, 30):
            append(log, batch_of([b"x"], timestamp_ms=START_MS + ms))
        log.truncate_to(2)
        found = last_of(log.search_max_timestamp())
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (0, START_MS + 10)
        assert [offset for _, offset in log.segments[0].time_index.entries.entries()] == [0]
        log.truncate_to(1)
        append(log, batch_of([b"x"], timestamp_ms=START_MS + 15))
        assert last_of(log.search_max_timestamp()) != found

    def test_a_fully_truncated_log_starts_at_the_given_offset(self) -> None:
        log = self.filled()
        log.truncate_fully_and_start_at(100)
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
        assert append(log, batch_of([b"x"])).base_offset == 100

    def test_deleting_records_moves_the_start_of_the_log(self) -> None:
        log = self.filled()
        assert log.delete_records_before(9) == 9
        assert log.delete_records_before(3) == 9
        assert log.leader_epochs.entries[0] == (1, 9)
        assert contents(log) == list(enumerate(numbered(11, start=9), 9))
        assert log.delete_records_before(-1) == 20
        with pytest.raises(OffsetOutOfRangeException):
            log.delete_records_before(21)

    def test_high_watermark_never_goes_back(self) -> None:
        log = self.filled()
        log.set_high_watermark(3)
        assert log.high_watermark == 20
        log.set_high_watermark(1000)
        assert log.high_watermark == 20

    def test_a_log_knows_the_end_offset_of_each_epoch(self) -> None:
        log = self.filled()
        assert log.end_offset_for_epoch(0) == (0, 8)
        assert log.end_offset_for_epoch(2) == (2, 20)
        assert log.end_offset_for_epoch(7) == (-1, -1)
        log.append_leader_epoch(7)
        assert log.end_offset_for_epoch(5) == (2, 20)


class TestDurability:
    def test_flush_messages_limits_the_unflushed_records(self) -> None:
        log = rig(flush_messages=3).create()
        for nth in range(1, 8):
            append(log, batch_of([b"x"]))
            assert log.durability.recovery_point == nth // 3 * 3

    def test_a_failed_write_takes_the_directory_offline(self) -> None:
        made = rig()
        log = made.create()
        append(log, batch_of([b"x"]))
        made.disk.fail("write", ".log")  # type: ignore[attr-defined]
        with pytest.raises(StorageError, match="simulated"):
            append(log, batch_of([b"y"]))
        assert made.directory.error is not None
        for work in (
            lambda: append(log, batch_of([b"z"])),
            lambda: log.read(0, 100, end_offset=1),
            lambda: last_of(log.search_timestamp(0)),
            log.durability.flush,
            log.roll,
        ):
            with pytest.raises(StorageError, match="offline"):
                work()


def test_a_read_between_any_two_lines_of_an_append_finds_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may read at any moment. Here the reads are made by the tracer, before each line of an append."""
    monkeypatch.setattr("kcli.storage.log.segment.MAX_RECENT_BATCHES", 8)
    log = rig().create()
    segment = log.segments[-1]
    places: list[tuple[int, int]] = []
    reads = 0

    def before_line(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal reads
        if frame.f_code not in (Segment.write.__code__, Segment.add.__code__):
            return None
        if event == "line":
            sys.settrace(None)
            for offset, place in enumerate(places):
                assert segment.locate(Offset(offset)) == place, (offset, frame.f_lineno)
                reads += 1
            sys.settrace(before_line)
        return before_line

    for nth in range(30):
        sys.settrace(before_line)
        try:
            append(log, batch_of([b"%d" % nth]))
        finally:
            sys.settrace(None)
        begin = sum(places[-1]) if places else 0
        places.append((begin, segment.size_bytes - begin))
    assert reads > 30 * 29 // 2


def test_flushes_and_reads_in_threads_while_the_owner_appends(tmp_path: Path) -> None:
    made = LogRig(
        SystemDisk(),
        str(tmp_path),
        LogConfig(internal_segment_bytes=20_000, index_interval_bytes=100),
        handle_capacity=3,
    )
    log = made.create()
    done = threading.Event()

    def flush() -> None:
        while not done.is_set():
            log.durability.flush()

    def read() -> int:
        reads = 0
        while not done.is_set():
            end = log.log_end_offset
            piece = log.read(reads * 7919 % (end + 1), 3000, end_offset=end).read()
            assert sum(header.size_bytes for _, header in iter_batches(piece)) == len(piece)
            reads += 1
        return reads

    with ThreadPoolExecutor(3) as threads:
        flusher, *readers = threads.submit(flush), threads.submit(read), threads.submit(read)
        try:
            for nth in range(2000):
                append(log, batch_of([b"%d" % nth]))
        finally:
            done.set()
        flusher.result()
        assert readers[0].result() > 0
    log.durability.flush()
    assert log.durability.recovery_point == 2000
    assert contents(log) == list(enumerate(numbered(2000)))
    log.close(clean=False)
    before = [segment.offset_index.entries.entries() for segment in made.load(clean=True).segments]
    assert [segment.offset_index.entries.entries() for segment in made.load(clean=False).segments] == before
