"""Writes the checkpoint files of a log directory. Each file contains an offset per log, which the next start reads."""

from __future__ import annotations

from collections.abc import Callable

from kcli.model.ids import Offset
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.runtime.disk import Disk, replace_file
from kcli.storage.checkpoint import (
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    encode_offsets,
)
from kcli.storage.directory import LogDirectory
from kcli.storage.log.log import PartitionLog
from kcli.storage.store.table import LogTable


class OffsetCheckpoints:
    """Writes the checkpoints of all directories. If the content has changed, the whole file is written again. A disk
    error takes the directory of the file offline. All methods may block."""

    def __init__(self, disk: Disk, table: LogTable) -> None:
        self.kept_offset = Offset(0)  # the metadata log must have every record before this offset
        self._disk = disk
        self._table = table
        self._written: dict[str, bytes] = {}

    def write_recovery_points(self, directory: LogDirectory) -> bool:
        return self._write(directory, RECOVERY_POINT_FILE, self._recovery_point)

    def write_high_watermarks(self, directory: LogDirectory) -> bool:
        return self._write(directory, HIGH_WATERMARK_FILE, _high_watermark)

    def write_log_starts(self, directory: LogDirectory) -> bool:
        return self._write(directory, LOG_START_OFFSET_FILE, _log_start)

    def write_all(self, directory: LogDirectory) -> bool:
        """Writes all checkpoints of a directory. Returns False if one could not be written."""
        written = [
            self.write_recovery_points(directory),
            self.write_log_starts(directory),
            self.write_high_watermarks(directory),
        ]
        return all(written)

    def _recovery_point(self, log: PartitionLog) -> Offset | None:
        """The recovery point of a log. In Kafka the metadata log has no recovery point. In kcli it is the offset up to
        which the metadata log was committed and on the device. If the next start finds an invalid batch before this
        offset, the disk has damaged the batch. A crash cannot be the cause."""
        if log.topic != CLUSTER_METADATA_TOPIC:
            return log.durability.recovery_point
        self.kept_offset = max(self.kept_offset, min(log.durability.recovery_point, log.high_watermark))
        return self.kept_offset or None

    def _write(
        self, directory: LogDirectory, name: str, offset_of: Callable[[PartitionLog], Offset | None]
    ) -> bool:
        path = f"{directory.path}/{name}"
        with directory.checkpointing:
            content = encode_offsets(
                (log.topic, log.partition, offset)
                for log in self._table.in_directory(directory)
                if (offset := offset_of(log)) is not None
            )
            if self._written.get(path) == content:
                return True  # an idle node writes nothing
            try:
                replace_file(self._disk, path, content)
            except OSError as error:
                directory.failed(error)
                return False
            self._written[path] = content
            return True


def _high_watermark(log: PartitionLog) -> Offset | None:
    """The high watermark of a log. None for the metadata log, because the quorum computes it after each start."""
    return None if log.topic == CLUSTER_METADATA_TOPIC else log.high_watermark


def _log_start(log: PartitionLog) -> Offset | None:
    """The log start offset of a log. None if it is the base offset of the first segment, because the file name contains
    it. None also for the metadata log, because the name of a snapshot contains it."""
    if log.topic == CLUSTER_METADATA_TOPIC:
        return None
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
