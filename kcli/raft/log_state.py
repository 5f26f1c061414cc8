"""The metadata of the node's log: its epochs, its start and end, its snapshots. The caller stores the records."""

from __future__ import annotations

from kcli.metadata.snapshot_file import BOOTSTRAP_SNAPSHOT_ID, SnapshotId
from kcli.model.ids import FIRST_LEADER_EPOCH, FIRST_OFFSET, LeaderEpoch, Offset
from kcli.raft.messages import EpochStart, Start
from kcli.raft.requests import EpochEnd


class LogState:
    """The epochs, ends and snapshots of the log. The list of epochs begins with an entry for the epoch before the start
    of the log.

    `flushed`: the end of the part that is known to be on disk. `installing` is True between the download of a snapshot
    and the caller's report that the snapshot is installed. The log will begin at the end of this snapshot. `snapshots`
    do not include the bootstrap snapshot of `kcli storage format`, because this snapshot is never replicated.
    """

    def __init__(self, start: Start) -> None:
        self.start = start.log_start
        self.end = start.log_end_offset
        self.flushed = FIRST_OFFSET
        self.installing = False
        self.snapshots = _replicated(start.snapshots)
        self._epochs = [EpochStart(*entry) for entry in start.epochs]
        self._epochs.insert(0, EpochStart(self._epoch_before_start(), self.start))

    def _epoch_before_start(self) -> LeaderEpoch:
        for snapshot_id in self.snapshots:
            if snapshot_id.end_offset == self.start:
                return snapshot_id.epoch
        return FIRST_LEADER_EPOCH if not self.start or not self._epochs else self._epochs[0].epoch

    @property
    def last(self) -> EpochEnd:
        """The end of the log and the epoch of the newest record. If the log has no records, the epoch is the epoch of
        the snapshot before the log, or 0."""
        return EpochEnd(self._epochs[-1].epoch, self.end)

    @property
    def newest_snapshot(self) -> SnapshotId:
        return self.snapshots[-1] if self.snapshots else BOOTSTRAP_SNAPSHOT_ID

    def append(self, epoch: LeaderEpoch, next_offset: Offset) -> None:
        assert next_offset > self.end and epoch >= self.last.epoch, (
            "a batch is not empty, and epochs only rise"
        )
        if epoch > self.last.epoch:
            self._epochs.append(EpochStart(epoch, self.end))
        self.end = next_offset

    def flushed_to(self, end_offset: Offset) -> None:
        self.flushed = max(self.flushed, min(end_offset, self.end))

    def truncate(self, end_offset: Offset) -> None:
        assert self.start <= end_offset <= self.end, "only records of the log can be cut off"
        self.end = end_offset
        self.flushed = min(self.flushed, end_offset)
        self._epochs = [self._epochs[0]] + [
            epoch for epoch in self._epochs[1:] if epoch.start_offset < end_offset
        ]

    def restart_at(self, snapshot_id: SnapshotId) -> None:
        """Empties the log state. The log continues at the end of a snapshot from the leader."""
        self.start = self.end = self.flushed = snapshot_id.end_offset
        self.snapshots = (snapshot_id,)
        self._epochs = [EpochStart(snapshot_id.epoch, snapshot_id.end_offset)]

    def cleaned(self, log_start: Offset, snapshots: tuple[SnapshotId, ...]) -> None:
        """Stores that the caller has deleted the log before `log_start`, and which snapshots exist now.

        Ignores a report from before the installation of the leader's snapshot.
        """
        if log_start < self.start:
            return
        assert log_start <= self.end, "only the log before a snapshot is deleted"
        self.snapshots = _replicated(snapshots)
        if log_start > self.start:
            self.start = log_start
            older = [epoch for epoch in self._epochs if epoch.start_offset < log_start]
            newer = self._epochs[len(older) :]
            self._epochs = [EpochStart(older[-1].epoch, log_start), *newer]

    def end_of(self, epoch: LeaderEpoch) -> EpochEnd:
        """The newest epoch that is not above `epoch`, and the offset after the last record of this epoch.

        If every epoch of the log is above `epoch`, the returned offset is the start of the log.
        """
        end = EpochEnd(epoch, self.start)
        for entry, after in zip(self._epochs, [*self._epochs[1:], None], strict=True):
            if entry.epoch > epoch:
                break
            end = EpochEnd(entry.epoch, self.end if after is None else after.start_offset)
        return end

    def check(self, fetch_offset: Offset, epoch: LeaderEpoch) -> EpochEnd | SnapshotId | None:
        """Compares the end of a follower's log with this log. `fetch_offset` is the end of the follower's log, and
        `epoch` is the epoch of the newest record in the follower's log.

        Returns None if the follower's log is the beginning of this log. Returns the end of the last common epoch if the
        logs diverge. Returns the newest snapshot if this log no longer has the records that the follower needs.
        """
        if not fetch_offset and self.snapshots:
            return self.newest_snapshot
        if not fetch_offset and not epoch and not self.start:
            return None
        if self.snapshots and self._is_before_log(fetch_offset, epoch):
            return self.newest_snapshot
        known = self.end_of(epoch)
        return known if known.epoch != epoch or known.end_offset < fetch_offset else None

    def _is_before_log(self, offset: Offset, epoch: LeaderEpoch) -> bool:
        oldest = self.snapshots[0]
        if offset == self.start == oldest.end_offset:
            return epoch != oldest.epoch
        return offset < self.start or epoch < oldest.epoch


def _replicated(snapshots: tuple[SnapshotId, ...]) -> tuple[SnapshotId, ...]:
    return tuple(snapshot for snapshot in snapshots if snapshot != BOOTSTRAP_SNAPSHOT_ID)
