"""Checks a batch on the leader before it is written, and sets its place in the log.

This module checks size, checksum and the 61-byte header. `record_validation` checks the records. If possible, a batch
is written as the client sent it. Only base offset and leader epoch are set, and a wrong max timestamp is corrected. If
the records of a batch take long to read, the batch is returned as an `UnopenedBatch`. The caller can read its records
in another thread.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from kcli.config.topic import LogConfig
from kcli.errors import (
    CorruptRecordError,
    CorruptRecordException,
    InvalidRecordException,
    RecordTooLargeException,
    UnknownServerException,
)
from kcli.model.batch_faults import BatchFault
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_TIMESTAMP, LeaderEpoch, Offset
from kcli.protocol.batches.batch import (
    HEADER_SIZE,
    BatchHeader,
    assign,
    crc_is_valid,
    encode_batch,
    iter_batches,
    read_header,
    read_records,
    set_log_append_time,
    set_max_timestamp,
)
from kcli.protocol.batches.compression import Codec, codec_named
from kcli.protocol.batches.survey import Survey
from kcli.storage.log.record_validation import (
    FEW_RECORDS,
    LOG_APPEND_TIME,
    InlineBytes,
    Validation,
    check_possible_count,
    examine,
    must_open,
)
from kcli.storage.log.segment import Placed

KEEP_CODEC = "producer"

COPIED_BYTES = 16_384
"""The largest read-only batch, in bytes, that is copied so that it can be changed. For a larger batch, it is faster to
write two buffers: a new header and the old body."""

CURRENT_MAGIC = 2


class PlacedBatch(NamedTuple):
    """A batch with base offset and leader epoch set, ready to be written."""

    header: BatchHeader
    base_offset: Offset
    size_bytes: int
    buffers: tuple[Buffer, ...]
    log_append_time_ms: int

    @property
    def placed(self) -> Placed:
        last_offset = Offset(self.base_offset + self.header.last_offset_delta)
        return last_offset, self.header.max_timestamp_ms, self.size_bytes


class CheckedBatch(NamedTuple):
    """A client's batch that has passed the checks. `batch_survey` is the result of the check of its records, or None if
    the records were not read."""

    records: Buffer
    header: BatchHeader
    batch_survey: Survey | None


Opening = Generator[None, None, CheckedBatch]
"""The check of an unopened batch, as a generator. Each step checks about a megabyte of records. Raises KafkaError if
the batch is invalid."""


@dataclass(frozen=True, slots=True)
class UnopenedBatch:
    """A client's batch whose header has passed the checks, but whose records are not checked yet, because reading them
    takes long. `is_untried` is True if the batch may be small, but too many batches came at the same time.
    """

    records: Buffer
    header: BatchHeader
    config: LogConfig
    now_ms: int
    topic_partition: str
    is_untried: bool = False


def check_client_batch(
    records: Buffer,
    config: LogConfig,
    now_ms: int,
    topic_partition: str,
    validation: Validation,
    inline: InlineBytes | None = None,
) -> CheckedBatch | UnopenedBatch:
    """Checks the batch that a client sent for a partition. Raises KafkaError if it is invalid. Decompresses at most the
    bytes of `inline`, by default all batches that are small."""
    header = _check_header(records, config, topic_partition)
    if not is_recoded(header, config) and not must_open(records, header, config, now_ms, validation):
        check_possible_count(header, len(records), topic_partition)
        return CheckedBatch(records, header, None)
    if inline is not None and inline.is_spent and header.is_compressed:
        return UnopenedBatch(records, header, config, now_ms, topic_partition, is_untried=True)
    batch_survey = examine(records, header, config, now_ms, topic_partition, inline)
    if batch_survey is None or takes_long_to_write(header, config, batch_survey):
        return UnopenedBatch(records, header, config, now_ms, topic_partition)
    return CheckedBatch(records, header, batch_survey)


def takes_long_to_write(header: BatchHeader, config: LogConfig, batch_survey: Survey) -> bool:
    """Whether the batch has many records and must be encoded again."""
    return header.records_count > FEW_RECORDS and (is_recoded(header, config) or not batch_survey.is_dense)


def is_recoded(header: BatchHeader, config: LogConfig) -> bool:
    """Whether the topic requires another codec than the one that the client used."""
    return config.compression_type != KEEP_CODEC and target_codec(header, config) != header.codec


def target_codec(header: BatchHeader, config: LogConfig) -> Codec:
    """The codec with which the batch is written."""
    return header.codec if config.compression_type == KEEP_CODEC else codec_named(config.compression_type)


def _check_header(records: Buffer, config: LogConfig, topic_partition: str) -> BatchHeader:
    try:
        header = read_header(records)
    except CorruptRecordError as error:
        raise CorruptRecordException(f"Batch for {topic_partition} is corrupt: {error}") from None
    if header.magic != CURRENT_MAGIC:
        raise InvalidRecordException(
            f"Batch for {topic_partition} has magic {header.magic}; only magic 2 is written by Kafka 4"
        )
    if header.base_offset != 0:
        raise _out_of_order(
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, but it is "
            f"{header.base_offset}"
        )
    size = header.batch_length + 12
    if size > config.max_message_bytes:
        raise RecordTooLargeException(
            f"The record batch size in the append to {topic_partition} is {size} bytes which exceeds the maximum "
            f"configured value of {config.max_message_bytes}."
        )
    if size != len(records):
        _refuse_size(records, size, topic_partition)
    if not crc_is_valid(records, 0, header):
        raise CorruptRecordException(
            f"Record is corrupt (stored crc = {header.crc}) in topic partition {topic_partition}."
        )
    if header.attributes & 0x07 > Codec.ZSTD:
        raise UnknownServerException(f"Unknown compression type id: {header.attributes & 0x07}")
    if (
        header.records_count != header.last_offset_delta + 1
        or header.records_count <= 0
        or header.attributes & 0x20
    ):
        _refuse_header(header, topic_partition)
    # Without a sequence number, the broker could not recognise a repeated batch (KIP-98).
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _out_of_order(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
        )
    return header


def _out_of_order(message: str) -> InvalidRecordException:
    error = InvalidRecordException(message)
    error.fault = BatchFault.SEQUENCE
    return error


def _refuse_size(records: Buffer, size: int, topic_partition: str) -> None:
    if size > len(records):
        raise CorruptRecordException(
            f"Batch for {topic_partition} states {size} bytes, but {len(records)} were sent"
        )
    raise InvalidRecordException(
        f"Produce request for {topic_partition} is only allowed to contain exactly one record batch"
    )


def _refuse_header(header: BatchHeader, topic_partition: str) -> None:
    # Only brokers and controllers write control batches. A marker of a client could end the transaction of another
    # producer.
    if header.is_control:
        raise InvalidRecordException(f"Clients are not allowed to write control records to {topic_partition}")
    if header.records_count <= 0:
        raise _out_of_order(
            f"Invalid reported count for record batch: {header.records_count} in {topic_partition}"
        )
    raise _out_of_order(
        f"Inconsistent batch offset range: last offset delta {header.last_offset_delta} with "
        f"{header.records_count} records in {topic_partition}"
    )


def place(
    records: Buffer,
    header: BatchHeader,
    config: LogConfig,
    base_offset: Offset,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    batch_survey: Survey | None = None,
) -> PlacedBatch:
    """Sets base offset and leader epoch of the batch, in place if `records` is writable.

    `batch_survey` is the result of the check of the records, if they were read. A wrong max timestamp is corrected. If
    the offsets have gaps, the records get consecutive offsets. Kafka, in contrast, sets consecutive offsets only in
    compressed batches, and Kafka's consumers fail on uncompressed batches with gaps.
    """
    if is_recoded(header, config) or (batch_survey is not None and not batch_survey.is_dense):
        codec = target_codec(header, config)
        records = _recompress(records, header, codec, config)
        header = read_header(records)
        batch_survey = None
        if len(records) > config.max_message_bytes:
            raise RecordTooLargeException(
                f"The batch is {len(records)} bytes when compressed with {codec.name.lower()}, which exceeds the "
                f"maximum configured value of {config.max_message_bytes}."
            )
    log_append_time = config.message_timestamp_type == LOG_APPEND_TIME
    newest_ms = header.max_timestamp_ms if batch_survey is None else batch_survey.newest_ms
    if log_append_time or header.attributes & 0x08 or newest_ms != header.max_timestamp_ms:
        if not _is_writable(records):
            records = bytearray(records)
        assert not isinstance(records, bytes), "what is not writable was copied"
        if log_append_time:
            set_log_append_time(records, 0, now_ms)
        else:
            # A search by time trusts the largest timestamp in the header (KIP-33), so a wrong value would hide records.
            set_max_timestamp(records, 0, newest_ms)
        header = read_header(records)
    log_append_time_ms = now_ms if log_append_time else NO_TIMESTAMP
    size = len(records)
    writable: bytearray | memoryview
    if not isinstance(records, bytes) and _is_writable(records):
        writable = records
    elif size <= COPIED_BYTES:
        writable = bytearray(records)
    else:
        head = bytearray(records[:HEADER_SIZE])
        assign(head, 0, base_offset, leader_epoch)
        return PlacedBatch(
            header, base_offset, size, (head, memoryview(records)[HEADER_SIZE:]), log_append_time_ms
        )
    assign(writable, 0, base_offset, leader_epoch)
    return PlacedBatch(header, base_offset, size, (writable,), log_append_time_ms)


def _is_writable(records: Buffer) -> bool:
    return isinstance(records, bytearray) or (isinstance(records, memoryview) and not records.readonly)


def _recompress(records: Buffer, header: BatchHeader, codec: Codec, config: LogConfig) -> bytearray:
    """Encodes the records again with `codec` and consecutive offset deltas (0, 1, 2 …). The producer fields stay the
    same.
    """
    return bytearray(
        encode_batch(
            (record._replace(offset=-1) for record in read_records(records)),
            codec=codec,
            level=level_of(codec, config),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
        )
    )


def level_of(codec: Codec, config: LogConfig) -> int | None:
    """The compression level that the topic sets for the codec. None for a codec without levels."""
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case Codec.NONE | Codec.SNAPPY:
            return None


def split_batches(records: Buffer) -> list[tuple[BatchHeader, Buffer]]:
    """Splits `records` into batches. Returns the header and the bytes of each batch. Raises CorruptRecordException if
    the bytes are not whole batches."""
    try:
        headers = list(iter_batches(records))
    except CorruptRecordError as error:
        raise CorruptRecordException(str(error)) from None
    if len(headers) == 1 and headers[0][1].size_bytes == len(records):
        return [(headers[0][1], records)]
    view = memoryview(records)
    pieces: list[tuple[BatchHeader, Buffer]] = []
    end = 0
    for position, header in headers:
        end = position + header.size_bytes
        pieces.append((header, view[position:end]))
    if end != len(records):
        raise CorruptRecordException(f"{len(records) - end} bytes after the last whole batch of an append")
    return pieces
