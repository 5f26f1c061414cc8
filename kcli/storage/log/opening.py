"""Makes the checks of `record_validation` for batches whose records take long to read. These checks use numpy, and
never keep a whole batch in memory.

A small compressed batch can have millions of records, or gigabytes of zeros. Kafka limits only the compressed size
(max.message.bytes), so such a batch is valid. kcli reads the batch in parts of about a megabyte. If the topic has
another codec, or if the offsets have gaps, the batch cannot be written unchanged. Such a batch is read a second time
and encoded again. A search for a timestamp also reads the batch in parts.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from kcli.config.topic import MAX_LONG, LogConfig
from kcli.errors import (
    CorruptRecordError,
    CorruptRecordException,
    InvalidRecordException,
    RecordTooLargeException,
)
from kcli.model.buffers import Buffer
from kcli.model.ids import NO_TIMESTAMP, Offset
from kcli.model.java_numbers import to_long
from kcli.protocol.batches.batch import (
    CONTROL,
    HEADER_SIZE,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    seal,
)
from kcli.protocol.batches.batch_headers import HEADER, BatchHeaders
from kcli.protocol.batches.columns import Depth, part_walk
from kcli.protocol.batches.compression import Codec, deflate
from kcli.protocol.batches.record_parts import LargeRecord, RecordPart, batch_parts
from kcli.protocol.batches.record_prefixes import joined_with_new_prefixes
from kcli.protocol.batches.record_starts import MAX_VARLONG_SIZE, Bools, Ints, varints
from kcli.protocol.batches.survey import Survey
from kcli.protocol.wire.varint import encode_varint
from kcli.storage.log.index import TimestampOffset
from kcli.storage.log.record_validation import (
    LOG_APPEND_TIME,
    BrokenRules,
    out_of_range,
    undecodable,
    wrong_type,
)
from kcli.storage.log.validation import CheckedBatch, Opening, UnopenedBatch, level_of, target_codec

MAX_OPENED_BYTES = 32 << 30
"""The most decompressed bytes of a batch that are read. zstd can compress about this many bytes to Kafka's default
max.message.bytes, because 128 KiB can become 4 bytes. Reading them takes about half a minute, the time for which a
producer waits for an answer by default (request.timeout.ms)."""


def open_batch(batch: UnopenedBatch) -> Opening:
    """Checks the records of a batch, one part of the batch at each step. Raises KafkaError like `examine`, and
    RecordTooLargeException."""
    rules = _Rules(batch)
    try:
        yield from _examine(batch, rules)
    except CorruptRecordException as error:
        raise undecodable(error) from None
    except CorruptRecordError as error:
        raise InvalidRecordException(str(error)) from None
    batch_survey = rules.result()
    codec = target_codec(batch.header, batch.config)
    if codec == batch.header.codec and batch_survey.is_dense:
        return CheckedBatch(batch.records, batch.header, batch_survey)
    rebuilt = yield from _rebuild(batch, codec, rules.first_ms, batch_survey.newest_ms)
    return CheckedBatch(rebuilt, read_header(rebuilt), None)


def _examine(batch: UnopenedBatch, rules: _Rules) -> Generator[None, None, None]:
    header = batch.header
    table = _table_of(batch.records, batch.topic_partition)
    opened_bytes = 0
    for part in batch_parts(batch.records, header):
        opened_bytes += part.rest_size_bytes if isinstance(part, LargeRecord) else len(part.buffer)
        if opened_bytes > MAX_OPENED_BYTES:
            raise RecordTooLargeException(
                f"The batch for {batch.topic_partition} inflates to more than {MAX_OPENED_BYTES} bytes"
            )
        if isinstance(part, LargeRecord):
            rules.add_large(part)
        elif len(part):
            columns = part_walk(table, 0, part).columns(Depth.HEADERS, any_offsets=True)
            assert columns.timestamps is not None, "all of a record was asked for"
            assert columns.keys is not None and columns.values is not None, "all of a record was asked for"
            rules.add(
                columns.timestamps,
                columns.offsets - header.base_offset,
                columns.keys.lengths,
                columns.values.lengths,
            )
        yield


def search_batch(
    batch: Buffer, header: BatchHeader, path: str, timestamp_ms: int, start_offset: Offset
) -> Generator[None, None, TimestampOffset | None]:
    """Searches a stored batch for the first record that is not before `timestamp_ms` and not before `start_offset`.
    Searches one part of the batch at each step."""
    table = _table_of(batch, path)
    for part in batch_parts(batch, header):
        if isinstance(part, LargeRecord):
            time_ms, offset = part.timestamp_ms(header), header.base_offset + part.offset_delta
            if time_ms >= timestamp_ms and offset >= start_offset:
                return TimestampOffset(time_ms, Offset(offset))
        elif len(part):
            columns = part_walk(table, 0, part).columns(Depth.TIMESTAMP, any_offsets=True)
            assert columns.timestamps is not None, "timestamps were asked for"
            rows = np.flatnonzero((columns.timestamps >= timestamp_ms) & (columns.offsets >= start_offset))
            if len(rows):
                row = int(rows[0])
                return TimestampOffset(int(columns.timestamps[row]), Offset(int(columns.offsets[row])))
        yield
    return None


def _table_of(batch: Buffer, name: str) -> BatchHeaders:
    header = np.frombuffer(bytes(batch[:HEADER_SIZE]), HEADER)
    return BatchHeaders(b"", np.zeros(1, np.int64), header, name)


class _Rules:
    """Applies Kafka's rules to the records of a batch, and collects the values of a `Survey`."""

    def __init__(self, batch: UnopenedBatch) -> None:
        self.first_ms = NO_TIMESTAMP
        self._batch = batch
        self._count = 0
        self._newest_ms, self._oldest_ms = NO_TIMESTAMP, MAX_LONG
        self._is_dense, self._has_null_key = True, False
        self._broken = BrokenRules(batch.topic_partition)

    def add(self, times: Ints, offset_deltas: Ints, key_lengths: Ints, value_lengths: Ints) -> None:
        """Checks the next records of the batch."""
        begin, self._count = self._count, self._count + len(times)
        if not begin:
            self.first_ms = int(times[0])
        self._newest_ms = max(self._newest_ms, int(times.max()))
        self._oldest_ms = min(self._oldest_ms, int(times.min()))
        self._is_dense = self._is_dense and bool(
            (offset_deltas == np.arange(begin, self._count, dtype=np.int64)).all()
        )
        null_keys = key_lengths < 0
        self._has_null_key = self._has_null_key or bool(null_keys.any())
        keyless = null_keys & self._batch.config.compact
        mistimed = self._are_mistimed(times) & ~keyless
        for row in np.flatnonzero(keyless | mistimed).tolist():
            if self._broken.is_full:
                later = slice(row, None)
                wrong = int((keyless | mistimed)[later].sum())
                self._broken.count_more(wrong, mistimed=bool(mistimed[later].any()))
                break
            if keyless[row]:
                self._broken.add_keyless(begin + row)
            else:
                time_ms, offset = int(times[row]), int(offset_deltas[row])
                sizes = max(int(key_lengths[row]), 0), max(int(value_lengths[row]), 0)
                self._broken.add_mistimed(begin + row, self._problem(time_ms, offset, *sizes))

    def add_large(self, record: LargeRecord) -> None:
        time_ms = to_long(record.timestamp_ms(self._batch.header))
        key_length = -1 if record.check() else 0
        self.add(
            np.array([time_ms], np.int64),
            np.array([record.offset_delta], np.int64),
            np.array([key_length], np.int64),
            np.zeros(1, np.int64),
        )

    def _are_mistimed(self, times: Ints) -> Bools:
        config, now_ms = self._batch.config, self._batch.now_ms
        flagged = np.full(len(times), self._batch.header.is_log_append_time)
        if config.message_timestamp_type == LOG_APPEND_TIME:
            return flagged
        late = (now_ms - times > config.message_timestamp_before_max_ms) | (
            times - now_ms > config.message_timestamp_after_max_ms
        )
        return np.where(times == NO_TIMESTAMP, flagged, late)

    def _problem(self, time_ms: int, offset: int, key_bytes: int, value_bytes: int) -> str:
        config = self._batch.config
        if config.message_timestamp_type != LOG_APPEND_TIME and time_ms != NO_TIMESTAMP:
            return out_of_range(time_ms, offset, config, self._batch.now_ms)
        return wrong_type(time_ms, offset, self._batch.header, key_bytes, value_bytes)

    def result(self) -> Survey:
        """Returns the survey of all records. Raises InvalidRecordException or InvalidTimestampException if a record
        breaks a rule.
        """
        self._broken.refuse()
        return Survey(self._newest_ms, self._oldest_ms, self._is_dense, self._has_null_key)


def _rebuild(
    batch: UnopenedBatch, codec: Codec, first_ms: int, newest_ms: int
) -> Generator[None, None, bytearray]:
    """Encodes the records again with `codec` and consecutive offset deltas (0, 1, 2 …). The producer fields stay the
    same.
    """
    header, config = batch.header, batch.config
    source = _Renumbered(batch.records, header, first_ms)
    body: list[Buffer] = []
    size, parts = HEADER_SIZE, 0
    for piece in deflate(codec, source.pieces(), level_of(codec, config)):
        body.append(bytes(piece))
        size += len(piece)
        _check_size(size, codec, config)
        if source.parts > parts:
            parts = source.parts
            yield
    return seal(
        header._replace(
            base_offset=Offset(0),
            attributes=codec | header.attributes & (TRANSACTIONAL | CONTROL),
            last_offset_delta=header.records_count - 1,
            base_timestamp_ms=first_ms,
            max_timestamp_ms=newest_ms,
        ),
        body,
    )


def _check_size(size_bytes: int, codec: Codec, config: LogConfig) -> None:
    if size_bytes > config.max_message_bytes:
        raise RecordTooLargeException(
            f"The batch has more than {config.max_message_bytes} bytes, the maximum configured value, when compressed "
            f"with {codec.label}."
        )


class _Renumbered:
    """Encodes the records of a valid batch again, with offset deltas 0, 1, 2 … and timestamps relative to `first_ms`.

    `parts` is the number of parts that were read so far.
    """

    def __init__(self, records: Buffer, header: BatchHeader, first_ms: int) -> None:
        self.parts = 0
        self._records = records
        self._header = header
        self._shift_ms = to_long(header.base_timestamp_ms - first_ms)
        self._is_append_time = header.is_log_append_time
        self._count = 0

    def pieces(self) -> Iterator[bytes]:
        for part in batch_parts(self._records, self._header):
            self.parts += 1
            if isinstance(part, LargeRecord):
                yield from self._large(part)
                self._count += 1
            elif len(part):
                yield self._usual(part)
                self._count += len(part)

    def _usual(self, part: RecordPart) -> bytes:
        buffer = np.frombuffer(part.buffer, np.uint8)
        _, at = varints(buffer, part.starts)
        times, at = varints(buffer, at + 1, MAX_VARLONG_SIZE)
        _, tails = varints(buffer, at)
        times = np.zeros_like(times) if self._is_append_time else times + self._shift_ms
        offsets = np.arange(self._count, self._count + len(part), dtype=np.int64)
        ends = np.append(part.starts[1:], len(part.buffer))
        return joined_with_new_prefixes(part.buffer, (times, offsets), tails, ends)

    def _large(self, record: LargeRecord) -> Iterator[bytes]:
        time_ms = 0 if self._is_append_time else to_long(record.timestamp_delta + self._shift_ms)
        deltas = encode_varint(time_ms) + encode_varint(self._count)
        yield encode_varint(1 + len(deltas) + record.rest_size_bytes) + b"\x00" + deltas
        yield from record.rest()
