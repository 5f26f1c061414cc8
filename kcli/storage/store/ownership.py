"""Locks log directories, and checks their meta.properties.

Only one broker at a time may use a directory. The directory must be formatted for the cluster and the node id of this
broker.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence

from kcli.errors import StorageError
from kcli.runtime.clock import Clock
from kcli.runtime.descriptors import is_shortage
from kcli.runtime.disk import Disk, FileLock, make_durable_dir
from kcli.runtime.rng import Rng
from kcli.storage.directory import LogDirectory
from kcli.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties

_log = logging.getLogger(__name__)

LOCK_FILE = ".lock"


class Ownership:
    """Owns the directories of one store, from `claim` to `release`."""

    def __init__(self, disk: Disk, clock: Clock, rng: Rng) -> None:
        self.cluster_id: str | None = None
        self._disk = disk
        self._clock = clock
        self._rng = rng
        self._locks: dict[str, FileLock] = {}

    def claim(self, directories: Sequence[LogDirectory], node_id: int) -> None:
        """Locks the directories and checks their owner. Raises StorageError if a directory is locked or belongs to
        another node or cluster, or if no directory is formatted."""
        properties_by_path: dict[str, MetaProperties] = {}
        for directory in directories:
            try:
                make_durable_dir(self._disk, directory.path)
                self._locks[directory.path] = self._lock(directory.path)
                properties = read_meta_properties(self._disk, directory.path)
            except OSError as error:
                if is_shortage(error):
                    raise StorageError(f"{directory.path} cannot be opened: {error}") from error
                directory.failed(error)
                continue
            if properties is not None:
                properties_by_path[directory.path] = properties
        self._check_identity(properties_by_path, node_id)
        for directory in directories:
            if directory.error is None:
                self._identify(directory, properties_by_path.get(directory.path), node_id)

    def _lock(self, path: str) -> FileLock:
        try:
            return self._disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError:
            raise StorageError(
                f"Failed to acquire lock on file {LOCK_FILE} in {path}. A Kafka instance in another process or "
                f"thread is using this directory."
            ) from None

    def _check_identity(self, properties_by_path: Mapping[str, MetaProperties], node_id: int) -> None:
        if not properties_by_path:
            raise StorageError("No readable meta.properties files found.")
        seen_directory_ids: dict[uuid.UUID, str] = {}
        for path, properties in properties_by_path.items():
            if properties.node_id not in (None, node_id):
                raise StorageError(
                    f"{path} belongs to node {properties.node_id}, but this is node {node_id} (node.id)"
                )
            if self.cluster_id is not None and properties.cluster_id != self.cluster_id:
                raise StorageError(
                    f"{path} belongs to cluster {properties.cluster_id}, others to {self.cluster_id}: "
                    f"all log.dirs must be of one cluster"
                )
            self.cluster_id = properties.cluster_id
            if properties.directory_id is not None:
                twin = seen_directory_ids.setdefault(properties.directory_id, path)
                if twin != path:
                    raise StorageError(
                        f"{path} and {twin} have the same directory.id: one is a copy of the other"
                    )

    def _identify(self, directory: LogDirectory, properties: MetaProperties | None, node_id: int) -> None:
        """Sets the id of a directory. Makes a new id if the directory has none, because its disk is new or because it
        was formatted before KIP-858."""
        if properties is None or properties.directory_id is None:
            properties = MetaProperties(self.cluster_id, node_id, self._rng.uuid())
            try:
                write_meta_properties(self._disk, directory.path, properties, self._clock.now_ms())
            except OSError as error:
                directory.failed(error)
        directory.id = properties.directory_id

    def release(self) -> None:
        for path, lock in list(self._locks.items()):
            try:
                lock.release()
            except OSError as error:
                _log.error("%s: the lock file cannot be removed: %s", path, error)
        self._locks.clear()
