"""Checks the records in a producer's batch on the leader. The checks are the same as in Kafka's LogValidator.

`survey` recognises valid records, many at a time. If `survey` does not recognise the records, or if a rule may be
broken, this module checks the records one by one. A batch with an invalid structure is refused. If records break a rule
of the topic, the response lists these records (KIP-467). If the checks of a batch would take longer than a few
milliseconds, `opening` makes them instead, with numpy and in steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum

from kcli.config.topic import MAX_LONG, LogConfig
from kcli.errors import (
    CorruptRecordException,
    InvalidRecordException,
    InvalidTimestampException,
    KafkaError,
    UnknownServerException,
)
from kcli.model.batch_faults import BatchFault
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_TIMESTAMP
from kcli.model.java_numbers import to_long
from kcli.protocol.batches.batch import HEADER_SIZE, BatchHeader, Record, decode_records
from kcli.protocol.batches.compression import Codec, CutShort, begins_as, most_bytes
from kcli.protocol.batches.small_payload import small_payload
from kcli.protocol.batches.survey import Survey, survey

LOG_APPEND_TIME = "LogAppendTime"

SHOWN_ERRORS = 3
"""The most record errors that the error message of a batch shows, as in Kafka."""

MAX_RECORD_ERRORS = 1000
"""The most records that an answer lists as invalid. Kafka lists all invalid records, but 760 compressed bytes can
contain a million of them."""

SMALL_BYTES = 1_048_588
"""The most decompressed bytes of a batch that is read in one step (Kafka's default max.message.bytes). Reading them
takes a few milliseconds."""

SMALL_PLAIN_BYTES = 8 << 20
"""The most bytes of an uncompressed batch that is read in one step. This limit is larger than SMALL_BYTES, because
records of the same shape are checked without reading their values."""

FEW_RECORDS = 500
"""The most records that are read one by one without a pause. Reading them takes about two milliseconds."""

MIN_RECORD_BYTES = 7
"""The size of the smallest record in bytes."""


_INLINE_COST = {Codec.LZ4: 1, Codec.SNAPPY: 2, Codec.ZSTD: 3, Codec.GZIP: 8}
"""The time that a codec takes to decompress a byte, compared with lz4 (measured)."""


class InlineBytes:
    """The decompressed bytes that may be checked before other work gets its turn, as bytes of lz4.

    A client can send many small batches that each become a megabyte. `soon` is called at the first use. It must call
    its argument after the other work, and the bytes are then renewed.
    """

    __slots__ = ("_left", "_most", "_soon")

    def __init__(self, most: int, soon: Callable[[Callable[[], None]], object]) -> None:
        self._left = self._most = most
        self._soon = soon

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def take(self, codec: Codec, size: int) -> None:
        if self._left == self._most:
            self._soon(self._renew)
        self._left -= size * _INLINE_COST[codec]

    def give_back(self, codec: Codec, size: int) -> None:
        self._left += size * _INLINE_COST[codec]

    def _renew(self) -> None:
        self._left = self._most


class Validation(StrEnum):
    """The values of `kcli.validate.records`. Each value selects batches whose records are checked even if no rule of
    the topic requires a check."""

    ALL = "all"
    UNCOMPRESSED = "uncompressed"
    NONE = "none"


def must_open(
    records: Buffer, header: BatchHeader, config: LogConfig, now_ms: int, validation: Validation
) -> bool:
    """Whether a setting or the header requires a check of the records. The header and the checksum have already been
    checked.
    """
    by_producer = config.message_timestamp_type != LOG_APPEND_TIME
    bounded = by_producer and (
        config.message_timestamp_before_max_ms != MAX_LONG
        or header.max_timestamp_ms > now_ms + config.message_timestamp_after_max_ms
    )
    compressed = header.attributes & 0x07
    return bool(
        validation is Validation.ALL
        or (validation is Validation.UNCOMPRESSED and not compressed)
        or bounded
        or config.compact
        or header.is_log_append_time
        or (compressed and validation is not Validation.NONE and not _begins_right(records, header))
    )


def examine(
    records: Buffer,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    topic_partition: str,
    inline: InlineBytes | None = None,
) -> Survey | None:
    """Checks the records of a batch. Returns None if the checks would take longer than a few milliseconds.

    Raises InvalidRecordException or InvalidTimestampException. If a record breaks a rule, the exception has
    `record_errors`.
    """
    payload, begin, end = records, HEADER_SIZE, len(records)
    if header.attributes & 0x07:
        small = _decompressed(records, header, topic_partition, inline)
        if small is None:
            return None
        payload, end = small
        begin = 0
    elif end > SMALL_PLAIN_BYTES:
        return None
    check_count(header, end - begin, topic_partition)
    by_producer = config.message_timestamp_type != LOG_APPEND_TIME
    batch_survey = None if header.is_log_append_time else survey(header, payload, begin, end)
    if (
        batch_survey is None
        or (by_producer and not _is_within(batch_survey, config, now_ms))
        or (config.compact and batch_survey.has_null_key)
    ):
        if header.records_count > FEW_RECORDS:
            return None
        batch_survey = _read_each(header, payload[begin:end], config, now_ms, topic_partition)
    return batch_survey


def check_count(header: BatchHeader, payload_bytes: int, topic_partition: str) -> None:
    """Raises InvalidRecordException if the number of records in the header is too large for `payload_bytes`."""
    if header.records_count * MIN_RECORD_BYTES > payload_bytes:
        raise InvalidRecordException(
            f"The batch for {topic_partition} states {header.records_count} records, and has at most "
            f"{payload_bytes} bytes for them"
        )


def check_possible_count(header: BatchHeader, size_bytes: int, topic_partition: str) -> None:
    """Raises InvalidRecordException if a batch of `size_bytes` cannot hold its number of records, however well it is
    compressed. For batches that are not decompressed."""
    check_count(header, most_bytes(header.codec, size_bytes - HEADER_SIZE), topic_partition)


def _begins_right(records: Buffer, header: BatchHeader) -> bool:
    with memoryview(records) as view:
        return begins_as(header.codec, view[HEADER_SIZE:])


def _decompressed(
    records: Buffer, header: BatchHeader, topic_partition: str, inline: InlineBytes | None
) -> tuple[Buffer, int] | None:
    """A buffer with the decompressed records, and their size. None if they are not small."""
    if len(records) > SMALL_BYTES:
        return None
    if header.records_count * MIN_RECORD_BYTES > SMALL_BYTES:
        check_possible_count(header, len(records), topic_partition)
        return None
    codec = header.codec
    if inline is not None:
        inline.take(codec, SMALL_BYTES)
    with memoryview(records) as view:
        try:
            small = small_payload(codec, view[HEADER_SIZE:], SMALL_BYTES)
        except CorruptRecordException as error:
            raise undecodable(error) from None
    if inline is not None and small is not None:
        inline.give_back(codec, SMALL_BYTES - small[1])
    return small


def undecodable(error: CorruptRecordException) -> KafkaError:
    """Kafka's error for a batch with a valid checksum that cannot be decompressed."""
    if isinstance(error, CutShort):
        return InvalidRecordException(error.message)
    return UnknownServerException(error.message)


def _is_within(batch_survey: Survey, config: LogConfig, now_ms: int) -> bool:
    """Whether all timestamps are certainly within the bounds. `batch_survey` has only a lower bound for the oldest
    timestamp, so the result may be False for valid timestamps."""
    return (
        batch_survey.newest_ms - now_ms <= config.message_timestamp_after_max_ms
        and now_ms - batch_survey.oldest_ms <= config.message_timestamp_before_max_ms
    )


def _read_each(
    header: BatchHeader, payload: Buffer, config: LogConfig, now_ms: int, topic_partition: str
) -> Survey:
    newest_ms, oldest_ms = NO_TIMESTAMP, MAX_LONG
    is_dense, has_null_key = True, False
    broken = BrokenRules(topic_partition)
    for index, record in enumerate(_records(header, payload)):
        time_ms = to_long(record.timestamp_ms)
        newest_ms, oldest_ms = max(newest_ms, time_ms), min(oldest_ms, time_ms)
        is_dense = is_dense and record.offset == header.base_offset + index
        has_null_key = has_null_key or record.key is None
        if config.compact and record.key is None:
            broken.add_keyless(index)
        elif problem := _time_problem(record, header, config, now_ms):
            broken.add_mistimed(index, problem)
    broken.refuse()
    return Survey(newest_ms, oldest_ms, is_dense, has_null_key)


class BrokenRules:
    """Collects the records of a batch that break a rule of its topic."""

    __slots__ = ("_count", "_errors", "_is_mistimed", "_topic_partition")

    def __init__(self, topic_partition: str) -> None:
        self._topic_partition = topic_partition
        self._errors: list[tuple[int, str]] = []
        self._count = 0
        self._is_mistimed = False

    @property
    def is_full(self) -> bool:
        """Whether the list of errors is full, so that further errors are only counted."""
        return len(self._errors) >= MAX_RECORD_ERRORS

    def add_keyless(self, index: int) -> None:
        self._add(
            index,
            f"Compacted topic cannot accept message without key in topic partition {self._topic_partition}",
        )

    def add_mistimed(self, index: int, problem: str) -> None:
        self._is_mistimed = True
        self._add(index, problem)

    def count_more(self, count: int, *, mistimed: bool) -> None:
        """Counts errors that the answer does not list."""
        self._count += count
        self._is_mistimed = self._is_mistimed or mistimed

    def _add(self, index: int, reason: str) -> None:
        self._count += 1
        if not self.is_full:
            self._errors.append((index, reason))

    def refuse(self) -> None:
        """Raises the error of the batch if any record breaks a rule."""
        if not self._count:
            return
        error: KafkaError
        if self._is_mistimed:
            error = InvalidTimestampException(
                "One or more records have been rejected due to invalid timestamp"
            )
        else:
            shown = ", ".join(
                f"RecordError(batchIndex={index}, message='{reason}')"
                for index, reason in self._errors[:SHOWN_ERRORS]
            )
            error = InvalidRecordException(
                f"One or more records have been rejected due to {self._count} record errors in total, and only "
                f"showing the first three errors at most: [{shown}]"
            )
            error.fault = BatchFault.KEYLESS
        error.record_errors = tuple(self._errors)
        raise error


def _records(header: BatchHeader, payload: Buffer) -> Iterator[Record]:
    return decode_records(header, bytes(payload))


def _time_problem(record: Record, header: BatchHeader, config: LogConfig, now_ms: int) -> str | None:
    time_ms = record.timestamp_ms
    if config.message_timestamp_type != LOG_APPEND_TIME and time_ms != NO_TIMESTAMP:
        before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
        if now_ms - time_ms <= before_ms and time_ms - now_ms <= after_ms:
            return None
        return out_of_range(time_ms, record.offset, config, now_ms)
    if not header.is_log_append_time:
        return None
    return wrong_type(time_ms, record.offset, header, len(record.key or b""), len(record.value or b""))


def out_of_range(time_ms: int, offset: int, config: LogConfig, now_ms: int) -> str:
    earliest_ms = to_long(now_ms - config.message_timestamp_before_max_ms)
    latest_ms = to_long(now_ms + config.message_timestamp_after_max_ms)
    return (
        f"Timestamp {time_ms} of message with offset {offset} is out of range. "
        f"The timestamp should be within [{earliest_ms}, {latest_ms}]"
    )


def wrong_type(time_ms: int, offset: int, header: BatchHeader, key_bytes: int, value_bytes: int) -> str:
    kind = "PartialDefaultRecord" if header.is_compressed else "DefaultRecord"
    return (
        f"Invalid timestamp type in message {kind}(offset={offset}, timestamp={time_ms}, "
        f"key={key_bytes} bytes, value={value_bytes} bytes). "
        f"Producer should not set timestamp type to LogAppendTime."
    )
