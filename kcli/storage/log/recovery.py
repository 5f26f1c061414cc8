"""Recovers a log after an unclean stop: reads the end of the log again, batch by batch, and keeps the valid batches.

Batches that were not flushed may be incomplete after a crash. Recovery removes the first incomplete batch and all
batches after it. If a flushed batch is invalid, the disk has damaged it. In this case, recovery logs an error, and also
removes this batch and all batches after it. But the metadata log must not lose records. So if a flushed batch of the
metadata log is damaged, recovery raises an error and changes nothing. An operator can then repair the log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcli.errors import CorruptRecordError, KafkaError
from kcli.model.ids import FIRST_OFFSET, Offset, Position
from kcli.protocol.batches.batch import HEADER_SIZE, BatchHeader, crc_is_valid, iter_batches, read_header
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.markers import read_marker
from kcli.storage.log.segment import Segment
from kcli.storage.log.split import Piece, split_of

_log = logging.getLogger(__name__)

RECOVERY_CHUNK_BYTES = 1 << 20

SHOWN_SEGMENT_BYTES = 64 << 20
"""The recovery of a segment of at least this size in bytes is logged, because it may take seconds."""

READS_OF_DAMAGE = 2
"""The number of times that a damaged batch is read before it is removed. It is read again because the batch on the disk
may be valid, and only the first read may have returned wrong bytes."""


class OffsetOverflow(Exception):
    """Raised if a segment has offsets that are too far from its base offset for an index entry, so that it must be
    split. Kafka before 1.0 could write such segments."""

    def __init__(self, segment: Segment, pieces: list[Piece]) -> None:
        super().__init__(f"{segment.log.path} holds offsets too far from its base offset")
        self.segment = segment
        self.pieces = pieces


class Recovery:
    """Recovers the segments of one log. Every record before `flushed_offset` was on the device before the crash.

    If `must_keep` is True, damage before `flushed_offset` raises CorruptRecordError, and no batch is removed.
    """

    def __init__(
        self,
        log: PartitionLog,
        now_ms: int,
        *,
        flushed_offset: Offset = FIRST_OFFSET,
        must_keep: bool = False,
    ) -> None:
        self._log = log
        self._now_ms = now_ms
        self._flushed_offset = flushed_offset
        self._must_keep = must_keep
        self.first_offset = log.log_start_offset

    def run(self, first_unsure_offset: Offset) -> Offset:
        """Recovers the segments, starting with the segment that contains `first_unsure_offset`. Returns the log end
        offset.

        Raises OffsetOverflow if a segment must be split first.
        """
        log = self._log
        unsure = [
            segment
            for segment, following in zip(log.segments, [*log.segments[1:], None], strict=True)
            if following is None or following.base_offset > first_unsure_offset
        ]
        # Recovery writes some files again, mainly indexes. These files are not on the device yet, so the next flush
        # must begin here.
        self.first_offset = unsure[0].base_offset
        self._rewind_producers(unsure[0])
        end = unsure[0].base_offset
        for nth, segment in enumerate(unsure):
            if segment.size_bytes >= SHOWN_SEGMENT_BYTES:
                _log.info("%s is recovered: segment %d of %d", segment.log.path, nth + 1, len(unsure))
            log.producers.state.end_offset = max(log.producers.state.end_offset, segment.base_offset)
            log.producers.write_snapshot()
            end, cut = self._recover(segment)
            log.producers.state.end_offset = end
            log.producers.write_snapshot()
            if cut:
                self._drop_rest(unsure[nth + 1 :], segment, end, cut)
                break
        log.local.snapshots.remove_doubtful()
        return end

    def _rewind_producers(self, first: Segment) -> None:
        """Restores the state of producers at the offset where recovery starts. Snapshots after this offset are not
        used, because recovery reads all later records anyway."""
        log = self._log
        log.local.snapshots.doubt_after(first.base_offset)
        log.local.end_offset = first.base_offset
        log.producers.rebuild(self._now_ms)

    def _recover(self, segment: Segment) -> tuple[Offset, int]:
        """Reads one segment, truncates it after the last valid batch, and updates indexes, epochs and producers.
        Returns the offset after the last valid batch, and the number of truncated bytes."""
        segment.reset_indexes()
        file = segment.files.log.file()
        file_size = file.size()
        valid, next_offset = Position(0), segment.base_offset
        tries = READS_OF_DAMAGE
        while valid < file_size and tries:
            chunk = file.read_at(valid, self._chunk_size(segment, valid, file_size))
            taken, next_offset = self._recover_chunk(segment, chunk, valid, next_offset)
            valid = Position(valid + taken)
            tries = READS_OF_DAMAGE if taken else tries - 1
        cut = file_size - valid
        if cut:
            self._check_may_cut(segment, valid, next_offset)
            file.truncate(valid)
        segment.end_position = valid
        segment.finish_recovery()
        return next_offset, cut

    def _check_may_cut(self, segment: Segment, position: Position, offset: Offset) -> None:
        if offset >= self._flushed_offset:
            return
        damage = (
            f"{segment.log.path} is damaged at byte {position}, where offset {offset} should follow: that was on the "
            f"device, as everything before offset {self._flushed_offset}, and is no torn tail of a crash"
        )
        if self._must_keep:
            raise CorruptRecordError(
                f"{damage}. Nothing was cut: put the file back from a copy, or remove the directory to begin without it"
            )
        _log.error("%s. The log is cut there: records that were acknowledged are lost", damage)

    def _drop_rest(self, later: Sequence[Segment], torn: Segment, end: int, cut: int) -> None:
        _log.warning(
            "%s: %d bytes after offset %d were torn and are cut; %d later segments are removed",
            torn.log.path,
            cut,
            end,
            len(later),
        )
        self._log.local.drop_segments(later)

    def _chunk_size(self, segment: Segment, position: Position, end: int) -> int:
        """The number of bytes to read next: the size of a chunk or, if the next batch is larger, the size of this
        batch."""
        size = RECOVERY_CHUNK_BYTES
        if end - position <= size:
            return end - position
        try:
            header = read_header(segment.log.file().read_at(position, HEADER_SIZE))
            size = max(size, header.size_bytes)
        except CorruptRecordError:
            pass  # the invalid header is found again when the chunk is read, and the log is truncated there
        return min(size, end - position)

    def _recover_chunk(
        self, segment: Segment, chunk: bytes, start: Position, next_offset: Offset
    ) -> tuple[int, Offset]:
        """Processes the valid batches at the start of the chunk. Returns the total size of these batches in bytes, and
        the offset after the last of them.
        """
        taken = 0
        try:
            for position, header in iter_batches(chunk):
                # The checksum does not cover the base offset, so a damaged offset is found only by the order of the
                # offsets.
                if header.last_offset < next_offset or not crc_is_valid(chunk, position, header):
                    break
                if not segment.fits(header.last_offset):
                    if (pieces := split_of(segment)) is not None:
                        raise OffsetOverflow(segment, pieces)
                    break
                self._apply(segment, chunk, position, Position(start + position), header)
                next_offset = header.next_offset
                taken = position + header.size_bytes
        except (CorruptRecordError, KafkaError) as error:
            _log.warning("%s at byte %d: %s", segment.log.path, start + taken, error)
        return taken, next_offset

    def _apply(
        self, segment: Segment, chunk: bytes, at: int, position: Position, header: BatchHeader
    ) -> None:
        log = self._log
        segment.note(
            position,
            header.last_offset,
            header.max_timestamp_ms,
            header.size_bytes,
            log.config.index_interval_bytes,
        )
        epochs = log.leader_epochs
        if header.magic == 2 and header.partition_leader_epoch > epochs.latest_epoch:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.producer_id < 0:
            return
        if not header.is_control:
            log.producers.state.update(header, header.base_offset)
            return
        marker = read_marker(chunk[at : at + header.size_bytes])
        if marker is not None:
            aborted = log.producers.state.update_marker(header, header.base_offset, marker)
            if aborted is not None:
                segment.txn_index.append(aborted)
