"""Writes the records of a coordinator's shard as batches to the partition of the shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from kcli.coordinator.runtime import Producer, Ready, RecordT, SendT
from kcli.errors import ErrorCode
from kcli.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset
from kcli.model.request_values import ACKS_ALL
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.storage.log.producer_state import Verification

RECORD_OVERHEAD_BYTES = 64
"""An upper bound of the bytes of a record without its key and value. Varints and the length take at most 21 bytes."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    linger_ms: int
    commit_timeout_ms: int
    """The time for which requests wait for the other replicas (offsets.commit.timeout.ms)."""
    max_batch_bytes: int
    codec: Codec = Codec.NONE
    base_sequence: int = 0
    """The base sequence of batches without a producer. As in Kafka, it is 0 in `__consumer_offsets` and -1 in other
    topics."""


@dataclass(frozen=True, slots=True)
class ControlMarker:
    """The control batch that ends a producer's transaction, ready to be appended."""

    batch: bytes
    producer_id: int
    committed: bool
    transaction_version: int


@dataclass(slots=True)
class Write(Generic[RecordT, SendT]):
    """A write: either the encoded records that a shard has decided to write, or a marker. After the append, the object
    also has the offsets of the records.
    """

    ready: Ready[RecordT, SendT]
    records: list[Record]
    size_bytes: int
    offsets: Sequence[int] = ()
    marker: ControlMarker | None = None
    verification: Verification | None = None
    failure: ErrorCode = ErrorCode.NONE
    appended_at: float = 0.0
    """The time of the append, in seconds of the event loop's clock. Only the first write of a batch has this time."""

    @property
    def is_alone(self) -> bool:
        """Whether the write must not share a batch with other writes."""
        return self.marker is not None or self.ready.producer is not None


def estimated_bytes(record: Record) -> int:
    """Returns an upper bound of the size of a record in a batch."""
    return len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES


class ShardLog:
    def __init__(
        self, partition: LeaderPartition, settings: RunnerSettings, now_ms: Callable[[], int]
    ) -> None:
        self._partition = partition
        self._settings = settings
        self._now_ms = now_ms

    def append(self, writes: Sequence[Write[RecordT, SendT]]) -> Offset:
        """Appends the records as one batch, or as several batches if one batch would be too large. Returns the offset
        after the last record. Raises KafkaError. If a write `is_alone`, `writes` must contain only this write."""
        first = writes[0]
        if first.marker is not None:
            result = self._partition.append_marker(
                first.marker.batch,
                now_ms=self._now_ms(),
                transaction_version=first.marker.transaction_version,
            )
            return Offset(result.last_offset + 1)
        batches = [self._batch(records, first.ready.producer) for records in self._chunks(writes)]
        offsets: list[int] = []
        for raw in self._appends(batches):
            result = self._partition.append(
                raw,
                acks=ACKS_ALL,
                now_ms=self._now_ms(),
                verification=first.verification,
            )
            offsets += range(result.base_offset, result.last_offset + 1)
        start = 0
        for write in writes:
            end = start + len(write.records)
            write.offsets = offsets[start:end]
            start = end
        assert start == len(offsets), f"{len(offsets)} offsets for {start} records"
        return Offset(offsets[-1] + 1)

    def _appends(self, batches: list[bytes]) -> list[bytes]:
        """Joins all batches into one append. So if one batch is refused, no batch is written.

        The log refuses an append that is larger than a segment. If all batches together are too large, they are
        appended one by one.
        """
        if len(batches) == 1:
            return batches
        segment_bytes = self._partition.log.config.segment_size_bytes
        sizes = [len(batch) for batch in batches]
        return batches if max(sizes) <= segment_bytes < sum(sizes) else [b"".join(batches)]

    def _chunks(self, writes: Sequence[Write[RecordT, SendT]]) -> Iterator[list[Record]]:
        """Yields the records of each batch."""
        limit = self._settings.max_batch_bytes
        if sum(write.size_bytes for write in writes) <= limit:
            yield [record for write in writes for record in write.records]
            return
        chunk: list[Record] = []
        chunk_bytes = 0
        for write in writes:
            for record in write.records:
                size_bytes = estimated_bytes(record)
                if chunk and chunk_bytes + size_bytes > limit:
                    yield chunk
                    chunk, chunk_bytes = [], 0
                chunk.append(record)
                chunk_bytes += size_bytes
        yield chunk

    def _batch(self, records: list[Record], producer: Producer | None) -> bytes:
        return encode_batch(
            records,
            codec=self._settings.codec,
            base_sequence=self._settings.base_sequence if producer is None else 0,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
            transactional=producer is not None,
        )
