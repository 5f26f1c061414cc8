"""The batches of one replica. A check reads them from the log or from the disk of the replica.

A check needs only the headers: the checksum in a header covers the records, so two batches with equal headers are
equal. A batch is read once, when it is appended. So a check after every event is fast.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from kcli.errors import CorruptRecordError
from kcli.model.buffers import Buffer
from kcli.model.ids import Offset
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import BatchHeader, Record, crc_is_valid, iter_batches, read_records
from kcli.storage.files import LOG_SUFFIX, offset_of
from kcli.storage.log.log import PartitionLog
from simulation.runtime.disk import SimDisk

READ_BYTES = 1 << 20

Content = tuple[bytes | None, bytes | None]
"""Key and value of a record."""
Latest = tuple[int, bytes | None] | None
"""The offset and the value of the last record of a key. None if a transaction has written it."""


class ReplicaBatch(NamedTuple):
    """The identity of a batch in one partition."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_control: bool
    is_transactional: bool = False

    @classmethod
    def of(cls, header: BatchHeader) -> ReplicaBatch:
        return cls(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header.crc,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            header.is_control,
            header.is_transactional,
        )

    def __str__(self) -> str:
        return f"[{self.base_offset}..{self.next_offset}) of epoch {self.leader_epoch} (crc {self.crc:08x})"


class ReplicaLog:
    """The batches between `start` and `end`, by base offset. `before` finds the batch that ends at an offset."""

    __slots__ = ("_by_end", "batches", "end", "open", "start")

    def __init__(self, start: int = 0) -> None:
        self.start = self.end = start
        self.batches: list[ReplicaBatch] = []
        self.open: dict[int, int] = {}
        """The first offset of each open transaction, by producer id."""
        self._by_end: dict[int, ReplicaBatch] = {}

    def append(self, batch: ReplicaBatch) -> None:
        # A log may begin inside its first batch.
        assert batch.base_offset >= self.end or not self.batches, f"{batch} follows an end of {self.end}"
        self.batches.append(batch)
        self._by_end[batch.next_offset] = batch
        self.end = batch.next_offset
        if batch.is_control:
            self.open.pop(batch.producer_id, None)
        elif batch.is_transactional:
            self.open.setdefault(batch.producer_id, batch.base_offset)

    def before(self, offset: int) -> ReplicaBatch | None:
        """The batch whose last record is just before `offset`. None if there is no such batch."""
        return self._by_end.get(offset)

    def between(self, start: int, end: int) -> list[ReplicaBatch]:
        """The batches that begin at `start` or later, and end at `end` or earlier."""
        found = []
        for batch in reversed(self.batches):
            if batch.base_offset < start:
                break
            if batch.next_offset <= end:
                found.append(batch)
        return found[::-1]


def read_log(log: PartitionLog, *, is_compacted: bool = False) -> ReplicaLog:
    """Reads all batches of a log. A compacted log may lack batches, also at its end."""
    replica = ReplicaLog(log.log_start_offset)
    read_more(log, replica, is_compacted=is_compacted)
    return replica


def read_more(log: PartitionLog, replica: ReplicaLog, *, is_compacted: bool = False) -> None:
    """Reads the batches that were appended after `replica.end`."""
    offset, end = Offset(replica.end), log.log_end_offset
    while offset < end:
        content = log.read(offset, READ_BYTES, end_offset=end).read()
        if is_compacted and not content:
            replica.end = end
            return
        assert content, f"{log} has no records at {offset}"
        for batch in _read_batches(content, log.path):
            if batch.next_offset > offset:
                replica.append(batch)
                offset = Offset(batch.next_offset)


def read_batches(log: PartitionLog, start: int, end: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yields the batches from `start` to `end` with their records. Checks their checksums."""
    offset = Offset(start)
    while offset < end:
        content = log.read(offset, READ_BYTES, end_offset=Offset(end)).read()
        if not content:
            return
        for position, header in iter_batches(content):
            if header.next_offset <= offset:
                continue
            assert crc_is_valid(content, position, header), (
                f"{log.path}: bad checksum at {header.base_offset}"
            )
            yield header, list(read_records(content, position))
            offset = header.next_offset


def read_disk(disk: SimDisk, directory: str, partition: TopicPartition) -> ReplicaLog:
    """Reads the files of a replica whose broker does not run. A torn batch at the end is left out, as at a start."""
    found = _segments(disk, directory, partition)
    replica = ReplicaLog(min(found, default=0))
    for base_offset, content in sorted(found.items()):
        replica.end = max(replica.end, base_offset)  # compaction may remove the last batches of a segment
        # After a loss of power, a file may have a hole of zeros.
        with contextlib.suppress(CorruptRecordError):
            for position, header in iter_batches(content):
                if not crc_is_valid(content, position, header) or header.base_offset < replica.end:
                    return replica
                replica.append(ReplicaBatch.of(header))
    return replica


def latest_values(disk: SimDisk, directory: str, partition: TopicPartition) -> dict[bytes, Latest]:
    """The offset and value of the last record of each key, from the files of a replica."""
    latest: dict[bytes, Latest] = {}
    for _, content in sorted(_segments(disk, directory, partition).items()):
        for position, header in iter_batches(content):
            if not header.is_control:
                for record in read_records(content, position):
                    latest[bytes(record.key or b"")] = record.offset, record.value
    return latest


def stored_records(
    disk: SimDisk, directory: str, partition: TopicPartition, base_offset: int
) -> list[Record] | None:
    """The records of a batch in the files of a replica. None if the files have no such batch."""
    segments = _segments(disk, directory, partition)
    start = max((each for each in segments if each <= base_offset), default=None)
    if start is not None:
        with contextlib.suppress(CorruptRecordError):
            for position, header in iter_batches(segments[start]):
                if header.base_offset == base_offset:
                    return list(read_records(segments[start], position))
    return None


def _segments(disk: SimDisk, directory: str, partition: TopicPartition) -> dict[Offset, bytes]:
    path = posixpath.join(directory, str(partition))
    return {
        offset: content
        for name, content in disk.contents(path).items()
        if (offset := _segment(name)) is not None
    }


def _segment(name: str) -> Offset | None:
    return offset_of(name) if name.endswith(LOG_SUFFIX) else None


def _read_batches(content: Buffer, path: str) -> Iterator[ReplicaBatch]:
    for position, header in iter_batches(content):
        assert crc_is_valid(content, position, header), f"{path}: bad checksum at {header.base_offset}"
        yield ReplicaBatch.of(header)
