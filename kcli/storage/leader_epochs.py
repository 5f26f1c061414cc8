"""The leader epoch cache: the start offset of each leader epoch in a log (KIP-101).

Changes are made in memory. The log writes them to the checkpoint file in the background. The records of a new epoch
count as flushed only after this write. After a crash, missing epochs are read from the batches, because each batch
contains its epoch.
"""

from __future__ import annotations

import threading
from bisect import bisect_right

from kcli.model.ids import MAX_OFFSET, NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from kcli.runtime.disk import Disk, begin_replacing, install_replacement, replace_file
from kcli.storage.checkpoint import encode_epochs, read_epochs


class LeaderEpochCache:
    """The list of entries (epoch, start offset). Each entry has a higher epoch and a higher start offset than the entry
    before it."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.entries = read_epochs(disk, path)
        self._written = self._begun = self.entries
        self._flushes = 0  # the number of flushes so far
        self.latest_epoch = self.entries[-1][0] if self.entries else NO_LEADER_EPOCH
        self.is_dirty = False
        self._guard = threading.Lock()

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Adds an entry for `epoch`, which begins at `start_offset`. Drops the entries that contradict it."""
        if self.entries:
            last_epoch, last_start = self.entries[-1]
            if epoch == last_epoch and start_offset >= last_start:
                return
        earlier = [entry for entry in self.entries if entry[0] < epoch and entry[1] < start_offset]
        self._replace([*earlier, (epoch, start_offset)])

    def truncate_end(self, end_offset: Offset) -> None:
        """Drops epochs that begin at or after `end_offset`."""
        if self.entries and self.entries[-1][1] >= end_offset:
            self._replace([entry for entry in self.entries if entry[1] < end_offset])

    def truncate_start(self, start_offset: Offset) -> None:
        """Drops epochs that ended before `start_offset`. The epoch of `start_offset` now begins at this offset."""
        dropped = [entry for entry in self.entries if entry[1] <= start_offset]
        if not dropped:
            return
        rebased = (dropped[-1][0], start_offset)
        if len(dropped) == 1 and dropped[0] == rebased:
            return
        self._replace([rebased, *self.entries[len(dropped) :]])

    def copy(self, other: LeaderEpochCache) -> None:
        """Copies the epochs of another log. Some of these epochs may have no records. Such epochs cannot be read from
        the batches of this log."""
        if self.entries != other.entries:
            self._replace(list(other.entries))

    def clear(self) -> None:
        if self.entries:
            self._replace([])

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """The epoch in which an offset was written. −1 for an offset before the first entry."""
        count = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[count - 1][0] if count else NO_LEADER_EPOCH

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Returns the largest known epoch that is at most `epoch`, and the offset after the last record of this epoch.
        If `epoch` is lower than every known epoch, returns `epoch` and the first known start offset. If `epoch` is −1
        or higher than every known epoch, returns (−1, −1).
        """
        if epoch == NO_LEADER_EPOCH or not self.entries or epoch > self.latest_epoch:
            return NO_LEADER_EPOCH, NO_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        nth = bisect_right(self.entries, epoch, key=lambda entry: entry[0])
        next_start = self.entries[nth][1]
        return (epoch if nth == 0 else self.entries[nth - 1][0]), next_start

    def flush(self, end_offset: Offset = MAX_OFFSET) -> None:
        """Writes the checkpoint if there are changes. May block. May be called in any thread.

        The file may lack the epochs that begin at or after `end_offset`. These epochs have no records, and are removed
        when the log is opened at the next start of the broker.
        """
        with self._guard:
            if not self.is_flushed(end_offset):
                self._flushes += 1
                entries = self.entries
                replace_file(self._disk, self.path, encode_epochs(entries))
                self._written = entries
            if self.is_dirty:
                self.is_dirty = self.entries != self._written

    def is_flushed(self, end_offset: Offset = MAX_OFFSET) -> bool:
        """Whether `flush` has nothing to write."""
        if not self.is_dirty:
            return True
        entries = self.entries
        return self._written in (entries, [entry for entry in entries if entry[1] < end_offset])

    def begin_flush(self, end_offset: Offset) -> int | None:
        """Writes the new file next to the checkpoint, as the first step of a flush of many logs. Returns the number of
        the flush for the other steps, or None if nothing must be written.

        The caller then syncs the file, calls `install`, syncs the directory, and calls `end_flush`. A call of `flush`
        between these steps does not wait for them. If another flush begins meanwhile, the remaining steps of this one
        do nothing.
        """
        with self._guard:
            if self.is_flushed(end_offset):
                return None
            self._flushes += 1
            self._begun = self.entries
            begin_replacing(self._disk, self.path, encode_epochs(self._begun)).close()
            return self._flushes

    def install(self, number: int) -> None:
        with self._guard:
            if number == self._flushes:
                install_replacement(self._disk, self.path)

    def end_flush(self, number: int) -> None:
        with self._guard:
            if number == self._flushes:
                self._written = self._begun
                self.is_dirty = self.entries != self._written

    def _replace(self, entries: list[tuple[LeaderEpoch, Offset]]) -> None:
        self.entries = entries  # a new list, because `flush` may still write the old list
        self.latest_epoch = entries[-1][0] if entries else NO_LEADER_EPOCH
        self.is_dirty = True
