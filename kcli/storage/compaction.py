"""What compaction keeps of a batch: the latest value of every key, and the batches that others still depend on.

Two passes read the same batches: one notes the last offset of each key, one decides batch by batch. Both follow the
transactions, for records of aborted ones count as if they were not there (KIP-98); markers and tombstones get a delete
horizon the first time they could go, and go when it has passed (KIP-534).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from kcli.protocol.batch import BatchHeader, Record, encode_batch, read_records
from kcli.protocol.control import ControlType, control_type_of
from kcli.storage.transaction_index import AbortedTransaction

MAP_ENTRY_BYTES = 160
"""What a key costs in the map: an entry of a dict, a digest, an offset. (Kafka packs one into 24 bytes.)"""

DIGEST_BYTES = 16


class OffsetMap:
    """Key -> its last offset, up to a number of keys."""

    def __init__(self, max_bytes: int) -> None:
        self._max_keys = max(1, max_bytes // MAP_ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: int) -> bool:
        """False when there is no room for another key."""
        digest = _digest(key)
        if len(self._offsets) >= self._max_keys and digest not in self._offsets:
            return False
        self._offsets[digest] = offset
        return True

    def get(self, key: bytes) -> int:
        """−1 for a key that is not in the map."""
        return self._offsets.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    """Short keys are their own digest; no digest is shorter than one, so they cannot be mistaken."""
    return key if len(key) < DIGEST_BYTES else hashlib.md5(key, usedforsecurity=False).digest()


class Transactions:
    """Follows the transactions of a log from batch to batch."""

    def __init__(self) -> None:
        self._upcoming: list[AbortedTransaction] = []  # by first offset, the next one last
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()  # producers whose aborted transaction still has data here
        self._committed: set[int] = set()  # producers whose transaction, not aborted, has data here

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        known = {*self._upcoming, *self._aborted.values()}
        self._upcoming += [entry for entry in aborted if entry not in known]
        self._upcoming.sort(key=lambda entry: -entry.first_offset)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the records of a data batch were aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def end(self, header: BatchHeader, control_type: int | None) -> tuple[bool, AbortedTransaction | None]:
        """A control batch: (nothing in this log depends on it, what the new transaction index must hold)."""
        self._advance(header.last_offset)
        producer_id = header.producer_id
        match control_type:
            case ControlType.ABORT:
                aborted = self._aborted.pop(producer_id, None)
                has_data = producer_id in self._with_data
                self._with_data.discard(producer_id)
                return not has_data, aborted if has_data else None
            case ControlType.COMMIT:
                has_data = producer_id in self._committed
                self._committed.discard(producer_id)
                return not has_data, None
            case _:
                return False, None

    def _advance(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            entry = self._upcoming.pop()
            self._aborted[entry.producer_id] = entry


class Keep(Enum):
    """What becomes of a batch all of whose records go."""

    NOTHING = auto()
    HEADER = auto()  # it holds the last sequence of a producer


@dataclass(frozen=True, slots=True)
class LastRecord:
    """The newest data of a live producer; `data_offset` None: only a marker was seen."""

    data_offset: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Decides, batch by batch in offset order, what a cleaned segment gets."""

    offsets: OffsetMap
    transactions: Transactions
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int

    def keep(self, header: BatchHeader, batch: bytes) -> tuple[bytes, AbortedTransaction | None]:
        """The batch as it shall be (b'' for nothing), and the aborted transaction that its marker ended."""
        aborted = None
        empty_transaction = False
        if header.is_control:
            records = list(read_records(batch))
            control_type = control_type_of(records[0].key) if records else None
            empty_transaction, aborted = self.transactions.end(header, control_type)
            horizon_ms = header.delete_horizon_ms
            discard = empty_transaction and horizon_ms is not None and horizon_ms <= self.now_ms
            kept = [] if discard else records
        elif self.transactions.is_aborted(header):
            kept = records = []
        else:
            records = list(read_records(batch))
            kept = [record for record in records if self._is_kept(header, record)]
        if not kept:
            return self._emptied(header), aborted
        tombstones = not header.is_control and any(record.value is None for record in kept)
        new_horizon = (tombstones or empty_transaction) and not header.has_delete_horizon
        if len(kept) == len(records) and not new_horizon and header.magic == 2:
            return batch, aborted
        horizon_ms = self.now_ms + self.delete_retention_ms if new_horizon else header.delete_horizon_ms
        return _rewritten(header, kept, horizon_ms), aborted

    def _is_kept(self, header: BatchHeader, record: Record) -> bool:
        if record.offset > self.offsets.latest_offset:
            return True
        if record.key is None or record.offset < self.offsets.get(record.key):
            return False
        horizon_ms = header.delete_horizon_ms
        return record.value is not None or horizon_ms is None or self.now_ms < horizon_ms

    def _emptied(self, header: BatchHeader) -> bytes:
        if header.magic < 2 or self._without_records(header) is Keep.NOTHING:
            return b""
        return encode_batch(
            [],
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            log_append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
            last_offset_delta=header.last_offset_delta,
            max_timestamp_ms=header.max_timestamp_ms,
        )

    def _without_records(self, header: BatchHeader) -> Keep:
        last = self.last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return Keep.NOTHING
        if last.data_offset is None:
            newest = header.is_control and header.producer_epoch == last.epoch
        else:
            newest = header.last_offset == last.data_offset
        return Keep.HEADER if newest else Keep.NOTHING


def _rewritten(header: BatchHeader, kept: list[Record], horizon_ms: int | None) -> bytes:
    """Offsets, producer and codec stay; old formats become the present one."""
    is_current = header.magic == 2
    first_offset = header.base_offset if is_current else kept[0].offset
    last_offset = header.last_offset if is_current else kept[-1].offset
    return encode_batch(
        kept,
        base_offset=first_offset,
        leader_epoch=header.partition_leader_epoch,
        codec=header.codec,
        log_append_time_ms=header.max_timestamp_ms if header.is_log_append_time else None,
        delete_horizon_ms=horizon_ms,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        last_offset_delta=last_offset - first_offset,
    )
