"""Topics read from files against the log that wrote them, and while they are torn, cleaned, deleted and corrupted."""

from __future__ import annotations

import os
import random
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import CorruptRecordError, KcliError, UnknownTopicOrPartitionException
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.columns import Depth, bytes_at, decode
from kcli.protocol.batches.compression import Codec, compress
from kcli.runtime.disk import SystemDisk
from kcli.spark.options import SourceOptions, source_options
from kcli.spark.source import segment_files
from kcli.spark.source.log_directory import LogDirectories, PartitionFiles, read_range
from kcli.spark.source.offsets import DataLossError, OffsetRange, batch_ranges
from kcli.spark.source.segment_files import list_segments
from kcli.storage.checkpoint import HIGH_WATERMARK_FILE, LOG_START_OFFSET_FILE, write_offsets
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_client, batch_of, contents, marker_of
from rigs.steps import last_of

PART = TopicPartition("t", 0)
Rows = list[tuple[int, bytes | None]]


@pytest.fixture
def rig(tmp_path: Path) -> LogRig:
    return LogRig(SystemDisk(), str(tmp_path), replace(LogConfig(), index_interval_bytes=200))


def options(rig: LogRig, **more: str) -> SourceOptions:
    return source_options({"path": rig.path, "subscribe": "t", **more}, streaming=False)


def logs(rig: LogRig, **more: str) -> LogDirectories:
    source = options(rig, **more)
    return LogDirectories(
        source.log_directories, isolation_level=source.client.isolation_level, to_log_end=source.to_log_end
    )


def read(rig: LogRig, start: int | None = None, end: int | None = None, **more: str) -> Rows:
    """What a batch query gets, a task for each segment."""
    with logs(rig, **more) as topics:
        source = options(rig, **more)
        if start is None or end is None:
            [whole] = batch_ranges(topics, source)
        else:
            whole = OffsetRange(PART, start, end)
        rows: Rows = []
        for piece in topics.cut(whole):
            for fetched in read_range(topics, piece, source):
                chunks = decode(
                    fetched.table,
                    Depth.VALUE,
                    first_offset=fetched.first_offset,
                    end_offset=piece.end,
                    aborted=fetched.aborted,
                )
                for chunk in chunks:
                    assert chunk.values is not None
                    rows += [
                        (int(offset), bytes_at(chunk.buffer, chunk.values, nth))
                        for nth, offset in enumerate(chunk.offsets)
                    ]
        return rows


def append(log: PartitionLog, records: bytes) -> None:
    append_client(log, records, leader_epoch=0, now_ms=START_MS)
    log.set_high_watermark(log.log_end_offset)


def filled(log: PartitionLog, batches: int = 60, size: int = 3) -> None:
    """Batches of records whose times go up and down, in segments of ten batches."""
    for nth in range(batches):
        values = [b"%d" % (nth * size + more) for more in range(size)]
        append(log, batch_of(values, timestamp_ms=START_MS + 100 * nth - 50 * (nth % 3)))
        if nth % 10 == 9:
            log.roll()


def written_out(log: PartitionLog) -> None:
    """As after any flush: indexes gather in memory."""
    log.durability.flush()


def test_files_and_log_agree(rig: LogRig) -> None:
    log = rig.create()
    filled(log)
    written_out(log)
    assert read(rig) == contents(log)
    assert read(rig, 47, 95) == contents(log)[47:95]
    assert read(rig, 59, 61) == contents(log)[59:61]
    for timestamp in range(START_MS - 200, START_MS + 6200, 37):
        expected = last_of(log.search_timestamp(timestamp))
        offset = logs(rig).list_offsets({PART: timestamp})[PART]
        none = OffsetAt(offset=-1, timestamp=-1)
        assert offset == (
            none if expected is None else OffsetAt(offset=expected.offset, timestamp=expected.timestamp_ms)
        )


def test_the_names_of_topics(rig: LogRig, tmp_path: Path) -> None:
    rig.create()
    for name in ("t-1.0c3f-delete", "t-2.0c3f-future", "__consumer_offsets-0", "other-3"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").touch()
    topics = logs(rig)
    assert topics.topic_names() == ["other", "t"]
    assert topics.partitions(["t", "__consumer_offsets"]) == [TopicPartition("__consumer_offsets", 0), PART]
    with pytest.raises(UnknownTopicOrPartitionException, match="topic nosuch is not in"):
        topics.partitions(["nosuch"])
    with pytest.raises(UnknownTopicOrPartitionException, match="holds no segment of other-3"):
        topics.list_offsets({TopicPartition("other", 3): LATEST})
    absent = LogDirectories([str(tmp_path / "no")], isolation_level=READ_UNCOMMITTED, to_log_end=False)
    with pytest.raises(KcliError, match=r"there is no directory .*/no on"):
        absent.topic_names()
    alone = LogDirectories([str(tmp_path / "t-0")], isolation_level=READ_UNCOMMITTED, to_log_end=False)
    assert alone.partitions(["t"]) == [PART]


def test_checkpoints_bound_what_is_seen(rig: LogRig, tmp_path: Path) -> None:
    log = rig.create()
    filled(log, 20)
    written_out(log)
    write_offsets(SystemDisk(), str(tmp_path / HIGH_WATERMARK_FILE), {TopicPartition("t", 0): 50})
    write_offsets(SystemDisk(), str(tmp_path / LOG_START_OFFSET_FILE), {TopicPartition("t", 0): 7})
    assert [offset for offset, _ in read(rig)] == list(range(7, 50))
    assert [offset for offset, _ in read(rig, readUpTo="logEnd")] == list(range(7, 60))
    with pytest.raises(DataLossError, match="offset 3 of t-0 cannot be read: the log begins at 7"):
        read(rig, 3, 20)
    assert [offset for offset, _ in read(rig, 3, 20, failOnDataLoss="false")] == list(range(7, 20))
    with pytest.raises(DataLossError, match="t-0 ends at offset 60, before the wanted end 70"):
        read(rig, 7, 70)


@pytest.mark.parametrize("torn", [1, 11, 12, 40, 61, 75])
def test_a_torn_tail_is_cut(rig: LogRig, torn: int) -> None:
    log = rig.create()
    filled(log, 12)
    written_out(log)
    expected = contents(log)
    path = list_segments(os.path.join(rig.path, "t-0"))[-1].path
    os.truncate(path, os.path.getsize(path) - torn)
    assert read(rig) == expected[:33]
    os.truncate(path, 1 << 20)  # preallocated: a batch whose end is zeros
    assert read(rig) in (expected[:33], expected[: 36 if torn == 1 else 33])


def test_zeros_after_the_end(rig: LogRig) -> None:
    log = rig.create()
    filled(log, 12)
    written_out(log)
    expected = contents(log)
    segment = list_segments(os.path.join(rig.path, "t-0"))[-1]
    for path, size in (
        (segment.path, 1 << 20),
        (segment.beside(".index"), 4096),
        (segment.beside(".timeindex"), 4800),
    ):
        os.truncate(path, size)
    assert read(rig) == expected
    offset = logs(rig).list_offsets({PART: START_MS + 990})[PART]
    assert offset.offset == last_of(log.search_timestamp(START_MS + 990)).offset


def test_wrong_or_missing_indexes_cost_no_record(rig: LogRig) -> None:
    log = rig.create()
    filled(log, 30)
    written_out(log)
    expected = contents(log)
    rng = random.Random(4)
    for segment in list_segments(os.path.join(rig.path, "t-0")):
        Path(segment.beside(".index")).write_bytes(rng.randbytes(80))
        Path(segment.beside(".timeindex")).unlink()
    assert read(rig, 5, 80) == expected[5:80]
    assert logs(rig).list_offsets({PART: START_MS + 900})[PART].offset == 27


def test_a_corrupt_batch_is_named(rig: LogRig) -> None:
    log = rig.create()
    filled(log, 30)
    written_out(log)
    first, *_, last = list_segments(os.path.join(rig.path, "t-0"))
    raw = bytearray(Path(first.path).read_bytes())
    at = raw.index(b"13", 61)
    raw[at] ^= 1
    Path(first.path).write_bytes(raw)
    with pytest.raises(CorruptRecordError, match=r"the batch at offset 12 of t-0 in .*00\.log .*has CRC"):
        read(rig)
    assert last.base_offset == 90  # an empty segment: the end is its base
    Path(first.path).write_bytes(raw[:100] + bytes(50))
    with pytest.raises(CorruptRecordError, match=r"no whole batch of t-0 after offset 2, at byte 88 of"):
        read(rig)


@pytest.mark.parametrize("base", [5, 1 << 40])
def test_a_wrong_offset_is_named(rig: LogRig, base: int) -> None:
    """It is not in the checksum: only its neighbours tell."""
    log = rig.create()
    for nth in range(6):
        append(log, batch_of([b"%d" % nth] * 2))
    written_out(log)
    path = Path(rig.path) / "t-0" / "00000000000000000000.log"
    raw = bytearray(path.read_bytes())
    third = raw.index(struct.pack(">q", 4))
    raw[third : third + 8] = struct.pack(">q", base)
    path.write_bytes(raw)
    with pytest.raises(
        CorruptRecordError, match=f"the batch at offset (6|{base}) of t-0 in .* (overlaps|has a wrong offset)"
    ):
        read(rig, 0, 12)


def test_a_corrupt_tail_ends_the_log_as_recovery_would(rig: LogRig, caplog: pytest.LogCaptureFixture) -> None:
    log = rig.create()
    filled(log, 5)
    written_out(log)
    expected = contents(log)
    [segment] = list_segments(os.path.join(rig.path, "t-0"))
    raw = bytearray(Path(segment.path).read_bytes())
    raw[-2] ^= 1
    Path(segment.path).write_bytes(raw)
    assert read(rig) == expected[:12]
    assert "t-0 ends at offset 12, where recovery would cut it" in caplog.text


def message(offset: int, value: bytes, codec: Codec = Codec.NONE) -> bytes:
    """A message of magic 1, as brokers before 0.11 wrote it."""
    body = struct.pack(">bbqi", 1, codec, START_MS, -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def test_old_formats_up_to_the_middle_of_a_wrapper(rig: LogRig) -> None:
    """A compressed wrapper says the offset of its last message, not of its first."""
    inner = [b"".join(message(nth, b"%d" % (first + nth)) for nth in range(10)) for first in (0, 10)]
    wrappers = [
        message(last, compress(Codec.GZIP, batch), Codec.GZIP)
        for last, batch in zip((9, 19), inner, strict=True)
    ]
    rig.create()
    [segment] = list_segments(os.path.join(rig.path, "t-0"))
    Path(segment.path).write_bytes(b"".join(wrappers) + batch_of([b"20"], base_offset=20))
    assert read(rig) == [(nth, b"%d" % nth) for nth in range(21)]
    assert read(rig, 3, 14) == [(nth, b"%d" % nth) for nth in range(3, 14)]
    assert read(rig, 19, 21) == [(19, b"19"), (20, b"20")]


def test_a_cleaned_segment_goes_before_what_it_replaces(rig: LogRig) -> None:
    log = rig.create()
    filled(log, 30)
    written_out(log)
    expected = contents(log)
    first, second, *_ = list_segments(os.path.join(rig.path, "t-0"))
    merged = Path(first.path).read_bytes() + Path(second.path).read_bytes()
    Path(first.path + ".swap").write_bytes(merged)
    for path in (first.path, first.beside(".index"), first.beside(".timeindex")):
        os.rename(path, path + ".deleted")
    assert read(rig) == expected
    os.rename(second.path, second.path + ".deleted")
    assert read(rig) == expected
    assert read(rig, 40, 70) == expected[40:70]


def test_a_merged_segment_is_read_from_its_new_file(rig: LogRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment merged by the cleaner is found in its new place; a deleted one is data loss."""
    monkeypatch.setattr(segment_files, "CHUNK_BYTES", 300)
    log = rig.create()
    filled(log, 40)
    written_out(log)
    expected = contents(log)
    first, second, third, *_ = list_segments(os.path.join(rig.path, "t-0"))
    partition = PartitionFiles(PART, os.path.join(rig.path, "t-0"), to_log_end=False)
    lost: list[str] = []
    tables = partition.tables(0, 120, lost.append)
    _, position = next(tables)
    merged = b"".join(Path(segment.path).read_bytes() for segment in (first, second))
    Path(first.path + ".swap").write_bytes(merged)
    for segment in (first, second):
        os.rename(segment.path, segment.path + ".deleted")
    os.rename(first.path + ".swap", first.path)
    while position < 60:
        _, position = next(tables)
    assert not lost
    for segment in (first, third):
        os.rename(segment.path, segment.path + ".deleted")
    rest = [position for _, position in tables]
    # What is open is read to its end; the third segment was open already if its first batch was due.
    assert rest[-1] == 120
    assert expected[-1][0] == 119


def test_deleted_segments_are_data_loss(rig: LogRig) -> None:
    log = rig.create()
    filled(log, 40)
    written_out(log)
    source = options(rig)
    topics = logs(rig)
    fetched = read_range(topics, OffsetRange(PART, 0, 120), source)
    next(fetched)
    first, second, third, *_ = list_segments(os.path.join(rig.path, "t-0"))
    for segment in (first, second, third):
        os.rename(segment.path, segment.path + ".deleted")
    with pytest.raises(DataLossError, match="offset 30 of t-0 is gone: the log begins at 90"):
        list(fetched)


def transactional(log: PartitionLog, producer: int, sequence: int, *values: bytes) -> None:
    records = batch_of(values, producer_id=producer, producer_epoch=0, sequence=sequence, transactional=True)
    append(log, records)


def end(log: PartitionLog, producer: int, *, commit: bool) -> None:
    marker = marker_of(commit=commit, producer_id=producer, producer_epoch=0)
    log.append(marker, leader_epoch=0, now_ms=START_MS)
    log.set_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("with_snapshots", [True, False])
def test_committed_reading_agrees_with_the_log(rig: LogRig, seed: int, with_snapshots: bool) -> None:
    rng, log = random.Random(seed), rig.create()
    fates: dict[int, list[int]] = {}
    sequences, expected = dict.fromkeys(range(4), 0), {}
    for nth in range(120):
        producer = rng.randrange(4)
        if producer in fates and rng.random() < 0.4:
            commit = rng.random() < 0.5
            end(log, producer, commit=commit)
            rows = fates.pop(producer)
            expected |= dict.fromkeys(rows, commit)
        elif rng.random() < 0.7:
            fates.setdefault(producer, []).append(log.log_end_offset)
            transactional(log, producer, sequences[producer], b"%d" % nth)
            sequences[producer] += 1
        else:
            expected[log.log_end_offset] = True
            append(log, batch_of([b"%d" % nth]))
        if rng.random() < 0.1:
            log.roll()
    written_out(log)
    if not with_snapshots:
        for path in Path(rig.path, "t-0").glob("*.snapshot"):
            path.unlink()
    level: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
    stable = log.last_stable_offset
    assert logs(rig, **level).list_offsets({PART: LATEST}, READ_COMMITTED)[PART].offset == stable
    committed = [offset for offset, seen in sorted(expected.items()) if seen and offset < stable]
    assert [offset for offset, _ in read(rig, **level)] == committed
    start = logs(rig).list_offsets({PART: EARLIEST})[PART].offset
    middle = (start + stable) // 2
    read_offsets = [offset for offset, _ in read(rig, middle, stable, **level)]
    assert read_offsets == [offset for offset in committed if offset >= middle]
