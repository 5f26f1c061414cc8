"""Finds the batch of a producer in the bytes that a Produce request has for a partition, as Kafka does.

Kafka reads one batch after another, and stops without an error at an incomplete batch. A batch begins with 12 bytes for
its offset and its size. So up to 11 arbitrary bytes, or the beginning of another batch, may follow a whole batch.
"""

from __future__ import annotations

import struct

from kcli.errors import CorruptRecordException, InvalidRecordException, KafkaError
from kcli.model.batch_faults import BatchFault
from kcli.model.buffers import Buffer
from kcli.protocol.batches.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC_POSITION,
    PREFIX_SIZE,
)

_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8
_LENGTH_MIN = 14
"""The size of the smallest header, which is the header of a message of magic 0."""


def only_batch(records: Buffer) -> Buffer:
    """The only whole batch of `records`, without the bytes after it.

    Raises InvalidRecordException if the bytes contain no whole batch, several batches, or a batch of an old format.
    Raises CorruptRecordException if a size or format is impossible.
    """
    size = _next_size(records, 0)
    if not size:
        raise InvalidRecordException("Produce requests must have at least one record batch per partition")
    if records[MAGIC_POSITION] != CURRENT_MAGIC:
        raise _with_wrong_magic(
            InvalidRecordException("Produce requests may only contain record batches with magic 2")
        )
    if size != len(records):
        if _next_size(records, size):
            raise InvalidRecordException("Produce requests must have exactly one record batch per partition")
        records = memoryview(records)[:size]
    if size < HEADER_SIZE:
        raise CorruptRecordException(f"{size} bytes cannot hold the {HEADER_SIZE} of a batch header")
    return records


def _next_size(records: Buffer, position: int) -> int:
    """The size of the batch at `position`, or 0 if the batch is incomplete."""
    left = len(records) - position
    if left < LENGTH_OVERHEAD:
        return 0
    (length,) = _LENGTH.unpack_from(records, position + _LENGTH_POSITION)
    if length < _LENGTH_MIN:
        raise CorruptRecordException(
            f"Record size {length} is less than the minimum record overhead ({_LENGTH_MIN})"
        )
    if left < PREFIX_SIZE:
        return 0
    magic = records[position + MAGIC_POSITION]
    if magic > CURRENT_MAGIC:
        raise _with_wrong_magic(CorruptRecordException(f"Invalid magic found in record: {magic}"))
    size: int = length + LENGTH_OVERHEAD
    return size if size <= left else 0


def _with_wrong_magic(error: KafkaError) -> KafkaError:
    error.fault = BatchFault.MAGIC
    return error
