"""The work on many logs of a store at once: retention, flushes, checkpoints, and syncs of truncations.

If a disk fails, the logs in other directories are not affected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence

from kcli.errors import StorageError
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.settings import StoreSettings
from kcli.storage.parallel import in_threads
from kcli.storage.store.offset_checkpoints import OffsetCheckpoints
from kcli.storage.store.placement import Placement
from kcli.storage.store.table import LogTable

_log = logging.getLogger(__name__)


class Maintenance:
    """The jobs of one store."""

    def __init__(
        self,
        table: LogTable,
        placement: Placement,
        checkpoints: OffsetCheckpoints,
        settings: StoreSettings,
        sync_threads: int,
    ) -> None:
        self._table = table
        self._placement = placement
        self._checkpoints = checkpoints
        self._settings = settings
        self._sync_threads = sync_threads

    # --- files

    def delete_old_segments(self, now_ms: int) -> Generator[None, None, int]:
        """Applies retention to every log except the metadata log, because its retention depends on snapshots. Yields
        after each log, and returns the number of deleted segments."""
        deleted = 0
        for log in self._table.in_service():
            if log.topic != CLUSTER_METADATA_TOPIC:
                deleted += _safely(lambda log: log.delete_old_segments(now_ms), [log])
            yield
        return deleted

    def delete_due_files(self) -> int:
        """Removes files and directories whose delay is over (`DeletionQueue`). Returns their number. May block."""
        return sum(directory.deletions.run() for directory in self._placement.every)

    def has_due_files(self) -> bool:
        """Whether `delete_due_files` has something to remove."""
        return any(directory.deletions.is_due for directory in self._placement.every)

    # --- producers

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Sets a new `producer.id.expiration.ms`, for existing and for new logs."""
        self._settings.producer_expiration_ms = expiration_ms
        table = self._table
        for log in (*table.logs.values(), *table.made_ahead.values(), *table.futures.values()):
            log.producers.expire_after(expiration_ms)

    def remove_expired_producers(self, now_ms: int) -> Generator[None, None, int]:
        """Drops the producers that were idle for longer than `producer.id.expiration.ms`. Yields after each log, and
        returns their number.
        """
        removed = 0
        for log in self._table.in_service():
            removed += yield from log.producers.remove_expired(now_ms)
            yield
        return removed

    # --- durability

    def flush_due(self, now_ms: int) -> None:
        """Flushes the logs whose `flush.ms` has passed. May block."""
        due = [
            log
            for log in self._table.in_service()
            if now_ms - log.durability.last_flush_ms >= log.config.flush_ms
        ]
        _safely(lambda log: log.durability.flush(), due)

    def checkpoint_recovery_points(self) -> None:
        for directory in self._placement.online:
            self._checkpoints.write_recovery_points(directory)

    def checkpoint_high_watermarks(self) -> None:
        for directory in self._placement.online:
            self._checkpoints.write_high_watermarks(directory)

    def checkpoint_log_start_offsets(self) -> None:
        for directory in self._placement.online:
            self._checkpoints.write_log_starts(directory)

    def sync_cuts(self, logs: Sequence[PartitionLog]) -> None:
        """Makes the truncations of logs durable, with their recovery points. Writes the checkpoints of each directory
        once. A disk error takes its directory offline. May block.

        The next append must wait for this sync. Otherwise new records could be before the old recovery point, and a
        start after a power failure would not check them. Dropped segments might also exist again.
        """
        cuts = [(log, log.directory, log.local.truncations) for log in logs]
        synced: set[PartitionLog] = set()

        def sync(log: PartitionLog) -> None:
            log.durability.sync_cut()
            synced.add(log)

        in_threads(lambda log: _safely(sync, [log]), logs, self._sync_threads)
        directories = {id(directory): directory for _log, directory, _truncations in cuts}.values()
        written = [
            directory
            for directory in directories
            if directory.error is None and self._checkpoints.write_all(directory)
        ]
        for log, directory, truncations in cuts:
            if log in synced and directory in written:
                log.durability.note_durable_cuts(truncations)


def _safely(work: Callable[[PartitionLog], int | None], logs: Sequence[PartitionLog]) -> int:
    """Runs `work` on each log whose directory is online. Returns the sum of the results. Logs disk errors."""
    total = 0
    for log in logs:
        if log.directory.error is None:
            try:
                total += work(log) or 0
            except StorageError as error:
                _log.error("%s: %s", log.path, error)
    return total
