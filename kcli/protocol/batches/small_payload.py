"""Decompresses small batches into a kept buffer, for the check that a leader makes before it writes a batch.

Most batches of producers are small, and lz4 and snappy decompress them as fast as memory is copied. A new buffer for
each batch would double this time, because the system must first give zeroed pages. So one buffer of each thread is used
again and again.
"""

from __future__ import annotations

import threading

from kcli.model.buffers import Buffer
from kcli.protocol.batches.compression import (
    MAX_PARTS,
    Codec,
    broken,
    decompress_small,
    lz4_blocks,
    most_bytes,
)

_LZ4_BLOCK_BYTES = 65_536
"""The size of the blocks that Kafka's clients write. A frame with larger blocks is decompressed into new memory."""


class _ThreadBuffer(threading.local):
    """The buffer of a thread."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def of(self, size_bytes: int) -> bytearray:
        if len(self._buffer) < size_bytes:
            self._buffer = bytearray(size_bytes)
        return self._buffer


_thread_buffer = _ThreadBuffer()


def small_payload(codec: Codec, body: Buffer, limit: int) -> tuple[bytes | bytearray, int] | None:
    """Decompresses the records of a batch. Returns a buffer and the number of its bytes that are used. Returns None if
    the records have more than `limit` bytes, or if the decompression would take long.

    The buffer is valid until the next call in the same thread. Raises CorruptRecordException if `body` is invalid.
    """
    if codec is Codec.LZ4:
        return _small_lz4(body, limit)
    payload = decompress_small(codec, body, limit)
    return None if payload is None else (payload, len(payload))


def _small_lz4(body: Buffer, limit: int) -> tuple[bytes | bytearray, int] | None:
    import cramjam

    # The last block may begin just before the limit.
    room = _thread_buffer.of(min(limit, most_bytes(Codec.LZ4, len(body))) + _LZ4_BLOCK_BYTES)
    size = blocks = 0
    with memoryview(room) as view:
        for block in lz4_blocks(body):
            blocks += 1
            if block.max_bytes > _LZ4_BLOCK_BYTES:
                payload = decompress_small(Codec.LZ4, body, limit)
                return None if payload is None else (payload, len(payload))
            if block.is_stored:
                end = size + len(block.content)
                view[size:end] = block.content
                size = end
            else:
                try:
                    size += cramjam.lz4.decompress_block_into(
                        block.content, view[size : size + block.max_bytes], output_len=block.max_bytes
                    )
                except cramjam.DecompressionError as error:
                    raise broken(Codec.LZ4, error) from None
            if size > limit or blocks > MAX_PARTS:
                return None
    return room, size
