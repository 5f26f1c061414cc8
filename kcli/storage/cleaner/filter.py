"""Selects the records that compaction keeps: the latest value of every key, and batches that producers or transactions
need.

numpy filters a whole chunk of batches in one step. First the headers decide which batches can be dropped. In the
remaining batches, keys and offsets decide which records are kept. A batch that loses no record is copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kcli.model.buffers import Buffer
from kcli.model.ids import Offset, ProducerId
from kcli.protocol.batches.batch import CONTROL, LENGTH_OVERHEAD, TRANSACTIONAL, read_header, read_records
from kcli.protocol.batches.batch_headers import BatchHeaders
from kcli.protocol.batches.columns import Columns, Depth, GiantBatch, RecordWalk, Spans, whole_walks
from kcli.protocol.batches.control import control_type_of
from kcli.protocol.batches.record_starts import Bools, Ints
from kcli.storage.cleaner.offset_map import NOT_FOUND, KeyHash, OffsetMap
from kcli.storage.cleaner.plan import GrownBatch, LastRecord
from kcli.storage.cleaner.rewrite import (
    NO_HORIZON,
    Survivors,
    TimeRange,
    empty_batch,
    lasting_horizons,
    modern_batch,
    rewritten_batches,
    rewritten_giant,
)
from kcli.storage.cleaner.transactions import CleanedTransactions
from kcli.storage.log.segment import Placed
from kcli.storage.log.transaction_index import AbortedTransaction

NO_DATA = -2
"""The value used as the last data offset of a producer if the log contains only markers of this producer. No batch has
this offset."""

MAX_GROWN_TOLD = 100
"""The most grown batches that a pass reports. After a pass, a grown batch is larger than before, and larger than
max.message.bytes. A few reports are enough to show an operator that max.message.bytes was lowered."""


@dataclass(slots=True)
class KeptBatches:
    """Collects the kept batches of a chunk, in the order in which they are written."""

    buffers: list[Buffer] = field(default_factory=list)
    placed: list[Placed] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    grown: list[GrownBatch] = field(default_factory=list)
    records: int = 0

    def add(self, batch: Buffer, last_offset: Offset, max_timestamp_ms: int) -> None:
        self.buffers.append(batch)
        self.placed.append((last_offset, max_timestamp_ms, len(batch)))


@dataclass(frozen=True, slots=True)
class BatchVerdicts:
    """Three masks with a value for each batch. `discard` is True if all records of the batch are dropped. `idle_marker`
    is True for a marker that is no longer needed. `retain` is True if the header must be kept even without records."""

    discard: Bools
    idle_marker: Bools
    retain: Bools


class ActiveProducers:
    """The newest record of each live producer. The batch of this record is kept, because the log must show the last
    sequence or epoch of the producer."""

    def __init__(self, records: Sequence[LastRecord]) -> None:
        ordered = sorted(records, key=lambda record: record.producer_id)
        self._ids = np.array([record.producer_id for record in ordered], np.int64)
        self._epochs = np.array([record.producer_epoch for record in ordered], np.int64)
        self._offsets = np.array(
            [NO_DATA if record.data_offset is None else record.data_offset for record in ordered], np.int64
        )

    def depend_on(self, table: BatchHeaders) -> Bools:
        headers = table.headers
        if not len(self._ids):
            return np.zeros(len(table), np.bool_)
        ids = headers["producer_id"].astype(np.int64)
        nth = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        offsets = self._offsets[nth]
        lasts = headers["base_offset"] + headers["last_offset_delta"]
        newest_marker = (offsets == NO_DATA) & (headers["attributes"] & CONTROL != 0)
        newest_marker &= headers["producer_epoch"] == self._epochs[nth]
        depends: Bools = (ids >= 0) & (self._ids[nth] == ids) & ((lasts == offsets) | newest_marker)
        return depends


class BatchFilter:
    """Filters the batches of one pass. The batches must come in offset order."""

    def __init__(
        self,
        offsets: OffsetMap,
        key_hash: KeyHash,
        transactions: CleanedTransactions,
        producers: ActiveProducers,
        *,
        now_ms: int,
        delete_retention_ms: int,
        upper_bound_offset: Offset,
        max_message_bytes: int,
    ) -> None:
        self._offsets = offsets
        self._key_hash = key_hash
        self._transactions = transactions
        self._producers = producers
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._upper_bound_offset = upper_bound_offset
        self._max_message_bytes = max_message_bytes

    def keep(self, table: BatchHeaders, kept_batches: KeptBatches) -> None:
        """Filters the batches of `table`. Adds the rest of the batches and records to `kept_batches`."""
        judged = self._judge(table, kept_batches)
        rewritten: dict[int, tuple[bytes, int]] = {}
        counts = np.zeros(len(table), np.int64)
        rows = np.flatnonzero(~judged.discard & (table.headers["count"] > 0))
        for walk in whole_walks(table, rows) if len(rows) else ():
            if isinstance(walk, GiantBatch):
                counts[walk.row] = self._keep_giant(walk, judged, rewritten)
            else:
                counts[walk.rows] = self._keep_walk(walk, judged, rewritten)
        self._collect(table, counts, rewritten, judged.retain, kept_batches)

    def _keep_walk(
        self, walk: RecordWalk, judged: BatchVerdicts, rewritten: dict[int, tuple[bytes, int]]
    ) -> Ints:
        """Filters the batches of `walk`. Returns the number of kept records in each batch, and adds the new bytes of
        changed batches to `rewritten`.
        """
        columns = walk.columns(Depth.VALUE)
        stay = self._stay(walk, columns)
        firsts = np.cumsum(walk.counts) - walk.counts
        left = np.add.reduceat(stay.astype(np.int64), firsts)
        assert columns.values is not None and columns.timestamps is not None
        tombstones = np.logical_or.reduceat(stay & (columns.values.lengths < 0), firsts)
        horizons = lasting_horizons(walk.headers)
        due = (horizons == NO_HORIZON) & (tombstones | judged.idle_marker[walk.rows])
        horizons[due] = self._now_ms + self._delete_retention_ms
        lanes = np.flatnonzero((left > 0) & ((left < walk.counts) | due))
        if len(lanes):
            survivors = Survivors(walk, columns.timestamps, stay, horizons)
            batches = rewritten_batches(survivors, lanes)
            rewritten.update(zip(walk.rows[lanes].tolist(), batches, strict=True))
        return left

    def _keep_giant(
        self, giant: GiantBatch, judged: BatchVerdicts, rewritten: dict[int, tuple[bytes, int]]
    ) -> int:
        """Filters a batch that is too large for memory. If the batch changes, it is read twice."""
        left = total = 0
        has_tombstone = False
        times = TimeRange()
        for walk in giant.walks():
            columns = walk.columns(Depth.VALUE)
            assert columns.values is not None and columns.timestamps is not None
            stay = self._stay(walk, columns)
            total += len(stay)
            left += int(stay.sum())
            has_tombstone = has_tombstone or bool((stay & (columns.values.lengths < 0)).any())
            times.add(columns.timestamps[stay])
        headers = giant.table.headers[giant.row : giant.row + 1]
        horizon_ms = int(lasting_horizons(headers)[0])
        is_due = horizon_ms == NO_HORIZON and (has_tombstone or bool(judged.idle_marker[giant.row]))
        if is_due:
            horizon_ms = self._now_ms + self._delete_retention_ms
        if left and (left < total or is_due):
            survivors = self._survivors(giant, horizon_ms)
            rewritten[giant.row] = rewritten_giant(headers, survivors, horizon_ms, times, left)
        return left

    def _survivors(self, giant: GiantBatch, horizon_ms: int) -> Iterator[Survivors]:
        for walk in giant.walks():
            columns = walk.columns(Depth.VALUE)
            assert columns.timestamps is not None
            yield Survivors(walk, columns.timestamps, self._stay(walk, columns), np.array([horizon_ms]))

    def _stay(self, walk: RecordWalk, columns: Columns) -> Bools:
        horizons = lasting_horizons(walk.headers)
        in_time = (horizons == NO_HORIZON) | (self._now_ms < horizons)
        stay = self._records_that_stay(columns, np.repeat(in_time, walk.counts))
        is_control = walk.headers["attributes"] & CONTROL != 0
        if is_control.any():
            stay |= np.repeat(is_control, walk.counts)
        return stay

    def _judge(self, table: BatchHeaders, kept_batches: KeptBatches) -> BatchVerdicts:
        headers = table.headers
        discard, idle_marker = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
        lasts = headers["base_offset"] + headers["last_offset_delta"]
        horizons = lasting_horizons(headers)
        for row in np.flatnonzero(headers["attributes"] & (TRANSACTIONAL | CONTROL)).tolist():
            producer_id = ProducerId(int(headers["producer_id"][row]))
            last_offset = Offset(int(lasts[row]))
            if headers["attributes"][row] & CONTROL:
                idle, aborted = self._transactions.end(producer_id, last_offset, control_type(table, row))
                idle_marker[row] = idle
                discard[row] = idle and horizons[row] != NO_HORIZON and horizons[row] <= self._now_ms
                if aborted is not None:
                    kept_batches.aborted.append(aborted)
            else:
                discard[row] = self._transactions.is_aborted(producer_id, last_offset)
        retain = self._producers.depend_on(table) | (lasts + 1 == self._upper_bound_offset)
        return BatchVerdicts(discard, idle_marker, retain)

    def _records_that_stay(self, columns: Columns, in_time: Bools) -> Bools:
        """A mask of the records that are kept. `in_time` is True for records in a batch that has not reached its delete
        horizon. Tombstones in such a batch are kept."""
        assert columns.keys is not None and columns.values is not None
        stay: Bools = columns.offsets > self._offsets.latest_offset
        keyed = np.flatnonzero(~stay & (columns.keys.lengths >= 0))
        if len(keyed):
            latest = self._latest(
                columns.buffer, Spans(columns.keys.starts[keyed], columns.keys.lengths[keyed])
            )
            may_stay = (columns.values.lengths >= 0) | in_time
            stay[keyed] = (columns.offsets[keyed] >= latest) & may_stay[keyed]
        return stay

    def _latest(self, buffer: bytes, keys: Spans) -> Ints:
        if not self._offsets.size:
            return np.full(len(keys.lengths), NOT_FOUND, np.int64)
        return self._offsets.get(self._key_hash.of(buffer, keys))

    def _collect(
        self,
        table: BatchHeaders,
        counts: Ints,
        rewritten: dict[int, tuple[bytes, int]],
        retain: Bools,
        kept_batches: KeptBatches,
    ) -> None:
        """Adds batches to `kept_batches` in the order of the log: unchanged batches, rewritten batches, and the headers
        of empty batches that must be kept."""
        view = memoryview(table.raw)
        kept_batches.records += int(counts.sum())
        rows = np.flatnonzero((counts > 0) | retain)
        lasts = (table.headers["base_offset"] + table.headers["last_offset_delta"])[rows].tolist()
        newest = table.headers["max_timestamp"][rows].tolist()
        starts = table.positions[rows].tolist()
        sizes = (table.headers["length"][rows].astype(np.int64) + LENGTH_OVERHEAD).tolist()
        whole = (counts[rows] > 0).tolist()
        for nth, row in enumerate(rows.tolist()):
            if row in rewritten:
                batch, max_timestamp_ms = rewritten[row]
                kept_batches.add(batch, lasts[nth], max_timestamp_ms)
                self._note_grown(lasts[nth], len(batch), sizes[nth], kept_batches)
            elif whole[nth]:
                kept_batches.add(view[starts[nth] : starts[nth] + sizes[nth]], lasts[nth], newest[nth])
            else:
                kept_batches.add(empty_batch(read_header(table.raw, starts[nth])), lasts[nth], newest[nth])

    def keep_legacy(self, message: bytes, *, retain_deletes: bool, kept_batches: KeptBatches) -> None:
        """Filters one message (or wrapper) of magic 0 or 1. The kept records of a wrapper become a batch of magic 2."""
        header = read_header(message)
        records = list(read_records(message))
        spans, buffer = joined([record.key or b"" for record in records])
        latest = self._latest(buffer, spans).tolist()
        stay = [
            record
            for record, known in zip(records, latest, strict=True)
            if record.offset > self._offsets.latest_offset
            or (
                record.key is not None
                and record.offset >= known
                and (record.value is not None or retain_deletes)
            )
        ]
        kept_batches.records += len(stay)
        if len(stay) == len(records):
            kept_batches.add(message, header.last_offset, header.max_timestamp_ms)
        elif stay:
            batch = modern_batch(header, stay)
            placed = read_header(batch)
            kept_batches.add(batch, placed.last_offset, placed.max_timestamp_ms)
            self._note_grown(placed.last_offset, len(batch), len(message), kept_batches)

    def _note_grown(
        self, last_offset: Offset, size_bytes: int, before_bytes: int, kept_batches: KeptBatches
    ) -> None:
        if (
            size_bytes > max(before_bytes, self._max_message_bytes)
            and len(kept_batches.grown) < MAX_GROWN_TOLD
        ):
            kept_batches.grown.append(GrownBatch(last_offset, size_bytes))


def control_type(table: BatchHeaders, row: int) -> int | None:
    """The type of the control record in a control batch. None if an earlier pass has removed the record."""
    record = next(iter(read_records(table.raw, int(table.positions[row]))), None)
    return None if record is None else control_type_of(record.key)


def joined(keys: Sequence[bytes]) -> tuple[Spans, bytes]:
    """Joins keys in one buffer. Returns the positions of the keys, and the buffer."""
    lengths = np.array([len(key) for key in keys], np.int64)
    return Spans(np.cumsum(lengths) - lengths, lengths), b"".join(keys)
