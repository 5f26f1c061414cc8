"""The same operations on logs of other segment, index and batch sizes: clients and dump-log see the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.config.topic import LogConfig
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.runtime.rng import SystemRng
from kcli.storage.cleaner.cleaner import LogCleaner
from kcli.storage.log.log import PartitionLog
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore
from rigs.examples import examples
from rigs.logs import START_MS, ManualClock, append_client, marker_of
from rigs.steps import last_of
from simulation.checks.dump_check import dump_complaints, record_lines
from simulation.runtime.disk import SimDisk

LOOKUPS = range(-41, 42)
PRODUCERS = (0, 1)


@dataclass(frozen=True)
class Append:
    """Records of one producer (−1: of none), as (key, value, milliseconds from the start)."""

    records: tuple[tuple[bytes, bytes | None, int], ...]
    producer: int
    transactional: bool
    new_epoch: bool


@dataclass(frozen=True)
class EndTransaction:
    producer: int
    commit: bool


@dataclass(frozen=True)
class Truncate:
    """Back to where an operation began: the nth of those that are not committed."""

    nth: int


@dataclass(frozen=True)
class DeleteRecords:
    percent: int


@dataclass(frozen=True)
class Commit:
    pass


@dataclass(frozen=True)
class Restart:
    clean: bool


@dataclass(frozen=True)
class Compact:
    pass


Operation = Append | EndTransaction | Truncate | DeleteRecords | Commit | Restart | Compact

RECORDS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"d" * 20]),
        st.one_of(st.binary(max_size=12), st.none()),
        st.integers(-40, 40),
    ),
    min_size=1,
    max_size=12,
).map(tuple)
APPENDS = st.builds(Append, RECORDS, st.sampled_from([-1, -1, *PRODUCERS]), st.booleans(), st.booleans())
OPERATIONS = st.lists(
    st.one_of(
        APPENDS,
        APPENDS,
        APPENDS,
        st.builds(EndTransaction, st.sampled_from(PRODUCERS), st.booleans()),
        st.builds(Truncate, st.integers(0, 5)),
        st.builds(DeleteRecords, st.integers(0, 100)),
        st.builds(Commit),
        st.builds(Restart, st.booleans()),
        st.builds(Compact),
    ),
    max_size=25,
)


@dataclass(frozen=True)
class Sizes:
    segment_bytes: int
    index_interval_bytes: int
    batch_records: int


SIZES = st.builds(Sizes, st.integers(300, 3000), st.integers(0, 600), st.integers(1, 12))
ONE_SEGMENT = Sizes(1 << 20, 4096, 12)


class Run:
    """One log of these sizes, and what is done to it."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.disk = SimDisk(lambda: START_MS)
        self.disk.make_dir("/data")
        write_meta_properties(self.disk, "/data", MetaProperties("cluster", 1), START_MS)
        self.store = self._open()
        self.log = self.store.create("t", 0, None)
        self.epoch = 0
        self.boundaries: list[int] = []

    def _open(self) -> LogStore:
        config = LogConfig(
            internal_segment_bytes=self.sizes.segment_bytes,
            index_interval_bytes=self.sizes.index_interval_bytes,
            cleanup_policy=("compact",),
            min_cleanable_dirty_ratio=0,
            file_delete_delay_ms=0,
        )
        return LogStore.open(
            self.disk,
            ManualClock(),
            ["/data"],
            node_id=1,
            rng=SystemRng(3),
            default_config=config,
            recovery_threads=1,
        )

    def all(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            self.one(operation)
            last_of(self.store.maintenance.delete_old_segments(START_MS))
            self.store.maintenance.delete_due_files()

    def one(self, operation: Operation) -> None:
        log = self.log
        match operation:
            case Append():
                self.boundaries.append(log.log_end_offset)
                self._append(operation)
            case EndTransaction():
                if self._is_open(operation.producer):
                    self.boundaries.append(log.log_end_offset)
                    marker = marker_of(
                        commit=operation.commit, producer_id=operation.producer, producer_epoch=0
                    )
                    log.append(marker, leader_epoch=self.epoch, now_ms=START_MS)
            case Truncate():
                places = [offset for offset in self.boundaries if offset >= log.high_watermark]
                if places:
                    log.truncate_to(places[operation.nth % len(places)])
            case DeleteRecords():
                span = log.high_watermark - log.log_start_offset
                log.delete_records_before(log.log_start_offset + span * operation.percent // 100)
            case Commit():
                log.set_high_watermark(log.log_end_offset)
            case Restart():
                self._restart(operation.clean)
            case Compact():
                log.set_high_watermark(log.log_end_offset)
                log.roll()
                # Before an open transaction whole segments are cleaned: there it matters where they end.
                if log.last_stable_offset == log.log_end_offset:
                    LogCleaner(self.store).clean(START_MS)

    def _append(self, operation: Append) -> None:
        producer = operation.producer
        self.epoch += operation.new_epoch
        size = self.sizes.batch_records
        for first in range(0, len(operation.records), size):
            transactional = producer >= 0 and (operation.transactional or self._is_open(producer))
            batch = encode_batch(
                [
                    Record(-1, START_MS + at, key, value, (), -1)
                    for key, value, at in operation.records[first : first + size]
                ],
                producer_id=producer,
                producer_epoch=-1 if producer < 0 else 0,
                base_sequence=self._next_sequence(producer),
                transactional=transactional,
            )
            append_client(self.log, batch, leader_epoch=self.epoch, now_ms=START_MS)

    def _next_sequence(self, producer: int) -> int:
        if producer < 0:
            return -1
        entry = self.log.producers.state.entry(producer)
        return 0 if entry is None else entry.last_sequence + 1

    def _is_open(self, producer: int) -> bool:
        entry = self.log.producers.state.entry(producer)
        return entry is not None and entry.current_txn_first_offset is not None

    def _restart(self, clean: bool) -> None:
        high_watermark, end_offset = self.log.high_watermark, self.log.log_end_offset
        self.store.maintenance.checkpoint_high_watermarks()
        self.store.maintenance.checkpoint_log_start_offsets()
        self.store.close(clean=clean)
        self.store = self._open()
        log = self.store.get("t", 0)
        assert log is not None
        self.log = log
        assert (log.high_watermark, log.log_end_offset) == (high_watermark, end_offset)


def records_from(log: PartitionLog, offset: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found = []
    while offset < log.log_end_offset:
        piece = log.read(offset, 400, end_offset=log.log_end_offset).read()
        if not piece:
            break  # compacted up to the log end
        for position, header in iter_batches(piece):
            found += [
                (record.offset, record.timestamp_ms, record.key, record.value)
                for record in read_records(piece, position)
                if record.offset >= offset
            ]
            offset = header.next_offset
    return found


def seen(run: Run) -> dict[str, object]:
    """What does not depend on how the log lies on the disk."""
    log = run.log
    start, end = log.log_start_offset, log.log_end_offset
    middle = (start + end) // 2
    return {
        "bounds": (start, log.last_stable_offset, log.high_watermark, end),
        "records": records_from(log, start),
        "from the middle": records_from(log, middle),
        "times": [last_of(log.search_timestamp(START_MS + at)) for at in LOOKUPS],
        "newest": last_of(log.search_max_timestamp()),
        "epochs": [log.leader_epochs.epoch_for_offset(offset) for offset in range(start, end)],
        "aborted": [
            (entry.producer_id, entry.first_offset, entry.last_offset)
            for entry in log.local.aborted_transactions(start, end)
            if entry.last_offset >= start
        ],
        "producers": sorted(
            (entry.producer_id, entry.last_sequence, entry.last_data_offset, entry.current_txn_first_offset)
            for entry in log.producers.active()
        ),
    }


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations=OPERATIONS, sizes=SIZES)
def test_sizes_do_not_matter(operations: list[Operation], sizes: Sizes) -> None:
    runs = [Run(ONE_SEGMENT), Run(sizes)]
    for run in runs:
        run.all(operations)
    one, other = map(seen, runs)
    compacted = Compact() in operations
    if compacted:
        # Where the newest timestamp is that of a header without records, Kafka tells of none.
        del one["newest"], other["newest"]
    assert other == one
    start = runs[0].log.log_start_offset
    dumps = []
    for run in runs:
        run.store.close()
        assert dump_complaints(run.disk, "/data/t-0", compacted=compacted) == ""
        lines = record_lines(run.disk, "/data/t-0")
        dumps.append([line for line in lines if int(line.split()[2]) >= start])
    assert dumps[0] == dumps[1]
