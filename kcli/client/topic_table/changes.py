"""Reads the changes of a table from the batches of an answer to Fetch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kcli.errors import CorruptRecordError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.aborted import AbortedTransaction
from kcli.protocol.batches.batch import crc_is_valid, iter_batches, read_records


@dataclass(frozen=True, slots=True)
class Change:
    """One record of the topic. A `value` of None deletes the key."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def changes_of(
    partition: TopicPartition, offset: int, batches: bytes, aborted: Iterable[AbortedTransaction] | None
) -> Iterator[Change | int]:
    """Yields the changes from `offset` on, and after each batch the offset that follows it.

    Control batches and batches of `aborted` transactions have no changes. `aborted` is None if the reader also reads
    transactions that are open or aborted. Raises CorruptRecordError or a KafkaError for invalid batches.
    """
    ahead = sorted(aborted or (), key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    for at, header in iter_batches(batches):
        if not crc_is_valid(batches, at, header):
            raise CorruptRecordError(f"{partition}: the checksum of batch {header.base_offset} is wrong")
        while ahead and ahead[-1].first_offset <= header.last_offset:
            aborting.add(ahead.pop().producer_id)
        if header.is_control:
            # The marker ends the transaction. The next transaction of the producer has an entry of its own.
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield from _records(partition, offset, batches, at)
        yield header.next_offset


def _records(partition: TopicPartition, offset: int, batches: bytes, at: int) -> Iterator[Change]:
    for record in read_records(batches, at):
        if record.offset >= offset:
            yield Change(partition, record.offset, record.timestamp_ms, record.key, record.value)
