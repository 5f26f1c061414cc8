"""Syncs new and deleted logs in the background (settling), so that they survive a power failure.

If a thousand partitions are created or deleted, a thousand directories are made or renamed. A sync of all these names
takes seconds. If the event loop waited for this sync, the broker could not serve requests. So, as in Kafka, a log is in
use as soon as its files exist. A power failure may remove a log that is not settled yet. But no record of such a log
was flushed, because the first flush settles the log. A deleted log is not used any more. Its checkpoint entries are
removed before another log gets the same name.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kcli.errors import CorruptRecordError, StorageError
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.disk import Disk, File
from kcli.storage.checkpoint import CLEANER_OFFSET_FILE, read_offsets, write_offsets
from kcli.storage.directory import Background, LogDirectory
from kcli.storage.log.log import PartitionLog
from kcli.storage.parallel import MANY_LOGS, in_threads

_log = logging.getLogger(__name__)

T = TypeVar("T")

BATCH = 256
"""The most logs that are settled together. A flush of one of these logs may wait for all of them."""


class _Gone:
    """Represents one deletion of a log. Two deletions are never equal, because two deleted logs may have had the same
    name.
    """

    __slots__ = ("directory",)

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory


class Settling:
    """Collects the new and deleted logs that are not synced yet, and syncs them. Call `made`, `gone` and `soon` on the
    event loop, and `run` in a thread, because `run` may block."""

    def __init__(self, disk: Disk, checkpoint: Callable[[LogDirectory], object], threads: int) -> None:
        """Makes an object without logs. `checkpoint` writes the offset checkpoints of a directory. `threads` is the
        number of syncs at a time."""
        self._threads = threads
        self._disk = disk
        self._checkpoint = checkpoint
        self._made: deque[PartitionLog] = deque()
        self._gone: dict[tuple[TopicPartition, str], _Gone] = {}
        self._is_scheduled = False
        self._background: Background | None = None
        self._settling = threading.Lock()
        self._forgetting = threading.Lock()

    def made(self, log: PartitionLog) -> None:
        self._made.append(log)
        self._background = log.directory.background

    def gone(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Adds a deleted log, after its directory was renamed."""
        self._gone[key, directory.path] = _Gone(directory)
        self._background = directory.background

    def before_making(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Removes the checkpoint entries of a deleted log, if there are any. Call this method before a new log with
        this name is made in the directory."""
        if (key, directory.path) in self._gone:
            self._forget_gone()

    def soon(self) -> None:
        """Starts `run` in the background if there are logs to sync, unless `run` is about to start already."""
        if not self._is_scheduled and (self._made or self._gone):
            self._is_scheduled = True
            assert self._background is not None, "it came with the first of them"
            self._background(self.run)

    def run(self) -> None:
        self._is_scheduled = False  # a later call of `soon` starts the work again
        self._forget_gone()
        with self._settling:
            self._settle_made()

    def _settle_made(self) -> None:
        while self._made:
            batch: dict[LogDirectory, list[PartitionLog]] = {}
            for _ in range(min(BATCH, len(self._made))):
                log = self._made.popleft()
                if not log.durability.is_settled:  # a flush may have settled the log
                    batch.setdefault(log.directory, []).append(log)
            for directory, logs in batch.items():
                self._settle_in(directory, logs)

    def _settle_in(self, directory: LogDirectory, logs: Sequence[PartitionLog]) -> None:
        """Settles new logs of a directory. First writes the topic ids of all these logs. Then one sync of the file
        system, or the first syncs of files, write all these ids to the device."""
        begun: list[tuple[PartitionLog, File | None]] = []
        with directory.settling:
            for log in logs:
                with _ignored_failures():
                    begun.append((log, log.durability.begin_settling()))
            together = len(logs) >= MANY_LOGS and self._volume_synced(directory)
            ended: list[PartitionLog] = []

            def end(opened: tuple[PartitionLog, File | None]) -> None:
                with _ignored_failures():
                    opened[0].durability.end_settling(opened[1], together=together)
                    ended.append(opened[0])

            in_threads(end, begun, 1 if together else self._threads)
        if self._volume_synced(directory) if together else self._synced(directory):
            for log in ended:
                log.durability.is_settled = True

    def _forget_gone(self) -> None:
        with self._forgetting:
            gone = dict(self._gone)
            keys: dict[LogDirectory, list[TopicPartition]] = {}
            for (key, _path), log in gone.items():
                keys.setdefault(log.directory, []).append(key)
            for directory, forgotten in keys.items():
                self.forget(directory, forgotten)
            for entry, log in gone.items():
                if self._gone[entry] is log:  # otherwise another log of the same name was deleted meanwhile
                    del self._gone[entry]

    def forget(self, directory: LogDirectory, keys: Iterable[TopicPartition]) -> None:
        """Makes the removal of logs from a directory durable: syncs their renames, and writes the checkpoints without
        these logs."""
        if self._synced(directory):
            self._checkpoint(directory)
            self._forget_cleaned(directory, keys)

    def _synced(self, directory: LogDirectory) -> bool:
        if directory.error is not None:
            return False
        try:
            self._disk.sync_dir(directory.path)
        except OSError as error:
            directory.failed(error)
            return False
        return True

    def _volume_synced(self, directory: LogDirectory) -> bool:
        """Syncs the file system of the directory. Returns False if the sync failed, or if the system cannot sync a
        whole file system."""
        try:
            return directory.error is None and self._disk.sync_volume(directory.path)
        except OSError as error:
            directory.failed(error)
            return False

    def _forget_cleaned(self, directory: LogDirectory, keys: Iterable[TopicPartition]) -> None:
        """Removes the cleaner's entries of deleted logs."""
        path, gone = f"{directory.path}/{CLEANER_OFFSET_FILE}", set(keys)
        try:
            with directory.checkpointing:
                cleaned = read_offsets(self._disk, path)
                remaining = {key: offset for key, offset in cleaned.items() if key not in gone}
                if len(remaining) < len(cleaned):
                    write_offsets(self._disk, path, remaining)
        except OSError as error:
            directory.failed(error)
        except CorruptRecordError as error:
            _log.warning("%s", error)  # the cleaner treats the file as empty and writes a new one


def _ignored_failures() -> contextlib.suppress:
    """Ignores the failure of one log. The log was deleted meanwhile, or its directory has reported the failure. A flush
    of the log settles the log later.
    """
    return contextlib.suppress(StorageError)
