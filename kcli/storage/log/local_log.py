"""The part of a log that is on the local disk: its directory, its segments, its producer snapshots and its end.

`PartitionLog`, `Durability` and `LogProducers` share this object. Only the owner of the log and the cleaner change the
list of segments, and they hold `lock` meanwhile. Other threads may read the list at any time.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kcli.config.topic import LogConfig
from kcli.model.ids import Offset
from kcli.model.topic_partition import TopicPartition
from kcli.storage.directory import LogDirectory, on_disk
from kcli.storage.log import lookup
from kcli.storage.log.segment import Segment
from kcli.storage.log.settings import StoreSettings
from kcli.storage.log.snapshots import ProducerSnapshots
from kcli.storage.log.transaction_index import AbortedTransaction

T = TypeVar("T")


class LocalLog:
    """The files of one log. There is always a segment, the active one, which is the last of `segments`."""

    __slots__ = (
        "config",
        "directory",
        "end_offset",
        "lock",
        "path",
        "segments",
        "settings",
        "snapshots",
        "topic_id",
        "topic_partition",
        "truncations",
    )

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        settings: StoreSettings,
        *,
        segments: list[Segment],
        file_names: Iterable[str],
    ) -> None:
        self.directory = directory
        directory.opened()
        self.path = path
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.settings = settings
        self.segments = segments
        self.snapshots = ProducerSnapshots(directory.pool, path, file_names)
        self.end_offset = segments[-1].base_offset
        self.truncations = 0  # the number of truncations so far
        self.lock = threading.RLock()
        segments[-1].roll_jitter_ms = self._jitter_ms()

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    # --- rolling

    def is_full(self, last_offset: Offset, size_bytes: int, newest_ms: int, now_ms: int) -> bool:
        """Whether an append of `size_bytes` needs a new segment, because the active segment is full or too old."""
        segment, config = self.segments[-1], self.config
        present_bytes = segment.size_bytes
        return (
            present_bytes > config.segment_size_bytes - size_bytes
            or (present_bytes > 0 and segment.waited_ms(newest_ms, now_ms) > self._segment_ms(segment))
            or segment.indexes_are_full(config.segment_index_bytes)
            # An index stores an offset in four bytes, as the distance from the base offset of its segment.
            or not segment.fits(last_offset)
        )

    def _segment_ms(self, segment: Segment) -> int:
        config = self.config
        # The cleaner reads only sealed segments, so a compacted log must roll in time for max.compaction.lag.ms
        # (KIP-354).
        segment_ms = (
            min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
        )
        return segment_ms - segment.roll_jitter_ms

    def _jitter_ms(self) -> int:
        # Without jitter, all segments that began at the same time would roll at the same time.
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self.settings.random_below(limit) if limit > 0 else 0

    def roll(self, base_offset: Offset, now_ms: int, write_snapshot: Callable[[], None]) -> None:
        """Begins a new segment. `write_snapshot` writes the producer snapshot at `base_offset`.

        A shortage of descriptors may end this method early. The list of segments is then as before, because it changes
        last.
        """
        assert base_offset >= self.end_offset, "a segment begins at or past the log end"
        active = self.segments[-1]
        if active.base_offset == base_offset:
            assert not active.size_bytes, "two segments cannot begin at one offset"
            active.files.close()
            self.segments[-1] = self._new_segment(base_offset, now_ms)
            return
        active.seal()
        segment = self._new_segment(base_offset, now_ms)
        try:
            write_snapshot()
        except OSError:
            segment.files.remove()
            raise
        self.segments.append(segment)

    def _new_segment(self, base_offset: Offset, now_ms: int) -> Segment:
        segment = Segment(self.directory.pool, self.path, base_offset, created_ms=now_ms, sizes={})
        try:
            segment.create_files(self.config.segment_size_bytes if self.config.preallocate else 0)
        except OSError:
            # An empty segment between the others would hide the later records of the segment before it.
            if all(other.base_offset != base_offset for other in self.segments):
                segment.files.remove()
            raise
        segment.roll_jitter_ms = self._jitter_ms()
        return segment

    # --- searching

    @on_disk
    def aborted_transactions(self, from_offset: Offset, upper_offset: Offset) -> list[AbortedTransaction]:
        return lookup.aborted_transactions(self.segments, from_offset, upper_offset)

    @on_disk
    def has_aborted_transactions(self, from_offset: Offset) -> bool:
        return lookup.has_aborted_transactions(self.segments, from_offset)

    @on_disk
    def upper_bound_offset(self, offset: Offset, size_bytes: int) -> Offset:
        return lookup.upper_bound_offset(self.segments, offset, size_bytes, self.end_offset)

    # --- cutting. The caller holds `lock`.

    def open_to_truncate(self, offset: Offset) -> None:
        """Opens the files of the segment that `truncate_to` makes shorter. A shortage of descriptors is then known
        before anything changes."""
        self.segments[-1 - len(self._segments_after(offset))].open_files()

    def truncate_to(self, offset: Offset) -> None:
        """Drops all records from `offset` on."""
        # The newest segment is removed first, so that a failure in between leaves no hole in the log.
        self.drop_segments(self._segments_after(offset))
        self.segments[-1].truncate_to(offset)
        self.end_offset = offset
        self.truncations += 1

    def _segments_after(self, offset: Offset) -> list[Segment]:
        """The segments that begin after `offset`, the newest first."""
        return [segment for segment in reversed(self.segments) if segment.base_offset > offset]

    def restart_at(self, offset: Offset) -> None:
        """Drops all records. The next record will have the offset `offset`."""
        now_ms, segment = self.settings.now_ms(), None
        if offset > self.end_offset or offset < self.segments[0].base_offset:
            # Made first if no other segment has this offset, so that a shortage changes nothing.
            segment = self._new_segment(offset, now_ms)
        with self.directory.changing():
            self.drop_segments(list(reversed(self.segments)))
            self.segments.append(segment or self._new_segment(offset, now_ms))
            self.end_offset = offset
            self.truncations += 1
            self.snapshots.remove_all()

    def drop_segments(self, segments: Sequence[Segment]) -> None:
        """Removes segments and their snapshots from the log. The files are removed after file.delete.delay.ms."""
        with self.lock, self.directory.changing():
            dropped = set(segments)
            self.segments = [segment for segment in self.segments if segment not in dropped]
            for segment in segments:
                self._set_aside(segment, self.snapshots.rename_deleted(segment.base_offset))

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment) -> None:
        """Replaces consecutive segments by the compacted segment that was made from them."""
        with self.lock, self.directory.changing():
            at = self.segments.index(old[0])
            assert self.segments[at : at + len(old)] == list(old), "they stand in a row"
            self.segments = [*self.segments[:at], cleaned, *self.segments[at + len(old) :]]
            for segment in old:
                keeps_snapshot = segment.base_offset == cleaned.base_offset
                paths = [] if keeps_snapshot else self.snapshots.rename_deleted(segment.base_offset)
                self._set_aside(segment, paths)

    def _set_aside(self, segment: Segment, paths: list[str]) -> None:
        paths += segment.rename_deleted()
        segment.files.close()
        self.directory.deletions.add(paths, self.config.file_delete_delay_ms)

    # --- files

    def sync_names(self) -> None:
        """Makes the names of the files in the directory of the log durable. May block."""
        self.directory.disk.sync_dir(self.path)

    def unless_gone(self, work: Callable[[], T]) -> T | None:
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

    def close(self) -> None:
        """Closes the files. After this, every use of the log raises StorageError."""
        for segment in self.segments:
            segment.files.close()
        self.snapshots.forget_waiting()
        # A fetch or a flush in a thread may still use this log. If it finds no files, this must not count as a failure
        # of the disk.
        self.directory = self.directory.closed(self.path)

    def reopen(self, directory: LogDirectory) -> None:
        """Takes back `close`. The files open again at their next use."""
        self.directory = directory
        directory.opened()
