"""Makes small batches that take much time to decompress and check. Their headers and checksums are valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kcli.model.ids import ProducerId
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch, read_header, seal
from kcli.protocol.batches.compression import Codec, deflate
from kcli.protocol.wire.varint import encode_varint

PIECE_BYTES = 1 << 20


def equal_deltas(
    count: int,
    timestamp_ms: int,
    *,
    codec: Codec = Codec.ZSTD,
    key: bytes | None = b"k",
    producer_id: int = -1,
) -> bytes:
    """Makes a batch of `count` records that all have offset delta 0. A million such records are 900 bytes with zstd."""
    record = encode_batch([Record(0, timestamp_ms, key, b"v")])[HEADER_SIZE:]
    return batch_of(_repeated(record, count), count, timestamp_ms, codec, producer_id=producer_id)


def large_values(
    count: int, value_bytes: int, timestamp_ms: int, *, codec: Codec = Codec.ZSTD, step_ms: int = 0
) -> bytes:
    """Makes a batch of `count` valid records whose values are zeros. A gigabyte of records is 39 kB with zstd, or 1 MB
    with gzip.
    """

    def records() -> Iterator[bytes]:
        value = bytes(value_bytes)
        for nth in range(count):
            key = b"%d" % nth
            deltas = encode_varint(nth * step_ms) + encode_varint(nth)
            head = b"\x00" + deltas + encode_varint(len(key)) + key + encode_varint(value_bytes)
            yield encode_varint(len(head) + value_bytes + 1) + head
            yield value
            yield b"\x00"  # no headers

    return batch_of(records(), count, timestamp_ms, codec, newest_ms=timestamp_ms + (count - 1) * step_ms)


def zeros(size_bytes: int, timestamp_ms: int, *, codec: Codec = Codec.GZIP) -> bytes:
    """Makes a batch that has zeros in place of records. A gigabyte of zeros is 1 MB with gzip."""
    return batch_of(_repeated(b"\x00", size_bytes), 1, timestamp_ms, codec)


def _repeated(piece: bytes, count: int) -> Iterator[bytes]:
    """Yields `piece` repeated `count` times, in large parts."""
    at_once = max(PIECE_BYTES // len(piece), 1)
    for begin in range(0, count, at_once):
        yield piece * min(at_once, count - begin)


def batch_of(
    records: Iterable[bytes],
    count: int,
    timestamp_ms: int,
    codec: Codec,
    *,
    newest_ms: int | None = None,
    producer_id: int = -1,
) -> bytes:
    """Makes a batch with the bytes `records` in place of its records. The bytes may have any content."""
    header = read_header(encode_batch([Record(0, timestamp_ms, b"k", b"v")]))._replace(
        attributes=int(codec),
        last_offset_delta=count - 1,
        records_count=count,
        max_timestamp_ms=timestamp_ms if newest_ms is None else newest_ms,
        producer_id=ProducerId(producer_id),
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=-1 if producer_id < 0 else 0,
    )
    return bytes(seal(header, deflate(codec, records)))
