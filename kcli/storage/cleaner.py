"""Compaction: rewrites the sealed segments of a log so that only the latest value of every key is left.

One pass over one log: read the dirty part into a map of last offsets, write what is kept of everything before its
end into `.cleaned` segments, put those in place of the old ones. All of it may run in a thread while the owner
appends: it reads sealed segments only, and the exchange is made under the log's lock, if the log is still what was
read. A crash leaves either: `.cleaned` files are dropped at start-up, `.swap` files installed (`loader.finish_swaps`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kcli.errors import CorruptRecordError, KafkaError, StorageError
from kcli.protocol.batch import BatchHeader, read_header, read_records
from kcli.protocol.control import control_type_of
from kcli.storage.checkpoint import CLEANER_OFFSET_FILE, read_offsets, write_offsets
from kcli.storage.compaction import Filter, LastRecord, OffsetMap, Transactions
from kcli.storage.directory import CLUSTER_METADATA_TOPIC, LogDirectory
from kcli.storage.files import CLEANED_SUFFIX, SWAP_SUFFIX
from kcli.storage.index import MAX_RELATIVE_OFFSET
from kcli.storage.log import PartitionLog
from kcli.storage.segment import Segment
from kcli.storage.store import LogStore

logger = logging.getLogger(__name__)

WRITE_BYTES = 1 << 20
"""Kept batches are gathered up to here before they are written."""


class Bounded(NamedTuple):
    """A sealed segment, and where the next one begins."""

    segment: Segment
    end_offset: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """Which log to clean, and how far. `dirty_ratio` is the share of bytes not cleaned yet."""

    log: PartitionLog
    segments: tuple[Bounded, ...]
    cuts: int  # how often the log had been truncated
    first_dirty_offset: int
    dirty_ratio: float
    must: bool  # a record is older than max.compaction.lag.ms

    @property
    def end_offset(self) -> int:
        return self.segments[-1].end_offset


@dataclass(frozen=True, slots=True)
class CleaningResult:
    topic: str
    partition: int
    end_offset: int
    bytes_before: int
    bytes_after: int


class LogCleaner:
    """Cleans the logs of a store whose `cleanup.policy` has `compact`."""

    def __init__(
        self, store: LogStore, *, dedupe_buffer_bytes: int = 128 << 20, load_factor: float = 0.9
    ) -> None:
        """`log.cleaner.dedupe.buffer.size` and `log.cleaner.io.buffer.load.factor`: how many keys a pass may hold."""
        self._store = store
        self._dedupe_buffer_bytes = int(dedupe_buffer_bytes * load_factor)
        self._uncleanable: set[tuple[str, int]] = set()  # until restart, as in Kafka

    def clean(self, now_ms: int) -> list[CleaningResult]:
        """Passes over the logs that need it, the dirtiest first, until none does. Blocks; call it in a thread."""
        results = []
        while (plan := self._dirtiest(now_ms)) is not None:
            result = self._try(plan, now_ms)
            if result is None:
                break  # it failed, or was changed under our hands: another time
            results.append(result)
        return results

    def _dirtiest(self, now_ms: int) -> CleaningPlan | None:
        plans = []
        for log in self._compacted():
            try:
                plan = self._plan(log, now_ms)
            except OSError as error:
                log.directory.failed(error)
            except StorageError as error:
                logger.info("%s is not compacted: %s", log.path, error)
            else:
                if plan is not None:
                    plans.append(plan)
        return max(plans, key=lambda plan: (plan.must, plan.dirty_ratio), default=None)

    def _try(self, plan: CleaningPlan, now_ms: int) -> CleaningResult | None:
        log = plan.log
        try:
            return self._clean(plan, now_ms)
        except (KafkaError, CorruptRecordError) as error:
            logger.error("%s cannot be compacted and is left alone until restart: %s", log.path, error)
            self._uncleanable.add((log.topic, log.partition))
        except StorageError as error:
            logger.info("%s is not compacted: %s", log.path, error)
        except OSError as error:
            if all(not each.segment.deleted for each in plan.segments):
                log.directory.failed(error)
        return None

    def _compacted(self) -> Iterable[PartitionLog]:
        for key, log in list(self._store.logs.items()):
            usable = log.directory.error is None and log.topic != CLUSTER_METADATA_TOPIC
            if usable and log.config.compact and key not in self._uncleanable:
                yield log

    def _plan(self, log: PartitionLog, now_ms: int) -> CleaningPlan | None:
        """What there is to clean, if it is worth it. Whole segments, below what is undecided or too young."""
        cuts, segments = log.cuts, log.segments
        bounded = [Bounded(each, following.base_offset) for each, following in pairwise(segments)]
        limit = self._first_uncleanable_offset(log, bounded, now_ms)
        bounded = [each for each in bounded if each.end_offset <= limit]
        first_dirty = self._first_dirty_offset(log)
        dirty = [
            each.segment for each in bounded if each.end_offset > first_dirty and each.segment.size_bytes
        ]
        if not dirty:
            return None
        dirty_bytes = sum(segment.size_bytes for segment in dirty)
        ratio = dirty_bytes / sum(each.segment.size_bytes for each in bounded)
        oldest_ms = min((at for each in dirty if (at := each.first_timestamp_ms()) >= 0), default=now_ms)
        must = now_ms - oldest_ms > log.config.max_compaction_lag_ms
        if not must and ratio <= log.config.min_cleanable_dirty_ratio:
            return None
        return CleaningPlan(log, tuple(bounded), cuts, first_dirty, ratio, must)

    def _first_uncleanable_offset(self, log: PartitionLog, bounded: Sequence[Bounded], now_ms: int) -> int:
        lag_ms = log.config.min_compaction_lag_ms
        if lag_ms > 0:
            for segment, _end in bounded:
                if segment.largest_timestamp_ms() > now_ms - lag_ms:
                    return min(log.last_stable_offset, segment.base_offset)
        return log.last_stable_offset

    # --- one pass

    def _clean(self, plan: CleaningPlan, now_ms: int) -> CleaningResult | None:
        log = plan.log
        offsets = self._read_offsets(plan)
        end_offset = offsets.latest_offset + 1
        if end_offset <= plan.first_dirty_offset:
            raise KafkaError(
                f"the keys of one batch need more than {self._dedupe_buffer_bytes} bytes of memory"
            )
        old = [each for each in plan.segments if each.segment.base_offset < end_offset]
        batch_filter = Filter(
            offsets, Transactions(), _last_records(log), now_ms, log.config.delete_retention_ms
        )
        before, after = sum(each.segment.size_bytes for each in old), 0
        for group in _groups(old, log):
            cleaned = self._write_cleaned(log, group, batch_filter, now_ms)
            after += cleaned.size_bytes
            if not install(plan, [each.segment for each in group], cleaned):
                return None
        self._note_cleaned(log, end_offset)
        return CleaningResult(log.topic, log.partition, end_offset, before, after)

    def _read_offsets(self, plan: CleaningPlan) -> OffsetMap:
        """The last offset of every key in the dirty part, or in as much of it as there is room for."""
        first_dirty, offsets, transactions = (
            plan.first_dirty_offset,
            OffsetMap(self._dedupe_buffer_bytes),
            Transactions(),
        )
        transactions.expect(plan.log.aborted_transactions(first_dirty, plan.end_offset))
        for segment, end_offset in plan.segments:
            if end_offset <= first_dirty:
                continue
            for header, batch in _batches(segment):
                if header.last_offset < first_dirty:
                    continue
                if header.is_control:
                    transactions.end(header, _control_type(batch))
                elif not transactions.is_aborted(header) and not _put_all(offsets, batch, first_dirty):
                    return offsets
                offsets.latest_offset = header.last_offset
            offsets.latest_offset = max(offsets.latest_offset, end_offset - 1)
        return offsets

    def _write_cleaned(
        self, log: PartitionLog, group: Sequence[Bounded], batch_filter: Filter, now_ms: int
    ) -> Segment:
        """What is kept of a group, in one new segment; on the device when this returns."""
        first, last = group[0].segment, group[-1].segment
        cleaned = Segment(
            log.directory.pool,
            log.path,
            first.base_offset,
            created_ms=now_ms,
            sizes={},
            name_suffix=CLEANED_SUFFIX,
        )
        cleaned.create_files(0)
        writer = SegmentWriter(cleaned, log.config.index_interval_bytes)
        for segment, end_offset in group:
            batch_filter.transactions.expect(log.aborted_transactions(segment.base_offset, end_offset))
            for header, batch in _batches(segment):
                kept, aborted = batch_filter.keep(header, batch)
                if kept:
                    writer.add(kept)
                    if aborted is not None:
                        cleaned.txn_index.append(aborted)
        writer.write()
        cleaned.seal()
        cleaned.flush()
        # Retention by time goes on counting from when the records came.
        cleaned.disk.set_modified_ms(cleaned.log.path, cleaned.disk.modified_ms(last.log.path))
        return cleaned

    # --- how far it was cleaned

    def _first_dirty_offset(self, log: PartitionLog) -> int:
        cleaned = self._checkpoint(log.directory).get((log.topic, log.partition), log.log_start_offset)
        return cleaned if log.log_start_offset <= cleaned <= log.log_end_offset else log.log_start_offset

    def _checkpoint(self, directory: LogDirectory) -> dict[tuple[str, int], int]:
        try:
            return read_offsets(directory.disk, f"{directory.path}/{CLEANER_OFFSET_FILE}")
        except CorruptRecordError as error:
            logger.warning("%s: every log is taken to be dirty", error)
            return {}

    def _note_cleaned(self, log: PartitionLog, end_offset: int) -> None:
        directory = log.directory
        with directory.checkpointing:
            offsets = self._checkpoint(directory)
            offsets[(log.topic, log.partition)] = end_offset
            write_offsets(directory.disk, f"{directory.path}/{CLEANER_OFFSET_FILE}", offsets)


class SegmentWriter:
    """Gathers batches and writes them in large pieces."""

    def __init__(self, segment: Segment, index_interval_bytes: int) -> None:
        self._segment = segment
        self._index_interval_bytes = index_interval_bytes
        self._batches: list[bytes] = []
        self._placed: list[tuple[int, int, int]] = []
        self._size_bytes = 0

    def add(self, batch: bytes) -> None:
        header = read_header(batch)
        self._batches.append(batch)
        self._placed.append((header.last_offset, header.max_timestamp_ms, len(batch)))
        self._size_bytes += len(batch)
        if self._size_bytes >= WRITE_BYTES:
            self.write()

    def write(self) -> None:
        if self._batches:
            self._segment.append(self._placed, [b"".join(self._batches)], self._index_interval_bytes)
            self._batches.clear()
            self._placed.clear()
            self._size_bytes = 0


def install(plan: CleaningPlan, old: Sequence[Segment], cleaned: Segment) -> bool:
    """Puts a cleaned segment in the place of those it was made of; False when the log has changed meanwhile."""
    log = plan.log
    with log.exchange:
        changed = log.cuts != plan.cuts or any(segment.deleted for segment in old)
        if changed or log.directory.error is not None:
            for handle in cleaned.handles():
                if cleaned.disk.exists(handle.path):
                    cleaned.disk.remove(handle.path)
            return False
        cleaned.rename_suffix(CLEANED_SUFFIX, SWAP_SUFFIX)
        log.replace_segments(old, cleaned)
        cleaned.rename_suffix(SWAP_SUFFIX, "")
    cleaned.disk.sync_dir(log.path)
    return True


def _put_all(offsets: OffsetMap, batch: bytes, first_dirty_offset: int) -> bool:
    """Notes the keys of a batch; False when they do not all fit any more."""
    for record in read_records(batch):
        if record.key is not None and record.offset >= first_dirty_offset:
            if not offsets.put(record.key, record.offset):
                return False
            offsets.latest_offset = record.offset
    return True


def _control_type(batch: bytes) -> int | None:
    control = next(iter(read_records(batch)), None)
    return None if control is None else control_type_of(control.key)


def _groups(segments: Sequence[Bounded], log: PartitionLog) -> list[list[Bounded]]:
    """Runs of segments that fit into one, whatever is kept of them."""
    groups: list[list[Bounded]] = []
    for each in segments:
        if groups and _fits([*groups[-1], each], log):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _fits(together: Sequence[Bounded], log: PartitionLog) -> bool:
    segments = [each.segment for each in together]
    config = log.config
    return (
        sum(each.size_bytes for each in segments) <= config.segment_size_bytes
        and sum(each.offset_index.entries.size_bytes for each in segments) <= config.segment_index_bytes
        and sum(each.time_index.entries.size_bytes for each in segments) <= config.segment_index_bytes
        and together[-1].end_offset - 1 - segments[0].base_offset <= MAX_RELATIVE_OFFSET
    )


def _batches(segment: Segment) -> Iterable[tuple[BatchHeader, bytes]]:
    file = segment.log.file()
    for position, header in segment.headers():
        yield header, file.read_at(position, header.size_bytes)


def _last_records(log: PartitionLog) -> dict[int, LastRecord]:
    return {
        entry.producer_id: LastRecord(entry.last_data_offset if entry.batches else None, entry.epoch)
        for entry in log.active_producers()
    }
