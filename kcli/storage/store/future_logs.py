"""Future logs: the copies of partitions that move to another log directory (KIP-113).

A copy is in a directory `<topic>-<partition>.<hex>-future`. When the copy has all records, the broker reports the new
log directory to the controller (KIP-858). Then `promote` replaces the log by the copy: it first renames the log to
`…-delete`, and then renames the copy. After a crash between the two renames, the next start finds the new log directory
in the metadata. This shows that the copy is complete, so the broker calls `promote` again.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import Protocol

from kcli.errors import InvalidTopicException, KafkaStorageException, LogDirNotFoundException, StorageError
from kcli.model.ids import NO_LEADER_EPOCH, Offset
from kcli.model.topic_partition import TopicPartition
from kcli.storage.directory import FUTURE_SUFFIX, LogDirectory, partition_dir_name, suffixed_dir_name
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.settings import StoreSettings
from kcli.storage.store.loader import LoadState, create_log, load_log
from kcli.storage.store.maintenance import Maintenance
from kcli.storage.store.table import LogTable

_log = logging.getLogger(__name__)


class Logs(Protocol):
    """The attributes and methods of a `LogStore` that `FutureLogs` uses."""

    @property
    def directories(self) -> Sequence[LogDirectory]: ...

    @property
    def maintenance(self) -> Maintenance: ...

    def new_id(self) -> uuid.UUID: ...
    def remove(self, log: PartitionLog) -> None: ...
    def checkpoint_directory(self, directory: LogDirectory) -> bool: ...


UNKNOWN_TRUNCATIONS = -1
"""A number of truncations that no log has, so that the copy differs from its original."""


class FutureLogs:
    """The future copies of logs in one `LogStore`. The task that fills a copy owns it."""

    def __init__(self, store: Logs, table: LogTable, settings: StoreSettings) -> None:
        self.logs = table.futures
        self._current = table.logs
        self._truncations: dict[str, int] = {}
        """For each copy, by its path: the number of truncations of the original log when the copy was last checked."""
        self._store = store
        self._settings = settings

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(list(self.logs))

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get(TopicPartition(topic, partition))

    def check_target(self, topic: str, partition: int, path: str) -> LogDirectory:
        """Returns the log directory at `path`. Raises KafkaError if a copy of this partition cannot be made there."""
        directory = next((candidate for candidate in self._store.directories if candidate.path == path), None)
        try:
            suffixed_dir_name(topic, partition, self._store.new_id(), FUTURE_SUFFIX)
        except ValueError as error:
            raise InvalidTopicException(f"The topic name is too long to be moved: {error}") from None
        if directory is None:
            raise LogDirNotFoundException(f"Log dir {path} is not found in the config.")
        if directory.error is not None:
            raise KafkaStorageException(f"Log directory {path} is offline")
        return directory

    def begin(self, topic: str, partition: int, directory: LogDirectory) -> PartitionLog:
        """Makes an empty copy in `directory`, which begins at the log start offset of the original log. Raises
        StorageError if the disk fails.
        """
        key = TopicPartition(topic, partition)
        current = self._current[key]
        assert (topic, partition) not in self.logs, "one copy at a time"
        assert current.directory is not directory, "a log does not move to where it is"
        name = suffixed_dir_name(topic, partition, self._store.new_id(), FUTURE_SUFFIX)
        try:
            copy = create_log(directory, name, key, current.topic_id, current.config, self._settings)
        except OSError as error:
            raise directory.failed(error) from error
        if current.log_start_offset:
            copy.truncate_fully_and_start_at(current.log_start_offset)
        self._truncations[copy.path] = current.local.truncations
        self.logs[key] = copy
        return copy

    def abandon(self, topic: str, partition: int) -> None:
        """Ends a copy and deletes its files. In an offline directory the files stay until the next start."""
        copy = self.logs.pop(TopicPartition(topic, partition), None)
        if copy is not None:
            self._truncations.pop(copy.path, None)
        if copy is not None and copy.directory.error is None:
            try:
                self._store.remove(copy)
            except StorageError as error:
                _log.error("%s is not deleted: %s", copy.path, error)

    def append(self, copy: PartitionLog, current: PartitionLog, records: bytes, now_ms: int) -> None:
        """Appends batches of the original log to its copy. May block."""
        for _ in copy.replicate(records, leader_epoch=NO_LEADER_EPOCH, now_ms=now_ms):
            pass  # this method runs in a thread, so the steps need no pause
        copy.set_high_watermark(current.high_watermark)

    def follow(self, copy: PartitionLog, current: PartitionLog, now_ms: int) -> None:
        """Removes the records from the copy that the original log no longer has at its start or end. After a truncation
        of the original, empties the copy. May block.
        """
        start = current.log_start_offset
        truncations = self._truncations.get(copy.path, 0)
        if current.local.truncations != truncations:
            # The log of a follower was truncated, so later records may differ from those in the copy.
            self._restart(copy, start)
            self._truncations[copy.path] = current.local.truncations
        elif start > copy.log_end_offset:
            self._restart(copy, start)
        elif start > copy.log_start_offset:
            copy.set_high_watermark(current.high_watermark)
            copy.delete_records_before(start)
            copy.delete_old_segments(now_ms)

    def begin_again(self, copy: PartitionLog) -> None:
        """Makes the next `follow` empty the copy, because it may have records that the original log has lost."""
        self._truncations[copy.path] = UNKNOWN_TRUNCATIONS

    def _restart(self, copy: PartitionLog, offset: Offset) -> None:
        copy.truncate_fully_and_start_at(offset)
        self._store.maintenance.sync_cuts([copy])
        copy.directory.check()

    def is_behind(self, copy: PartitionLog, current: PartitionLog) -> bool:
        """Whether the copy has records that `follow` would remove."""
        return (
            current.log_start_offset > copy.log_start_offset
            or current.local.truncations != self._truncations.get(copy.path, 0)
        )

    def is_complete(self, copy: PartitionLog, current: PartitionLog) -> bool:
        """Whether the copy may replace the original log. The copy must have all records, and they must be as durable as
        in the original."""
        return (
            not self.is_behind(copy, current)
            and copy.log_end_offset == current.log_end_offset
            and copy.durability.recovery_point >= current.durability.recovery_point
        )

    def promote(self, topic: str, partition: int) -> PartitionLog:
        """Replaces the original log by the copy, and deletes the files of the original. Returns the new log of the
        partition.

        This method also works after a crash between its two renames, when only the copy exists.
        """
        key = TopicPartition(topic, partition)
        copy, current = self.logs[key], self._current.get(key)
        directory = copy.directory
        high_watermark = copy.high_watermark if current is None else current.high_watermark
        if current is not None:
            copy.leader_epochs.copy(current.leader_epochs)
        copy.close(clean=True)
        self._store.checkpoint_directory(directory)
        if current is not None:
            self._store.remove(current)
        name = partition_dir_name(topic, partition)
        try:
            directory.disk.rename(copy.path, f"{directory.path}/{name}")
            directory.disk.sync_dir(directory.path)
            end = copy.log_end_offset
            state = LoadState(True, end, copy.log_start_offset, high_watermark)
            log = load_log(directory, name, key, copy.config, self._settings, state)
        except OSError as error:
            raise directory.failed(error) from error
        del self.logs[key]
        self._truncations.pop(copy.path, None)
        self._current[key] = log
        _log.info("%s has moved to %s", name, directory.path)
        return log
