"""The state of a partition's producers: sequence numbers, open transactions (KIP-98), `.snapshot` files.

`check` checks a client's batch before it is written. `update` updates the state with each batch, when the batch is
written and when the log is read again. A start loads the newest snapshot and reads only the batches after the snapshot,
not the whole log.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kcli.errors import (
    CorruptRecordError,
    InvalidProducerEpochException,
    InvalidRecordException,
    InvalidTxnStateException,
    OutOfOrderSequenceException,
    TransactionCoordinatorFencedException,
)
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_OFFSET, NO_SEQUENCE, Offset, ProducerId
from kcli.protocol.batches.batch import MAX_SEQUENCE, BatchHeader, read_records
from kcli.protocol.batches.control import ControlType, EndTransactionMarker, control_type_of, decode_control
from kcli.protocol.checksum import crc32c
from kcli.runtime.disk import Disk, read_file
from kcli.storage.log.transaction_index import AbortedTransaction

CACHED_BATCHES = 5
"""The number of newest batches that are kept for each producer, to recognise duplicates. Because of this limit,
idempotent clients have at most five unanswered requests."""

MAX_EPOCH = 32_767
NO_COORDINATOR_EPOCH = -1
SNAPSHOT_VERSION = 1

_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6


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


@dataclass(slots=True)
class ProducerEntry:
    """The state of one producer id. `batches` has the newest five batches of the current epoch, oldest first."""

    producer_id: ProducerId
    epoch: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp_ms: int = -1
    current_txn_first_offset: Offset | None = None
    batches: deque[WrittenBatch] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> Offset:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def copy(self) -> ProducerEntry:
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp_ms,
            self.current_txn_first_offset,
            deque(self.batches, maxlen=CACHED_BATCHES),
        )


@dataclass(slots=True, eq=False)
class Verification:
    """Represents a transaction that the coordinator must confirm before the producer's first batch in this partition
    (KIP-890).

    While the producer state contains the verification, a batch with this verification may begin the transaction. A
    marker removes the verification. So a batch that arrives after the end of its transaction is refused.
    """

    epoch: int
    lowest_sequence: int
    from_zero: bool  # TV2: a producer that is not known here begins at sequence 0
    timestamp_ms: int


ALREADY_OPEN = Verification(-1, 0, False, 0)
"""The verification of a batch whose transaction is already open in the log. The verification is valid while the
transaction is open."""


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of a transaction, read from its control record."""

    commit: bool
    coordinator_epoch: int
    timestamp_ms: int


def read_marker(batch: Buffer) -> TransactionEnd | None:
    """Reads the marker in a control batch. Returns None if the batch has another type of control record."""
    record = next(iter(read_records(batch)), None)
    if record is None or control_type_of(record.key) not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        control = decode_control(record.key, record.value)
    except InvalidRecordException:
        return None
    if not isinstance(control, EndTransactionMarker):
        return None
    return TransactionEnd(control.committed, control.coordinator_epoch, record.timestamp_ms)


@dataclass(slots=True)
class OpenTransaction:
    """A transaction in this partition. `last_offset` is the offset of its marker, or None before the marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset | None = None


class ProducerState:
    """The producers of one partition, up to `end_offset`."""

    def __init__(self, topic_partition: str, expiration_ms: int) -> None:
        self._topic_partition = topic_partition
        self.expiration_ms = expiration_ms
        self.producers: dict[ProducerId, ProducerEntry] = {}
        self.end_offset = Offset(0)
        self.last_snapshot_offset = Offset(0)
        # The largest number of producers so far. The order of entries in a snapshot depends on it, because Kafka's hash
        # table of producers never shrinks.
        self._most_producers = 0
        self._verifications: dict[ProducerId, Verification] = {}
        self._ongoing: dict[Offset, OpenTransaction] = {}  # by first offset, ascending
        # Transactions that have ended, but whose marker is not below the high watermark.
        self._unreplicated: dict[Offset, OpenTransaction] = {}

    @property
    def is_empty(self) -> bool:
        return not self.producers

    # --- checking what a client sends

    def duplicate_of(self, header: BatchHeader) -> WrittenBatch | None:
        """The earlier batch that the batch of `header` repeats, or None if the batch is new. A client sends a batch
        again if it did not get the response."""
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in entry.batches:
            if batch.last_sequence == last_sequence and batch.offset_delta == header.last_offset_delta:
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """Raises KafkaError if the batch does not continue the producer's sequence numbers."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return
        self.check_epoch(header)
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                raise self._out_of_order(header, entry, "new epoch must start at sequence 0")
        elif not _follows(entry.last_sequence, header.base_sequence):
            raise self._out_of_order(header, entry, f"current end sequence is {entry.last_sequence}")
        if entry.current_txn_first_offset is not None and not header.is_transactional:
            raise InvalidTxnStateException(
                f"Expected transactional write from producer {header.producer_id} at offset {self.end_offset} in "
                f"partition {self._topic_partition}"
            )

    def _out_of_order(
        self, header: BatchHeader, entry: ProducerEntry, why: str
    ) -> OutOfOrderSequenceException:
        return OutOfOrderSequenceException(
            f"Out of order sequence number for producer {header.producer_id} at offset {self.end_offset} in "
            f"partition {self._topic_partition}: {header.base_sequence} (incoming seq. number, epoch "
            f"{header.producer_epoch}), epoch {entry.epoch} is known; {why}"
        )

    def check_marker(self, header: BatchHeader, marker: TransactionEnd, transaction_version: int) -> None:
        """Raises KafkaError if the marker comes from an old coordinator or has an old producer epoch (KIP-890)."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return
        retried = entry.current_txn_first_offset is None or header.producer_epoch == MAX_EPOCH
        stale = header.producer_epoch < entry.epoch
        if transaction_version >= 2 and header.producer_epoch == entry.epoch and not retried:
            stale = True
        if stale:
            raise InvalidProducerEpochException(
                f"Epoch of producer {header.producer_id} in a marker for {self._topic_partition} is "
                f"{header.producer_epoch}; the last seen epoch is {entry.epoch}"
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedException(
                f"Invalid coordinator epoch for producerId {header.producer_id} at offset {self.end_offset} in "
                f"partition {self._topic_partition}: {marker.coordinator_epoch} (zombie), "
                f"{entry.coordinator_epoch} (current)"
            )

    def verification(
        self, producer_id: ProducerId, epoch: int, base_sequence: int, *, from_zero: bool, now_ms: int
    ) -> Verification:
        """Returns the verification that a transactional batch needs, and stores a new one if necessary. Returns
        ALREADY_OPEN if the coordinator need not confirm the transaction."""
        if self._is_open(producer_id, epoch):
            return ALREADY_OPEN
        known = self._verifications.get(producer_id)
        if known is None:
            known = Verification(epoch, base_sequence, from_zero, now_ms)
            self._verifications[producer_id] = known
        elif epoch > known.epoch:
            known.epoch, known.lowest_sequence = epoch, base_sequence
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, base_sequence)
        return known

    def is_valid(self, producer_id: ProducerId, verification: Verification) -> bool:
        """Whether a verification can still be used. A verification is dropped when a marker or the first batch of a
        transaction is written."""
        return self._verifications.get(producer_id) is verification

    def check_verified(self, header: BatchHeader, verification: Verification) -> None:
        """Raises KafkaError if a transactional batch would begin a transaction that may have ended already."""
        producer_id = header.producer_id
        if self._is_open(producer_id, header.producer_epoch):
            return
        if not self.is_valid(producer_id, verification):
            raise InvalidTxnStateException(
                f"Record was not part of an ongoing transaction of producer {producer_id} in {self._topic_partition}"
            )
        later = header.base_sequence > verification.lowest_sequence
        skips = producer_id not in self.producers and verification.from_zero and header.base_sequence != 0
        if (later and header.producer_epoch == verification.epoch) or skips:
            raise OutOfOrderSequenceException(
                f"Out of order sequence number for producer {producer_id} at offset {self.end_offset} in partition "
                f"{self._topic_partition}: {header.base_sequence} (incoming seq. number), "
                f"{verification.lowest_sequence} (earliest seen sequence)"
            )

    def _is_open(self, producer_id: ProducerId, epoch: int) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and entry.epoch == epoch and entry.current_txn_first_offset is not None

    def check_epoch(self, header: BatchHeader) -> None:
        """Raises KafkaError if a newer epoch of the producer has written to this partition."""
        entry = self.producers.get(header.producer_id)
        if entry is not None and header.producer_epoch < entry.epoch:
            raise InvalidProducerEpochException(
                f"Epoch of producer {header.producer_id} at offset {self.end_offset} in {self._topic_partition} "
                f"is {header.producer_epoch}, which is smaller than the last seen epoch {entry.epoch}"
            )

    # --- updates from the log

    def update(self, header: BatchHeader, base_offset: Offset) -> None:
        """Updates the state with a batch that an idempotent or transactional producer has written at `base_offset`."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self._add(ProducerEntry(header.producer_id, header.producer_epoch))
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        last_offset = Offset(base_offset + header.last_offset_delta)
        entry.batches.append(
            WrittenBatch(header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp_ms)
        )
        entry.last_timestamp_ms = header.max_timestamp_ms
        if header.is_transactional and entry.current_txn_first_offset is None:
            entry.current_txn_first_offset = base_offset
            self._verifications.pop(header.producer_id, None)
            self._ongoing[base_offset] = OpenTransaction(header.producer_id, base_offset)

    def update_marker(
        self, header: BatchHeader, offset: Offset, marker: TransactionEnd
    ) -> AbortedTransaction | None:
        """Updates the state with a marker that is written at `offset`. If the marker aborts a transaction, returns the
        entry for the transaction index."""
        self._verifications.pop(header.producer_id, None)
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self._add(ProducerEntry(header.producer_id, header.producer_epoch))
        elif entry.epoch != header.producer_epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = marker.timestamp_ms
        first_offset, entry.current_txn_first_offset = entry.current_txn_first_offset, None
        if first_offset is None:
            return None
        transaction = self._ongoing.pop(first_offset)
        transaction.last_offset = offset
        self._unreplicated[first_offset] = transaction
        if marker.commit:
            return None
        still_open = next(iter(self._ongoing), Offset(offset + 1))
        return AbortedTransaction(header.producer_id, first_offset, offset, still_open)

    def _add(self, entry: ProducerEntry) -> ProducerEntry:
        self.producers[entry.producer_id] = entry
        self._most_producers = max(self._most_producers, len(self.producers))
        return entry

    # --- transactions

    def first_unstable_offset(self) -> Offset | None:
        """The first offset of the oldest transaction that read_committed consumers must not read yet. None if there is
        no such transaction."""
        if not self._ongoing and not self._unreplicated:
            return None
        return min(next(iter(self._ongoing), NEVER), min(self._unreplicated, default=NEVER))

    def has_open_transaction_before(self, time_ms: int) -> bool:
        """Whether the producer of an open transaction has written nothing since `time_ms`."""
        return any(
            (entry := self.producers.get(transaction.producer_id)) is not None
            and entry.last_timestamp_ms < time_ms
            for transaction in self._ongoing.values()
        )

    def on_high_watermark(self, high_watermark: Offset) -> None:
        if self._unreplicated:
            decided = [
                first
                for first, transaction in self._unreplicated.items()
                if transaction.last_offset is not None and transaction.last_offset < high_watermark
            ]
            for first in decided:
                del self._unreplicated[first]

    # --- forgetting

    def remove_expired(self, now_ms: int) -> int:
        """Drops producers that wrote nothing for `expiration_ms` and have no open transaction, and returns their
        number. Also drops verifications of this age.
        """
        expired = [entry.producer_id for entry in self.producers.values() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.timestamp_ms >= self.expiration_ms:
                del self._verifications[producer_id]
        return len(expired)

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        idle_ms = now_ms - entry.last_timestamp_ms
        return entry.current_txn_first_offset is None and idle_ms >= self.expiration_ms

    def clear(self) -> None:
        self.producers.clear()
        self._verifications.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.end_offset = Offset(0)
        self.last_snapshot_offset = Offset(0)

    # --- snapshots

    def load(self, entries: Iterable[ProducerEntry], offset: Offset, now_ms: int) -> None:
        """Replaces the state by the entries of a snapshot that was written at `offset`, except expired entries."""
        self.clear()
        for entry in entries:
            if self._is_expired(entry, now_ms):
                continue
            self._add(entry)
            if entry.current_txn_first_offset is not None:
                first = entry.current_txn_first_offset
                self._ongoing[first] = OpenTransaction(entry.producer_id, first)
        self._ongoing = dict(sorted(self._ongoing.items()))
        self.end_offset = self.last_snapshot_offset = offset

    def encode(self) -> bytes:
        body = b"".join(_pack_entry(entry) for entry in self._in_java_order())
        packed = bytearray(_SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, 0, len(self.producers)) + body)
        struct.pack_into(">I", packed, 2, crc32c(bytes(packed[_CRC_END:])))
        return bytes(packed)

    def _in_java_order(self) -> list[ProducerEntry]:
        """The entries in the order of Java's HashMap, so that a snapshot has the same bytes as in Kafka."""
        capacity = MIN_JAVA_CAPACITY
        while self._most_producers > capacity * 3 // 4:
            capacity *= 2
        return sorted(self.producers.values(), key=lambda entry: _java_bucket(entry.producer_id, capacity))


NEVER = Offset((1 << 63) - 1)
MIN_JAVA_CAPACITY = 16

_EMPTY_SNAPSHOT = ProducerState("", 0).encode()
"""The content of a snapshot without producers. Most logs of a large node have such snapshots."""


def _java_bucket(producer_id: ProducerId, capacity: int) -> int:
    folded = (producer_id ^ producer_id >> 32) & 0xFFFF_FFFF
    return (folded ^ folded >> 16) & capacity - 1


def _follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == MAX_SEQUENCE)


def _pack_entry(entry: ProducerEntry) -> bytes:
    newest = entry.batches[-1] if entry.batches else WrittenBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
    first_offset = entry.current_txn_first_offset
    return _SNAPSHOT_ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        newest.last_sequence,
        newest.last_offset,
        newest.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        NO_OFFSET if first_offset is None else first_offset,
    )


def read_snapshot(disk: Disk, path: str) -> list[ProducerEntry]:
    """The entries of a `.snapshot` file. Raises CorruptRecordError if the file is damaged."""
    return decode_snapshot(read_file(disk, path), path)


def decode_snapshot(content: bytes, name: str) -> list[ProducerEntry]:
    if content == _EMPTY_SNAPSHOT:
        return []
    if len(content) < _SNAPSHOT_HEAD.size:
        raise CorruptRecordError(f"{name}: {len(content)} bytes are too few for a producer snapshot")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
    if version != SNAPSHOT_VERSION:
        raise CorruptRecordError(f"{name}: snapshot version {version}, expected {SNAPSHOT_VERSION}")
    if len(content) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptRecordError(f"{name}: {len(content)} bytes do not hold {count} producers")
    if crc32c(content[_CRC_END:]) != crc:
        raise CorruptRecordError(f"{name}: the checksum of the producer snapshot is wrong")
    entries = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEAD.size :]):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = fields
        entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp)
        entry.current_txn_first_offset = None if first_offset == NO_OFFSET else first_offset
        if offset != NO_OFFSET:
            entry.batches.append(WrittenBatch(sequence, offset, delta, timestamp))
        entries.append(entry)
    return entries
