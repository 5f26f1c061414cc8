"""The log of a partition: appends, reads, truncations and retention, and the offsets that bound them.

One task owns a log. Only this task calls `append`, `truncate_to` and the other methods that change the log. Reads of
the bytes of a `LogSlice` may run in other threads at the same time. The offsets have this order: log start ≤ last
stable ≤ high watermark ≤ log end.

The parts of a log are objects of their own: `local` (its files), `durability` (its syncs) and `producers`. This file is
long, because appends, truncations and retention change several of the parts and of the offsets together.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from kcli.config.topic import LogConfig
from kcli.errors import InvalidRecordException, OffsetOutOfRangeException, RecordBatchTooLargeException
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, Position
from kcli.protocol.batches.batch import BatchHeader
from kcli.storage.directory import LogDirectory, on_disk
from kcli.storage.leader_epochs import LeaderEpochCache
from kcli.storage.log import lookup
from kcli.storage.log.durability import Durability
from kcli.storage.log.local_log import LocalLog
from kcli.storage.log.lookup import Search, segments_from, whole_batches
from kcli.storage.log.markers import read_marker
from kcli.storage.log.producer_state import Verification
from kcli.storage.log.producers import LogProducers, note_producer, prepare_index
from kcli.storage.log.record_validation import InlineBytes, Validation
from kcli.storage.log.replicated import check_run, read_run
from kcli.storage.log.retention import deletable_count
from kcli.storage.log.segment import Segment
from kcli.storage.log.slice import LogSlice
from kcli.storage.log.validation import (
    CheckedBatch,
    PlacedBatch,
    UnopenedBatch,
    check_client_batch,
    place,
    split_batches,
)

__all__ = ["AppendResult", "LogSlice", "PartitionLog"]


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
    """The log of one partition, made by `loader.load_log` or `loader.make_log`."""

    __slots__ = (
        "__weakref__",
        "_noted_epoch",
        "_topic_partition",
        "config",
        "durability",
        "high_watermark",
        "leader_epochs",
        "local",
        "log_start_offset",
        "partition",
        "path",
        "producers",
        "topic",
        "validation",
    )

    def __init__(self, local: LocalLog, leader_epochs: LeaderEpochCache, log_start_offset: Offset) -> None:
        self.local = local
        self.topic, self.partition = local.topic_partition
        self.path = local.path
        self.config = local.config
        self.validation: Validation = local.settings.validation
        self.leader_epochs = leader_epochs
        self.durability = Durability(local, leader_epochs)
        self.producers = LogProducers(local, log_start_offset)
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self._topic_partition = str(local.topic_partition)
        # The newest epoch with records. The checkpoint has this epoch, or a background job will write it.
        self._noted_epoch: LeaderEpoch = NO_LEADER_EPOCH

    def __repr__(self) -> str:
        return f"PartitionLog({self.path}, {self.log_start_offset}..{self.log_end_offset})"

    # --- place and bounds

    @property
    def directory(self) -> LogDirectory:
        """The directory of the log. After `close`, another object, which raises an error at every use."""
        return self.local.directory

    @property
    def topic_id(self) -> uuid.UUID | None:
        return self.local.topic_id

    @property
    def segments(self) -> Sequence[Segment]:
        return self.local.segments

    @property
    def size_bytes(self) -> int:
        return self.local.size_bytes

    @property
    def log_end_offset(self) -> Offset:
        return self.local.end_offset

    @property
    def last_stable_offset(self) -> Offset:
        """The offset up to which a read_committed consumer reads. Every transaction that has records before this offset
        has ended."""
        producers = self.producers.ready
        if producers is None:
            producers = self.producers.restore()
        unstable = producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        # DeleteRecords may have moved the log start past the first record of an open transaction (KIP-107).
        return max(unstable, self.log_start_offset)

    def set_high_watermark(self, offset: Offset) -> None:
        """Moves the high watermark forward to `offset`, but at most to the log end. The high watermark never moves
        back."""
        offset = min(offset, self.local.end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.producers.on_high_watermark(offset)

    def update_config(self, config: LogConfig) -> None:
        self.config = self.local.config = config

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
        self.local.directory.check()
        producers, batches, next_offset = self.producers.state, [], self.local.end_offset
        for header, batch in split_batches(records):
            if header.is_control and header.has_producer_id and (marker := read_marker(batch)) is not None:
                producers.check_marker(header, marker, transaction_version)
            elif header.is_transactional:
                producers.check_epoch(header)
                if verification is not None:
                    producers.check_verified(header, verification)
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
        local = self.local
        if local.directory.error is not None:
            local.directory.check()
        records, header, survey = checked
        if header.producer_id >= 0:
            producers = self.producers.ready
            if producers is None:
                producers = self.producers.restore()
            written = producers.duplicate_of(header)
            # The client repeats the batch, because it did not get the answer. It gets the offsets of the first write,
            # so that the records are not in the log twice (KIP-98).
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
                producers.check_verified(header, verification)
            producers.check(header)
        placed = place(records, header, self.config, local.end_offset, leader_epoch, now_ms, survey)
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
            self.local.directory.check()
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
            check_run(records, run, self.local.end_offset, self._topic_partition)
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
            buffers = _joined(batches) if run is None else (run,)
            size = sum(map(len, buffers))
            newest_ms = max([batch.header.max_timestamp_ms for batch in batches])
        if size > self.config.segment_size_bytes:
            raise RecordBatchTooLargeException(
                f"The append to {self._topic_partition} of {size} bytes exceeds the segment size of "
                f"{self.config.segment_size_bytes} bytes"
            )
        last_offset = Offset(last.base_offset + last.header.last_offset_delta)
        local = self.local
        assert last_offset >= local.end_offset, "offsets never go back"
        producers = self.producers.ready
        if producers is None:
            producers = self.producers.restore()  # before the write, because this reads the log
        has_begun = False
        try:
            if leader_epoch is None:
                self._assign_own_epochs(batches)
            elif leader_epoch != self._noted_epoch:
                self._assign_epoch(leader_epoch, first.base_offset)
            if local.is_full(last_offset, size, newest_ms, now_ms):
                self._roll(first.base_offset, now_ms)
            segment = local.segments[-1]
            watch = local.directory.appends
            began = 0.0 if watch is None else watch.now()
            prepare_index(producers, batches, segment)
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
                    note_producer(producers, batch, segment)
        except OSError as error:
            raise local.directory.failed(error, half_done=has_begun) from error
        local.end_offset = producers.end_offset = Offset(last_offset + 1)
        if local.end_offset - self.durability.recovery_point >= self.config.flush_messages:
            self.durability.flush()
        return AppendResult(
            first.base_offset, last_offset, first.log_append_time_ms, self.log_start_offset, size
        )

    def _assign_epoch(self, leader_epoch: LeaderEpoch, base_offset: Offset) -> None:
        self.leader_epochs.assign(leader_epoch, base_offset)
        self._noted_epoch = leader_epoch
        self._flush_epochs_soon()

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

    @on_disk
    def roll(self) -> Segment:
        """Begins a new segment at the log end."""
        self._roll(self.local.end_offset, self.local.settings.now_ms())
        return self.local.segments[-1]

    def _roll(self, base_offset: Offset, now_ms: int) -> None:
        local, producers = self.local, self.producers
        sealed = local.segments[-1]
        with local.lock:
            producers.restore()  # before the roll, because this reads the log
            local.roll(base_offset, now_ms, lambda: producers.write_snapshot_at(base_offset))
        self.durability.rolled(sealed, base_offset)

    # --- read

    def read(
        self, offset: Offset, max_bytes: int, *, end_offset: Offset, at_least_one: bool = True
    ) -> LogSlice:
        """Reads whole batches of one segment, from the batch with `offset` up to `end_offset`. All batches together
        have at most `max_bytes`.

        If `at_least_one` is True, the first batch is included even if it is larger than `max_bytes`.
        """
        local = self.local
        directory, log_end_offset = local.directory, local.end_offset
        if directory.error is not None:
            directory.check()
        if not self.log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRangeException(
                f"Received request for offset {offset} for partition {self._topic_partition}, but we only have log "
                f"segments from offset {self.log_start_offset} up to {log_end_offset}."
            )
        try:
            limit = end_offset if end_offset < log_end_offset else None
            for segment in segments_from(local.segments, offset) if offset < end_offset else ():
                batches = whole_batches(
                    segment, offset, max_bytes, end_offset=limit, at_least_one=at_least_one
                )
                if batches is not None:
                    start, end = batches
                    return LogSlice(start, end - start, segment.log.file(), directory)
            return LogSlice(Position(0), 0, local.segments[-1].log.file(), directory)
        except OSError as error:
            raise directory.failed(error) from error

    def search_timestamp(self, timestamp_ms: int) -> Search:
        """Searches for the first record at or after the timestamp, in steps. Raises StorageError."""
        return self._search(lookup.search_timestamp(self.local.segments, timestamp_ms, self.log_start_offset))

    def search_max_timestamp(self) -> Search:
        """Searches for the first record with the largest timestamp, in steps. Raises StorageError."""
        return self._search(lookup.search_max_timestamp(self.local.segments, self.log_start_offset))

    def _search(self, search: Search) -> Search:
        self.directory.check()
        try:
            return (yield from search)
        except OSError as error:
            raise self.directory.failed(error) from error

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

    # --- cutting

    @on_disk
    def delete_records_before(self, offset: Offset) -> Offset:
        """Moves the log start offset forward to `offset` (−1: to the high watermark). Returns the log start offset. The
        next retention removes segments that end before this offset."""
        if offset == -1:
            offset = self.high_watermark
        # A change of leader may still replace records above the high watermark, so they cannot be deleted (KIP-107).
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
        self.producers.on_log_start(offset)
        self.leader_epochs.truncate_start(offset)
        self._flush_epochs_soon()

    @on_disk
    def truncate_to(self, offset: Offset) -> None:
        """Drops all records from `offset` on. If the log has no such records, only drops a leader epoch without
        records.

        The producers are restored at their next use, or earlier by `LogProducers.begin_restoring`.
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
        with self.local.lock:
            self.local.open_to_truncate(offset)
            with self.directory.changing():
                self.local.truncate_to(offset)
                self._after_cut(min(self.log_start_offset, offset))

    @on_disk
    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Empties the log. The next record will have the offset `offset`."""
        with self.local.lock:
            self.local.restart_at(offset)
            self.leader_epochs.clear()
            with self.directory.changing():
                self._after_cut(offset)

    def _after_cut(self, log_start_offset: Offset) -> None:
        end = self.local.end_offset
        self.log_start_offset = log_start_offset
        self.leader_epochs.truncate_end(end)
        self._noted_epoch = NO_LEADER_EPOCH
        self._flush_epochs_soon()
        self.high_watermark = min(max(self.high_watermark, log_start_offset), end)
        self.durability.truncated()
        self.producers.truncated(log_start_offset, self.high_watermark)

    @on_disk
    def delete_old_segments(self, now_ms: int) -> int:
        """Removes old segments by log start offset, then by size, then by time (retention). Returns the number of
        removed segments."""
        local = self.local
        with local.lock:
            deletable = deletable_count(
                local.segments,
                self.config,
                log_start_offset=self.log_start_offset,
                log_end_offset=local.end_offset,
                high_watermark=self.high_watermark,
                now_ms=now_ms,
            )
            if deletable:
                self._delete_oldest(deletable, now_ms)
            return deletable

    def _delete_oldest(self, count: int, now_ms: int) -> None:
        local = self.local
        # As in Kafka, an empty active segment remains, because the name of its file stores the log end offset.
        if count == len(local.segments):
            self._roll(local.end_offset, now_ms)
        # The snapshots of the segments are dropped too. A later one must be on the disk, or a kill loses the producers.
        local.snapshots.write_waiting()
        next_base = local.segments[count].base_offset
        local.drop_segments(local.segments[:count])
        if self.log_start_offset < next_base:
            self._move_log_start(next_base)

    # --- closing

    @on_disk
    def write_out(self) -> None:
        """Writes the producer snapshot and the last index entries for a clean close, without a sync. If many logs are
        closed, call this method for all logs before the first sync. Then the first syncs write many files to the device
        together."""
        self.producers.write_snapshot()
        self.durability.seal_active()

    @on_disk
    def close(self, *, clean: bool) -> None:
        """Closes the files. If `clean` is True, first completes and flushes them, as Kafka does at a clean stop."""
        if clean:
            self.write_out()
            self.durability.flush_all()
        self.directory.epochs.forget(self)
        self.local.close()


def _joined(batches: Sequence[PlacedBatch]) -> tuple[Buffer, ...]:
    """The buffers of all batches, in their order."""
    return tuple(buffer for batch in batches for buffer in batch.buffers)
