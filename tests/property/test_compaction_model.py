"""Compaction by columns against a model of it by dicts and single records: the same bytes, whatever the log holds.

And against what a user of a compacted topic counts on: the latest value of every key is there, at its offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.protocol.batches.batch import BatchHeader, Record, encode_batch, iter_batches, read_records
from kcli.protocol.batches.compression import Codec
from kcli.storage.cleaner.offset_map import ENTRY_BYTES
from kcli.storage.cleaner.one_pass import CleaningPass
from kcli.storage.cleaner.plan import (
    CleanedSegment,
    CleanerLimits,
    CleaningDone,
    CleaningPlan,
    LastRecord,
    SourceSegment,
)
from kcli.storage.files import CLEANED_SUFFIX, LOG_SUFFIX, offset_name
from kcli.storage.log.transaction_index import AbortedTransaction
from rigs.examples import examples
from rigs.logs import marker_of
from simulation.runtime.disk import SimDisk

NOW_MS = 2_000_000
RETENTION_MS = 1_000
PRODUCERS = 3

KEYS = st.one_of(
    st.sampled_from([b"", b"a", b"b", b"c", b"eight888", b"x" * 64, b"x" * 65, b"y" * 65]),
    st.binary(max_size=20),
)
RECORDS = st.lists(
    st.tuples(
        st.one_of(KEYS, KEYS, KEYS, st.none()),
        st.one_of(st.none(), st.binary(max_size=10), st.just(b"v" * 200)),
        st.integers(-3, 300),  # timestamp, from the start of the batch
        st.lists(
            st.tuples(st.sampled_from(["h", "ключ"]), st.one_of(st.none(), st.binary(max_size=3))), max_size=2
        ),
    ),
    min_size=1,
    max_size=8,
)


@dataclass(frozen=True)
class Write:
    """One batch, or with `commit` the end of a producer's transaction."""

    records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]] = field(
        default_factory=list
    )
    codec: Codec = Codec.NONE
    append_time: bool = False
    horizon_ms: int | None = None
    producer: int = -1
    transactional: bool = False
    commit: bool | None = None
    gap: int = 0  # offsets of records that an earlier pass took, before, inside and after
    new_segment: bool = False


DATA = st.builds(
    Write,
    records=RECORDS,
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY]),
    append_time=st.booleans(),
    horizon_ms=st.sampled_from([None, None, None, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
    producer=st.integers(-1, PRODUCERS - 1),
    transactional=st.booleans(),
    gap=st.integers(0, 2),
    new_segment=st.booleans(),
)
MARKERS = st.builds(
    Write,
    producer=st.integers(0, PRODUCERS - 1),
    commit=st.booleans(),
    horizon_ms=st.sampled_from([None, NOW_MS, NOW_MS + 1]),
    new_segment=st.booleans(),
)


class Model:
    """The log as lists, and the pass over it record by record."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self.segments: list[tuple[int, list[bytes]]] = [(0, [])]
        self.aborted: list[AbortedTransaction] = []
        self._open: dict[int, int] = {}
        self._offset = 0
        for write in writes:
            if write.new_segment and self.segments[-1][1]:
                self.segments.append((self._offset, []))
            if write.commit is None:
                self._add_data(write)
            else:
                self._add_marker(write.producer, write.commit, write.horizon_ms)
        for producer in list(self._open):  # the last stable offset is past all that may be cleaned
            self._add_marker(producer, commit=False)
        self.end_offset = self._offset

    def _add_data(self, write: Write) -> None:
        transactional = write.transactional and write.producer >= 0
        if write.producer in self._open:
            transactional = True
        base = self._offset
        offsets = [base + write.gap + nth * (1 + write.gap) for nth in range(len(write.records))]
        records = [
            Record(offset, 1_000_000 + base + at, key, value, tuple(headers), -1)
            for offset, (key, value, at, headers) in zip(offsets, write.records, strict=True)
        ]
        last = offsets[-1] + write.gap
        if transactional:
            self._open.setdefault(write.producer, base)
        self._append(
            encode_batch(
                records,
                base_offset=base,
                leader_epoch=3,
                codec=write.codec,
                log_append_time_ms=1_500_000 if write.append_time else None,
                delete_horizon_ms=write.horizon_ms,
                producer_id=write.producer,
                producer_epoch=0 if write.producer >= 0 else -1,
                base_sequence=base if write.producer >= 0 else -1,
                transactional=transactional,
                last_offset_delta=last - base,
            ),
            last + 1,
        )

    def _add_marker(self, producer: int, commit: bool, horizon_ms: int | None = None) -> None:
        first = self._open.pop(producer, None)
        if first is not None and not commit:
            self.aborted.append(AbortedTransaction(producer, first, self._offset, self._offset + 1))
        marker = next(read_records(marker_of(commit=commit, producer_id=producer, producer_epoch=0)))
        batch = encode_batch(
            [marker._replace(offset=self._offset)],
            base_offset=self._offset,
            leader_epoch=3,
            delete_horizon_ms=horizon_ms,
            producer_id=producer,
            producer_epoch=0,
            transactional=True,
            control=True,
        )
        self._append(batch, self._offset + 1)

    def _append(self, batch: bytes, next_offset: int) -> None:
        self.segments[-1][1].append(batch)
        self._offset = next_offset

    # --- the pass

    def is_aborted(self, header: BatchHeader) -> bool:
        return any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in self.aborted
        )

    def mapped(self, first_dirty: int, capacity: int) -> tuple[dict[bytes, int], int]:
        """Key -> last offset, and the last offset that was looked at."""
        keys: dict[bytes, int] = {}
        latest = -1
        ends = [base for base, _ in self.segments[1:]] + [self.end_offset]
        for (_base, batches), end in zip(self.segments, ends, strict=True):
            if end <= first_dirty:
                continue
            for batch in batches:
                _, header = next(iter_batches(batch))
                if not header.is_control and not (header.is_transactional and self.is_aborted(header)):
                    for record in read_records(batch):
                        if record.offset >= first_dirty and record.key is not None:
                            if len(keys) >= capacity:
                                return keys, latest
                            keys[record.key] = record.offset
                            latest = max(latest, record.offset)
                if header.last_offset >= first_dirty:
                    latest = max(latest, header.last_offset)
            latest = max(latest, end - 1)
        return keys, latest

    def cleaned(
        self, first_dirty: int, capacity: int, last_records: dict[int, int | None]
    ) -> dict[int, bytes]:
        """Base offset -> batch, of what stays below the end of the pass."""
        keys, latest = self.mapped(first_dirty, capacity)
        with_data: set[int] = set()
        kept: dict[int, bytes] = {}
        for base, batches in self.segments:
            if base > latest:
                break
            for batch in batches:
                left = self._filtered(batch, keys, latest, with_data, last_records)
                if left:
                    kept[next(iter_batches(left))[1].base_offset] = left
        return kept

    def _filtered(
        self,
        batch: bytes,
        keys: dict[bytes, int],
        latest: int,
        with_data: set[int],
        last_records: dict[int, int | None],
    ) -> bytes:
        _, header = next(iter_batches(batch))
        records = list(read_records(batch))
        idle = False
        if header.is_control:
            idle = header.producer_id not in with_data
            with_data.discard(header.producer_id)
            horizon = header.delete_horizon_ms
            kept = [] if idle and horizon is not None and horizon <= NOW_MS else records
        else:
            if header.is_transactional:
                with_data.add(header.producer_id)
            aborted = header.is_transactional and self.is_aborted(header)
            kept = [] if aborted else [each for each in records if stays(header, each, keys, latest)]
        if not kept:
            last = last_records.get(header.producer_id, -1)
            newest = header.is_control if last is None else header.last_offset == last
            needed = newest or header.next_offset == self.end_offset
            return rewritten(header, [], None) if needed else b""
        tombstones = not header.is_control and any(record.value is None for record in kept)
        due = (tombstones or idle) and not header.has_delete_horizon
        if len(kept) == len(records) and not due:
            return batch
        return rewritten(header, kept, NOW_MS + RETENTION_MS if due else header.delete_horizon_ms)


def stays(header: BatchHeader, record: Record, keys: dict[bytes, int], latest: int) -> bool:
    if record.offset > latest:
        return True
    if record.key is None or record.offset < keys.get(record.key, -1):
        return False
    horizon = header.delete_horizon_ms
    return record.value is not None or horizon is None or horizon > NOW_MS


def rewritten(header: BatchHeader, kept: list[Record], horizon_ms: int | None) -> bytes:
    return encode_batch(
        kept,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        codec=header.codec if kept else Codec.NONE,
        log_append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
        delete_horizon_ms=horizon_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        last_offset_delta=header.last_offset_delta,
        max_timestamp_ms=None if kept else header.max_timestamp_ms,
    )


def compacted(
    model: Model, first_dirty: int, capacity: int, last_records: dict[int, int | None]
) -> tuple[dict[int, bytes], CleaningDone]:
    disk = SimDisk(lambda: NOW_MS)
    disk.make_dir("/log")
    sources = []
    for base, batches in model.segments:
        content = b"".join(batches)
        disk.open(f"/log/{offset_name(base, LOG_SUFFIX)}", create=True).write_at(0, content)
        sources.append(SourceSegment(base, len(content), 0, 0))
    plan = CleaningPlan(
        topic_partition="t-0",
        path="/log",
        segments=tuple(sources),
        first_dirty_offset=first_dirty,
        first_dirty_position=0,
        upper_bound_offset=model.end_offset,
        aborted=tuple(model.aborted),
        last_records=tuple(LastRecord(producer, 0, offset) for producer, offset in last_records.items()),
        now_ms=NOW_MS,
        delete_retention_ms=RETENTION_MS,
        segment_size_bytes=700,
        segment_index_bytes=1 << 20,
        index_interval_bytes=100,
    )
    limits = CleanerLimits(
        dedupe_buffer_bytes=(capacity + 1) * ENTRY_BYTES,
        load_factor=1.0,
        io_buffer_bytes=1,
        bytes_per_second=float("inf"),
    )
    kept: dict[int, bytes] = {}
    bases: list[int] = []
    for event in CleaningPass(plan, limits, disk).run():
        if isinstance(event, CleaningDone):
            assert bases == [base for base, _ in model.segments if base < event.end_offset]
            return kept, event
        assert isinstance(event, CleanedSegment)
        bases += event.replaced
        file = disk.open(f"/log/{offset_name(event.base_offset, LOG_SUFFIX)}{CLEANED_SUFFIX}")
        content = file.read_at(0, file.size())
        assert len(content) == event.sizes[LOG_SUFFIX]
        for position, header in iter_batches(content):
            kept[header.base_offset] = content[position : position + header.size_bytes]
    raise AssertionError("a pass ends with its results")


@settings(max_examples=examples(150), deadline=None)
@given(
    writes=st.lists(st.one_of(DATA, DATA, MARKERS), min_size=1, max_size=12),
    dirty=st.floats(0, 1),
    capacity=st.integers(1, 30),
    with_markers_only=st.sets(st.integers(0, PRODUCERS - 1)),
)
def test_the_same_as_record_by_record(
    writes: list[Write], dirty: float, capacity: int, with_markers_only: set[int]
) -> None:
    model = Model(writes)
    first_dirty = int(dirty * (model.end_offset - 1))
    last_records: dict[int, int | None] = dict.fromkeys(with_markers_only)
    for _, batches in model.segments:
        for batch in batches:
            _, header = next(iter_batches(batch))
            if (
                header.producer_id >= 0
                and not header.is_control
                and header.producer_id not in with_markers_only
            ):
                last_records[header.producer_id] = header.last_offset
    kept, done = compacted(model, first_dirty, capacity, last_records)
    expected = model.cleaned(first_dirty, capacity, last_records)
    assert kept == expected
    keys, latest = model.mapped(first_dirty, capacity)
    assert (done.end_offset, done.keys) == (latest + 1, len(keys))


@settings(max_examples=examples(60), deadline=None)
@given(writes=st.lists(DATA, min_size=1, max_size=12))
def test_the_latest_value_of_every_key_survives(writes: list[Write]) -> None:
    model = Model(writes)
    before: dict[bytes, tuple[int, bytes | None]] = {}
    horizons: dict[int, int | None] = {}
    for _, batches in model.segments:
        for batch in batches:
            _, header = next(iter_batches(batch))
            if header.is_control or (header.is_transactional and model.is_aborted(header)):
                continue
            for record in read_records(batch):
                if record.key is not None:
                    before[record.key] = (record.offset, record.value)
                    horizons[record.offset] = header.delete_horizon_ms
    kept, _done = compacted(model, 0, 1000, {})
    after: dict[bytes, tuple[int, bytes | None]] = {}
    for batch in kept.values():
        _, header = next(iter_batches(batch))
        if not header.is_control:
            for record in read_records(batch):
                assert record.key is not None, "records without a key do not outlive a pass"
                assert record.key not in after, "one record for a key"
                after[record.key] = (record.offset, record.value)
    for key, (offset, value) in before.items():
        horizon = horizons[offset]
        if value is None and horizon is not None and horizon <= NOW_MS:
            assert key not in after
        else:
            assert after[key] == (offset, value)
    assert after.keys() <= before.keys()
