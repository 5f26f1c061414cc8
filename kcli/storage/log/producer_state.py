"""The state of a partition's producers: sequence numbers, open transactions (KIP-98).

`check` checks a client's batch before it is written. `update` updates the state with each batch, when the batch is
written and when the log is read again. A start loads the newest snapshot and reads only the batches after the snapshot,
not the whole log. `producer_entries` has the stored form of a producer.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from kcli.errors import (
    InvalidProducerEpochException,
    InvalidTxnStateException,
    OutOfOrderSequenceException,
    TransactionCoordinatorFencedException,
)
from kcli.model.ids import MAX_OFFSET, NO_OFFSET, Offset, ProducerId
from kcli.protocol.batches.batch import MAX_SEQUENCE, BatchHeader
from kcli.storage.log.markers import TransactionEnd
from kcli.storage.log.producer_entries import (
    BATCH,
    CACHED_BATCHES,
    NO_COORDINATOR_EPOCH,
    ROW,
    ProducerEntry,
    SnapshotContent,
    WrittenBatch,
    unpacked,
    written_batch,
)
from kcli.storage.log.producer_ids import KEPT_PRODUCER_IDS, ProducerIds
from kcli.storage.log.transaction_index import AbortedTransaction

MAX_EPOCH = 32_767

MAX_VERIFICATIONS = 10_000
"""The most verifications of a partition. A verification is used within milliseconds. But a client can send
transactional batches with invented producer ids, and their verifications are never used."""

EXPIRED_PER_STEP = 100
"""The producers whose age is checked in one step, which takes 20 µs."""

SWEPT_PER_ID = 16
"""The stored ids that are looked at for each new id above the limit. A quarter of them is forgotten, so the number of
ids falls."""

_SAMPLED_IDS = 500
_FORGOTTEN_SHARE = 4
_CACHED_BYTES = CACHED_BATCHES * BATCH.size


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


@dataclass(slots=True)
class OpenTransaction:
    """A transaction in this partition. `last_offset` is the offset of its marker, or None before the marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset | None = None


class ProducerState:
    """The producers of one partition, up to `end_offset`."""

    def __init__(self, topic_partition: str, expiration_ms: int, ids: ProducerIds | None = None) -> None:
        """Makes a state without producers. `ids` counts the ids of all partitions. If it is None, there is no limit."""
        self._topic_partition = topic_partition
        self.expiration_ms = expiration_ms
        self.ids = ids
        if ids is not None:
            ids.join(self)
        self._producers: dict[ProducerId, bytes] = {}
        self.end_offset = Offset(0)
        self.last_snapshot_offset = Offset(0)
        self._most_producers = 0  # the largest number of producers so far
        # The rest of a sweep above the limit of ids, and the offset at or before which ids are forgotten.
        self._sweep: tuple[Iterator[bytes], Offset] | None = None
        self._verifications: dict[ProducerId, Verification] = {}
        self._ongoing: dict[Offset, OpenTransaction] = {}  # by first offset, ascending
        # Transactions that have ended, but whose marker is not below the high watermark.
        self.undecided: dict[Offset, OpenTransaction] = {}
        self.first_unstable_offset: Offset | None = None
        """The first offset of the oldest transaction that read_committed consumers must not read yet. None if there is
        no such transaction. May be read in any thread."""

    def __len__(self) -> int:
        """The number of producer ids."""
        return len(self._producers)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        packed = self._producers.get(ProducerId(producer_id))
        return None if packed is None else unpacked(packed)

    def entries(self) -> Iterator[ProducerEntry]:
        """The producers at the time of the call. The iterator may be used later and in another thread."""
        return map(unpacked, list(self._producers.values()))

    # --- checking what a client sends

    def duplicate_of(self, header: BatchHeader) -> WrittenBatch | None:
        """The earlier batch that the batch of `header` repeats, or None if the batch is new. A client sends a batch
        again if it did not get the response."""
        packed = self._producers.get(header.producer_id)
        # Sequence numbers begin at 0 in each epoch, so batches of two epochs cannot be compared (KIP-98).
        if packed is None or ROW.unpack_from(packed)[1] != header.producer_epoch:
            return None
        return written_batch(packed, header.last_sequence, header.last_offset_delta)

    def check(self, header: BatchHeader) -> None:
        """Raises KafkaError if the batch does not continue the producer's sequence numbers."""
        packed = self._producers.get(header.producer_id)
        if packed is None:
            return
        self.check_epoch(header)
        _, epoch, last_sequence, _, _, _, _, first_offset = ROW.unpack_from(packed)
        if header.producer_epoch > epoch:
            if header.base_sequence != 0:
                raise self._out_of_order(header, epoch, "new epoch must start at sequence 0")
        elif not _follows(last_sequence, header.base_sequence):
            raise self._out_of_order(header, epoch, f"current end sequence is {last_sequence}")
        if first_offset != NO_OFFSET and not header.is_transactional:
            raise InvalidTxnStateException(
                f"Expected transactional write from producer {header.producer_id} at offset {self.end_offset} in "
                f"partition {self._topic_partition}"
            )

    def _out_of_order(self, header: BatchHeader, epoch: int, why: str) -> OutOfOrderSequenceException:
        return OutOfOrderSequenceException(
            f"Out of order sequence number for producer {header.producer_id} at offset {self.end_offset} in "
            f"partition {self._topic_partition}: {header.base_sequence} (incoming seq. number, epoch "
            f"{header.producer_epoch}), epoch {epoch} is known; {why}"
        )

    def check_marker(self, header: BatchHeader, marker: TransactionEnd, transaction_version: int) -> None:
        """Raises KafkaError if the marker comes from an old coordinator or has an old producer epoch (KIP-890)."""
        entry = self.entry(header.producer_id)
        if entry is None:
            return
        # In TV2, the marker of an open transaction has a higher epoch than its records. Equal epochs are valid only if
        # the marker is a repeat, or if the epoch cannot rise any more (KIP-890).
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
            if len(self._verifications) > MAX_VERIFICATIONS:
                del self._verifications[next(iter(self._verifications))]
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
        skips = producer_id not in self._producers and verification.from_zero and header.base_sequence != 0
        if (later and header.producer_epoch == verification.epoch) or skips:
            raise OutOfOrderSequenceException(
                f"Out of order sequence number for producer {producer_id} at offset {self.end_offset} in partition "
                f"{self._topic_partition}: {header.base_sequence} (incoming seq. number), "
                f"{verification.lowest_sequence} (earliest seen sequence)"
            )

    def _is_open(self, producer_id: ProducerId, epoch: int) -> bool:
        packed = self._producers.get(producer_id)
        if packed is None:
            return False
        _, known_epoch, _, _, _, _, _, first_offset = ROW.unpack_from(packed)
        return bool(known_epoch == epoch and first_offset != NO_OFFSET)

    def check_epoch(self, header: BatchHeader) -> None:
        """Raises KafkaError if a newer epoch of the producer has written to this partition."""
        packed = self._producers.get(header.producer_id)
        if packed is not None and header.producer_epoch < (epoch := ROW.unpack_from(packed)[1]):
            raise InvalidProducerEpochException(
                f"Epoch of producer {header.producer_id} at offset {self.end_offset} in {self._topic_partition} "
                f"is {header.producer_epoch}, which is smaller than the last seen epoch {epoch}"
            )

    # --- updates from the log

    def update(self, header: BatchHeader, base_offset: Offset) -> None:
        """Updates the state with a batch that an idempotent or transactional producer has written at `base_offset`."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        last_sequence, delta = header.last_sequence, header.last_offset_delta
        time_ms = header.max_timestamp_ms
        last_offset = base_offset + delta
        batches, coordinator_epoch, first_offset = b"", NO_COORDINATOR_EPOCH, NO_OFFSET
        packed = self._producers.get(producer_id)
        if packed is not None:
            _, known_epoch, _, _, _, _, coordinator_epoch, first_offset = ROW.unpack_from(packed)
            if known_epoch == epoch:
                batches = packed[ROW.size :]
        if header.is_transactional and first_offset == NO_OFFSET:
            first_offset = base_offset
            self._verifications.pop(producer_id, None)
            self._ongoing[base_offset] = OpenTransaction(producer_id, base_offset)
            self._find_unstable()
        batches = (batches + BATCH.pack(last_sequence, delta, last_offset, time_ms))[-_CACHED_BYTES:]
        row = ROW.pack(
            producer_id, epoch, last_sequence, last_offset, delta, time_ms, coordinator_epoch, first_offset
        )
        self._store(producer_id, row + batches, is_new=packed is None)

    def update_marker(
        self, header: BatchHeader, offset: Offset, marker: TransactionEnd
    ) -> AbortedTransaction | None:
        """Updates the state with a marker that is written at `offset`. If the marker aborts a transaction, returns the
        entry for the transaction index."""
        producer_id = header.producer_id
        self._verifications.pop(producer_id, None)
        known = self.entry(producer_id)
        entry = ProducerEntry(
            producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            marker.timestamp_ms,
            batches=known.batches if known is not None and known.epoch == header.producer_epoch else (),
        )
        self._store(producer_id, entry.packed(), is_new=known is None)
        first_offset = None if known is None else known.current_txn_first_offset
        if first_offset is None:
            return None
        transaction = self._ongoing.pop(first_offset)
        transaction.last_offset = offset
        # A read_committed consumer must not pass the marker before the marker is committed, because another leader may
        # not have it.
        self.undecided[first_offset] = transaction
        self._find_unstable()
        if marker.commit:
            return None
        # The index entry contains the last stable offset of this time, so that a reader knows at which entry it may
        # stop.
        still_open = next(iter(self._ongoing), Offset(offset + 1))
        return AbortedTransaction(producer_id, first_offset, offset, still_open)

    def _store(self, producer_id: ProducerId, packed: bytes, *, is_new: bool) -> None:
        self._producers[producer_id] = packed
        if is_new:
            self._most_producers = max(self._most_producers, len(self._producers))
            if self.ids is not None and self.ids.added():
                self._forget_oldest(self.ids)

    # --- transactions

    def has_open_transaction(self, producer_id: ProducerId) -> bool:
        known = self.entry(producer_id)
        return known is not None and known.current_txn_first_offset is not None

    def _find_unstable(self) -> None:
        first = min(next(iter(self._ongoing), MAX_OFFSET), min(self.undecided, default=MAX_OFFSET))
        self.first_unstable_offset = None if first == MAX_OFFSET else first

    def has_open_transaction_before(self, time_ms: int) -> bool:
        """Whether the producer of an open transaction has written nothing since `time_ms`."""
        return any(
            (entry := self.entry(transaction.producer_id)) is not None and entry.last_timestamp_ms < time_ms
            for transaction in self._ongoing.values()
        )

    def on_high_watermark(self, high_watermark: Offset) -> None:
        if self.undecided:
            decided = [
                first
                for first, transaction in self.undecided.items()
                if transaction.last_offset is not None and transaction.last_offset < high_watermark
            ]
            for first in decided:
                del self.undecided[first]
            self._find_unstable()

    # --- forgetting

    def remove_expired(self, now_ms: int) -> Generator[None, None, int]:
        """Drops producers that wrote nothing for `expiration_ms` and have no open transaction, and returns their
        number. Also drops verifications of this age. Works in steps.
        """
        removed = 0
        producers = iter(list(self._producers.values()))
        while part := list(islice(producers, EXPIRED_PER_STEP)):
            for packed in part:
                producer_id = ROW.unpack_from(packed)[0]
                # The producer may have written since the first step.
                if self._is_expired(packed, now_ms) and self._producers.get(producer_id) is packed:
                    del self._producers[producer_id]
                    removed += 1
            yield
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.timestamp_ms >= self.expiration_ms:
                del self._verifications[producer_id]
        return removed

    def _is_expired(self, packed: bytes, now_ms: int) -> bool:
        _, _, _, _, _, timestamp_ms, _, first_offset = ROW.unpack_from(packed)
        return bool(first_offset == NO_OFFSET and now_ms - timestamp_ms >= self.expiration_ms)

    def _forget_oldest(self, ids: ProducerIds) -> None:
        """Forgets some of the producers that have written longest ago, if this partition has many. Producers with an
        open transaction stay. A sample of the producers decides which offsets are old."""
        if self._sweep is None:
            if len(self._producers) <= KEPT_PRODUCER_IDS:
                return
            producers = list(self._producers.values())
            sample = producers[:: max(len(producers) // _SAMPLED_IDS, 1)]
            offsets = sorted(ROW.unpack_from(packed)[3] for packed in sample)
            self._sweep = iter(producers), offsets[len(offsets) // _FORGOTTEN_SHARE]
        rest, oldest = self._sweep
        swept = list(islice(rest, SWEPT_PER_ID))
        for packed in swept:
            producer_id, _, _, last_offset, _, _, _, first_offset = ROW.unpack_from(packed)
            is_idle = last_offset <= oldest and first_offset == NO_OFFSET
            if is_idle and self._producers.get(producer_id) is packed:
                del self._producers[producer_id]
                ids.forgotten()
        if not swept:
            self._sweep = None

    def clear(self) -> None:
        self._producers.clear()
        self._sweep = None
        self._verifications.clear()
        self._ongoing.clear()
        self.undecided.clear()
        self.first_unstable_offset = None
        self.end_offset = Offset(0)
        self.last_snapshot_offset = Offset(0)

    # --- snapshots

    def load(self, producers: Iterable[bytes], offset: Offset, now_ms: int) -> None:
        """Replaces the state by the producers of a snapshot that was written at `offset`, except expired ones."""
        self.clear()
        for packed in producers:
            if self._is_expired(packed, now_ms):
                continue
            producer_id, _, _, _, _, _, _, first_offset = ROW.unpack_from(packed)
            self._store(producer_id, packed, is_new=True)
            if first_offset != NO_OFFSET:
                self._ongoing[first_offset] = OpenTransaction(producer_id, first_offset)
        self._ongoing = dict(sorted(self._ongoing.items()))
        self._find_unstable()
        self.end_offset = self.last_snapshot_offset = offset

    def content(self) -> SnapshotContent:
        """The content of a snapshot. Another thread may encode it."""
        return SnapshotContent(list(self._producers.values()), self._most_producers)


def _follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == MAX_SEQUENCE)
