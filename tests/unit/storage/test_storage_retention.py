"""What a log gives up and when: by time, size and log start; what becomes of the files; when it rolls and flushes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import InvalidTimestampException, OffsetOutOfRangeException, RecordTooLargeException
from kcli.protocol.batches.batch import read_header
from kcli.protocol.batches.compression import Codec
from kcli.runtime.disk import SystemDisk
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_client, batch_of, contents
from simulation.runtime.disk import SimDisk

HOUR_MS = 3_600_000
SIZE = len(batch_of([b"x" * 50]))


def rig(**config: object) -> LogRig:
    """Segments of one batch each, without retention unless it is asked for."""
    fields = {"internal_segment_bytes": SIZE, "retention_ms": -1, **config}
    return LogRig(SimDisk(lambda: START_MS), config=LogConfig(**fields))


def filled(made: LogRig, *ages_ms: int) -> PartitionLog:
    """A batch per age, all committed."""
    log = made.create()
    for age in ages_ms:
        append(log, timestamp_ms=START_MS - age)
    log.set_high_watermark(log.log_end_offset)
    return log


def append(log: PartitionLog, *, timestamp_ms: int = START_MS, **fields: Any) -> None:
    append_client(
        log, batch_of([b"x" * 50], timestamp_ms=timestamp_ms, **fields), leader_epoch=0, now_ms=START_MS
    )


def left(log: PartitionLog, now_ms: int = START_MS) -> list[int]:
    """The base offsets of the segments after retention."""
    log.delete_old_segments(now_ms)
    return [segment.base_offset for segment in log.segments]


class TestByTime:
    def test_only_what_is_older(self) -> None:
        log = filled(rig(retention_ms=1000), 3000, 1001, 1000, 0)
        assert left(log) == [2, 3]
        assert (log.log_start_offset, contents(log)[0][0]) == (2, 2)

    def test_a_young_segment_keeps_the_older_ones_after_it(self) -> None:
        assert left(filled(rig(retention_ms=1000), 0, 9000, 9000)) == [0, 1, 2]

    def test_a_timestamp_of_the_future_keeps_its_segment_and_is_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = filled(rig(retention_ms=1000), -HOUR_MS, 9000)
        with caplog.at_level(logging.WARNING):
            assert left(log) == [0, 1]
        assert "00000000000000000000.log has a record with a timestamp in the future" in caplog.text

    def test_the_active_segment_goes_too_and_an_empty_one_follows(self) -> None:
        log = filled(rig(retention_ms=1000), 9000, 9000)
        assert left(log) == [2]
        assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (2, 2, 0)
        assert left(log) == [2], "an empty one stays"
        append(log)
        assert contents(log) == [(2, b"x" * 50)]

    def test_without_timestamps_the_file_s_age_counts(self) -> None:
        log = filled(rig(retention_ms=1000))
        append(log, timestamp_ms=-1)
        log.set_high_watermark(1)
        assert left(log, START_MS + 1000) == [0]
        assert left(log, START_MS + 1001) == [1]

    def test_a_log_without_a_retention_time_keeps_old_segments(self) -> None:
        assert left(filled(rig(), 1 << 40)) == [0]

    def test_not_above_the_high_watermark(self) -> None:
        log = filled(rig(retention_ms=1000), 9000)
        append(log, timestamp_ms=START_MS - 9000)
        append(log, timestamp_ms=START_MS - 9000)
        assert left(log) == [1, 2]
        log.set_high_watermark(2)
        assert left(log) == [2]

    def test_a_changed_setting_counts_at_the_next_look(self) -> None:
        log = filled(rig(), 9000, 0)
        assert left(log) == [0, 1]
        log.update_config(LogConfig(retention_ms=1000, internal_segment_bytes=SIZE))
        assert left(log) == [1]


class TestBySize:
    @pytest.mark.parametrize(
        ("retention_bytes", "kept"),
        [(-1, 4), (4 * SIZE, 4), (3 * SIZE + 1, 4), (3 * SIZE, 3), (2 * SIZE + 1, 3), (1, 1)],
    )
    def test_retention_keeps_at_least_its_number_of_bytes(self, retention_bytes: int, kept: int) -> None:
        log = filled(rig(retention_bytes=retention_bytes), 0, 0, 0, 0)
        assert left(log) == list(range(4 - kept, 4))

    def test_zero_takes_all(self) -> None:
        assert left(filled(rig(retention_bytes=0), 0, 0)) == [2]

    def test_the_stricter_rule_wins(self) -> None:
        assert left(filled(rig(retention_bytes=3 * SIZE, retention_ms=1000), 9000, 9000, 0, 0)) == [2, 3]
        assert left(filled(rig(retention_bytes=SIZE, retention_ms=1000), 9000, 0, 0, 0)) == [3]


class TestLogStart:
    def test_delete_records_then_segments_at_the_next_look(self) -> None:
        log = filled(rig(), 0, 0, 0)
        assert log.delete_records_before(2) == 2
        assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
        with pytest.raises(OffsetOutOfRangeException):
            log.read(1, 1000, end_offset=3)
        assert left(log) == [2]

    def test_up_to_the_high_watermark_and_no_further(self) -> None:
        log = filled(rig(), 0, 0)
        append(log)
        assert log.delete_records_before(-1) == 2
        assert log.delete_records_before(1) == 2, "it never goes back"
        for offset in (3, -2):
            with pytest.raises(OffsetOutOfRangeException):
                log.delete_records_before(offset)

    @pytest.mark.parametrize("policy", [("compact",), ("compact", "delete"), ("delete",)])
    def test_segments_before_the_log_start_are_deleted_under_every_policy(
        self, policy: tuple[str, ...]
    ) -> None:
        log = filled(rig(cleanup_policy=policy), 0, 0, 0)
        log.delete_records_before(1)
        assert left(log) == [1, 2]

    def test_time_and_size_apply_only_to_the_delete_policy(self) -> None:
        log = filled(rig(cleanup_policy=("compact",), retention_ms=1, retention_bytes=1), 9000, 9000)
        assert left(log) == [0, 1]


class TestFiles:
    def test_renamed_at_once_and_removed_after_the_delay(self) -> None:
        made = rig(retention_ms=1000, file_delete_delay_ms=60_000)
        log = filled(made, 9000, 0)
        left(log)
        names = [entry.name for entry in made.disk.list_dir("/data/t-0")]
        gone = sorted(name for name in names if name.endswith(".deleted"))
        assert gone == [f"00000000000000000000.{suffix}.deleted" for suffix in ("index", "log", "timeindex")]
        deletions = log.directory.deletions
        made.clock.ms += 59_999
        assert not deletions.is_due
        assert deletions.run() == 0
        made.clock.ms += 1
        assert deletions.is_due
        assert deletions.run() == 3
        assert not deletions.is_due
        assert not [entry.name for entry in made.disk.list_dir("/data/t-0") if "deleted" in entry.name]

    def test_a_jump_of_the_wall_clock_changes_no_delay(self) -> None:
        made = rig(retention_ms=1000, file_delete_delay_ms=60_000)
        log = filled(made, 9000, 0)
        left(log)
        made.clock.skew_ms = HOUR_MS
        assert log.directory.deletions.run() == 0
        made.clock.skew_ms = -HOUR_MS
        made.clock.ms += 60_000
        assert log.directory.deletions.run() == 3

    def test_a_reader_finishes_what_it_began(self, tmp_path: Path) -> None:
        made = LogRig(SystemDisk(), str(tmp_path), LogConfig(internal_segment_bytes=SIZE, retention_bytes=0))
        log = filled(made, 0, 0)
        piece = log.read(0, 1000, end_offset=2)
        left(log)
        made.clock.ms += HOUR_MS
        log.directory.deletions.run()
        assert read_header(piece.read()).base_offset == 0

    def test_a_start_removes_deleted_files_that_a_crash_left(self) -> None:
        made = rig(retention_ms=1000)
        log = filled(made, 9000, 0)
        left(log)
        again = made.load(clean=False)
        assert (again.log_start_offset, again.log_end_offset) == (1, 2)
        assert not [entry.name for entry in made.disk.list_dir("/data/t-0") if "deleted" in entry.name]

    def test_snapshots_go_with_their_segments(self) -> None:
        made = rig(retention_ms=1000)
        log = made.create()
        for nth in range(3):
            append(log, timestamp_ms=START_MS - 9000, producer_id=1, producer_epoch=0, sequence=nth)
        log.set_high_watermark(3)
        left(log)
        assert log.local.snapshots.offsets() == [3]
        assert [producer.producer_id for producer in log.producers.active()] == [1], "still known"

    @pytest.mark.parametrize("clean", [True, False])
    def test_producers_are_known_after_a_restart_without_records(self, clean: bool) -> None:
        made = rig(retention_ms=1000)
        log = made.create()
        for nth in range(3):
            append(log, timestamp_ms=START_MS - 9000, producer_id=1, producer_epoch=0, sequence=nth)
        log.set_high_watermark(3)
        left(log)
        log.close(clean=clean)
        again = made.load(clean=clean, recovery_point=3 if clean else 0, log_start_offset=3)
        (producer,) = again.producers.active()
        assert (producer.producer_id, producer.last_sequence) == (1, 2)
        again.truncate_fully_and_start_at(3)
        assert not len(again.producers.state), "these records may be others than those of the leader"


class TestRollingAndFlushing:
    def test_jitter_brings_rolls_forward_by_a_random_part(self) -> None:
        made = rig(segment_ms=1000, segment_jitter_ms=400, internal_segment_bytes=1 << 20)
        log = made.create()
        spans = []
        for _ in range(20):
            first = log.segments[-1].base_offset
            span = 0
            while log.segments[-1].base_offset == first:
                append(log, timestamp_ms=START_MS + span)
                span += 50
            spans.append(span - 50)
            log.truncate_fully_and_start_at(log.log_end_offset)
        assert all(600 < span <= 1050 for span in spans)
        assert len(set(spans)) > 2

    def test_no_more_jitter_than_the_segment_s_time(self) -> None:
        log = rig(segment_ms=10, segment_jitter_ms=1 << 40).create()
        assert 0 <= log.segments[-1].roll_jitter_ms < 10

    def test_flush_messages_counts_from_the_last_flush(self) -> None:
        log = rig(flush_messages=3, internal_segment_bytes=1 << 20).create()
        points = []
        for _ in range(7):
            append(log)
            points.append(log.durability.recovery_point)
        assert points == [0, 0, 3, 3, 3, 6, 6]


class TestWhatIsTaken:
    @pytest.mark.parametrize(
        ("age_ms", "config", "taken"),
        [
            (-HOUR_MS, {}, True),
            (-HOUR_MS - 1, {}, False),
            (-HOUR_MS - 1, {"message_timestamp_after_max_ms": HOUR_MS + 1}, True),
            (-HOUR_MS - 1, {"message_timestamp_type": "LogAppendTime"}, True),
            (1 << 40, {}, True),
            (1001, {"message_timestamp_before_max_ms": 1000}, False),
            (1000, {"message_timestamp_before_max_ms": 1000}, True),
        ],
    )
    def test_a_timestamp_outside_the_limits_is_refused(
        self, age_ms: int, config: dict[str, object], taken: bool
    ) -> None:
        log = rig(**config).create()
        if taken:
            append(log, timestamp_ms=START_MS - age_ms)
            return
        with pytest.raises(InvalidTimestampException) as refused:
            append(log, timestamp_ms=START_MS - age_ms)
        assert [index for index, _ in refused.value.record_errors] == [0]

    def test_max_message_bytes_is_inclusive(self) -> None:
        append(rig(max_message_bytes=SIZE).create())
        with pytest.raises(RecordTooLargeException, match=f"is {SIZE} bytes which exceeds"):
            append(rig(max_message_bytes=SIZE - 1).create())

    def test_too_large_once_decompressed_again(self) -> None:
        made = rig(max_message_bytes=1000, compression_type="uncompressed", internal_segment_bytes=1 << 20)
        batch = batch_of([b"x" * 5000], codec=Codec.ZSTD)
        assert len(batch) < 1000
        with pytest.raises(RecordTooLargeException, match="when compressed with none"):
            append_client(made.create(), batch, leader_epoch=0, now_ms=START_MS)

    @pytest.mark.parametrize(("codec", "least", "most"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", 1, 19)])
    def test_levels_of_a_topic_s_codec(self, codec: str, least: int, most: int) -> None:
        value = b"".join(b"%d: %x\n" % (nth, nth * nth * 2_654_435_761 % (1 << 32)) for nth in range(3000))

        def written(level: int) -> int:
            config = {"compression_type": codec, f"compression_{codec}_level": level}
            log = rig(**config, internal_segment_bytes=1 << 20).create()
            append_client(log, batch_of([value]), leader_epoch=0, now_ms=START_MS)
            assert contents(log) == [(0, value)]
            return log.size_bytes

        assert written(most) < written(least) < len(value)

    def test_the_topic_s_own_codec_is_left_as_it_came(self) -> None:
        log = rig(compression_type="gzip", compression_gzip_level=9, internal_segment_bytes=1 << 20).create()
        batch = batch_of([b"x" * 500], codec=Codec.GZIP)
        append_client(log, bytes(batch), leader_epoch=-1, now_ms=START_MS)
        assert log.read(0, 10_000, end_offset=1).read() == batch
