"""The stored form of a producer's state, and the content of `.snapshot` files.

Any client can invent producer ids, so the state of an id must be small. A producer is one object of `bytes`: the 46
bytes of its row in a snapshot, and 24 bytes for each of its newest batches. The object is replaced and never changed.
So another thread may read a list of such objects while the owner of the log appends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kcli.errors import CorruptRecordError
from kcli.model.ids import NO_OFFSET, NO_SEQUENCE, Offset, ProducerId
from kcli.protocol.batches.batch import MAX_SEQUENCE
from kcli.protocol.checksum import crc32c
from kcli.runtime.disk import Disk, read_file

CACHED_BATCHES = 5
"""The number of newest batches that are kept for each producer, to recognise duplicates. Because of this limit,
idempotent clients have at most five unanswered requests."""

NO_COORDINATOR_EPOCH = -1
SNAPSHOT_VERSION = 1

MANY_PRODUCERS = 2_000
"""A snapshot of fewer producers is made in a few milliseconds. A snapshot of more producers is made with numpy, in
another thread if the event loop runs."""

ROW = struct.Struct(">qhiqiqiq")
"""The row of a producer in a snapshot: producer id, epoch, last sequence, last offset, offset delta of the last batch,
last timestamp, coordinator epoch, first offset of the open transaction."""

BATCH = struct.Struct(">iiqq")
"""A batch: last sequence, offset delta, last offset, timestamp."""

BATCH_KEY = struct.Struct(">ii")

_HEAD = struct.Struct(">hIi")
_CRC_END = 6
_MIN_JAVA_CAPACITY = 16
_ROWS_PER_STEP = 20_000
"""The rows that are copied without a pause for other threads. This takes about a millisecond."""


class WrittenBatch(NamedTuple):
    """A batch that a producer wrote. `offset_delta` is the distance from the first to the last record, which is the
    same in offsets and in sequence numbers."""

    last_sequence: int
    last_offset: Offset
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> Offset:
        return Offset(self.last_offset - self.offset_delta)

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """The state of one producer id. `batches` has the newest five batches of the current epoch, oldest first."""

    producer_id: ProducerId
    epoch: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = -1
    current_txn_first_offset: Offset | None = None
    batches: tuple[WrittenBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> Offset:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def packed(self) -> bytes:
        """The stored form of this entry."""
        newest = self.batches[-1] if self.batches else WrittenBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
        first_offset = self.current_txn_first_offset
        row = ROW.pack(
            self.producer_id,
            self.epoch,
            newest.last_sequence,
            newest.last_offset,
            newest.offset_delta,
            self.last_timestamp_ms,
            self.coordinator_epoch,
            NO_OFFSET if first_offset is None else first_offset,
        )
        return row + b"".join(
            BATCH.pack(batch.last_sequence, batch.offset_delta, batch.last_offset, batch.timestamp_ms)
            for batch in self.batches
        )


def unpacked(packed: bytes) -> ProducerEntry:
    producer_id, epoch, _, _, _, timestamp_ms, coordinator_epoch, first_offset = ROW.unpack_from(packed)
    return ProducerEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp_ms,
        None if first_offset == NO_OFFSET else first_offset,
        tuple(
            WrittenBatch(last_sequence, Offset(last_offset), delta, time_ms)
            for last_sequence, delta, last_offset, time_ms in BATCH.iter_unpack(packed[ROW.size :])
        ),
    )


def written_batch(packed: bytes, last_sequence: int, offset_delta: int) -> WrittenBatch | None:
    """The kept batch of a producer that has this last sequence and this offset delta."""
    key = BATCH_KEY.pack(last_sequence, offset_delta)
    at = packed.find(key, ROW.size)
    while at >= 0:
        if (at - ROW.size) % BATCH.size == 0:
            _, _, last_offset, timestamp_ms = BATCH.unpack_from(packed, at)
            return WrittenBatch(last_sequence, Offset(last_offset), offset_delta, timestamp_ms)
        at = packed.find(key, at + 1)
    return None


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """The producers of a snapshot. `most_producers` is the largest number of producers so far. It decides the order of
    the rows, because Kafka's hash table of producers never shrinks."""

    producers: Sequence[bytes]
    most_producers: int

    def __len__(self) -> int:
        return len(self.producers)

    def encode(self) -> bytes:
        """The bytes of the file. May run in any thread."""
        body = self._body() if len(self) < MANY_PRODUCERS else self._large_body()
        head = _HEAD.pack(SNAPSHOT_VERSION, 0, len(self))
        checksum = crc32c(body, crc32c(head[_CRC_END:]))
        return _HEAD.pack(SNAPSHOT_VERSION, checksum, len(self)) + body

    @property
    def _java_capacity(self) -> int:
        """The size of Java's HashMap, which decides the order of its entries."""
        capacity = _MIN_JAVA_CAPACITY
        while self.most_producers > capacity * 3 // 4:
            capacity *= 2
        return capacity

    def _body(self) -> bytes:
        capacity = self._java_capacity
        rows: list[bytes] = [packed[: ROW.size] for packed in self.producers]
        return b"".join(sorted(rows, key=partial(_java_bucket, capacity=capacity)))

    def _large_body(self) -> bytes:
        import numpy as np  # imported here, because its import is slow

        parts = [
            b"".join([packed[: ROW.size] for packed in self.producers[begin : begin + _ROWS_PER_STEP]])
            for begin in range(0, len(self), _ROWS_PER_STEP)
        ]
        rows = np.frombuffer(b"".join(parts), np.dtype([("id", ">i8"), ("rest", f"V{ROW.size - 8}")]))
        ids = rows["id"].astype(np.int64).view(np.uint64)
        folded = (ids ^ ids >> np.uint64(32)) & np.uint64(0xFFFF_FFFF)
        buckets = (folded ^ folded >> np.uint64(16)) & np.uint64(self._java_capacity - 1)
        return bytes(rows[np.argsort(buckets, kind="stable")].tobytes())


def _java_bucket(row: bytes, capacity: int) -> int:
    (producer_id,) = _ID.unpack_from(row)
    folded = (producer_id ^ producer_id >> 32) & 0xFFFF_FFFF
    return int((folded ^ folded >> 16) & capacity - 1)


_ID = struct.Struct(">q")
_EMPTY_SNAPSHOT = SnapshotContent((), 0).encode()
"""The content of a snapshot without producers. Most logs of a large node have such snapshots."""


def read_snapshot(disk: Disk, path: str) -> Iterator[bytes]:
    """The stored forms of the producers in a `.snapshot` file. Raises CorruptRecordError if the file is damaged."""
    return _stored(_rows(read_file(disk, path), path))


def decode_snapshot(content: bytes, name: str) -> list[ProducerEntry]:
    """The producers in the content of a snapshot. Raises CorruptRecordError if the content is damaged."""
    return [unpacked(packed) for packed in _stored(_rows(content, name))]


def _rows(content: bytes, name: str) -> bytes:
    if content == _EMPTY_SNAPSHOT:
        return b""
    if len(content) < _HEAD.size:
        raise CorruptRecordError(f"{name}: {len(content)} bytes are too few for a producer snapshot")
    version, crc, count = _HEAD.unpack_from(content)
    if version != SNAPSHOT_VERSION:
        raise CorruptRecordError(f"{name}: snapshot version {version}, expected {SNAPSHOT_VERSION}")
    if len(content) != _HEAD.size + count * ROW.size:
        raise CorruptRecordError(f"{name}: {len(content)} bytes do not hold {count} producers")
    if crc32c(content[_CRC_END:]) != crc:
        raise CorruptRecordError(f"{name}: the checksum of the producer snapshot is wrong")
    return content[_HEAD.size :]


def _stored(rows: bytes) -> Iterator[bytes]:
    """A snapshot has only the last batch of each producer."""
    for at in range(0, len(rows), ROW.size):
        row = rows[at : at + ROW.size]
        _, _, sequence, offset, delta, timestamp_ms, _, _ = ROW.unpack(row)
        yield row if offset == NO_OFFSET else row + BATCH.pack(sequence, delta, offset, timestamp_ms)
