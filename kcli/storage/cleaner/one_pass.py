"""Runs one pass over one log. A pass first builds a map from each key in the dirty part to its last offset. Then the
pass writes the kept records of the log up to the end of the dirty part.

The dirty part begins at the offset up to which earlier passes have cleaned the log. A pass only reads and writes files,
and does not change the state of the log. A pass runs in a separate process. So it does not slow down the event loop,
and numpy is loaded only when a log is cleaned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator

import numpy as np

from kcli.errors import CorruptRecordError
from kcli.model.ids import Offset, Position, ProducerId
from kcli.protocol.batches.batch import (
    CONTROL,
    LENGTH_OVERHEAD,
    PREFIX_SIZE,
    TRANSACTIONAL,
    crc_is_valid,
    iter_batches,
    read_header,
    read_records,
)
from kcli.protocol.batches.batch_headers import BatchHeaders, read_headers
from kcli.protocol.batches.columns import Depth, Spans, walks
from kcli.runtime.disk import Disk
from kcli.storage.cleaner.filter import ActiveProducers, BatchFilter, KeptBatches, control_type, joined
from kcli.storage.cleaner.offset_map import KeyHash, OffsetMap
from kcli.storage.cleaner.plan import (
    CleanedSegment,
    CleanerLimits,
    CleaningDone,
    CleaningEvent,
    CleaningPlan,
    SourceSegment,
    grouped,
)
from kcli.storage.cleaner.transactions import CleanedTransactions
from kcli.storage.files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    HandlePool,
    offset_name,
)
from kcli.storage.log.segment import Segment

MIN_CHUNK_BYTES = 1 << 20
"""The fewest bytes that are read at a time, even if the I/O buffer is smaller. With smaller chunks, the calls of numpy
would take longer than the work inside these calls."""

FILES_OF_A_SEGMENT = 4

MAGIC_POSITION = 16
CURRENT_MAGIC = 2


class IoThrottle:
    """Limits the rate of reads and writes. It calls `check` between reads and writes. `check` may raise an exception to
    end the pass."""

    def __init__(
        self,
        bytes_per_second: float,
        check: Callable[[], None],
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._check = check
        self._now, self._sleep = now, sleep
        self._free_at = now()

    def pass_on(self, size_bytes: int) -> None:
        self._check()
        self._free_at = max(self._free_at, self._now() - MAX_BURST_SECONDS) + size_bytes / self._rate
        while (wait := self._free_at - self._now()) > 0:
            self._sleep(min(wait, MAX_SLEEP_SECONDS))
            self._check()


MAX_BURST_SECONDS = 0.3
"""After an idle time, reads and writes may be faster than the rate, until the idle time is used up. At most this much
idle time is counted. The value is the interval at which Kafka measures the rate."""

MAX_SLEEP_SECONDS = 0.5
"""The longest time between two calls of `check` while a pass is throttled."""


class CleaningPass:
    """Runs one pass. `run` yields a CleanedSegment when the segment's files are on the device, and CleaningDone at the
    end."""

    def __init__(
        self, plan: CleaningPlan, limits: CleanerLimits, disk: Disk, throttle: IoThrottle | None = None
    ) -> None:
        self._plan = plan
        self._limits = limits
        self._disk = disk
        self._pool = HandlePool(disk, FILES_OF_A_SEGMENT)
        self._throttle = throttle or IoThrottle(limits.bytes_per_second, lambda: None)
        self._chunk_bytes = max(limits.io_buffer_bytes, MIN_CHUNK_BYTES)
        self._key_hash = KeyHash()
        self._records_read = self._bytes_read = 0

    def run(self) -> Generator[CleaningEvent, None, None]:
        """Runs the pass. Raises CorruptRecordError if the log is damaged, and OSError if the disk fails."""
        plan = self._plan
        offsets = self._map_dirty_part()
        end_offset = Offset(offsets.latest_offset + 1)
        if end_offset <= plan.first_dirty_offset:
            raise CorruptRecordError(
                f"{plan.path}: nothing could be mapped from offset {plan.first_dirty_offset} on"
            )
        sources = [segment for segment in plan.segments if segment.base_offset < end_offset]
        batch_filter = BatchFilter(
            offsets,
            self._key_hash,
            CleanedTransactions(plan.aborted),
            ActiveProducers(plan.last_records),
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            upper_bound_offset=plan.upper_bound_offset,
            max_message_bytes=plan.max_message_bytes,
        )
        horizon_ms = self._legacy_horizon_ms()
        kept_batches, size_bytes = KeptBatches(), 0
        self._records_read = self._bytes_read = 0
        for group in grouped(
            sources,
            max_bytes=plan.segment_size_bytes,
            max_index_bytes=plan.segment_index_bytes,
            upper_bound_offset=plan.upper_bound_offset,
        ):
            cleaned = self._clean_group(group, batch_filter, kept_batches, horizon_ms)
            size_bytes += cleaned.sizes[LOG_SUFFIX]
            yield cleaned
        yield CleaningDone(
            end_offset,
            offsets.size,
            self._records_read,
            kept_batches.records,
            self._bytes_read,
            size_bytes,
            tuple(kept_batches.grown),
            offsets.size / offsets.capacity,
        )

    # --- the map

    def _map_dirty_part(self) -> OffsetMap:
        """Maps every key in the dirty part to its last offset. If the map gets full, the dirty part of this pass ends
        at the offset that no longer fits."""
        plan, limits = self._plan, self._limits
        offsets = OffsetMap(
            limits.dedupe_buffer_bytes,
            limits.load_factor,
            keys_at_most=plan.upper_bound_offset - plan.first_dirty_offset,
        )
        # Aborted transactions that ended before the dirty part are left out. Otherwise the producer's next transaction
        # would also count as aborted.
        transactions = CleanedTransactions(
            entry for entry in plan.aborted if entry.last_offset >= plan.first_dirty_offset
        )
        position = plan.first_dirty_position
        for nth, segment in enumerate(plan.segments):
            if plan.end_of(nth) <= plan.first_dirty_offset:
                continue
            for piece in self._pieces(segment, position):
                is_full = (
                    self._map_batches(piece, offsets, transactions)
                    if isinstance(piece, BatchHeaders)
                    else self._map_legacy(piece, offsets)
                )
                if is_full:
                    return offsets
            position = Position(0)
            # Compaction may have left a gap of offsets at the end of the segment. The gap belongs to the mapped part.
            offsets.latest_offset = max(offsets.latest_offset, plan.end_of(nth) - 1)
        return offsets

    def _map_batches(
        self, table: BatchHeaders, offsets: OffsetMap, transactions: CleanedTransactions
    ) -> bool:
        """Maps the keys in the batches of `table`. Returns True if the map was full before the last key."""
        headers, first_dirty = table.headers, self._plan.first_dirty_offset
        lasts = (headers["base_offset"] + headers["last_offset_delta"]).astype(np.int64)
        mapped = (headers["attributes"] & CONTROL == 0) & (headers["count"] > 0) & (lasts >= first_dirty)
        for row in np.flatnonzero(headers["attributes"] & (TRANSACTIONAL | CONTROL)).tolist():
            producer_id = ProducerId(int(headers["producer_id"][row]))
            last_offset = Offset(int(lasts[row]))
            if headers["attributes"][row] & CONTROL:
                transactions.end(producer_id, last_offset, control_type(table, row))
            elif transactions.is_aborted(producer_id, last_offset):
                mapped[row] = False
        rows = np.flatnonzero(mapped)
        for walk in walks(table, rows) if len(rows) else ():
            columns = walk.columns(Depth.KEY)
            assert columns.keys is not None
            keyed = np.flatnonzero((columns.keys.lengths >= 0) & (columns.offsets >= first_dirty))
            keys = Spans(columns.keys.starts[keyed], columns.keys.lengths[keyed])
            taken = offsets.put(self._key_hash.of(columns.buffer, keys), columns.offsets[keyed])
            if taken < len(keyed):
                lane = int(np.searchsorted(np.cumsum(walk.counts), keyed[taken], side="right"))
                before = lasts[: walk.rows[lane]]
                before = before[before >= first_dirty]
                offsets.latest_offset = max(offsets.latest_offset, int(before.max(initial=-1)))
                return True
        if len(lasts) and lasts[-1] >= first_dirty:
            offsets.latest_offset = max(offsets.latest_offset, int(lasts[-1]))
        return False

    def _map_legacy(self, message: bytes, offsets: OffsetMap) -> bool:
        records = [
            record
            for record in read_records(message)
            if record.key is not None and record.offset >= self._plan.first_dirty_offset
        ]
        keys, buffer = joined([record.key or b"" for record in records])
        at = np.array([record.offset for record in records], np.int64)
        if offsets.put(self._key_hash.of(buffer, keys), at) < len(records):
            return True
        last_offset = read_header(message).last_offset
        if last_offset >= self._plan.first_dirty_offset:
            offsets.latest_offset = max(offsets.latest_offset, last_offset)
        return False

    # --- writing

    def _clean_group(
        self,
        group: list[SourceSegment],
        batch_filter: BatchFilter,
        kept_batches: KeptBatches,
        legacy_horizon_ms: int,
    ) -> CleanedSegment:
        """Writes the kept records of consecutive segments to one new segment."""
        plan = self._plan
        cleaned = Segment(
            self._pool,
            plan.path,
            group[0].base_offset,
            created_ms=plan.now_ms,
            sizes={},
            name_suffix=CLEANED_SUFFIX,
        )
        cleaned.create_files(0)
        for segment in group:
            retain_deletes = self._modified_ms(segment) > legacy_horizon_ms
            for piece in self._pieces(segment, Position(0)):
                if isinstance(piece, BatchHeaders):
                    self._records_read += int(piece.headers["count"].sum())
                    batch_filter.keep(piece, kept_batches)
                else:
                    batch_filter.keep_legacy(piece, retain_deletes=retain_deletes, kept_batches=kept_batches)
                self._write(cleaned, kept_batches)
        cleaned.seal()
        cleaned.flush()
        # The new file gets the modification time of the last source, which retention by time uses.
        modified_ms = self._modified_ms(group[-1])
        for handle in cleaned.files.handles():
            if self._disk.exists(handle.path):
                self._disk.set_modified_ms(handle.path, modified_ms)
        sizes = {
            LOG_SUFFIX: cleaned.size_bytes,
            INDEX_SUFFIX: cleaned.offset_index.entries.size_bytes,
            TIME_INDEX_SUFFIX: cleaned.time_index.entries.size_bytes,
        }
        if cleaned.txn_index.exists():
            sizes[TXN_INDEX_SUFFIX] = cleaned.txn_index.handle.file().size()
        cleaned.files.close()
        return CleanedSegment(tuple(segment.base_offset for segment in group), sizes)

    def _write(self, cleaned: Segment, kept_batches: KeptBatches) -> None:
        if kept_batches.buffers:
            last_offset, _timestamp_ms, _size = kept_batches.placed[-1]
            if not cleaned.fits(last_offset):
                raise CorruptRecordError(
                    f"{cleaned.log.path.removesuffix(CLEANED_SUFFIX)}: offset {last_offset} is too far from the base "
                    f"offset for an index: such a segment is split when the broker starts without a clean shutdown"
                )
            batches = b"".join(kept_batches.buffers)
            cleaned.write((batches,))
            cleaned.add(kept_batches.placed, self._plan.index_interval_bytes)
            kept_batches.buffers.clear()
            kept_batches.placed.clear()
            self._throttle.pass_on(len(batches))
        for aborted in kept_batches.aborted:
            cleaned.txn_index.append(aborted)
        kept_batches.aborted.clear()

    def _legacy_horizon_ms(self) -> int:
        """The delete horizon for tombstones in messages of the old formats, which do not store a delete horizon. The
        result is the time `delete.retention.ms` before the last write to the last clean segment. Tombstones are dropped
        from segments that were last written at or before this horizon."""
        plan = self._plan
        clean = [segment for segment in plan.segments if segment.base_offset < plan.first_dirty_offset]
        return self._modified_ms(clean[-1]) - plan.delete_retention_ms if clean else 0

    def _modified_ms(self, segment: SourceSegment) -> int:
        return self._disk.modified_ms(f"{self._plan.path}/{offset_name(segment.base_offset, LOG_SUFFIX)}")

    # --- reading

    def _pieces(self, segment: SourceSegment, position: Position) -> Iterator[BatchHeaders | bytes]:
        """Yields the batches of a segment from `position` on, many at a time. A message of an old format is yielded
        separately."""
        for chunk in self._chunks(segment, position):
            begin = 0
            for at, header in iter_batches(chunk) if _has_legacy(chunk) else ():
                if header.magic < CURRENT_MAGIC:
                    if at > begin:
                        yield read_headers(chunk[begin:at], self._plan.topic_partition)
                    begin = at + header.size_bytes
                    if not crc_is_valid(chunk, at, header):
                        raise CorruptRecordError(
                            f"the message at offset {header.base_offset} of {self._plan.topic_partition} "
                            f"(magic {header.magic}) has a wrong CRC"
                        )
                    yield chunk[at:begin]
            if begin < len(chunk):
                yield read_headers(chunk[begin:] if begin else chunk, self._plan.topic_partition)

    def _chunks(self, segment: SourceSegment, position: Position) -> Iterator[bytes]:
        """Yields chunks of whole batches. A chunk is at most as large as the buffer, unless it is a single larger
        batch."""
        path = f"{self._plan.path}/{offset_name(segment.base_offset, LOG_SUFFIX)}"
        file = self._disk.open(path)
        try:
            while position < segment.size_bytes:
                left = segment.size_bytes - position
                chunk = file.read_at(position, min(self._chunk_bytes, left))
                size, next_size = _whole_batches(chunk)
                if not size and len(chunk) < next_size <= left:
                    chunk = file.read_at(position, next_size)
                    size, next_size = _whole_batches(chunk)
                if not size:
                    raise CorruptRecordError(
                        f"{path}: no whole batch at position {position}, {left} bytes before the end"
                    )
                self._bytes_read += size
                self._throttle.pass_on(size)
                yield chunk if size == len(chunk) else chunk[:size]
                position = Position(position + size)
        finally:
            file.close()


def _whole_batches(chunk: bytes) -> tuple[int, int]:
    """The total size of the whole batches in a chunk, and the size of the incomplete batch after them. The second size
    is read from the batch's header, and is 0 if the header is incomplete too."""
    at, end = 0, len(chunk)
    while end - at > PREFIX_SIZE:
        size = int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True) + LENGTH_OVERHEAD
        if size <= LENGTH_OVERHEAD or size > end - at:
            return at, size
        at += size
    return at, 0


def _has_legacy(chunk: bytes) -> bool:
    at = 0
    while at < len(chunk):
        if chunk[at + MAGIC_POSITION] < CURRENT_MAGIC:
            return True
        at += int.from_bytes(chunk[at + 8 : at + 12], "big", signed=True) + LENGTH_OVERHEAD
    return False
