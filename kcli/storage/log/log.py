"""The log of a partition: its segments, producers and leader epochs, and its first and last offsets.

One task owns a log. Only this task calls `append`, `truncate_to` and the other methods that change the log. `flush`,
and reads of the bytes of a `LogSlice`, may run in other threads at the same time. The offsets have this order: log
start ≤ last stable ≤ high watermark ≤ log end.

This file is long because a log has many operations. Validation, retention, replay, snapshots, loading and compaction
are in other files.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kcli.config.topic import LogConfig
from kcli.errors import (
    InvalidRecordException,
    OffsetOutOfRangeException,
    RecordBatchTooLargeException,
    StorageError,
)
from kcli.model.buffers import Buffer
from kcli.model.ids import (
    NO_LEADER_EPOCH,
    LeaderEpoch,
    Offset,
    Position,
)
from kcli.protocol.batches.batch import BatchHeader
from kcli.runtime.disk import File, begin_replacing, end_replacing
from kcli.storage.checkpoint import PARTITION_METADATA_FILE, encode_partition_metadata
from kcli.storage.directory import LogDirectory, on_disk
from kcli.storage.leader_epochs import LeaderEpochCache
from kcli.storage.log import lookup
from kcli.storage.log.lookup import Search, segments_from, whole_batches
from kcli.storage.log.producer_entries import ProducerEntry
from kcli.storage.log.producer_state import ProducerState, Verification, read_marker
from kcli.storage.log.record_validation import InlineBytes, Validation
from kcli.storage.log.replay import ProducerRestoration, replay
from kcli.storage.log.replicated import check_run, read_run
from kcli.storage.log.retention import deletable_count
from kcli.storage.log.segment import Segment
from kcli.storage.log.slice import LogSlice
from kcli.storage.log.snapshots import ProducerSnapshots
from kcli.storage.log.transaction_index import AbortedTransaction
from kcli.storage.log.validation import (
    CheckedBatch,
    PlacedBatch,
    UnopenedBatch,
    check_client_batch,
    place,
    split_batches,
)

__all__ = ["AppendResult", "LogSlice", "PartitionLog"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The offsets of the appended batches. `log_append_time_ms` is −1 on a CreateTime topic.

    A duplicate batch is not written. The result then has the offsets of the original batch. As in Kafka,
    `log_append_time_ms` is then the largest timestamp of the original batch, also on a CreateTime topic.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    size_bytes: int
    duplicate: bool = False

    @property
    def next_offset(self) -> Offset:
        return Offset(self.last_offset + 1)


class PartitionLog:
    """The log of one partition, made by `loader.load_log` or `loader.create_log`."""

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        *,
        segments: list[Segment],
        leader_epochs: LeaderEpochCache,
        producers: ProducerState,
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
        file_names: Iterable[str],
        now_ms: Callable[[], int],
        random_below: Callable[[int], int],
        validation: Validation = Validation.ALL,
    ) -> None:
        self.directory = directory
        directory.opened()
        self.path = path
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.validation = validation
        self.segments = segments
        self.leader_epochs = leader_epochs
        self._producers: ProducerState | None = producers  # None after a truncation, until they are restored
        self._producer_expiration_ms = producers.expiration_ms
        self._producer_ids = producers.ids
        self.snapshots = ProducerSnapshots(directory.pool, path, file_names)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.is_settled = (
            True  # the directory entry of the log is durable; False for a new log until `settle`
        )
        self.high_watermark = log_start_offset
        self.last_flush_ms = now_ms()
        # The owner of the log, or the cleaner's thread, holds this lock while it changes the list of segments.
        self.segments_lock = threading.RLock()
        self.truncations = 0  # the number of truncations so far
        self._durable_truncations = 0
        self._now_ms = now_ms
        self._random_below = random_below
        self._topic_partition = f"{topic}-{partition}"
        # The newest epoch with records. The checkpoint has this epoch, or a background job will write it.
        self._noted_epoch: LeaderEpoch = NO_LEADER_EPOCH
        segments[-1].roll_jitter_ms = self._jitter_ms()

    def __repr__(self) -> str:
        return f"PartitionLog({self.path}, {self.log_start_offset}..{self.log_end_offset})"

    # --- bounds

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def last_stable_offset(self) -> Offset:
        """The offset up to which a read_committed consumer reads. Every transaction that has records before this offset
        has ended."""
        unstable = self.producers.first_unstable_offset()
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def set_high_watermark(self, offset: Offset) -> None:
        """Moves the high watermark forward to `offset`, but at most to the log end. The high watermark never moves
        back."""
        offset = min(offset, self.log_end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            if self._producers is not None:  # otherwise their restoration uses the high watermark
                self._producers.on_high_watermark(offset)

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    # --- append

    def append(
        self,
        records: Buffer,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        transaction_version: int = 0,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Writes batches that a coordinator or the quorum has made. Their records are not checked, in contrast to the
        batches of clients (`append_checked`) and of leaders (`replicate`). Raises KafkaError if the producer of a batch
        may not write, and StorageError if the disk fails.

        If `records` is writable, this method may change it in place. `transaction_version` selects the rules for the
        epoch of a commit or abort marker. A transactional batch is checked against `verification`, unless
        `verification` is None.
        """
        self.directory.check()
        batches = []
        next_offset = self.log_end_offset
        for header, batch in split_batches(records):
            if header.is_control and header.has_producer_id and (marker := read_marker(batch)) is not None:
                self.producers.check_marker(header, marker, transaction_version)
            elif header.is_transactional:
                self.producers.check_epoch(header)
                if verification is not None:
                    self.producers.check_verified(header, verification)
            placed = place(batch, header, self.config, next_offset, leader_epoch, now_ms)
            batches.append(placed)
            next_offset = Offset(next_offset + placed.header.last_offset_delta + 1)
        if not batches:
            raise InvalidRecordException(f"Append to {self._topic_partition} holds no record batch")
        return self._write(batches, leader_epoch, now_ms)

    def check_client_batch(
        self, records: Buffer, now_ms: int, inline: InlineBytes | None = None
    ) -> CheckedBatch | UnopenedBatch:
        """Checks a client's batch before `append_checked`. If a check of the records would take long, or if no bytes of
        `inline` are left, returns an UnopenedBatch. Raises KafkaError if the batch is invalid."""
        return check_client_batch(
            records, self.config, now_ms, self._topic_partition, self.validation, inline
        )

    def append_checked(
        self,
        checked: CheckedBatch,
        *,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        verification: Verification | None = None,
    ) -> AppendResult:
        """Checks the producer of a client's batch, and writes the batch. The producer is checked only now, because
        earlier batches of this producer may have been written after `check_client_batch`. Raises KafkaError and
        StorageError like `append`."""
        self.directory.check()
        records, header, found = checked
        if header.producer_id >= 0:
            written = self.producers.duplicate_of(header)
            if written is not None:
                return AppendResult(
                    written.first_offset,
                    written.last_offset,
                    written.timestamp_ms,
                    self.log_start_offset,
                    0,
                    duplicate=True,
                )
            if verification is not None and header.is_transactional:
                self.producers.check_verified(header, verification)
            self.producers.check(header)
        placed = place(records, header, self.config, self.log_end_offset, leader_epoch, now_ms, found)
        return self._write((placed,), leader_epoch, now_ms)

    def replicate(
        self, records: Buffer, *, leader_epoch: LeaderEpoch, now_ms: int
    ) -> Generator[AppendResult, None, None]:
        """Appends batches of the leader's log, which keep their offsets and epochs. This method is a generator: each
        step checks at most STEP_BYTES or STEP_BATCHES, and appends the checked batches with one write.

        `leader_epoch` is the epoch in which the records were fetched. Batches of a newer epoch are not appended (−1: no
        limit). An incomplete batch at the end is skipped. Raises KafkaError for invalid batches, StorageError if the
        disk fails.
        """
        position = 0
        while True:
            self.directory.check()
            run = read_run(
                records,
                position,
                leader_epoch=leader_epoch,
                run_max_bytes=self.config.segment_size_bytes,
                topic_partition=self._topic_partition,
            )
            if not run.batches:
                return
            self._check_begins_at_end(run.batches[0].header)
            check_run(records, run, self.log_end_offset, self._topic_partition)
            yield self._write(run.batches, None, now_ms, memoryview(records)[position : run.end])
            position = run.end

    def _check_begins_at_end(self, first: BatchHeader) -> None:
        """Raises InvalidRecordException if the leader's batch begins before the log end. In an empty log, the log end
        may be inside the batch, because the leader's log start offset is inside the batch. Then the log end moves back
        to the first offset of the batch."""
        if first.base_offset >= self.log_end_offset:
            return
        if self.size_bytes or first.last_offset < self.log_end_offset:
            raise InvalidRecordException(
                f"Append to {self._topic_partition} at offset {first.base_offset}, expected {self.log_end_offset} "
                f"or more"
            )
        self.truncate_fully_and_start_at(first.base_offset)

    def _write(
        self,
        batches: Sequence[PlacedBatch],
        leader_epoch: LeaderEpoch | None,
        now_ms: int,
        run: Buffer | None = None,
    ) -> AppendResult:
        """Appends the batches. Every append ends with this method. If `leader_epoch` is None, each batch keeps its own
        epoch. `run` is the part of a buffer with all batches, if they are one after another in one buffer."""
        if len(batches) == 1:
            first = last = batches[0]
            size, buffers = first.size_bytes, first.buffers
            newest_ms = first.header.max_timestamp_ms
        else:
            first, last = batches[0], batches[-1]
            size = sum([batch.size_bytes for batch in batches]) if run is None else len(run)
            buffers = (
                tuple(buffer for batch in batches for buffer in batch.buffers) if run is None else (run,)
            )
            newest_ms = max([batch.header.max_timestamp_ms for batch in batches])
        if size > self.config.segment_size_bytes:
            raise RecordBatchTooLargeException(
                f"The append to {self._topic_partition} of {size} bytes exceeds the segment size of "
                f"{self.config.segment_size_bytes} bytes"
            )
        last_offset = Offset(last.base_offset + last.header.last_offset_delta)
        assert last_offset >= self.log_end_offset, "offsets never go back"
        producers = self.producers  # before the write, because this may read the log
        has_begun = False
        try:
            if leader_epoch is None:
                self._assign_own_epochs(batches)
            elif leader_epoch != self._noted_epoch:
                self.leader_epochs.assign(leader_epoch, first.base_offset)
                self._noted_epoch = leader_epoch
                self._flush_epochs_soon()
            segment = self._segment_for(first.base_offset, last_offset, size, newest_ms, now_ms)
            watch = self.directory.appends
            began = 0.0 if watch is None else watch.now()
            if _may_abort(producers, batches):
                segment.txn_index.prepare()
            segment.write(buffers)
            has_begun = True
            segment.add(
                [(last_offset, newest_ms, size)] if first is last else [batch.placed for batch in batches],
                self.config.index_interval_bytes,
            )
            if watch is not None:
                watch.add(watch.now() - began)
            for batch in batches:
                if batch.header.producer_id >= 0:
                    _note_producer(producers, batch, segment)
        except OSError as error:
            raise self.directory.failed(error, half_done=has_begun) from error
        self.log_end_offset = producers.end_offset = Offset(last_offset + 1)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return AppendResult(
            first.base_offset, last_offset, first.log_append_time_ms, self.log_start_offset, size
        )

    def _assign_own_epochs(self, batches: Sequence[PlacedBatch]) -> None:
        for batch in batches:
            epoch = batch.header.partition_leader_epoch
            if batch.header.magic < 2:
                self.leader_epochs.clear()  # messages of the old formats have no epochs
            elif epoch >= 0 and epoch != self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(epoch, batch.base_offset)
        self._flush_epochs_soon()

    def _flush_epochs_soon(self) -> None:
        if self.leader_epochs.is_dirty:
            self.directory.epochs.soon(self)

    # --- rolling

    def _segment_for(
        self, first_offset: Offset, last_offset: Offset, size: int, newest_ms: int, now_ms: int
    ) -> Segment:
        """The segment for an append: the active segment, or a new segment if the active segment is full or too old."""
        segment, config = self.segments[-1], self.config
        if (
            segment.size_bytes > config.segment_size_bytes - size
            or (segment.size_bytes and segment.waited_ms(newest_ms, now_ms) > self._segment_ms(segment))
            or segment.indexes_are_full(config.segment_index_bytes)
            or not segment.fits(last_offset)
        ):
            self._roll(first_offset, now_ms)
            return self.segments[-1]
        return segment

    def _segment_ms(self, segment: Segment) -> int:
        config = self.config
        segment_ms = (
            min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
        )
        return segment_ms - segment.roll_jitter_ms

    def _jitter_ms(self) -> int:
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._random_below(limit) if limit > 0 else 0

    @on_disk
    def roll(self) -> Segment:
        """Begins a new segment at the log end."""
        self._roll(self.log_end_offset, self._now_ms())
        return self.segments[-1]

    def _roll(self, base_offset: Offset, now_ms: int) -> None:
        sealed = self.segments[-1]
        with self.segments_lock:
            self._roll_alone(base_offset, now_ms)
        if self.recovery_point < base_offset:
            self.directory.background(lambda: self._flush_in_background(base_offset))
        elif sealed.base_offset < base_offset:
            self._sync_roll(sealed, base_offset)

    def _sync_roll(self, sealed: Segment, base_offset: Offset) -> None:
        """Flushes the indexes and the producer snapshot that a roll has written. Called if the records are flushed
        already. A start after a crash then reads only the new segment, so these files must be complete."""
        if self.snapshots.is_unwritten(base_offset):
            # The next start reads the older batches again if this snapshot is missing.
            self.directory.background(lambda: self._sync_snapshot_in_background(base_offset))
        else:
            self.snapshots.sync(base_offset)
        sealed.flush_indexes()
        self.directory.disk.sync_dir(self.path)

    def _sync_snapshot_in_background(self, base_offset: Offset) -> None:
        try:
            self.snapshots.sync(base_offset)
            self.directory.disk.sync_dir(self.path)
        except OSError as error:
            self.directory.failed(error)

    def _roll_alone(self, base_offset: Offset, now_ms: int) -> None:
        active = self.segments[-1]
        assert base_offset >= self.log_end_offset, "a segment begins at or past the log end"
        is_replaced = active.base_offset == base_offset
        producers = self.producers
        if is_replaced:
            assert not active.size_bytes, "two segments cannot begin at one offset"
            active.close()
        else:
            active.seal()
        made = self._made_segment(base_offset, now_ms)
        # Changed last, because a shortage of descriptors may end the roll earlier. The log is then as before.
        if is_replaced:
            self.segments.pop()
        else:
            producers.end_offset = base_offset
            try:
                self.snapshots.write_soon(producers)
            except OSError:
                made.remove_files()
                raise
        self.segments.append(made)

    def _made_segment(self, base_offset: Offset, now_ms: int) -> Segment:
        segment = Segment(self.directory.pool, self.path, base_offset, created_ms=now_ms, sizes={})
        try:
            segment.create_files(self.config.segment_size_bytes if self.config.preallocate else 0)
        except OSError:
            # An empty segment between the others would hide the later records of the segment before it.
            if all(each.base_offset != base_offset for each in self.segments):
                segment.remove_files()
            raise
        segment.roll_jitter_ms = self._jitter_ms()
        return segment

    # --- read

    def read(
        self, offset: Offset, max_bytes: int, *, end_offset: Offset, at_least_one: bool = True
    ) -> LogSlice:
        """Reads whole batches of one segment, from the batch with `offset` up to `end_offset`. All batches together
        have at most `max_bytes`.

        If `at_least_one` is True, the first batch is included even if it is larger than `max_bytes`.
        """
        directory = self.directory
        directory.check()
        log_end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRangeException(
                f"Received request for offset {offset} for partition {self._topic_partition}, but we only have log "
                f"segments from offset {self.log_start_offset} up to {log_end_offset}."
            )
        try:
            limit = end_offset if end_offset < log_end_offset else None
            for segment in segments_from(self.segments, offset) if offset < end_offset else ():
                found = whole_batches(segment, offset, max_bytes, end_offset=limit, at_least_one=at_least_one)
                if found is not None:
                    start, end = found
                    return LogSlice(start, end - start, segment.log.file(), directory)
            return LogSlice(Position(0), 0, self.segments[-1].log.file(), directory)
        except OSError as error:
            raise directory.failed(error) from error

    def search_timestamp(self, timestamp_ms: int) -> Search:
        """Searches for the first record at or after the timestamp, in steps. Raises StorageError."""
        return self._search(lookup.search_timestamp(self.segments, timestamp_ms, self.log_start_offset))

    def search_max_timestamp(self) -> Search:
        """Searches for the first record with the largest timestamp, in steps. Raises StorageError."""
        return self._search(lookup.search_max_timestamp(self.segments, self.log_start_offset))

    def _search(self, search: Search) -> Search:
        self.directory.check()
        try:
            return (yield from search)
        except OSError as error:
            raise self.directory.failed(error) from error

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        return self.leader_epochs.epoch_for_offset(offset)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, Offset]:
        """The largest known epoch that is at most `epoch`, and the end offset of this epoch. (−1, −1) if no known epoch
        is at or after `epoch`.
        """
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @on_disk
    def append_leader_epoch(self, epoch: LeaderEpoch) -> None:
        """Adds the epoch of a new leader, which begins at the log end. Call this method before the first append in this
        epoch.

        The checkpoint is written at the first append in the epoch or at the next flush. If the checkpoint were written
        now, a broker that begins to lead thousands of partitions would write thousands of files at the same time. A
        crash before the write loses nothing, because a start drops epochs without records.
        """
        self.leader_epochs.assign(epoch, self.log_end_offset)

    @on_disk
    def aborted_transactions(self, from_offset: Offset, upper_offset: Offset) -> list[AbortedTransaction]:
        return lookup.aborted_transactions(self.segments, from_offset, upper_offset)

    @on_disk
    def has_aborted_transactions(self, from_offset: Offset) -> bool:
        return lookup.has_aborted_transactions(self.segments, from_offset)

    @on_disk
    def upper_bound_offset(self, offset: Offset, size_bytes: int) -> Offset:
        return lookup.upper_bound_offset(self.segments, offset, size_bytes, self.log_end_offset)

    def active_producers(self) -> Iterator[ProducerEntry]:
        """The producers at the time of the call. The iterator may be used later, and in another thread."""
        return self.producers.entries()

    def remove_expired_producers(self, now_ms: int) -> Generator[None, None, int]:
        """Drops the producers that were idle for longer than `producer.id.expiration.ms`, in steps. Returns their
        number."""
        return self.producers.remove_expired(now_ms)

    # --- cutting

    @on_disk
    def delete_records_before(self, offset: Offset) -> Offset:
        """Moves the log start offset forward to `offset` (−1: to the high watermark). Returns the log start offset. The
        next retention removes segments that end before this offset."""
        if offset == -1:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRangeException(
                f"Cannot delete records of {self._topic_partition} before offset {offset}: "
                f"the high watermark is {self.high_watermark}"
            )
        if offset > self.log_start_offset:
            self._move_log_start(offset)
        return self.log_start_offset

    def _move_log_start(self, offset: Offset) -> None:
        self.log_start_offset = offset
        self.leader_epochs.truncate_start(offset)
        self._flush_epochs_soon()

    @on_disk
    def truncate_to(self, offset: Offset) -> None:
        """Drops all records from `offset` on. If the log has no such records, only drops a leader epoch without
        records.

        The producers are restored at their next use, or earlier by `begin_restoring_producers`.
        """
        if offset >= self.log_end_offset:
            # This broker may have led in an epoch without writing a record, and another leader began its epoch at the
            # same offset.
            self.leader_epochs.truncate_end(self.log_end_offset)
            self._noted_epoch = NO_LEADER_EPOCH
            self._flush_epochs_soon()
            return
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        with self.segments_lock:
            later = [each for each in reversed(self.segments) if each.base_offset > offset]
            self.segments[-1 - len(later)].open_files()
            with self.directory.changing():
                # The newest segment is removed first, so that a failure in between leaves no hole in the log.
                self.drop_segments(later)
                self.segments[-1].truncate_to(offset)
                self.log_end_offset = offset
                self.log_start_offset = min(self.log_start_offset, offset)
                self._after_cut()

    @on_disk
    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Empties the log. The next record will have the offset `offset`."""
        with self.segments_lock:
            now_ms, made = self._now_ms(), None
            if offset > self.log_end_offset or offset < self.segments[0].base_offset:
                # Made first if no other segment has this offset, so that a shortage changes nothing.
                made = self._made_segment(offset, now_ms)
            with self.directory.changing():
                self.drop_segments(list(reversed(self.segments)))
                self.segments.append(made or self._made_segment(offset, now_ms))
                self.log_start_offset = self.log_end_offset = offset
                self.leader_epochs.clear()
                self.snapshots.remove_all()
                self._after_cut()

    def _after_cut(self) -> None:
        self.truncations += 1
        end = self.log_end_offset
        self.leader_epochs.truncate_end(end)
        self._noted_epoch = NO_LEADER_EPOCH
        self._flush_epochs_soon()
        self.high_watermark = min(max(self.high_watermark, self.log_start_offset), end)
        self.recovery_point = min(self.recovery_point, end)
        self._producers = None
        self.snapshots.remove_outside(self.log_start_offset, end)

    @on_disk
    def sync_cut(self) -> None:
        """Makes a truncation durable. Without this sync, dropped segments could exist again after a power failure, with
        records that follow newer records. May block. May be called in any thread."""
        self._unless_gone(self._sync_cut)

    @property
    def has_unsynced_cut(self) -> bool:
        """Whether a truncation, or the recovery point after it, may not be durable yet. While this is True, do not
        append."""
        return self._durable_truncations < self.truncations

    def note_durable_cuts(self, truncations: int) -> None:
        """Notes that the first `truncations` truncations are durable. The caller must have made the recovery point
        after these truncations durable too.
        """
        self._durable_truncations = max(self._durable_truncations, truncations)

    def _sync_cut(self) -> None:
        with self.segments_lock:
            active = self.segments[-1]
        active.flush()  # the file may have become shorter
        self.directory.disk.sync_dir(self.path)

    @on_disk
    def delete_old_segments(self, now_ms: int) -> int:
        """Removes old segments by log start offset, then by size, then by time (retention). Returns the number of
        removed segments."""
        with self.segments_lock:
            return self._delete_old_segments(now_ms)

    def _delete_old_segments(self, now_ms: int) -> int:
        deletable = deletable_count(
            self.segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )
        if not deletable:
            return 0
        if deletable == len(self.segments):
            self._roll(self.log_end_offset, now_ms)
        # The snapshots of the segments are dropped too. A later one must be on the disk, or a kill loses the producers.
        self.snapshots.write_waiting()
        next_base = self.segments[deletable].base_offset
        self.drop_segments(self.segments[:deletable])
        if self.log_start_offset < next_base:
            self._move_log_start(next_base)
        return deletable

    def drop_segments(self, segments: Sequence[Segment]) -> None:
        """Removes segments and their snapshots from the log. The files are removed after file.delete.delay.ms."""
        with self.segments_lock, self.directory.changing():
            gone = set(segments)
            self.segments = [segment for segment in self.segments if segment not in gone]
            for segment in segments:
                self._set_aside(segment, self.snapshots.rename_deleted(segment.base_offset))

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Replaces consecutive segments by the compacted segment that was made from them."""
        with self.segments_lock, self.directory.changing():
            at = self.segments.index(old[0])
            assert self.segments[at : at + len(old)] == list(old), "they stand in a row"
            self.segments = [*self.segments[:at], cleaned, *self.segments[at + len(old) :]]
            for segment in old:
                kept = segment.base_offset == cleaned.base_offset
                self._set_aside(segment, [] if kept else self.snapshots.rename_deleted(segment.base_offset))

    def _set_aside(self, segment: Segment, paths: list[str]) -> None:
        paths += segment.rename_deleted()
        segment.close()
        self.directory.deletions.add(paths, self.config.file_delete_delay_ms)

    # --- durability

    def flush(self, up_to: Offset | None = None) -> None:
        """Flushes the log, so that every record before `up_to` survives a power failure. `up_to` is by default the log
        end. May block."""
        end = self.log_end_offset if up_to is None else up_to
        if end > self.recovery_point:
            began_ms = self._now_ms()
            self._flush(end)
            self.directory.flushes_ms.add(max(self._now_ms() - began_ms, 0))

    def settle(self) -> None:
        """Makes the file names and the topic id of a new log durable. May block. May be called in any thread."""
        directory = self.directory
        if not self.is_settled:
            with directory.settling:
                self.end_settling(self.begin_settling())
            self._sync_name()

    @on_disk
    def begin_settling(self) -> File | None:
        """Writes the topic id of a new log, which `end_settling` then syncs. Returns None if nothing must be written.

        The caller must hold the lock `directory.settling`.
        """
        if self.topic_id is None or self.is_settled:
            return None
        content = encode_partition_metadata(self.topic_id)
        return self._unless_gone(lambda: begin_replacing(self.directory.disk, self._metadata_path, content))

    @on_disk
    def end_settling(self, topic_id: File | None, *, together: bool = False) -> None:
        """Syncs the topic id and the file names in the log's directory. The caller syncs the name of this directory,
        because one sync may include the directories of many logs.

        If `together` is True, the topic id is already on the device, and the caller later syncs the names of all logs.
        """
        disk = self.directory.disk

        def sync() -> None:
            if topic_id is not None:
                end_replacing(disk, self._metadata_path, topic_id, sync=not together)
            if not together:
                disk.sync_dir(self.path)

        self._unless_gone(sync)

    @property
    def _metadata_path(self) -> str:
        return f"{self.path}/{PARTITION_METADATA_FILE}"

    def _unless_gone(self, work: Callable[[], T]) -> T | None:
        """Runs `work` and returns its result. Returns None if `work` finds no file because another thread has closed
        the log and renamed its directory.
        """
        directory = self.directory
        try:
            return work()
        except FileNotFoundError:
            if directory is self.directory:
                raise
            return None

    @on_disk
    def _sync_name(self) -> None:
        self.directory.disk.sync_dir(self.directory.path)
        self.is_settled = True

    @on_disk
    def _flush(self, end: Offset) -> None:
        self.settle()
        truncations, recovery_point = self.truncations, self.recovery_point
        segments = [
            segment for segment in segments_from(self.segments, recovery_point) if segment.base_offset < end
        ]
        for segment in segments:
            try:
                if not segment.deleted:
                    segment.flush()
            except FileNotFoundError:
                if not segment.deleted:  # deleted meanwhile: nothing is left to flush
                    raise
        if not segments or segments[-1].base_offset >= recovery_point:
            self.directory.disk.sync_dir(self.path)  # a new segment's names
        self.leader_epochs.flush()
        with self.segments_lock:  # a truncation holds it too
            if self.truncations == truncations:  # otherwise flushed records may have been replaced
                self.recovery_point = max(self.recovery_point, min(end, self.log_end_offset))
        self.last_flush_ms = self._now_ms()

    def _flush_in_background(self, base_offset: Offset) -> None:
        try:
            self.snapshots.sync(base_offset)
            self.flush(base_offset)
        except (OSError, StorageError) as error:
            self.directory.failed(error)

    @on_disk
    def write_out(self) -> None:
        """Writes the producer snapshot and the last index entries for a clean close, without a sync. If many logs are
        closed, call this method for all logs before the first sync. Then the first syncs write many files to the device
        together."""
        self.write_snapshot()
        active = self.segments[-1]
        if not active.is_sealed:
            active.seal()
            # Even if all records are flushed, the last index entries are not.
            self.recovery_point = min(self.recovery_point, active.base_offset)

    @property
    def is_flushed(self) -> bool:
        """Whether `flush_all` has nothing to do."""
        end = self.log_end_offset
        return self.is_settled and self.recovery_point >= end and self.leader_epochs.is_flushed(end)

    @on_disk
    def flush_all(self) -> None:
        """Makes all files of the log durable, as Kafka does at a clean stop. Call `write_out` before this method."""
        self.settle()
        self.flush()
        self.leader_epochs.flush(self.log_end_offset)

    def note_synced(self) -> None:
        """Notes that the log is flushed. The caller has called `write_out`, and then has synced the whole file
        system.
        """
        self.recovery_point = self.log_end_offset
        self.last_flush_ms = self._now_ms()

    @on_disk
    def close(self, *, clean: bool) -> None:
        """Closes the files. If `clean` is True, first completes and flushes them, as Kafka does at a clean stop."""
        if clean:
            self.write_out()
            self.flush_all()
        for segment in self.segments:
            segment.close()
        self.snapshots.forget_waiting()
        self.directory.epochs.forget(self)
        # A fetch or a flush in a thread may still use this log. If it finds no files, this must not count as a failure
        # of the disk.
        self.directory = self.directory.closed(self.path)

    def reopen(self, directory: LogDirectory) -> None:
        """Takes back `close`. The files open again at their next use."""
        self.directory = directory
        directory.opened()

    # --- producer state

    @property
    def producers(self) -> ProducerState:
        """The producers at the log end. After a truncation, the first use restores them, which may block."""
        producers = self._producers
        return self._restore_producers() if producers is None else producers

    @on_disk
    def _restore_producers(self) -> ProducerState:
        # The cleaner's thread uses the producers too, so it may be the first that needs them.
        with self.segments_lock:
            if self._producers is None:
                producers = self._new_producers()
                self._read_producers(producers, self._now_ms())
                producers.on_high_watermark(self.high_watermark)
                self._producers = producers
            return self._producers

    def _new_producers(self) -> ProducerState:
        return ProducerState(self._topic_partition, self._producer_expiration_ms, self._producer_ids)

    def expire_producers_after(self, expiration_ms: int) -> None:
        self._producer_expiration_ms = expiration_ms
        if self._producers is not None:
            self._producers.expiration_ms = expiration_ms

    def begin_restoring_producers(self) -> ProducerRestoration | None:
        """Returns the work that restores the producers after a truncation, for another thread. Returns None if the
        producers need not be restored.

        The owner may use the log while the work runs. Then `end_restoring_producers` takes the result.
        """
        if self._producers is not None:
            return None
        return ProducerRestoration(
            self._new_producers(),
            self.snapshots.copy(),
            segments_from(self.segments, self.log_start_offset),
            self.log_start_offset,
            self.log_end_offset,
            self._now_ms(),
        )

    def end_restoring_producers(self, restored: ProducerRestoration, truncations: int) -> None:
        """Takes the restored producers, unless the log was truncated or has restored them itself since
        `begin_restoring_producers`. `truncations` is the number of truncations at that time."""
        with self.segments_lock:
            if self._producers is None and self.truncations == truncations:
                self._producers = restored.producers
                restored.producers.on_high_watermark(self.high_watermark)

    def write_snapshot(self) -> None:
        """Writes the state of producers for the next start. Writes nothing if there are no producers, no earlier
        snapshot and only one segment. In this case, no snapshot is needed: a start after a clean stop concludes that
        there are no producers, and a start after a crash reads the last segment."""
        producers = self.producers
        self.snapshots.write_waiting()
        if not producers.is_empty or len(self.segments) > 1 or self.snapshots.exist:
            self.snapshots.write(producers)

    def rebuild_producers(self, now_ms: int) -> None:
        """Restores the state of producers at the log end from the newest valid snapshot and the batches after it."""
        self._read_producers(self.producers, now_ms)

    def _read_producers(self, producers: ProducerState, now_ms: int) -> None:
        self.snapshots.remove_outside(self.log_start_offset, self.log_end_offset)
        self.snapshots.load(producers, self.log_end_offset, now_ms)
        if producers.last_snapshot_offset == self.log_end_offset:
            return  # as after a clean stop
        replay(
            segments_from(self.segments, producers.end_offset),
            producers,
            self.snapshots,
            start_offset=max(producers.end_offset, self.log_start_offset),
            end_offset=self.log_end_offset,
            to_snapshot={segment.base_offset for segment in self.segments[-2:]},
        )


def _may_abort(producers: ProducerState, batches: Sequence[PlacedBatch]) -> bool:
    """Whether one of the batches is an abort marker that adds an entry to the transaction index. A replicated run may
    have the whole transaction."""
    opened: set[int] = set()
    for batch in batches:
        header = batch.header
        if header.is_transactional and not header.is_control:
            opened.add(header.producer_id)
        elif header.is_control and header.has_producer_id:
            marker = read_marker(b"".join(batch.buffers))
            is_abort = marker is not None and not marker.commit
            if is_abort and (
                header.producer_id in opened or producers.has_open_transaction(header.producer_id)
            ):
                return True
    return False


def _note_producer(producers: ProducerState, batch: PlacedBatch, segment: Segment) -> None:
    """Updates the producers with a written batch. If the batch is an abort marker, adds the aborted transaction to the
    transaction index."""
    header = batch.header
    if not header.is_control:
        producers.update(header, batch.base_offset)
        return
    marker = read_marker(b"".join(batch.buffers))
    if marker is not None:
        aborted = producers.update_marker(header, batch.base_offset, marker)
        if aborted is not None:
            segment.txn_index.append(aborted)
