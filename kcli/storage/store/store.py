"""Manages the partition logs in all log directories of a node.

The store opens, makes, deletes and closes logs. `log` contains the operations on one log, `maintenance` those on all
logs. `ownership` locks the directories, and `settling` syncs new and deleted logs.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kcli.config.topic import LogConfig
from kcli.errors import InconsistentTopicIdException, KafkaError, ShortageError, StorageError
from kcli.model.ids import NO_BROKER_EPOCH
from kcli.model.observations import Observations
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk
from kcli.runtime.rng import Rng
from kcli.storage.checkpoint import CLEAN_SHUTDOWN_FILE, write_clean_shutdown
from kcli.storage.directory import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    Background,
    LogDirectory,
    partition_dir_name,
    suffixed_dir_name,
)
from kcli.storage.files import HandlePool
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.record_validation import Validation
from kcli.storage.log.settings import StoreSettings
from kcli.storage.parallel import SYNC_THREADS
from kcli.storage.store.closing import close_logs
from kcli.storage.store.description import LogDirDescription, describe_directory
from kcli.storage.store.future_logs import FutureLogs
from kcli.storage.store.loader import make_log
from kcli.storage.store.maintenance import Maintenance
from kcli.storage.store.offset_checkpoints import OffsetCheckpoints
from kcli.storage.store.opening import Opening
from kcli.storage.store.ownership import Ownership
from kcli.storage.store.placement import Placement
from kcli.storage.store.settling import Settling
from kcli.storage.store.table import LogTable

_log = logging.getLogger(__name__)

PRODUCER_EXPIRATION_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class NewLog:
    """A log that must be made. `assigned` is the id of the directory that the metadata contains for this log, if
    any.
    """

    topic: str
    partition: int
    topic_id: uuid.UUID | None
    config: LogConfig
    assigned: uuid.UUID | None = None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def run_inline(work: Callable[[], None]) -> None:
    """Runs the background work of a store without an executor, immediately and in the caller's thread."""
    work()


class LogStore:
    """All logs of a node, opened by `LogStore.open`."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        rng: Rng,
        settings: StoreSettings,
        placement: Placement,
        default_config: LogConfig,
        threads: int,
    ) -> None:
        self.disk = disk
        self.is_open = True
        self.placement = placement
        self.directories: Sequence[LogDirectory] = placement.directories
        """The log directories that contain partitions, in the order of log.dirs."""
        self._table = LogTable()
        self.logs = self._table.logs
        self.futures = FutureLogs(self, self._table, settings)
        self.previous_broker_epoch = NO_BROKER_EPOCH
        self.flushes_ms = placement.every[0].flushes_ms
        self.default_config = default_config
        self._settings = settings
        self._rng = rng
        self._ownership = Ownership(disk, clock, rng)
        self._checkpoints = OffsetCheckpoints(disk, self._table)
        self._sync_threads = SYNC_THREADS if threads > 1 else 1
        self._settling = Settling(disk, self._checkpoints.write_all, self._sync_threads)
        self.maintenance = Maintenance(
            self._table, placement, self._checkpoints, settings, self._sync_threads
        )

    @property
    def cluster_id(self) -> str | None:
        return self._ownership.cluster_id

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        log_dirs: Sequence[str],
        *,
        node_id: int,
        rng: Rng,
        default_config: LogConfig | None = None,
        config_for: Callable[[str], LogConfig] | None = None,
        recovery_threads: int = 2,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        validation: Validation = Validation.ALL,
        metadata_log_dir: str | None = None,
        handle_capacity: int | None = None,
        background: Callable[[str], Background] = lambda _path: run_inline,
        on_failure: Callable[[LogDirectory, StorageError], None] | None = None,
    ) -> LogStore:
        """Locks the directories, checks their owner, and loads every log.

        `metadata_log_dir` is the directory of the metadata log, by default the first of `log_dirs`. If it is not one of
        `log_dirs`, only the metadata log is loaded from it. `background` returns the function that runs flushes after a
        roll in one directory, so pass functions that use an executor. `on_failure` is called for each directory that
        goes offline.

        Raises StorageError if no directory is formatted. Raises it also if a directory is locked, belongs to another
        node, or has an entry that is not a partition. Also raises StorageError if all directories have failed.
        """
        settings = StoreSettings(clock.now_ms, rng.randrange, producer_expiration_ms, validation)
        metadata_path = metadata_log_dir or log_dirs[0]
        pool, flushes_ms = HandlePool(disk, handle_capacity), Observations()
        every = [
            LogDirectory(
                path,
                pool,
                background=background(path),
                monotonic=clock.monotonic,
                on_failure=on_failure,
                flushes_ms=flushes_ms,
            )
            for path in dict.fromkeys((*log_dirs, metadata_path))
        ]
        placement, config = Placement(every, log_dirs, metadata_path), default_config or LogConfig()
        store = cls(disk, clock, rng, settings, placement, config, recovery_threads)
        opening = Opening(
            disk,
            clock,
            settings,
            store._table,
            placement,
            config_for=config_for or (lambda _topic: config),
            delete_delay_ms=config.file_delete_delay_ms,
            threads=recovery_threads,
        )
        store._load(opening, node_id)
        return store

    def _load(self, opening: Opening, node_id: int) -> None:
        try:
            self._ownership.claim(self.placement.every, node_id)
            for directory in self.placement.online:
                for key in opening.load(directory):
                    self._settling.gone(directory, key)
            if all(directory.error is not None for directory in self.directories):
                reasons = "; ".join(str(directory.error) for directory in self.directories)
                raise StorageError(f"None of the log directories works: {reasons}")
        except BaseException:
            self._ownership.release()
            raise
        self.previous_broker_epoch = opening.broker_epoch
        self._checkpoints.kept_offset = opening.metadata_offset
        self._settling.run()

    # --- logs

    def all_logs(self) -> list[PartitionLog]:
        """The logs in service at the time of the call. May be called in any thread."""
        return self._table.in_service()

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get(TopicPartition(topic, partition))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig | None = None,
        *,
        assigned: uuid.UUID | None = None,
        more: bool = False,
    ) -> PartitionLog:
        """Returns the log of a partition. If it does not exist, makes it, by default in the directory with the fewest
        partitions.

        If `more` is True, the caller will make or delete other logs too, and will then call `settle_soon`.

        `assigned` is the id of the log's directory in the metadata. If this directory is missing or offline, it may
        still contain the log. Then this method raises KafkaStorageException, because a new, empty log would hide
        records that are not lost.
        """
        key = TopicPartition(topic, partition)
        log = self.logs.get(key)
        if log is None:
            log = self._table.made_ahead.pop(key, None)
            if log is None:
                log = self._make(NewLog(topic, partition, topic_id, config or self.default_config, assigned))
            self.logs[key] = log
        elif log.topic_id is None and topic_id is not None:
            # The broker crashed after the directory was made and before the topic id was on the device.
            log.durability.begin(topic_id)
        else:
            if topic_id is not None and log.topic_id != topic_id:
                raise InconsistentTopicIdException(
                    f"{log.path} belongs to topic id {log.topic_id}, but {topic} has topic id {topic_id}"
                )
            return log
        self._settling.made(log)
        if not more:
            self.settle_soon()
        return log

    def make_ahead(self, new_logs: Iterable[NewLog]) -> None:
        """Makes logs before `create` needs them. If a log cannot be made, `create` raises the error later. May block.
        May be called in any thread."""
        for new in new_logs:
            if new.key not in self.logs:
                try:
                    self._table.made_ahead[new.key] = self._make(new)
                except (StorageError, KafkaError):
                    return

    def _make(self, new: NewLog) -> PartitionLog:
        key, name = new.key, partition_dir_name(new.topic, new.partition)
        directory = self.placement.directory_for(key, new.assigned)
        self._settling.before_making(key, directory)
        try:
            return make_log(directory, name, key, new.topic_id, new.config, self._settings)
        except OSError as error:
            raise directory.failed(error) from error

    def delete(self, topic: str, partition: int, *, more: bool = False) -> None:
        """Takes the log of a partition out of service immediately. Its files are removed after `file.delete.delay.ms`.
        `more` has the same meaning as in `create`."""
        key = TopicPartition(topic, partition)
        self.placement.forget(key)
        self.futures.abandon(topic, partition)
        log = self.logs.get(key)
        if log is not None:
            directory = log.directory  # a closed log has no directory
            self._delete_later(directory, log, self._set_aside(log, DELETE_SUFFIX))
            self._settling.gone(directory, key)
            if not more:
                self.settle_soon()

    def settle_soon(self) -> None:
        """Starts to sync the names of new and deleted logs in the background.

        Call this method after the last log was made or deleted, because syncs slow down the creation of further logs.
        """
        self._settling.soon()

    def remove(self, log: PartitionLog) -> None:
        """Deletes one log, which may be a future log. When this method returns, the deletion is durable."""
        directory = log.directory
        self._delete_later(directory, log, self._set_aside(log, DELETE_SUFFIX))
        self._settling.forget(directory, [TopicPartition(log.topic, log.partition)])
        directory.check()

    def set_aside(self, deleted: Iterable[PartitionLog], strays: Iterable[PartitionLog]) -> None:
        """Takes logs and copies that are not in the metadata out of service. May block, so call it before the broker
        serves clients.

        The files of `deleted` are removed after `file.delete.delay.ms`. The directories of `strays` are renamed to
        `-stray` and never deleted. The checkpoints of a directory are written once. A disk error takes its directory
        offline.
        """
        gone: dict[LogDirectory, list[TopicPartition]] = {}
        for suffix, logs in ((DELETE_SUFFIX, deleted), (STRAY_SUFFIX, strays)):
            for log in logs:
                directory, key = log.directory, TopicPartition(log.topic, log.partition)
                try:
                    path = self._set_aside(log, suffix)
                except StorageError as error:
                    _log.error("%s is not set aside: %s", log.path, error)
                    continue
                if suffix == DELETE_SUFFIX:
                    self._delete_later(directory, log, path)
                gone.setdefault(directory, []).append(key)
        for directory, keys in gone.items():
            self._settling.forget(directory, keys)

    def _delete_later(self, directory: LogDirectory, log: PartitionLog, path: str) -> None:
        directory.deletions.add([path], log.config.file_delete_delay_ms)

    def new_id(self) -> uuid.UUID:
        return self._rng.uuid()

    def _set_aside(self, log: PartitionLog, suffix: str) -> str:
        """Closes a log and renames its directory. Returns the new path. The caller must sync the rename."""
        directory, key = log.directory, TopicPartition(log.topic, log.partition)
        directory.check()
        path = f"{directory.path}/{suffixed_dir_name(*key, self._rng.uuid(), suffix)}"
        log.close(clean=False)
        try:
            self.disk.rename(log.path, path)
        except OSError as error:
            failure = directory.failed(error)
            if isinstance(failure, ShortageError):
                log.local.reopen(directory)  # so that the caller can try again
            raise failure from error
        self._table.remove(key, log)
        return path

    def describe(self) -> list[LogDirDescription]:
        return [describe_directory(directory, self._table) for directory in self.directories]

    def checkpoint_directory(self, directory: LogDirectory) -> bool:
        """Writes all checkpoints of a directory. Returns False if a checkpoint could not be written."""
        return self._checkpoints.write_all(directory)

    # --- closing

    def close(self, clean: bool = True, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Closes the store and releases the locks. If `clean` is True, first flushes all logs and writes checkpoints
        and clean-shutdown markers."""
        self.is_open = False
        if clean:
            self._add_made_ahead()
            self._settling.run()
        for directory in self.placement.every:
            logs = self._table.in_directory(directory)
            closed = directory.error is None and close_logs(directory, logs, self._sync_threads, clean=clean)
            if clean and closed and directory.error is None and self.checkpoint_directory(directory):
                try:
                    write_clean_shutdown(self.disk, f"{directory.path}/{CLEAN_SHUTDOWN_FILE}", broker_epoch)
                except OSError as error:
                    directory.failed(error)
        self._table.clear()
        self._ownership.release()

    def _add_made_ahead(self) -> None:
        """Adds the logs to the store that `make_ahead` has made and `create` has not used. So these logs are closed
        too, and the next start uses them.
        """
        for key, log in list(self._table.made_ahead.items()):
            if self.logs.setdefault(key, log) is log:
                self._settling.made(log)
        self._table.made_ahead.clear()
