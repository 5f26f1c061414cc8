"""What new and deleted logs still owe to the device, paid in the background.

Creating or deleting a thousand partitions means as many new names, each to be synced: seconds that no request should
wait for, and on the event loop all would. So a log is served as soon as its files are there, as in Kafka. Until it is
settled a power failure may take it, but then no record in it was flushed either: the first flush settles the log.
A deleted log is out of service at once. Its entries in the checkpoints, which say where it was cut, go before another
log takes its name.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from kcli.errors import CorruptRecordError, StorageError
from kcli.model.topic_partition import TopicPartition
from kcli.runtime.disk import Disk
from kcli.storage.checkpoint import CLEANER_OFFSET_FILE, read_offsets, write_offsets
from kcli.storage.directory import Background, LogDirectory
from kcli.storage.log.log import PartitionLog

logger = logging.getLogger(__name__)


class _Gone:
    """One deletion: of two logs of one name each is told from the other."""

    __slots__ = ("directory",)

    def __init__(self, directory: LogDirectory) -> None:
        self.directory = directory


class Settling:
    """`made`, `gone` and `soon` are told on the event loop; `run` may block."""

    def __init__(self, disk: Disk, checkpoint: Callable[[LogDirectory], None]) -> None:
        """`checkpoint` writes what says where the logs of a directory were cut."""
        self._disk = disk
        self._checkpoint = checkpoint
        self._made: deque[PartitionLog] = deque()
        self._gone: dict[tuple[TopicPartition, str], _Gone] = {}
        self._is_asked = False
        self._background: Background | None = None
        self._settling = threading.Lock()
        self._forgetting = threading.Lock()

    def made(self, log: PartitionLog) -> None:
        self._made.append(log)
        self._background = log.directory.background

    def gone(self, directory: LogDirectory, key: TopicPartition) -> None:
        """The log's directory has another name now."""
        self._gone[key, directory.path] = _Gone(directory)
        self._background = directory.background

    def before_making(self, key: TopicPartition, directory: LogDirectory) -> None:
        """A log of this name is about to be made there: what was written of an older one must be gone."""
        if (key, directory.path) in self._gone:
            self._forget_gone()

    def soon(self) -> None:
        """Has it all done in the background."""
        if not self._is_asked and (self._made or self._gone):
            self._is_asked = True
            assert self._background is not None, "it came with the first of them"
            self._background(self.run)

    def run(self) -> None:
        self._is_asked = False  # what comes from now on asks again
        self._forget_gone()
        with self._settling:
            self._settle_made()

    def _settle_made(self) -> None:
        named: dict[LogDirectory, list[PartitionLog]] = {}
        while self._made:
            log = self._made.popleft()
            if log.is_settled:
                continue  # by a flush
            directory = log.directory
            try:
                log.settle_files()
                named.setdefault(directory, []).append(log)
            except StorageError:
                pass  # the log was deleted meanwhile, or its directory has failed and said so
        for directory, logs in named.items():
            if self._synced(directory):
                for log in logs:
                    log.is_settled = True

    def _forget_gone(self) -> None:
        with self._forgetting:
            gone = dict(self._gone)
            keys: dict[LogDirectory, list[TopicPartition]] = {}
            for (key, _path), each in gone.items():
                keys.setdefault(each.directory, []).append(key)
            for directory, forgotten in keys.items():
                if self._synced(directory):
                    self._checkpoint(directory)
                    self.forget_cleaned(directory, forgotten)
            for entry, each in gone.items():
                if self._gone[entry] is each:  # else one more log of the name has gone meanwhile
                    del self._gone[entry]

    def _synced(self, directory: LogDirectory) -> bool:
        if directory.error is not None:
            return False
        try:
            self._disk.sync_dir(directory.path)
        except OSError as error:
            directory.failed(error)
        return directory.error is None

    def forget_cleaned(self, directory: LogDirectory, keys: Iterable[TopicPartition]) -> None:
        """How far the cleaner came in logs that are no more."""
        path, gone = f"{directory.path}/{CLEANER_OFFSET_FILE}", set(keys)
        try:
            with directory.checkpointing:
                cleaned = read_offsets(self._disk, path)
                kept = {key: offset for key, offset in cleaned.items() if key not in gone}
                if len(kept) < len(cleaned):
                    write_offsets(self._disk, path, kept)
        except OSError as error:
            directory.failed(error)
        except CorruptRecordError as error:
            logger.warning("%s", error)  # the cleaner takes it for empty, and writes it anew
