"""Loads the logs of a log directory at a start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kcli.config.topic import LogConfig
from kcli.errors import CorruptRecordError, ShortageError, StorageError
from kcli.model.ids import FIRST_OFFSET, NO_BROKER_EPOCH, Offset
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk
from kcli.storage.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    read_clean_shutdown,
    read_offsets,
)
from kcli.storage.directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    LogDirectory,
    parse_partition_dir_name,
    partition_dir_name,
)
from kcli.storage.log.settings import StoreSettings
from kcli.storage.store.loader import LoadState, load_log
from kcli.storage.store.loading_progress import LoadingProgress
from kcli.storage.store.placement import Placement
from kcli.storage.store.table import LogTable

_log = logging.getLogger(__name__)

REMOTE_INDEX_CACHE = "remote-log-index-cache"
METADATA_KEY = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
METADATA_LOG = partition_dir_name(*METADATA_KEY)

STRAYS_SHOWN = 10
"""The most stray logs that a line in the broker's log lists at a start, because thousands may exist."""


@dataclass(frozen=True, slots=True)
class _PartitionDir:
    """The directory of a log, or of a copy of a log that moves (`is_future`)."""

    name: str
    key: TopicPartition
    is_future: bool


@dataclass(frozen=True, slots=True)
class _Checkpoints:
    """The content of a directory's checkpoint files. `broker_epoch` is None after a crash."""

    broker_epoch: int | None
    recovery_points: dict[TopicPartition, Offset]
    log_start_offsets: dict[TopicPartition, Offset]
    high_watermarks: dict[TopicPartition, Offset]

    def state_of(self, key: TopicPartition) -> LoadState:
        recovery_point = self.recovery_points.get(key, FIRST_OFFSET)
        # The entry of the metadata log has its committed offset. No other file has this offset.
        is_metadata = key.topic == CLUSTER_METADATA_TOPIC
        return LoadState(
            self.broker_epoch is not None,
            recovery_point,
            self.log_start_offsets.get(key, FIRST_OFFSET),
            recovery_point if is_metadata else self.high_watermarks.get(key, FIRST_OFFSET),
            must_keep=is_metadata,
        )


class Opening:
    """Loads the logs of the directories of one store into its table."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        settings: StoreSettings,
        table: LogTable,
        placement: Placement,
        *,
        config_for: Callable[[str], LogConfig],
        delete_delay_ms: int,
        threads: int,
    ) -> None:
        self.broker_epoch = NO_BROKER_EPOCH
        """The newest broker epoch at a clean stop of the last run."""
        self.metadata_offset = FIRST_OFFSET
        """The metadata log must have every record before this offset."""
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._table = table
        self._placement = placement
        self._config_for = config_for
        self._delete_delay_ms = delete_delay_ms
        self._threads = threads

    def load(self, directory: LogDirectory) -> list[TopicPartition]:
        """Loads the logs of a directory. Returns the logs that have a checkpoint entry, but no directory: they were
        deleted before the restart, or removed by hand. An error of the disk takes the directory offline."""
        began = self._clock.monotonic()
        try:
            checkpoints = self._read_checkpoints(directory.path)
            partition_dirs = self._partition_dirs(directory)
        except (OSError, CorruptRecordError) as error:
            _failed_at_start(directory, error)
            return []
        clean = checkpoints.broker_epoch is not None
        if checkpoints.broker_epoch is not None:
            self.broker_epoch = max(self.broker_epoch, checkpoints.broker_epoch)
        progress = None if clean else LoadingProgress(self._clock, directory.path, len(partition_dirs))

        def load(partition_dir: _PartitionDir) -> None:
            self._load_log(directory, partition_dir, checkpoints.state_of(partition_dir.key))
            if progress is not None and directory.error is None:
                progress.loaded()

        # Recovery is faster in several threads, because it mostly reads files and computes checksums. A clean start is
        # not faster in threads, because it mostly runs Python code.
        if not clean and self._threads > 1 and len(partition_dirs) > 1:
            with ThreadPoolExecutor(self._threads, "log-recovery") as threads:
                for _ in threads.map(load, partition_dirs):
                    pass
        else:
            for partition_dir in partition_dirs:
                load(partition_dir)
        if partition_dirs and directory.error is None:
            how = "after a clean shutdown, without recovery" if clean else "with recovery: no clean shutdown"
            elapsed_ms = (self._clock.monotonic() - began) * 1000
            _log.info(
                "Loaded %d logs of %s in %.0f ms %s", len(partition_dirs), directory.path, elapsed_ms, how
            )
        present = {partition_dir.key for partition_dir in partition_dirs}
        noted = {
            **checkpoints.recovery_points,
            **checkpoints.log_start_offsets,
            **checkpoints.high_watermarks,
        }
        return [key for key in noted if key not in present]

    def _load_log(self, directory: LogDirectory, partition_dir: _PartitionDir, state: LoadState) -> None:
        key = partition_dir.key
        if state.must_keep:
            self.metadata_offset = state.recovery_point
        if directory.error is not None:
            return
        config = self._config_for(key.topic)
        try:
            log = load_log(directory, partition_dir.name, key, config, self._settings, state)
        except (OSError, CorruptRecordError) as error:
            _failed_at_start(directory, error)
            return
        logs = self._table.futures if partition_dir.is_future else self._table.logs
        twin = logs.setdefault(key, log)
        if twin is not log:
            raise StorageError(f"Duplicate log directories found: {log.path}, {twin.path}")

    def _read_checkpoints(self, path: str) -> _Checkpoints:
        return _Checkpoints(
            self._take_clean_shutdown(path),
            self._read_forgivingly(path, RECOVERY_POINT_FILE),
            self._read_forgivingly(path, LOG_START_OFFSET_FILE),
            read_offsets(self._disk, f"{path}/{HIGH_WATERMARK_FILE}"),
        )

    def _take_clean_shutdown(self, path: str) -> int | None:
        marker = f"{path}/{CLEAN_SHUTDOWN_FILE}"
        broker_epoch = read_clean_shutdown(self._disk, marker)
        if broker_epoch is not None:
            self._disk.remove(marker)
            self._disk.sync_dir(path)
        return broker_epoch

    def _read_forgivingly(self, path: str, name: str) -> dict[TopicPartition, Offset]:
        try:
            return read_offsets(self._disk, f"{path}/{name}")
        except CorruptRecordError as error:
            _log.warning("%s: the file is ignored, and every log begins at offset 0 in it", error)
            return {}

    def _partition_dirs(self, directory: LogDirectory) -> list[_PartitionDir]:
        """Returns the partition directories to load. Adds directories with the suffix `-delete` to the queue of
        deletions."""
        names = self._disk.list_dirs(directory.path)
        metadata_path = self._placement.metadata_path
        if METADATA_LOG in names and directory.path != metadata_path:
            raise StorageError(
                f"Found unexpected metadata location in data directory {directory.path} (the configured metadata "
                f"directory is {metadata_path})."
            )
        if directory not in self._placement.directories:
            return [_PartitionDir(METADATA_LOG, METADATA_KEY, False)] if METADATA_LOG in names else []
        partition_dirs, strays = [], []
        for name in names:
            if name == REMOTE_INDEX_CACHE:
                continue
            parsed = parse_partition_dir_name(name)
            if parsed is None:
                raise StorageError(
                    f"Found directory {directory.path}/{name}, '{name}' is not in the form of "
                    f"topic-partition or topic-partition.uniqueId-delete (if marked for deletion). Kafka's log "
                    f"directories (and children) should only contain Kafka topic data."
                )
            topic, partition, suffix = parsed
            if suffix in ("", FUTURE_SUFFIX):
                key = TopicPartition(topic, partition)
                partition_dirs.append(_PartitionDir(name, key, suffix == FUTURE_SUFFIX))
            elif suffix == DELETE_SUFFIX:
                directory.deletions.add([f"{directory.path}/{name}"], self._delete_delay_ms)
            else:
                strays.append(name)
        if strays:
            shown = ", ".join(strays[:STRAYS_SHOWN])
            _log.warning("%s: %d stray logs are kept and not served: %s", directory.path, len(strays), shown)
        return partition_dirs


def _failed_at_start(directory: LogDirectory, cause: Exception) -> None:
    """Takes a directory offline. Raises ShortageError if the disk has not failed, because a start without some logs
    would make these logs again.
    """
    error = directory.failed(cause)
    if isinstance(error, ShortageError):
        raise error from cause
