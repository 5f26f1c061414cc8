"""Chooses the log directory of a new log."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from kcli.errors import KafkaStorageException
from kcli.metadata.image import UNASSIGNED_DIRECTORY
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.model.topic_partition import TopicPartition
from kcli.storage.directory import LogDirectory

MAX_PREFERRED = 10_000
"""The most preferred directories that are kept in memory. The number is limited, because clients may set directories
for partitions that are never created. The value is the most partitions that one request may create."""


class Placement:
    """The directories of a store. `directories` are those of log.dirs, in this order. `every` also contains the
    directory of the metadata log, which may be another one."""

    def __init__(self, every: Sequence[LogDirectory], log_dirs: Sequence[str], metadata_path: str) -> None:
        self.every = every
        self.directories = [directory for directory in every if directory.path in log_dirs]
        self.metadata_path = metadata_path
        self._preferred: dict[TopicPartition, str] = {}

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.every if directory.error is None]

    def directory_for(self, key: TopicPartition, assigned: uuid.UUID | None) -> LogDirectory:
        """Chooses the directory of a new log: the assigned one, the preferred one, or the one with the fewest logs.

        Raises KafkaStorageException if no directory is online, or if the assigned directory may be offline.
        """
        candidates = self.directories
        if key.topic == CLUSTER_METADATA_TOPIC:
            candidates = [directory for directory in self.every if directory.path == self.metadata_path]
        online = [directory for directory in candidates if directory.error is None]
        if assigned is not None and assigned != UNASSIGNED_DIRECTORY:
            for directory in online:
                if directory.id == assigned:
                    return directory
            if len(online) < len(candidates):
                raise KafkaStorageException(
                    f"The log of {key} is in log directory {assigned}, which is offline"
                )
        preferred = self._preferred.pop(key, None)
        for directory in online:
            if directory.path == preferred:
                return directory
        if not online:
            raise KafkaStorageException(f"No log directory is online for a log of {key.topic}")
        return min(online, key=lambda directory: directory.open_logs)

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Sets the directory for a log that does not exist yet (KIP-113)."""
        if len(self._preferred) < MAX_PREFERRED:
            self._preferred[TopicPartition(topic, partition)] = path

    def forget(self, key: TopicPartition) -> None:
        """Drops the preferred directory of a log."""
        self._preferred.pop(key, None)
