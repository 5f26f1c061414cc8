"""A log under everything that can happen to it: operations, compaction, failing calls, kills and power failures.

The model is what was written, by offset. A restart may lose what was not flushed, and nothing else; what is read is
always what was written there; a key's latest value outlives compaction. After every restart dump-log has no complaint.
After a wrong bit, every record is read as it was written, or its reader gets an error.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kcli.config.topic import LogConfig
from kcli.errors import KcliError, OffsetOutOfRangeException, StorageError
from kcli.protocol.batches.batch import Record, crc_is_valid, encode_batch, iter_batches, read_records
from kcli.runtime.disk import read_file
from kcli.runtime.rng import SystemRng
from kcli.storage.cleaner.cleaner import LogCleaner
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.examples import examples
from rigs.logs import START_MS, ManualClock, append_client, flush_logs
from simulation.checks.dump_check import dump_complaints
from simulation.runtime.disk import FaultKind, SimDisk

Pair = tuple[bytes, bytes]
PAIRS = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.binary(max_size=10)), min_size=1, max_size=4
)


class Place(NamedTuple):
    """Of a record: its batch, and its offset."""

    path: str
    position: int
    size_bytes: int
    offset: int


UNREADABLE = (b"unreadable", b"")


@contextlib.contextmanager
def told() -> Iterator[list[str]]:
    """Collects the warnings and errors that are logged meanwhile."""
    words: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            words.append(record.getMessage())

    logger, listener = logging.getLogger("kcli"), Listener(logging.WARNING)
    logger.addHandler(listener)
    try:
        yield words
    finally:
        logger.removeHandler(listener)


def position_in(path: str, content: bytes, at: float) -> int:
    """A byte of a file; of a batch none of its offset and leader epoch, which no checksum covers in Kafka's format."""
    checked: Sequence[int] = range(len(content))
    if path.endswith(".log"):
        checked = [
            position
            for begin, header in iter_batches(content)
            for position in (*range(begin + 8, begin + 12), *range(begin + 16, begin + header.size_bytes))
        ]
    return checked[int(at * len(checked))]


def record_at(log: PartitionLog, offset: int) -> Pair | None:
    """Returns the record that a consumer finds at the offset. Without a record: None. If the read fails: UNREADABLE."""
    try:
        piece = log.read(offset, 300, end_offset=log.log_end_offset).read()
        for position, header in iter_batches(piece):
            if not crc_is_valid(piece, position, header):
                return UNREADABLE
            for record in read_records(piece, position):
                if record.offset >= offset:
                    return (record.key or b"", record.value or b"") if record.offset == offset else None
    except OffsetOutOfRangeException:
        return None
    except KcliError:
        return UNREADABLE
    return None


class CrashMachine(RuleBasedStateMachine):
    disk: SimDisk
    store: LogStore
    log: PartitionLog

    @initialize(
        segment_bytes=st.integers(250, 1500), interval=st.integers(0, 400), batches=st.integers(0, 20)
    )
    def create(self, segment_bytes: int, interval: int, batches: int) -> None:
        self.config = LogConfig(
            internal_segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            cleanup_policy=("compact",),
            min_cleanable_dirty_ratio=0,
            file_delete_delay_ms=0,
        )
        self.disk = SimDisk(lambda: START_MS)
        self.disk.make_dir("/data")
        write_meta_properties(self.disk, "/data", MetaProperties("cluster", 1), START_MS)
        self.disk.sync_dir("/")
        self.written: dict[int, Pair] = {}  # every record that may be there
        self.cut: dict[int, Pair] = {}  # what was truncated: a power failure may bring a removed segment back
        self.bases: set[int] = set()  # where batches begin
        self.safe = 0  # what lies before it was flushed, and was not cut since
        self.cleaned = 0  # what lies before it may have been compacted
        self.store = self._open()
        self.log = self.store.create("t", 0, None)
        for nth in range(batches):
            self.append([(b"abc"[nth % 3 :][:1], b"%d" % nth)])
        flush_logs(self.store)  # the log's own name, too
        self.safe = self.log.log_end_offset

    def _open(self, disk: SimDisk | None = None) -> LogStore:
        return LogStore.open(
            disk or self.disk,
            ManualClock(),
            ["/data"],
            node_id=1,
            rng=SystemRng(3),
            default_config=self.config,
            recovery_threads=1,
        )

    def _survives(self, work: object) -> None:
        """Runs `work`. If an armed fault strikes, the broker dies, and a new broker starts on the same disk."""
        assert callable(work)
        with contextlib.suppress(StorageError):
            work()
        if self.store.directories[0].error is not None:
            self.disk.heal()
            with contextlib.suppress(KcliError):
                self.store.close(clean=False)
            self.disk = self.disk.kill_clone()
            self._start_again()

    def _start_again(self) -> None:
        self.store = self._open()
        found = self.store.get("t", 0)
        assert found is not None, "its name was flushed"
        self.log = found
        assert dump_complaints(self.disk, "/data/t-0", compacted=True) == ""
        end = self.log.log_end_offset
        assert end >= self.safe, f"offsets up to {self.safe} were flushed, and the log ends at {end}"
        left = dict(self._read())
        self.written |= {each: pair for each, pair in left.items() if self.cut.get(each) == pair}
        for offset in [
            each for each in self.written if each not in left and each >= self.log.log_start_offset
        ]:
            # Records may also be missing in the middle, because a segment can lose its end while the next segment
            # exists.
            if offset >= self.safe:
                del self.written[offset]
            else:
                assert offset < self.cleaned, f"the record at offset {offset} was flushed and is lost"
        self.safe, self.cleaned = min(self.safe, end), min(self.cleaned, end)

    # --- operations

    @rule(pairs=PAIRS)
    def append(self, pairs: list[Pair]) -> None:
        batch = encode_batch([Record(-1, START_MS, key, value, (), -1) for key, value in pairs])
        end = self.log.log_end_offset
        self.bases = {base for base in self.bases if base < end} | {end}
        self.written |= dict(enumerate(pairs, end))
        self._survives(lambda: append_client(self.log, batch, leader_epoch=0, now_ms=START_MS))

    @rule()
    def roll(self) -> None:
        self._survives(lambda: self.log.roll())

    @rule()
    def flush(self) -> None:
        def work() -> None:
            self.log.durability.flush()
            self.safe = self.log.log_end_offset

        self._survives(work)

    @rule()
    def commit(self) -> None:
        self.log.set_high_watermark(self.log.log_end_offset)

    @rule(nth=st.integers(0, 5))
    def truncate(self, nth: int) -> None:
        """Truncates the log at the start of a batch that is neither committed nor compacted."""
        log = self.log
        committed = max(log.high_watermark, self.cleaned)
        places = [base for base in sorted(self.bases) if committed <= base < log.log_end_offset]
        if not places:
            return
        offset = places[nth % len(places)]

        def work() -> None:
            self.safe = min(self.safe, offset)
            log.truncate_to(offset)
            log.durability.flush()  # before the flush, a crash may bring the records back
            # After a crash, the log may end before the offset of the truncation.
            self.safe = max((each + 1 for each in self.written if each < offset), default=0)

        self.cut |= {each: pair for each, pair in self.written.items() if each >= offset}
        self._survives(work)
        self.written = {each: pair for each, pair in self.written.items() if each < self.log.log_end_offset}

    @rule(percent=st.integers(0, 100))
    def delete_records(self, percent: int) -> None:
        span = self.log.high_watermark - self.log.log_start_offset
        offset = self.log.log_start_offset + max(span, 0) * percent // 100

        def work() -> None:
            self.log.delete_records_before(offset)
            self.log.delete_old_segments(START_MS)
            self.store.maintenance.delete_due_files()

        self._survives(work)

    @rule()
    def compact(self) -> None:
        self.cleaned = max(self.cleaned, self.log.high_watermark)

        def work() -> None:
            LogCleaner(self.store).clean(START_MS)
            self.store.maintenance.delete_due_files()

        self._survives(work)

    @rule()
    def checkpoint(self) -> None:
        def work() -> None:
            self.store.maintenance.checkpoint_recovery_points()
            self.store.maintenance.checkpoint_log_start_offsets()
            self.store.maintenance.checkpoint_high_watermarks()

        self._survives(work)

    # --- what goes wrong

    @precondition(lambda self: not self.disk.has_faults)
    @rule(nth=st.integers(1, 30), kind=st.sampled_from([FaultKind.ERROR, FaultKind.FULL, FaultKind.SLOW]))
    def arm(self, nth: int, kind: FaultKind) -> None:
        """The n-th call from now on fails, or takes long: an error, or, of a write, half done on a full disk."""
        self.disk.fail(nth=nth, kind=kind)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        end, directory = self.log.log_end_offset, self.store.directories[0]
        self.store.close(clean=clean)  # where an armed fault may strike, too
        self.disk.heal()
        self.disk = self.disk.kill_clone()
        self._start_again()
        assert self.log.log_end_offset == end
        if clean and directory.error is None:
            self.safe = end

    @rule(seed=st.integers(0, 1 << 30))
    def power_failure(self, seed: int) -> None:
        self.disk.heal()
        self.disk = self.disk.crash_clone(seed)
        self._start_again()

    # --- wrong bits, on copies of the disk

    @rule(clean=st.booleans(), nth=st.integers(1, 40), part=st.sampled_from(["", "/t-0/"]))
    def wrong_bit_on_the_way(self, clean: bool, nth: int, part: str) -> None:
        """One read of a start comes out wrong. The device is right, and so is the next start."""
        places = self._stop(clean)
        disk = self.disk.full_clone()
        disk.fail("read", part, nth=nth, kind=FaultKind.FLIP)
        with told() as words:
            self._start_damaged(disk, places, words)
        assert words or self._start_damaged(disk, places, words)
        self._start_again()

    @rule(
        clean=st.booleans(),
        nth=st.integers(0, 30),
        at=st.floats(0, 1, exclude_max=True),
        bit=st.integers(0, 7),
    )
    def wrong_bit_on_the_device(self, clean: bool, nth: int, at: float, bit: int) -> None:
        places = self._stop(clean)
        disk = self.disk.full_clone()
        paths = [
            f"/data/t-0/{each.name}"
            for each in disk.list_dir("/data/t-0")
            if each.size_bytes and each.name.endswith((".log", ".index", ".timeindex", ".snapshot"))
        ]
        if paths:
            path = paths[nth % len(paths)]
            position = position_in(path, read_file(disk, path), at)
            disk.flip(path, position, bit)
            with told() as words:
                is_whole = self._start_damaged(disk, places, words, (path, position))
            assert is_whole or path.endswith(".log"), f"{path} was damaged, and records are lost"
        self._start_again()

    def _stop(self, clean: bool) -> dict[Place, Pair]:
        """Where each record lies now, by its file and the position of its batch."""
        self.disk.heal()
        if clean:
            self.log.durability.flush()
            self.safe = self.log.log_end_offset
        self.store.close(clean=clean)
        self.disk = self.disk.kill_clone()
        places: dict[Place, Pair] = {}
        for segment in self.log.segments:
            content = read_file(self.disk, segment.log.path)
            for position, header in iter_batches(content):
                places |= {
                    Place(segment.log.path, position, header.size_bytes, record.offset): (
                        record.key or b"",
                        record.value or b"",
                    )
                    for record in read_records(content, position)
                    if record.offset >= self.log.log_start_offset
                }
        return places

    def _start_damaged(
        self,
        disk: SimDisk,
        places: dict[Place, Pair],
        words: list[str],
        damage: tuple[str, int] | None = None,
    ) -> bool:
        """Whether all records are there. None may be another one, gone in silence, or gone from before the damage."""
        try:
            store = self._open(disk)
        except KcliError:
            return False
        finally:
            disk.heal()
        log = store.get("t", 0)
        found = {place: None if log is None else record_at(log, place.offset) for place in places}
        store.close(clean=False)
        disk.unlock("/data/.lock")
        for place, pair in places.items():
            if found[place] is UNREADABLE or (found[place] is None and words):
                before = (place.path, place.position + place.size_bytes)
                assert damage is None or before > damage, f"{place} lies before the damage and is not read"
            else:
                assert found[place] == pair, f"{place} is read as {found[place]}"
        return all(found[place] == pair for place, pair in places.items())

    # --- what must hold

    def _read(self) -> list[tuple[int, Pair]]:
        found = []
        offset, end = self.log.log_start_offset, self.log.log_end_offset
        while offset < end:
            piece = self.log.read(offset, 300, end_offset=end).read()
            if not piece:
                break
            for position, header in iter_batches(piece):
                assert crc_is_valid(piece, position, header)
                found += [
                    (record.offset, (record.key or b"", record.value or b""))
                    for record in read_records(piece, position)
                    if record.offset >= offset
                ]
                offset = header.next_offset
        return found

    @invariant()
    def what_is_read_was_written(self) -> None:
        if self.disk.has_faults:
            return  # the next call may be the one that fails
        found = self._read()
        assert all(self.written[offset] == pair for offset, pair in found)
        left = dict(found)
        start = self.log.log_start_offset
        assert all(offset in left for offset in self.written if offset >= max(start, self.cleaned)), (
            "nothing is missing where no compaction was"
        )
        latest = {key: offset for offset, (key, _value) in sorted(self.written.items()) if offset >= start}
        assert set(latest.values()) <= left.keys(), "the latest value of every key is there"


def test_an_index_entry_inside_of_a_batch_looks_like_an_old_wrapper() -> None:
    machine = CrashMachine()
    machine.create(segment_bytes=1126, interval=284, batches=17)
    machine.wrong_bit_on_the_device(at=0.0, bit=0, clean=True, nth=0)
    machine.wrong_bit_on_the_device(at=0.96875, bit=2, clean=False, nth=0)


TestCrashMachine = CrashMachine.TestCase
TestCrashMachine.settings = settings(
    max_examples=examples(60),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("nth", range(10, 33))
def test_a_truncation_that_fails_leaves_no_hole(nth: int) -> None:
    """Once segments were removed oldest first, and a second truncation then ended the log where no record was."""
    machine = CrashMachine()
    machine.create(segment_bytes=250, interval=0, batches=7)
    machine.arm(kind=FaultKind.ERROR, nth=nth)
    machine.checkpoint()
    machine.truncate(nth=0)
    machine.truncate(nth=4)
    machine.restart(clean=False)
