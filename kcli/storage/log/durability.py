"""The durability of a log: which of its records and files survive a power failure, and the syncs that keep them.

Every record before the recovery point is on the device. A new log is settled when its name and its topic id are on the
device. A truncation must be durable before the next append. All methods that sync may block, and may run in any thread.
"""

from __future__ import annotations

import uuid

from kcli.errors import StorageError
from kcli.model.ids import FIRST_OFFSET, Offset
from kcli.runtime.disk import File, begin_replacing, end_replacing
from kcli.storage.checkpoint import PARTITION_METADATA_FILE, encode_partition_metadata
from kcli.storage.directory import LogDirectory, on_disk
from kcli.storage.leader_epochs import LeaderEpochCache
from kcli.storage.log.local_log import LocalLog
from kcli.storage.log.lookup import segments_from
from kcli.storage.log.segment import Segment


class Durability:
    """Makes one log durable."""

    __slots__ = (
        "_durable_truncations",
        "_leader_epochs",
        "_local",
        "is_settled",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(self, local: LocalLog, leader_epochs: LeaderEpochCache) -> None:
        self._local = local
        self._leader_epochs = leader_epochs
        self.recovery_point = FIRST_OFFSET
        # Whether the directory entry of the log is durable. False for a new log until `settle`.
        self.is_settled = True
        self.last_flush_ms = local.settings.now_ms()
        self._durable_truncations = 0

    @property
    def directory(self) -> LogDirectory:
        return self._local.directory

    # --- records

    def flush(self, up_to: Offset | None = None) -> None:
        """Flushes the log, so that every record before `up_to` survives a power failure. `up_to` is by default the log
        end."""
        end = self._local.end_offset if up_to is None else up_to
        if end > self.recovery_point:
            now_ms = self._local.settings.now_ms
            began_ms = now_ms()
            self._flush(end)
            self.directory.flushes_ms.add(max(now_ms() - began_ms, 0))

    @on_disk
    def _flush(self, end: Offset) -> None:
        self.settle()
        local = self._local
        truncations, recovery_point = local.truncations, self.recovery_point
        segments = [
            segment for segment in segments_from(local.segments, recovery_point) if segment.base_offset < end
        ]
        for segment in segments:
            try:
                if not segment.deleted:
                    segment.flush()
            except FileNotFoundError:
                if not segment.deleted:  # deleted meanwhile: nothing is left to flush
                    raise
        if not segments or segments[-1].base_offset >= recovery_point:
            local.sync_names()  # a new segment's names
        self._leader_epochs.flush()
        with local.lock:  # a truncation holds it too
            if local.truncations == truncations:  # otherwise flushed records may have been replaced
                self.recovery_point = max(self.recovery_point, min(end, local.end_offset))
        self.last_flush_ms = local.settings.now_ms()

    def rolled(self, sealed: Segment, base_offset: Offset) -> None:
        """Makes the segments before `base_offset` durable after a roll, in the background."""
        local = self._local
        if self.recovery_point < base_offset:
            local.directory.background(lambda: self._flush_in_background(base_offset))
        elif sealed.base_offset < base_offset:
            self._sync_roll(sealed, base_offset)

    def _flush_in_background(self, base_offset: Offset) -> None:
        try:
            self._local.snapshots.sync(base_offset)
            self.flush(base_offset)
        except (OSError, StorageError) as error:
            self.directory.failed(error)

    def _sync_roll(self, sealed: Segment, base_offset: Offset) -> None:
        """Flushes the indexes and the producer snapshot that a roll has written. Called if the records are flushed
        already. A start after a crash then reads only the new segment, so these files must be complete."""
        snapshots = self._local.snapshots
        if snapshots.is_unwritten(base_offset):
            # The next start reads the older batches again if this snapshot is missing.
            self.directory.background(lambda: self._sync_snapshot_in_background(base_offset))
        else:
            snapshots.sync(base_offset)
        sealed.flush_indexes()
        self._local.sync_names()

    def _sync_snapshot_in_background(self, base_offset: Offset) -> None:
        try:
            self._local.snapshots.sync(base_offset)
            self._local.sync_names()
        except OSError as error:
            self.directory.failed(error)

    # --- a new log

    def begin(self, topic_id: uuid.UUID | None) -> None:
        """Notes that the log is new, or that it gets its topic id only now. Until `settle`, a crash may remove it."""
        if self._local.topic_id is None:
            self._local.topic_id = topic_id
        self.is_settled = False

    def settle(self) -> None:
        """Makes the file names and the topic id of a new log durable."""
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
        topic_id = self._local.topic_id
        if topic_id is None or self.is_settled:
            return None
        content = encode_partition_metadata(topic_id)
        return self._local.unless_gone(
            lambda: begin_replacing(self.directory.disk, self._metadata_path, content)
        )

    @on_disk
    def end_settling(self, topic_id: File | None, *, together: bool = False) -> None:
        """Syncs the topic id and the file names in the log's directory. The caller syncs the name of this directory,
        because one sync may include the directories of many logs.

        If `together` is True, the topic id is already on the device, and the caller later syncs the names of all logs.
        """

        def sync() -> None:
            if topic_id is not None:
                end_replacing(self.directory.disk, self._metadata_path, topic_id, sync=not together)
            if not together:
                self._local.sync_names()

        self._local.unless_gone(sync)

    @property
    def _metadata_path(self) -> str:
        return f"{self._local.path}/{PARTITION_METADATA_FILE}"

    @on_disk
    def _sync_name(self) -> None:
        self.directory.disk.sync_dir(self.directory.path)
        self.is_settled = True

    # --- truncations

    def truncated(self) -> None:
        """Moves the recovery point back to the log end. The caller holds the lock of the log."""
        self.recovery_point = min(self.recovery_point, self._local.end_offset)

    @on_disk
    def sync_cut(self) -> None:
        """Makes a truncation durable. Without this sync, dropped segments could exist again after a power failure, with
        records that follow newer records."""
        self._local.unless_gone(self._sync_cut)

    def _sync_cut(self) -> None:
        with self._local.lock:
            active = self._local.segments[-1]
        active.flush()  # the file may have become shorter
        self._local.sync_names()

    @property
    def has_unsynced_cut(self) -> bool:
        """Whether a truncation, or the recovery point after it, may not be durable yet. While this is True, do not
        append."""
        return self._durable_truncations < self._local.truncations

    def note_durable_cuts(self, truncations: int) -> None:
        """Notes that the first `truncations` truncations are durable. The caller must have made the recovery point
        after these truncations durable too.
        """
        self._durable_truncations = max(self._durable_truncations, truncations)

    # --- a clean stop

    def seal_active(self) -> None:
        """Writes the last index entries for a clean close, without a sync."""
        active = self._local.segments[-1]
        if not active.is_sealed:
            active.seal()
            # Even if all records are flushed, the last index entries are not.
            self.recovery_point = min(self.recovery_point, active.base_offset)

    @property
    def is_flushed(self) -> bool:
        """Whether `flush_all` has nothing to do."""
        end = self._local.end_offset
        return self.is_settled and self.recovery_point >= end and self._leader_epochs.is_flushed(end)

    @on_disk
    def flush_all(self) -> None:
        """Makes all files of the log durable, as Kafka does at a clean stop. Call `PartitionLog.write_out` before this
        method."""
        self.settle()
        self.flush()
        self._leader_epochs.flush(self._local.end_offset)

    def note_synced(self) -> None:
        """Notes that the log is flushed. The caller has called `PartitionLog.write_out`, and then has synced the whole
        file system.
        """
        self.recovery_point = self._local.end_offset
        self.last_flush_ms = self._local.settings.now_ms()
