"""The leader's checks of the records in a producer's batch, those of Kafka's LogValidator.

`survey` recognises valid records, many at a time. If it does not recognise them, or if a rule may be broken, the
records are checked one by one. A batch with an invalid structure is refused. If records break a rule of the topic, the
response names each of them (KIP-467).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from kcli.config.topic import MAX_LONG, LogConfig
from kcli.errors import (
    CorruptRecordException,
    InvalidRecordException,
    InvalidTimestampException,
    KafkaError,
    UnknownServerException,
)
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_TIMESTAMP
from kcli.protocol.batches.batch import HEADER_SIZE, BatchHeader, Record, decode_records
from kcli.protocol.batches.compression import begins_as, decompress
from kcli.protocol.batches.survey import Survey, survey

LOG_APPEND_TIME = "LogAppendTime"

SHOWN_ERRORS = 3
"""The most errors of single records that the error message of a batch shows, as in Kafka."""


class Validation(StrEnum):
    """The value of `kcli.validate.records`: the batches whose records are checked even if no rule of the topic needs
    it."""

    ALL = "all"
    UNCOMPRESSED = "uncompressed"
    NONE = "none"


def examine(
    records: Buffer,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    topic_partition: str,
    validation: Validation,
) -> Survey | None:
    """Checks the records of a batch whose header and checksum are valid. Returns None if no setting requires a check.

    Raises InvalidRecordException or InvalidTimestampException, with `record_errors` if a record breaks a rule.
    """
    by_producer = config.message_timestamp_type != LOG_APPEND_TIME
    bounded = by_producer and (
        config.message_timestamp_before_max_ms != MAX_LONG
        or header.max_timestamp_ms > now_ms + config.message_timestamp_after_max_ms
    )
    compressed = header.attributes & 0x07
    if not (
        validation is Validation.ALL
        or (validation is Validation.UNCOMPRESSED and not compressed)
        or bounded
        or config.compact
        or header.is_log_append_time
        or (compressed and validation is not Validation.NONE and not _begins_right(records, header))
    ):
        return None
    payload, begin = (_decompressed(records, header), 0) if compressed else (records, HEADER_SIZE)
    found = None if header.is_log_append_time else survey(header, payload, begin)
    if (
        found is None
        or (by_producer and not _is_within(found, config, now_ms))
        or (config.compact and found.has_null_key)
    ):
        found = _read_each(header, payload[begin:], config, now_ms, topic_partition)
    return found


def _begins_right(records: Buffer, header: BatchHeader) -> bool:
    with memoryview(records) as view:
        return begins_as(header.codec, view[HEADER_SIZE:])


def _decompressed(records: Buffer, header: BatchHeader) -> bytes:
    with memoryview(records) as view:
        try:
            return decompress(header.codec, view[HEADER_SIZE:])
        except CorruptRecordException as error:
            # This is Kafka's error code for invalid bytes with a valid checksum.
            raise UnknownServerException(error.message) from None


def _is_within(found: Survey, config: LogConfig, now_ms: int) -> bool:
    """Whether all timestamps are certainly within the bounds. `found` has only a lower bound of the oldest
    timestamp."""
    return (
        found.newest_ms - now_ms <= config.message_timestamp_after_max_ms
        and now_ms - found.oldest_ms <= config.message_timestamp_before_max_ms
    )


def _read_each(
    header: BatchHeader, payload: Buffer, config: LogConfig, now_ms: int, topic_partition: str
) -> Survey:
    newest_ms, oldest_ms = NO_TIMESTAMP, MAX_LONG
    is_dense, has_null_key = True, False
    errors: list[tuple[int, str]] = []
    mistimed = False
    for index, record in enumerate(_records(header, payload)):
        time_ms = _long(record.timestamp_ms)
        newest_ms, oldest_ms = max(newest_ms, time_ms), min(oldest_ms, time_ms)
        is_dense = is_dense and record.offset == header.base_offset + index
        has_null_key = has_null_key or record.key is None
        if config.compact and record.key is None:
            reason = (
                f"Compacted topic cannot accept message without key in topic partition {topic_partition}."
            )
            errors.append((index, reason))
        elif problem := _time_problem(record, header, config, now_ms):
            errors.append((index, problem))
            mistimed = True
    if errors:
        raise _refused(errors, mistimed=mistimed)
    return Survey(newest_ms, oldest_ms, is_dense, has_null_key)


def _records(header: BatchHeader, payload: Buffer) -> Iterator[Record]:
    return decode_records(header, bytes(payload))


def _time_problem(record: Record, header: BatchHeader, config: LogConfig, now_ms: int) -> str | None:
    time_ms = record.timestamp_ms
    if config.message_timestamp_type != LOG_APPEND_TIME and time_ms != NO_TIMESTAMP:
        before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        if now_ms - time_ms <= before_ms and time_ms - now_ms <= after_ms:
            return None
        return (
            f"Timestamp {time_ms} of message with offset {record.offset} is out of range. "
            f"The timestamp should be within [{_long(now_ms - before_ms)}, {_long(now_ms + after_ms)}]"
        )
    if not header.is_log_append_time:
        return None
    kind = "PartialDefaultRecord" if header.is_compressed else "DefaultRecord"
    return (
        f"Invalid timestamp type in message {kind}(offset={record.offset}, timestamp={time_ms}, "
        f"key={len(record.key or b'')} bytes, value={len(record.value or b'')} bytes). "
        f"Producer should not set timestamp type to LogAppendTime."
    )


def _long(value: int) -> int:
    """Reduces a number to 64 bits with overflow as in Java. A time plus an unlimited bound exceeds 64 bits, and a base
    timestamp plus a delta may do so."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _refused(errors: list[tuple[int, str]], *, mistimed: bool) -> KafkaError:
    error: KafkaError
    if mistimed:
        error = InvalidTimestampException("One or more records have been rejected due to invalid timestamp")
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in errors[:SHOWN_ERRORS]
        )
        error = InvalidRecordException(
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing "
            f"the first three errors at most: [{shown}]"
        )
    error.record_errors = tuple(errors)
    return error
