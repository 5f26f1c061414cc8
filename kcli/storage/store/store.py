"""Manages the partition logs in all log directories of a node.

The store opens, makes, deletes, maintains and closes logs. `log` contains the operations on one log, `ownership` locks
the directories, and `settling` syncs new and deleted logs.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kcli.config.topic import LogConfig
from kcli.errors import (
    CorruptRecordError,
    InconsistentTopicIdException,
    KafkaError,
    KafkaStorageException,
    ShortageError,
    StorageError,
)
from kcli.metadata.image import UNASSIGNED_DIRECTORY
from kcli.model.ids import FIRST_OFFSET, NO_BROKER_EPOCH, Offset
from kcli.model.observations import Observations
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk
from kcli.runtime.rng import Rng
from kcli.storage.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    read_clean_shutdown,
    read_offsets,
    write_clean_shutdown,
)
from kcli.storage.directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    Background,
    LogDirectory,
    parse_partition_dir_name,
    partition_dir_name,
    suffixed_dir_name,
)
from kcli.storage.files import HandlePool
from kcli.storage.log.log import PartitionLog
from kcli.storage.log.record_validation import Validation
from kcli.storage.log.settings import StoreSettings
from kcli.storage.parallel import SYNC_THREADS, in_threads
from kcli.storage.store.closing import close_logs
from kcli.storage.store.description import LogDirDescription, describe_directory
from kcli.storage.store.future_logs import FutureLogs
from kcli.storage.store.loader import LoadState, load_log, make_log
from kcli.storage.store.loading_progress import LoadingProgress
from kcli.storage.store.offset_checkpoints import OffsetCheckpoints
from kcli.storage.store.ownership import Ownership
from kcli.storage.store.settling import Settling

_log = logging.getLogger(__name__)

REMOTE_INDEX_CACHE = "remote-log-index-cache"
METADATA_LOG = partition_dir_name(CLUSTER_METADATA_TOPIC, 0)
PRODUCER_EXPIRATION_MS = 86_400_000

MAX_PREFERRED = 10_000
"""The most preferred directories that are kept in memory. The number is limited, because clients may set directories
for partitions that are never created. The value is the most partitions that one request may create."""

PartitionDir = tuple[str, str, int, str]
"""The name of a directory, and the topic, partition and suffix in this name."""

STRAYS_SHOWN = 10
"""The most stray logs that a line in the broker's log lists at a start, because thousands may exist."""


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


def run_inline(work: Callable[[], None]) -> None:
    """Runs the background work of a store without an executor, immediately and in the caller's thread."""
    work()


class LogStore:
    """All logs of a node, opened by `LogStore.open`."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: StoreSettings,
        rng: Rng,
        default_config: LogConfig,
        threads: int,
    ) -> None:
        self.disk = disk
        self.is_open = True
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures = FutureLogs(self, settings)
        self._made_ahead: dict[TopicPartition, PartitionLog] = {}
        self._preferred: dict[TopicPartition, str] = {}
        self.directories: list[LogDirectory] = []
        """The log directories that contain partitions, in the order of log.dirs."""
        self.previous_broker_epoch = NO_BROKER_EPOCH
        self.flushes_ms = Observations()
        self.default_config = default_config
        self._clock = clock
        self._settings = settings
        self._rng = rng
        self._threads = threads
        self._ownership = Ownership(disk, clock, rng)
        self._checkpoints = OffsetCheckpoints(disk, self._logs_in)
        self._sync_threads = SYNC_THREADS if threads > 1 else 1
        self._settling = Settling(disk, self._checkpoints.write_all, self._sync_threads)
        self._every: list[
            LogDirectory
        ] = []  # the directories, and that of the metadata log if it is another one
        self._metadata_path = ""

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
        store = cls(disk, clock, settings, rng, default_config or LogConfig(), recovery_threads)
        store._metadata_path = metadata_log_dir or log_dirs[0]
        pool = HandlePool(disk, handle_capacity)
        store._every = [
            LogDirectory(
                path,
                pool,
                background=background(path),
                monotonic=clock.monotonic,
                on_failure=on_failure,
                flushes_ms=store.flushes_ms,
            )
            for path in dict.fromkeys((*log_dirs, store._metadata_path))
        ]
        store.directories = [directory for directory in store._every if directory.path in log_dirs]
        try:
            store._ownership.claim(store._every, node_id)
            for directory in store._every:
                if directory.error is None:
                    store._load_directory(directory, config_for or (lambda _topic: store.default_config))
        except BaseException:
            store._ownership.release()
            raise
        if all(directory.error is not None for directory in store.directories):
            store._ownership.release()
            reasons = "; ".join(str(directory.error) for directory in store.directories)
            raise StorageError(f"None of the log directories works: {reasons}")
        store._settling.run()
        return store

    # --- opening

    def _load_directory(self, directory: LogDirectory, config_for: Callable[[str], LogConfig]) -> None:
        began = self._clock.monotonic()
        try:
            broker_epoch = self._take_clean_shutdown(directory.path)
            recovery_points = self._read_forgivingly(directory.path, RECOVERY_POINT_FILE)
            log_start_offsets = self._read_forgivingly(directory.path, LOG_START_OFFSET_FILE)
            high_watermarks = read_offsets(self.disk, f"{directory.path}/{HIGH_WATERMARK_FILE}")
            names = self._partition_dirs(directory)
        except (OSError, CorruptRecordError) as error:
            _failed_at_start(directory, error)
            return
        clean = broker_epoch is not None
        if broker_epoch is not None:
            self.previous_broker_epoch = max(self.previous_broker_epoch, broker_epoch)

        progress = None if clean else LoadingProgress(self._clock, directory.path, len(names))

        def load(found: PartitionDir) -> None:
            name, topic, partition, suffix = found
            key = TopicPartition(topic, partition)
            recovery_point = recovery_points.get(key, FIRST_OFFSET)
            # The entry of the metadata log has its committed offset. No other file has this offset.
            is_metadata = topic == CLUSTER_METADATA_TOPIC
            state = LoadState(
                clean,
                recovery_point,
                log_start_offsets.get(key, FIRST_OFFSET),
                recovery_point if is_metadata else high_watermarks.get(key, FIRST_OFFSET),
                must_keep=is_metadata,
            )
            if is_metadata:
                self._checkpoints.kept_offset = recovery_point
            if directory.error is not None:
                return
            try:
                log = load_log(directory, name, key, config_for(topic), self._settings, state)
            except (OSError, CorruptRecordError) as error:
                _failed_at_start(directory, error)
                return
            twin = (self.futures.logs if suffix else self.logs).setdefault(key, log)
            if progress is not None:
                progress.loaded()
            if twin is not log:
                raise StorageError(f"Duplicate log directories found: {log.path}, {twin.path}")

        # Recovery is faster in several threads, because it mostly reads files and computes checksums. A clean start is
        # not faster in threads, because it mostly runs Python code.
        self._each(load, names, parallel=not clean)
        kept = {TopicPartition(topic, partition) for _name, topic, partition, _suffix in names}
        for key in {**recovery_points, **log_start_offsets, **high_watermarks}:
            if key not in kept:  # deleted before the restart, or removed by hand
                self._settling.gone(directory, key)
        if names and directory.error is None:
            how = "after a clean shutdown, without recovery" if clean else "with recovery: no clean shutdown"
            elapsed_ms = (self._clock.monotonic() - began) * 1000
            _log.info("Loaded %d logs of %s in %.0f ms %s", len(names), directory.path, elapsed_ms, how)

    def _each(
        self, work: Callable[[PartitionDir], None], names: Sequence[PartitionDir], *, parallel: bool
    ) -> None:
        if parallel and self._threads > 1 and len(names) > 1:
            with ThreadPoolExecutor(self._threads, "log-recovery") as threads:
                for _ in threads.map(work, names):
                    pass
        else:
            for name in names:
                work(name)

    def _take_clean_shutdown(self, path: str) -> int | None:
        marker = f"{path}/{CLEAN_SHUTDOWN_FILE}"
        broker_epoch = read_clean_shutdown(self.disk, marker)
        if broker_epoch is not None:
            self.disk.remove(marker)
            self.disk.sync_dir(path)
        return broker_epoch

    def _read_forgivingly(self, path: str, name: str) -> dict[TopicPartition, Offset]:
        try:
            return read_offsets(self.disk, f"{path}/{name}")
        except CorruptRecordError as error:
            _log.warning("%s: the file is ignored, and every log begins at offset 0 in it", error)
            return {}

    def _partition_dirs(self, directory: LogDirectory) -> list[PartitionDir]:
        """Returns the partition directories to load. Adds directories with the suffix `-delete` to the queue of
        deletions."""
        names, strays = [], []
        delay_ms = self.default_config.file_delete_delay_ms
        found = self.disk.list_dirs(directory.path)
        if METADATA_LOG in found and directory.path != self._metadata_path:
            raise StorageError(
                f"Found unexpected metadata location in data directory {directory.path} (the configured metadata "
                f"directory is {self._metadata_path})."
            )
        if directory not in self.directories:
            return [(METADATA_LOG, CLUSTER_METADATA_TOPIC, 0, "")] if METADATA_LOG in found else []
        for name in found:
            if name == REMOTE_INDEX_CACHE:
                continue
            parsed = parse_partition_dir_name(name)
            if parsed is None:
                raise StorageError(
                    f"Found directory {directory.path}/{name}, '{name}' is not in the form of "
                    f"topic-partition or topic-partition.uniqueId-delete (if marked for deletion). Kafka's log "
                    f"directories (and children) should only contain Kafka topic data."
                )
            match parsed[2]:
                case suffix if suffix in ("", FUTURE_SUFFIX):
                    names.append((name, *parsed))
                case suffix if suffix == DELETE_SUFFIX:
                    directory.deletions.add([f"{directory.path}/{name}"], delay_ms)
                case _:
                    strays.append(name)
        if strays:
            shown = ", ".join(strays[:STRAYS_SHOWN])
            _log.warning("%s: %d stray logs are kept and not served: %s", directory.path, len(strays), shown)
        return names

    # --- logs

    def all_logs(self) -> list[PartitionLog]:
        """The logs at the time of the call. May be called in any thread.

        Python copies the values of a dictionary without running other code. A copy of its items, in contrast, makes
        tuples, so the garbage collector may run, and another thread may then change the dictionary.
        """
        return list(self.logs.values())

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
        log = self.logs.get(TopicPartition(topic, partition))
        if log is None:
            log = self._made_ahead.pop(TopicPartition(topic, partition), None)
            if log is None:
                log = self._make(NewLog(topic, partition, topic_id, config or self.default_config, assigned))
            self.logs[TopicPartition(topic, partition)] = log
            self._settling.made(log)
            if not more:
                self.settle_soon()
        elif log.topic_id is None and topic_id is not None:
            # The broker crashed after the directory was made and before the topic id was on the device.
            log.durability.begin(topic_id)
            self._settling.made(log)
            if not more:
                self.settle_soon()
        elif topic_id is not None and log.topic_id != topic_id:
            raise InconsistentTopicIdException(
                f"{log.path} belongs to topic id {log.topic_id}, but {topic} has topic id {topic_id}"
            )
        return log

    def make_ahead(self, wanted: Iterable[NewLog]) -> None:
        """Makes logs before `create` needs them. If a log cannot be made, `create` raises the error later. May block.
        May be called in any thread."""
        for new in wanted:
            key = TopicPartition(new.topic, new.partition)
            if key not in self.logs:
                try:
                    self._made_ahead[key] = self._make(new)
                except (StorageError, KafkaError):
                    return

    def _make(self, new: NewLog) -> PartitionLog:
        key = TopicPartition(new.topic, new.partition)
        directory = self._directory_for(*key, new.assigned)
        self._settling.before_making(key, directory)
        name = partition_dir_name(*key)
        try:
            return make_log(directory, name, key, new.topic_id, new.config, self._settings)
        except OSError as error:
            raise directory.failed(error) from error

    def _directory_for(self, topic: str, partition: int, assigned: uuid.UUID | None) -> LogDirectory:
        candidates = self.directories
        if topic == CLUSTER_METADATA_TOPIC:
            candidates = [directory for directory in self._every if directory.path == self._metadata_path]
        online = [directory for directory in candidates if directory.error is None]
        if assigned is not None and assigned != UNASSIGNED_DIRECTORY:
            for directory in online:
                if directory.id == assigned:
                    return directory
            if len(online) < len(candidates):
                raise KafkaStorageException(
                    f"The log of {topic}-{partition} is in log directory {assigned}, which is offline"
                )
        preferred = self._preferred.pop(TopicPartition(topic, partition), None)
        for directory in online:
            if directory.path == preferred:
                return directory
        if not online:
            raise KafkaStorageException(f"No log directory is online for a log of {topic}")
        return min(online, key=lambda directory: directory.open_logs)

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Sets the directory for a log that does not exist yet (KIP-113). `create` will make the log in this
        directory."""
        if len(self._preferred) < MAX_PREFERRED:
            self._preferred[TopicPartition(topic, partition)] = path

    def delete(self, topic: str, partition: int, *, more: bool = False) -> None:
        """Takes the log of a partition out of service immediately. Its files are removed after `file.delete.delay.ms`.
        `more` has the same meaning as in `create`."""
        self._preferred.pop(TopicPartition(topic, partition), None)
        self.futures.abandon(topic, partition)
        log = self.logs.get(TopicPartition(topic, partition))
        if log is not None:
            directory = log.directory  # a closed log has no directory
            self._delete_later(directory, log, self._set_aside(log, DELETE_SUFFIX))
            self._settling.gone(directory, TopicPartition(topic, partition))
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
        for logs in (self.logs, self.futures.logs):
            if logs.get(key) is log:
                del logs[key]
        return path

    # --- housekeeping

    def delete_old_segments(self, now_ms: int) -> Generator[None, None, int]:
        """Applies retention to every log except the metadata log, because its retention depends on snapshots. Yields
        after each log. If a disk fails, the logs in other directories are not affected."""
        deleted = 0
        for log in self.all_logs():
            if log.topic != CLUSTER_METADATA_TOPIC:
                deleted += self._safely(lambda log: log.delete_old_segments(now_ms), [log])
            yield
        return deleted

    def delete_due_files(self) -> int:
        """Removes files and directories whose delay is over (`DeletionQueue`). Returns their number. May block."""
        return sum(directory.deletions.run() for directory in self._every)

    def has_due_files(self) -> bool:
        """Whether `delete_due_files` has something to remove."""
        return any(directory.deletions.is_due for directory in self._every)

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Sets a new `producer.id.expiration.ms`, for existing and for new logs."""
        self._settings.producer_expiration_ms = expiration_ms
        for log in (*self.logs.values(), *self._made_ahead.values(), *self.futures.logs.values()):
            log.producers.expire_after(expiration_ms)

    def remove_expired_producers(self, now_ms: int) -> Generator[None, None, int]:
        """Drops the producers that were idle for longer than `producer.id.expiration.ms`. Yields after each log, and
        returns their number.
        """
        removed = 0
        for log in self.all_logs():
            removed += yield from log.producers.remove_expired(now_ms)
            yield
        return removed

    def flush_due(self, now_ms: int) -> None:
        """Flushes the logs whose `flush.ms` has passed. May block."""
        self._safely(
            lambda log: (
                log.durability.flush()
                if now_ms - log.durability.last_flush_ms >= log.config.flush_ms
                else None
            ),
            self.all_logs(),
        )

    def flush_all(self) -> None:
        """Flushes all logs. May block."""
        self._safely(lambda log: log.durability.flush(), self.all_logs())

    def _safely(self, work: Callable[[PartitionLog], int | None], logs: Sequence[PartitionLog]) -> int:
        """Runs `work` on each log whose directory is online. Returns the sum of the results. Logs disk errors."""
        total = 0
        for log in logs:
            if log.directory.error is None:
                try:
                    total += work(log) or 0
                except StorageError as error:
                    _log.error("%s: %s", log.path, error)
        return total

    def describe(self) -> list[LogDirDescription]:
        return [
            describe_directory(directory, self._logs_in(directory), self.logs, self.futures.logs)
            for directory in self.directories
        ]

    def _logs_in(self, directory: LogDirectory) -> Iterable[PartitionLog]:
        for log in [*self.logs.values(), *self.futures.logs.values()]:
            if log.directory.path == directory.path:
                yield log

    # --- checkpoints

    def checkpoint_recovery_points(self) -> None:
        for directory in self._online():
            self._checkpoints.write_recovery_points(directory)

    def checkpoint_high_watermarks(self) -> None:
        for directory in self._online():
            self._checkpoints.write_high_watermarks(directory)

    def checkpoint_log_start_offsets(self) -> None:
        for directory in self._online():
            self._checkpoints.write_log_starts(directory)

    def checkpoint_directory(self, directory: LogDirectory) -> bool:
        """Writes all checkpoints of a directory. Returns False if a checkpoint could not be written."""
        return self._checkpoints.write_all(directory)

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

        in_threads(lambda log: self._safely(sync, [log]), logs, self._sync_threads)
        directories = {id(directory): directory for _log, directory, _truncations in cuts}.values()
        written = [each for each in directories if each.error is None and self.checkpoint_directory(each)]
        for log, directory, truncations in cuts:
            if log in synced and directory in written:
                log.durability.note_durable_cuts(truncations)

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._every if directory.error is None]

    # --- closing

    def close(self, clean: bool = True, *, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Closes the store and releases the locks. If `clean` is True, first flushes all logs and writes checkpoints
        and clean-shutdown markers."""
        self.is_open = False
        if clean:
            self._add_made_ahead()
            self._settling.run()
        for directory in self._every:
            logs = [
                log
                for log in (*self.logs.values(), *self.futures.logs.values())
                if log.directory is directory
            ]
            closed = directory.error is None and close_logs(directory, logs, self._sync_threads, clean=clean)
            if clean and closed and directory.error is None and self.checkpoint_directory(directory):
                try:
                    write_clean_shutdown(self.disk, f"{directory.path}/{CLEAN_SHUTDOWN_FILE}", broker_epoch)
                except OSError as error:
                    directory.failed(error)
        self.logs.clear()
        self.futures.logs.clear()
        self._ownership.release()

    def _add_made_ahead(self) -> None:
        """Adds the logs to the store that `make_ahead` has made and `create` has not used. So these logs are closed
        too, and the next start uses them.
        """
        for key, log in list(self._made_ahead.items()):
            if self.logs.setdefault(key, log) is log:
                self._settling.made(log)
        self._made_ahead.clear()


def _failed_at_start(directory: LogDirectory, cause: Exception) -> None:
    """Takes a directory offline. Raises ShortageError if the disk has not failed, because a start without some logs
    would make these logs again.
    """
    error = directory.failed(cause)
    if isinstance(error, ShortageError):
        raise error from cause
