"""Which offsets of a source task may be stored: those of records that are in their topics.

An offset may be stored only if all records before it in the same source partition are acknowledged too. There are two
ledgers, because an acknowledgement in Python for each record takes longer than everything else that is done for it:

- `Acknowledgements` follows each record. A task needs it if it overrides `commit_record`, or tolerates errors.
- `Batches` knows only the latest offsets that were sent, and whether all records are acknowledged. So a flush waits
  until the producer has no records in flight, and if that does not happen in time, it stores the offsets of the last
  moment at which it had none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from kcli.connect.decisions.offset_records import offset_key, offset_value
from kcli.connectors.interface import Offset, Partition
from kcli.connectors.records import SourceRecord

Entries = dict[bytes, bytes | None]
"""Keys and values for the offsets topic."""


def latest_offsets(connector: str, records: Sequence[SourceRecord]) -> Entries:
    """The last offset of each source partition in a list of records. Raises DataException."""
    # Most tasks use one object for all records of a partition, so that few partitions must be encoded. Of two equal
    # partitions that are different objects, the later one must win, so the table is in the reverse order of records.
    last: dict[int, SourceRecord] = {}
    for record in reversed(records):
        last.setdefault(id(record.source_partition), record)
    return {
        offset_key(connector, record.source_partition): offset_value(record.source_offset)
        for record in reversed(last.values())
    }


class Batches:
    """The offsets of batches, of which the producer tells only when all are acknowledged."""

    def __init__(self) -> None:
        self._sent: Entries = {}
        self._acknowledged: Entries = {}

    def sent(self, entries: Mapping[bytes, bytes | None]) -> None:
        self._sent |= entries

    def all_acknowledged(self) -> None:
        """The producer has no record in flight."""
        if self._sent:
            self._acknowledged |= self._sent
            self._sent = {}

    def take(self) -> Entries:
        """Returns the offsets that may be stored, and that were not returned before."""
        taken, self._acknowledged = self._acknowledged, {}
        return taken

    def give_back(self, entries: Entries) -> None:
        """The offsets could not be stored. Newer ones take precedence."""
        self._acknowledged = entries | self._acknowledged


class Submitted:
    """A record that was given to the producer."""

    __slots__ = ("acknowledged", "key", "offset")

    def __init__(self, key: bytes, offset: Offset | None) -> None:
        self.key = key
        self.offset = offset
        self.acknowledged = False


class Acknowledgements:
    """The records of each source partition in their order, and which of them are acknowledged."""

    def __init__(self) -> None:
        self._partitions: dict[bytes, deque[Submitted]] = {}
        self._acknowledged: Entries = {}
        # Most tasks use one object for all records of a partition, so its key is encoded once.
        self._last_partition: Partition | None = {}
        self._last_key = b""

    def submit(self, connector: str, record: SourceRecord) -> Submitted:
        if record.source_partition is not self._last_partition:
            self._last_partition = record.source_partition
            self._last_key = offset_key(connector, record.source_partition)
        submitted = Submitted(self._last_key, record.source_offset)
        self._partitions.setdefault(self._last_key, deque()).append(submitted)
        return submitted

    def withdraw(self, submitted: Submitted) -> None:
        """The last submitted record of its partition was not sent, and will be submitted again."""
        self._partitions[submitted.key].pop()

    @property
    def pending(self) -> int:
        """The number of records that are not acknowledged, or that wait for an earlier one."""
        return sum(map(len, self._partitions.values()))

    def release(self) -> None:
        """Forgets the records whose offsets may be stored, except for the last offset of each partition.

        If they stayed until offsets are stored, the records of a minute would fill the memory.
        """
        for key, records in list(self._partitions.items()):
            last: Submitted | None = None
            while records and records[0].acknowledged:
                last = records.popleft()
            if last is not None:
                self._acknowledged.pop(key, None)
                self._acknowledged[key] = offset_value(last.offset)
            if not records:
                del self._partitions[key]

    def take(self) -> Entries:
        """Returns the offsets that may be stored, and that were not returned before."""
        self.release()
        taken, self._acknowledged = self._acknowledged, {}
        return taken

    def give_back(self, entries: Entries) -> None:
        """The offsets could not be stored. Newer ones take precedence."""
        self._acknowledged = entries | self._acknowledged
