"""Writes the leader epochs of many logs to their checkpoints in the background.

After a start, each log writes its checkpoint at its first append. So thousands of checkpoints may be written within a
second. One background job writes the checkpoints of all waiting logs. The checkpoints of a few logs are synced one by
one. The checkpoints of many logs are synced together, by syncs of the whole file system.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, TypeVar

from kcli.errors import StorageError
from kcli.model.ids import MAX_OFFSET, Offset
from kcli.runtime.disk import Disk
from kcli.storage.leader_epochs import LeaderEpochCache
from kcli.storage.parallel import MANY_LOGS

T = TypeVar("T")


class Directory(Protocol):
    """The attributes of a log directory that this module uses."""

    path: str
    disk: Disk
    background: Callable[[Callable[[], None]], object]

    def failed(self, cause: Exception) -> StorageError: ...


class EpochLog(Protocol):
    """The attributes of a log that this module uses. After the log is closed, `directory` is another object, whose
    operations may fail."""

    leader_epochs: LeaderEpochCache

    @property
    def log_end_offset(self) -> Offset: ...

    @property
    def directory(self) -> Directory: ...


class EpochFlushes:
    """Collects the logs of one directory whose checkpoints must be written, and writes them. All methods may be called
    in any thread.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._waiting: dict[EpochLog, None] = {}
        self._guard = threading.Lock()
        self._is_scheduled = False

    def soon(self, log: EpochLog) -> None:
        """Starts writing the checkpoint of a log in the background."""
        with self._guard:
            self._waiting[log] = None
            was_scheduled, self._is_scheduled = self._is_scheduled, True
        if not was_scheduled:
            self._directory.background(self._run)

    def forget(self, log: EpochLog) -> None:
        """Drops a log that is closed. Its checkpoint could otherwise be written for a new log of the same name."""
        with self._guard:
            self._waiting.pop(log, None)

    def _run(self) -> None:
        while logs := self._take():
            if len(logs) < MANY_LOGS or not self.flush_together(logs):
                for log in logs:
                    _attempt(log, log.leader_epochs.flush)

    def _take(self) -> list[EpochLog]:
        with self._guard:
            logs = list(self._waiting)
            self._waiting.clear()
            self._is_scheduled = bool(logs)
            return logs

    def flush_together(self, logs: Iterable[EpochLog], *, closing: bool = False) -> bool:
        """Writes the checkpoints of the logs, and syncs them together. Returns False if the system cannot sync a whole
        file system.

        If `closing` is True, a checkpoint may lack epochs that have no records. A disk error takes the log directory
        offline.
        """
        begun = []
        for log in logs:
            begin = partial(log.leader_epochs.begin_flush, log.log_end_offset if closing else MAX_OFFSET)
            number = _attempt(log, begin)
            if number is not None:
                begun.append((log, number))
        try:
            if begun and not self._sync_volume():
                return False
            for log, number in begun:
                _attempt(log, partial(log.leader_epochs.install, number))
            if begun:
                self._sync_volume()
        except OSError as error:
            self._directory.failed(error)
            return True
        for log, number in begun:
            log.leader_epochs.end_flush(number)
        return True

    def _sync_volume(self) -> bool:
        return self._directory.disk.sync_volume(self._directory.path)


def _attempt(log: EpochLog, work: Callable[[], T]) -> T | None:
    try:
        return work()
    except OSError as error:
        log.directory.failed(error)
        return None
