"""The log of records under a store: an internal topic, or the memory of a single worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kcli.connect.decisions.json_values import Entry
from kcli.connect.stores.store import TaskProducer
from kcli.formats.connect.errors import ConnectException

Take = Callable[[int, bytes | None, bytes | None], None]
"""Gets the offset, the key and the value of each record, in the order of its partition."""


class RecordLog(Protocol):
    async def start(self, take: Take) -> None:
        """Reads all records, and then follows the log. `take` gets every record, also those that this worker writes."""
        ...

    async def stop(self) -> None: ...

    async def read_to_end(self) -> None:
        """Returns when `take` has got all records that the log has at the time of the call."""
        ...

    async def claim(self) -> None:
        """Fences the leaders before this one, if the log can do that."""
        ...

    async def append(self, entries: Sequence[Entry], *, as_leader: bool) -> None:
        """Writes records, those of the leader in one transaction if the log can do that.

        Returns when `take` has got them. Raises ConnectException if the leader is fenced or has not claimed the log,
        and KafkaError.
        """
        ...

    async def append_as(self, producer: TaskProducer, entries: Sequence[Entry]) -> None:
        """Fences the producer of a task, and writes records in its transactions. Returns when `take` has got them.

        Raises ConnectException if the log has no transactions, and KafkaError.
        """
        ...

    def send(self, entry: Entry, is_valid: Callable[[], bool] | None = None) -> None:
        """Writes a record in the background. Before each attempt, it asks whether the record is still valid."""
        ...

    async def flush(self) -> None:
        """Returns when the records of each `send` before are written."""
        ...


class MemoryLog:
    """A log of which nothing is kept but what `take` keeps."""

    def __init__(self) -> None:
        self._offset = 0
        self._take: Take | None = None

    async def start(self, take: Take) -> None:
        self._take = take

    async def stop(self) -> None:
        return

    async def read_to_end(self) -> None:
        return

    async def claim(self) -> None:
        return

    async def append(self, entries: Sequence[Entry], *, as_leader: bool) -> None:
        for entry in entries:
            self.send(entry)

    async def append_as(self, producer: TaskProducer, entries: Sequence[Entry]) -> None:
        raise ConnectException("a log in memory has no transactions")

    def send(self, entry: Entry, is_valid: Callable[[], bool] | None = None) -> None:
        assert self._take is not None, "the log has started"
        if is_valid is None or is_valid():
            self._take(self._offset, *entry)
            self._offset += 1

    async def flush(self) -> None:
        return
