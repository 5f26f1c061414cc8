"""One pass: the rate it is held to, batches of any size, old formats, and what it says of bytes that are wrong."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest

from kcli.errors import CorruptRecordError
from kcli.protocol.batches import columns, compression
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.batches.compression import Codec, compress, decompress
from kcli.storage.cleaner.cleaner import DEFAULT_LIMITS
from kcli.storage.cleaner.one_pass import MIN_CHUNK_BYTES, CleaningPass, IoThrottle
from kcli.storage.cleaner.plan import CleanedSegment, CleaningDone, CleaningPlan, SourceSegment
from kcli.storage.files import CLEANED_SUFFIX, LOG_SUFFIX, offset_name
from rigs.hostile_batches import large_values
from simulation.runtime.disk import SimDisk

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


def batch(base_offset: int, *pairs: tuple[bytes, bytes | None], codec: Codec = Codec.NONE) -> bytes:
    records = [Record(-1, NOW_MS, key, value, (), -1) for key, value in pairs]
    return encode_batch(records, base_offset=base_offset, leader_epoch=0, codec=codec)


def message(offset: int, magic: int, key: bytes, value: bytes | None, *, attributes: int = 0) -> bytes:
    """A message of an old format."""
    body = bytes([magic, attributes]) + (struct.pack(">q", NOW_MS + offset) if magic else b"")
    body += struct.pack(">i", len(key)) + key
    body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


class Rig:
    def __init__(self, *segments: tuple[int, bytes], end_offset: int) -> None:
        self.disk = SimDisk(lambda: NOW_MS)
        self.disk.make_dir("/log")
        sources = []
        for base_offset, content in segments:
            self.disk.open(self.path(base_offset), create=True).write_at(0, content)
            sources.append(SourceSegment(base_offset, len(content), 0, 0))
        self.plan = CleaningPlan(
            topic_partition="t-0",
            path="/log",
            segments=tuple(sources),
            first_dirty_offset=segments[0][0],
            first_dirty_position=0,
            upper_bound_offset=end_offset,
            aborted=(),
            last_records=(),
            now_ms=NOW_MS,
            delete_retention_ms=DAY_MS,
            segment_size_bytes=1 << 30,
            segment_index_bytes=1 << 20,
            index_interval_bytes=4096,
        )

    def path(self, base_offset: int) -> str:
        return f"/log/{offset_name(base_offset, LOG_SUFFIX)}"

    def run(self, throttle: IoThrottle | None = None) -> tuple[bytes, CleaningDone]:
        content = b""
        for event in CleaningPass(self.plan, DEFAULT_LIMITS, self.disk, throttle).run():
            if isinstance(event, CleaningDone):
                return content, event
            assert isinstance(event, CleanedSegment)
            file = self.disk.open(self.path(event.base_offset) + CLEANED_SUFFIX)
            content += file.read_at(0, file.size())
        raise AssertionError("no end")


def kept(content: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """(magic, offset, key, value)."""
    return [
        (header.magic, record.offset, record.key, record.value)
        for position, header in iter_batches(content)
        for record in read_records(content, position)
    ]


class TestOldFormats:
    @pytest.mark.parametrize("magic", [0, 1])
    def test_whole_ones_are_copied_and_others_become_batches(self, magic: int) -> None:
        inner = [(0, b"a", b"1"), (1, b"b", b"1"), (2, b"c", b"1")]
        shift = 10 if magic == 0 else 0
        wrapper_value = compress(
            Codec.GZIP, b"".join(message(offset + shift, magic, key, value) for offset, key, value in inner)
        )
        plain = message(9, magic, b"z", b"1")
        wrapper = b"".join([message(12, magic, b"", wrapper_value, attributes=1)])
        modern = batch(13, (b"b", b"2"))
        rig = Rig((9, plain + wrapper + modern), end_offset=14)
        content, done = rig.run()
        assert content.startswith(plain)
        assert content.endswith(modern)
        assert kept(content) == [
            (magic, 9, b"z", b"1"),
            (2, 10, b"a", b"1"),
            (2, 12, b"c", b"1"),
            (2, 13, b"b", b"2"),
        ]
        (_, _), (position, header), (_, _) = iter_batches(content)
        assert (header.base_offset, header.last_offset, header.codec) == (10, 12, Codec.GZIP)
        stamps = [record.timestamp_ms for record in read_records(content, position)]
        assert stamps == ([-1, -1] if magic == 0 else [NOW_MS, NOW_MS + 2])
        assert (done.end_offset, done.keys, done.records_kept) == (14, 4, 4)

    def test_tombstones_go_a_while_after_the_last_clean_segment(self) -> None:
        """They know no horizon of their own: the time at which segments were written must do."""
        old, clean, dirty = (
            message(0, 1, b"a", None),
            message(1, 1, b"b", None),
            message(2, 1, b"c", None),
        )
        rig = Rig((0, old), (1, clean), (2, dirty), end_offset=3)
        rig.plan = replace(rig.plan, first_dirty_offset=2)
        rig.disk.set_modified_ms(rig.path(0), NOW_MS - DAY_MS)
        content, _ = rig.run()
        assert [offset for _, offset, _, _ in kept(content)] == [1, 2]


class TestReading:
    def test_a_batch_larger_than_the_buffer(self) -> None:
        big = batch(1, (b"k", b"v" * (3 * MIN_CHUNK_BYTES)))
        small = [batch(0, (b"k", b"1")), batch(2, (b"l", b"1"))]
        content, done = Rig((0, small[0] + big + small[1]), end_offset=3).run()
        assert content == big + small[1]
        assert done.bytes_read == len(big) + len(small[0]) + len(small[1])

    def test_a_pass_reads_segments_larger_than_one_chunk(self) -> None:
        batches = [batch(nth, (b"%d" % (nth % 500), b"v" * 1000)) for nth in range(3000)]
        content, done = Rig((0, b"".join(batches)), end_offset=3000).run()
        assert content == b"".join(batches[2500:])
        assert (done.keys, done.records_read, done.records_kept) == (500, 3000, 500)

    def test_only_what_the_plan_knows_is_read(self) -> None:
        """A preallocated file continues with zeros, an active one with other batches."""
        rig = Rig((0, batch(0, (b"a", b"1"))), end_offset=1)
        rig.disk.open(rig.path(0)).write_at(rig.plan.segments[0].size_bytes, bytes(100))
        assert [offset for _, offset, _, _ in kept(rig.run()[0])] == [0]

    def test_a_mapped_gap(self) -> None:
        """Compaction has taken the end of the first segment: its offsets count as looked at."""
        rig = Rig((0, batch(0, (b"a", b"1"))), (50, batch(50, (b"a", b"2"))), end_offset=60)
        content, done = rig.run()
        assert [offset for _, offset, _, _ in kept(content)] == [50]
        assert done.end_offset == 60


class TestWrongBytes:
    def test_a_torn_batch(self) -> None:
        rig = Rig((0, batch(0, (b"a", b"1")) + batch(1, (b"a", b"2"))[:-5]), end_offset=2)
        with pytest.raises(
            CorruptRecordError, match=r"00000\.log: no whole batch at position 70, 65 bytes before"
        ):
            rig.run()

    def test_a_wrong_checksum(self) -> None:
        rig = Rig((0, batch(0, (b"a", b"1"))), end_offset=1)
        rig.disk.open(rig.path(0)).write_at(65, b"\xff")
        with pytest.raises(CorruptRecordError, match="the batch at offset 0 of t-0"):
            rig.run()

    def test_a_wrong_checksum_of_an_old_format(self) -> None:
        damaged = message(0, 1, b"a", b"1")[:-1] + b"2"
        with pytest.raises(
            CorruptRecordError, match=r"the message at offset 0 of t-0 \(magic 1\) has a wrong CRC"
        ):
            Rig((0, damaged), end_offset=1).run()

    def test_an_unknown_magic(self) -> None:
        rig = Rig((0, batch(0, (b"a", b"1"))), end_offset=1)
        rig.disk.open(rig.path(0)).write_at(16, b"\x03")
        with pytest.raises(CorruptRecordError, match="has magic 3"):
            rig.run()

    def test_a_size_that_cannot_be(self) -> None:
        rig = Rig((0, batch(0, (b"a", b"1"))), end_offset=1)
        rig.disk.open(rig.path(0)).write_at(8, b"\xff\xff\xff\xff")
        with pytest.raises(CorruptRecordError, match="no whole batch at position 0"):
            rig.run()


class TestThrottle:
    def test_the_throttle_keeps_the_rate_and_checks_twice_a_second(self) -> None:
        times = [100.0]

        def sleep(seconds: float) -> None:
            assert seconds <= 0.5
            times[0] += seconds

        checks: list[float] = []
        throttle = IoThrottle(1000, lambda: checks.append(times[0]), now=lambda: times[0], sleep=sleep)
        for _ in range(10):
            throttle.pass_on(500)
        assert times[0] == pytest.approx(105)
        assert len(checks) >= 20

    def test_idle_time_allows_only_a_short_burst(self) -> None:
        times = [100.0]

        def sleep(seconds: float) -> None:
            times[0] += seconds

        throttle = IoThrottle(1000, lambda: None, now=lambda: times[0], sleep=sleep)
        times[0] = 200.0
        throttle.pass_on(2000)
        assert times[0] == pytest.approx(201.7)  # minus the burst of 0.3 seconds

    def test_reads_and_writes_count(self) -> None:
        counted = []

        class Counting(IoThrottle):
            def pass_on(self, size_bytes: int) -> None:
                counted.append(size_bytes)

        one = batch(0, (b"a", b"1"))
        Rig((0, one), end_offset=1).run(Counting(1, lambda: None))
        assert counted == [len(one)] * 3  # read for the map, read to filter, written

    def test_a_pass_that_is_not_wanted_any_more(self) -> None:
        class Unwanted(Exception):
            pass

        def check() -> None:
            raise Unwanted

        with pytest.raises(Unwanted):
            Rig((0, batch(0, (b"a", b"1"))), end_offset=1).run(IoThrottle(float("inf"), check))


class TestGiantBatches:
    """A batch of more than 128 MiB is never held whole: its records come in parts."""

    def test_two_hundred_mebibytes_of_zeros(self) -> None:
        giant = large_values(50, 4 << 20, NOW_MS)
        later = batch(50, *((b"%d" % key, b"new") for key in range(0, 50, 2)))
        content, done = Rig((0, giant + later), end_offset=75).run()
        assert len(giant) < 20_000 and len(content) < 20_000
        offsets = [record.offset for at, _ in iter_batches(content) for record in read_records(content, at)]
        assert offsets == [*range(1, 50, 2), *range(50, 75)]
        assert (done.keys, done.records_read, done.records_kept) == (50, 75, 50)

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    @pytest.mark.parametrize("stamped", [None, NOW_MS + 7])
    def test_in_parts_as_whole(
        self, codec: Codec, stamped: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def records(first: int, step: int) -> list[Record]:
            return [
                Record(
                    -1, NOW_MS + nth % 7, b"%d" % nth, None if nth % 11 == 5 else b"v" * (nth % 90), (), -1
                )
                for nth in range(first, 400, step)
            ]

        first = encode_batch(records(0, 1), codec=codec, log_append_time_ms=stamped)
        second = encode_batch(records(0, 3), base_offset=400, codec=codec)
        third = encode_batch(records(1, 3)[:9], base_offset=534, codec=codec)
        log = first + second + third
        whole, whole_done = Rig((0, log), end_offset=543).run()
        monkeypatch.setattr(columns, "decompress", lambda codec, area: decompress(codec, area, 10))
        monkeypatch.setattr(compression, "PIECE_BYTES", 500)
        parted, parted_done = Rig((0, log), end_offset=543).run()
        assert replace(parted_done, bytes_kept=0) == replace(whole_done, bytes_kept=0)
        for (at, header), (other_at, other) in zip(iter_batches(parted), iter_batches(whole), strict=True):
            assert header._replace(crc=0, batch_length=0) == other._replace(crc=0, batch_length=0)
            assert list(read_records(parted, at)) == list(read_records(whole, other_at))

    def test_the_map_may_be_full_inside_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log = b"".join(
            batch(base, *((b"%d" % (base + nth), b"v" * 40) for nth in range(50)), codec=Codec.ZSTD)
            for base in (0, 50)
        )
        limits = replace(DEFAULT_LIMITS, dedupe_buffer_bytes=24 * 80)
        monkeypatch.setattr(columns, "decompress", lambda codec, area: decompress(codec, area, 10))
        monkeypatch.setattr(compression, "PIECE_BYTES", 500)
        rig = Rig((0, log), end_offset=100)
        *_, done = CleaningPass(rig.plan, limits, rig.disk).run()
        assert isinstance(done, CleaningDone)
        assert 50 <= done.end_offset < 100
