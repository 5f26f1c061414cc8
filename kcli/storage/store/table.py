"""The logs of a store, by their partition."""

from __future__ import annotations

from kcli.model.topic_partition import TopicPartition
from kcli.storage.directory import LogDirectory
from kcli.storage.log.log import PartitionLog


class LogTable:
    """The logs in service, the copies of logs that move to another directory (`futures`), and the logs that were made
    before they are needed (`made_ahead`)."""

    __slots__ = ("futures", "logs", "made_ahead")

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        self.made_ahead: dict[TopicPartition, PartitionLog] = {}

    def in_service(self) -> list[PartitionLog]:
        """The logs in service at the time of the call. May be called in any thread.

        Python copies the values of a dictionary without running other code. A copy of its items, in contrast, makes
        tuples, so the garbage collector may run, and another thread may then change the dictionary.
        """
        return list(self.logs.values())

    def in_directory(self, directory: LogDirectory) -> list[PartitionLog]:
        """The logs and copies in a directory."""
        return [
            log
            for log in (*self.logs.values(), *self.futures.values())
            if log.directory.path == directory.path
        ]

    def remove(self, key: TopicPartition, log: PartitionLog) -> None:
        """Removes a log or a copy."""
        for logs in (self.logs, self.futures):
            if logs.get(key) is log:
                del logs[key]

    def clear(self) -> None:
        self.logs.clear()
        self.futures.clear()
