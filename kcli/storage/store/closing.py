"""Closes the logs of one directory.

A clean close writes all logs first and then makes them durable. A few logs are synced file by file. Many logs are
synced together, by a sync of the whole file system, because a sync of each file takes far longer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kcli.errors import StorageError
from kcli.storage.directory import LogDirectory
from kcli.storage.log.log import PartitionLog
from kcli.storage.parallel import MANY_LOGS, in_threads

_log = logging.getLogger(__name__)


def close_logs(directory: LogDirectory, logs: Sequence[PartitionLog], threads: int, *, clean: bool) -> bool:
    """Closes the logs. If `clean` is True, first completes and flushes them. Returns False if a log could not be closed
    cleanly, so that the next start must check the files."""
    written = True
    if clean:
        # One thread writes to the page cache, because more threads would only compete for Python's lock.
        written = False not in [_attempt(log, log.write_out) for log in logs]
        changed = [log for log in logs if not log.durability.is_flushed]
        if len(changed) >= MANY_LOGS:
            _flush_together(directory, changed)
        left = [log for log in logs if not log.durability.is_flushed]
        written = (
            all(in_threads(lambda log: _attempt(log, log.durability.flush_all), left, threads)) and written
        )

    def close(log: PartitionLog) -> bool:
        return _attempt(log, lambda: log.close(clean=False))

    return False not in [close(log) for log in logs] and written


def _flush_together(directory: LogDirectory, logs: Sequence[PartitionLog]) -> None:
    """Flushes logs whose names are durable (settled), if the system can sync a whole file system. Otherwise changes
    nothing."""
    disk, path = directory.disk, directory.path
    try:
        if not disk.sync_volume(path):
            return
        for log in logs:
            log.durability.note_synced()
    except OSError as error:
        directory.failed(error)
        return
    directory.epochs.flush_together(logs, closing=True)


def _attempt(log: PartitionLog, work: Callable[[], None]) -> bool:
    try:
        work()
    except StorageError as error:
        _log.error("%s: not closed cleanly: %s", log.path, error)
        return False
    return True
