"""What recovery does with damage, and with segments whose offsets lie too far apart."""

from __future__ import annotations

import contextlib
import logging

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import CorruptRecordError, StorageError
from kcli.model.ids import Position
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.rng import SystemRng
from kcli.storage.files import LOG_SUFFIX, offset_name
from kcli.storage.log.batch_search import headers
from kcli.storage.log.index import MAX_RELATIVE_OFFSET
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.loader import LoadState, load_log
from kcli.storage.store.store import LogStore
from rigs.logs import START_MS, LogRig, ManualClock, batch_of, contents
from simulation.runtime.disk import SimDisk

PATH = "/data/t-0"
FAR = MAX_RELATIVE_OFFSET + 1
OFFSETS = (0, 7, FAR + 9, FAR + 10, 2 * FAR + 8, 2 * FAR + 9, 5 * FAR // 2, 3 * FAR + 30)


def rig_with(content: bytes, disk: SimDisk | None = None) -> LogRig:
    """A log of one segment with this content, not closed."""
    made = LogRig(disk or SimDisk(lambda: START_MS), config=LogConfig(index_interval_bytes=0))
    made.create().close(clean=False)
    file = made.disk.open(f"{PATH}/{offset_name(0, LOG_SUFFIX)}")
    file.write_at(0, content)
    file.sync()
    return made


def far_apart(offsets: tuple[int, ...] = OFFSETS) -> bytes:
    return b"".join(
        batch_of(
            [b"%d" % offset],
            base_offset=offset,
            leader_epoch=0,
            producer_id=5,
            producer_epoch=0,
            sequence=nth,
        )
        for nth, offset in enumerate(offsets)
    )


def by_offset(offsets: tuple[int, ...] = OFFSETS) -> list[tuple[int, bytes | None]]:
    return [(offset, b"%d" % offset) for offset in offsets]


def contents_with_gaps(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    return contents(log, max_bytes=150)


class TestSplit:
    def test_each_segment_can_index_its_offsets(self, caplog: pytest.LogCaptureFixture) -> None:
        made = rig_with(far_apart())
        log = made.load(clean=False)
        assert [segment.base_offset for segment in log.segments] == [0, FAR + 9, 2 * FAR + 9, 3 * FAR + 30]
        assert contents_with_gaps(log) == by_offset()
        assert log.log_end_offset == OFFSETS[-1] + 1
        for segment in log.segments:
            for relative, position in segment.offset_index.entries.entries():
                header = dict(headers(segment))[Position(position)]
                assert header.last_offset == segment.base_offset + relative
        assert [entry.last_sequence for entry in log.producers.active()] == [len(OFFSETS) - 1]
        assert "is split into 4 segments" in caplog.text
        assert not [name for name in names(made) if name.endswith((".swap", ".cleaned"))]
        log.close(clean=True)
        assert contents_with_gaps(made.load(clean=True)) == by_offset()

    def test_nothing_near_the_base_offset(self) -> None:
        offsets = (FAR, FAR + 3)
        log = rig_with(far_apart(offsets)).load(clean=False)
        assert [segment.base_offset for segment in log.segments] == [0, FAR]
        assert contents_with_gaps(log) == by_offset(offsets)

    def test_a_torn_tail_is_cut_all_the_same(self) -> None:
        log = rig_with(far_apart()[:-3]).load(clean=False)
        assert contents_with_gaps(log) == by_offset(OFFSETS[:-1])

    @pytest.mark.parametrize("nth", [1, 3, len(OFFSETS) - 1])
    def test_a_damaged_offset_is_no_overflow(self, nth: int) -> None:
        """The upper half of a base offset, which no checksum covers."""
        offsets = tuple(range(len(OFFSETS)))
        content = bytearray(far_apart(offsets))
        content[nth * (len(content) // len(offsets)) + 2] ^= 1
        log = rig_with(bytes(content)).load(clean=False)
        assert contents_with_gaps(log) == by_offset(offsets[:nth])
        assert len(log.segments) == 1

    @pytest.mark.parametrize("torn", [False, True])
    def test_a_crash_in_between(self, torn: bool) -> None:
        nth = 0
        while True:
            nth += 1
            made = rig_with(far_apart())
            made.disk.sync_dir(PATH)
            made.disk.sync_dir("/data")
            made.disk.sync_dir("/")
            assert isinstance(made.disk, SimDisk)
            made.disk.fail(nth=nth)
            with contextlib.suppress(OSError):
                made.load(clean=False)
            untouched = made.disk.has_faults
            made.disk.heal()
            if torn:
                made.disk = made.disk.crash_clone(nth)
            assert contents_with_gaps(made.load(clean=False)) == by_offset()
            if untouched:
                break
        assert nth > 20


def names(made: LogRig) -> list[str]:
    return [entry.name for entry in made.disk.list_dir(PATH)]


def damaged(made: LogRig, at: int) -> None:
    file = made.disk.open(f"{PATH}/{offset_name(0, LOG_SUFFIX)}")
    byte = file.read_at(at, 1)
    file.write_at(at, bytes([byte[0] ^ 1]))


class TestDamage:
    BATCH = len(batch_of([b"0"]))

    def load(self, made: LogRig, *, flushed: int, must_keep: bool, clean: bool = False) -> PartitionLog:
        state = LoadState(clean, recovery_point=flushed, must_keep=must_keep)
        return load_log(made.directory, "t-0", TopicPartition("t", 0), made.config, made.settings, state)

    def filled(self, count: int = 8) -> LogRig:
        made = rig_with(b"")
        log = made.load(clean=False)
        for nth in range(count):
            log.append(batch_of([b"%d" % nth]), leader_epoch=0, now_ms=START_MS)
        log.close(clean=False)
        return made

    @pytest.mark.parametrize("clean", [False, True])
    def test_recovery_never_cuts_flushed_records(self, clean: bool) -> None:
        made = self.filled()
        damaged(made, 4 * self.BATCH + 62)
        size = self.BATCH * 8
        if clean:  # found only where the tail is read
            file = made.disk.open(f"{PATH}/{offset_name(0, LOG_SUFFIX)}")
            file.write_at(size, b"junk" * 10)
            size += 40
        for _ in range(2):  # and not at the second try, either
            with pytest.raises(
                CorruptRecordError, match=rf"damaged at byte {4 * self.BATCH}.*offset 4 .*offset 5"
            ):
                self.load(made, flushed=5, must_keep=True, clean=clean)
            assert made.disk.open(f"{PATH}/{offset_name(0, LOG_SUFFIX)}").size() == size
        damaged(made, 4 * self.BATCH + 62)
        assert self.load(made, flushed=5, must_keep=True).log_end_offset == 8

    def test_recovery_cuts_damaged_records_that_were_not_flushed(self) -> None:
        made = self.filled()
        damaged(made, 6 * self.BATCH + 62)
        assert self.load(made, flushed=5, must_keep=True).log_end_offset == 6

    def test_a_log_that_is_too_short(self) -> None:
        made = self.filled()
        made.disk.open(f"{PATH}/{offset_name(0, LOG_SUFFIX)}").truncate(3 * self.BATCH)
        with pytest.raises(CorruptRecordError, match="ends at offset 3, but everything before offset 5"):
            self.load(made, flushed=5, must_keep=True)

    def test_other_logs_are_cut_with_a_loud_word(self, caplog: pytest.LogCaptureFixture) -> None:
        made = self.filled()
        damaged(made, 4 * self.BATCH + 62)
        assert self.load(made, flushed=5, must_keep=False).log_end_offset == 4
        words = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert len(words) == 1
        assert "is no torn tail of a crash. The log is cut there" in words[0]


def open_store(disk: SimDisk) -> LogStore:
    return LogStore.open(disk, ManualClock(), ["/data"], node_id=1, rng=SystemRng(3), recovery_threads=1)


def test_a_store_remembers_what_of_the_metadata_log_is_committed() -> None:
    disk = SimDisk(lambda: START_MS)
    disk.make_dir("/data")
    write_meta_properties(disk, "/data", MetaProperties("cluster", 1), START_MS)
    store = open_store(disk)
    log = store.create("__cluster_metadata", 0, None)
    for nth in range(8):
        log.append(batch_of([b"%d" % nth]), leader_epoch=0, now_ms=START_MS)
    log.durability.flush()
    log.set_high_watermark(6)
    store.maintenance.checkpoint_recovery_points()
    store.close(clean=False)
    store = open_store(disk)
    assert store.logs[TopicPartition("__cluster_metadata", 0)].high_watermark == 6
    store.maintenance.checkpoint_recovery_points()
    store.close(clean=False)
    file = disk.open(f"/data/__cluster_metadata-0/{offset_name(0, LOG_SUFFIX)}")
    file.write_at(80, b"\xff\xff")
    with pytest.raises(StorageError, match="damaged at byte 70, where offset 1 should follow"):
        open_store(disk)


def test_a_removed_metadata_log_may_start_again() -> None:
    disk = SimDisk(lambda: START_MS)
    disk.make_dir("/data")
    write_meta_properties(disk, "/data", MetaProperties("cluster", 1), START_MS)
    for count in (8, 2):
        store = open_store(disk)
        log = store.create("__cluster_metadata", 0, None)
        for nth in range(count):
            log.append(batch_of([b"%d" % nth]), leader_epoch=0, now_ms=START_MS)
        log.durability.flush()
        log.set_high_watermark(count)
        if count == 8:
            store.maintenance.checkpoint_recovery_points()
            disk.remove_tree("/data/__cluster_metadata-0")
        store.close(clean=False)
    assert open_store(disk).logs[TopicPartition("__cluster_metadata", 0)].log_end_offset == 2
