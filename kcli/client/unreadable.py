"""Finds out whether a batch of a partition is invalid, so that no consumer can read it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from kcli.client.records.fetch import FetchLimits
from kcli.client.records.records import Records
from kcli.errors import CorruptRecordError, KafkaError
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import BatchHeader, crc_is_valid, iter_batches, read_records

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient

FETCHED_BYTES = 1 << 20
"""The most bytes that are fetched. A broker returns at least one whole batch in any case."""

READ_RECORDS = 100_000
"""The most records of a batch that are read. A larger batch of valid records would take long."""


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """A batch that cannot be read, and the reason."""

    partition: TopicPartition
    offset: int
    next_offset: int
    reason: str

    def __str__(self) -> str:
        return (
            f"The batch of topic {self.partition.topic}, partition {self.partition.partition} at offset {self.offset} "
            f"cannot be read: {self.reason}. The next batch begins at offset {self.next_offset}."
        )


async def unreadable_batch(client: AdminClient, place: TopicPartition, offset: int) -> UnreadableBatch | None:
    """Fetches the batch with the record at `offset`, or the first batch after it. Returns None if the batch is valid or
    if there is no batch. A negative offset has the same meaning as in a ListOffsets request. Raises KafkaError."""
    if offset < 0:
        answer = (await client.list_offsets({place: offset}))[place]
        if isinstance(answer, KafkaError):
            raise answer
        offset = answer.offset
    for position, header in iter_batches(records := await _fetched(client, place, offset)):
        if header.last_offset < offset or header.is_control:
            continue
        reason = invalid_reason(records, position, header)
        if reason is None:
            return None
        return UnreadableBatch(place, header.base_offset, header.last_offset + 1, reason)
    return None


def invalid_reason(records: bytes, position: int, header: BatchHeader) -> str | None:
    """The reason why the batch at `position` is invalid. None if it is valid."""
    if not crc_is_valid(records, position, header):
        return "its checksum is wrong"
    try:
        deque(islice(read_records(records, position), READ_RECORDS), maxlen=0)
    except KafkaError as error:
        return error.message
    except CorruptRecordError as error:
        return str(error)
    return None


async def _fetched(client: AdminClient, place: TopicPartition, offset: int) -> bytes:
    limits = FetchLimits(max_wait_ms=0, max_bytes=FETCHED_BYTES, partition_max_bytes=FETCHED_BYTES)
    answer = await Records(client).read_now(place, offset, limits)
    return bytes(answer.records or b"")
