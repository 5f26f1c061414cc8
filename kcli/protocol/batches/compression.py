"""The codecs none, gzip, snappy, lz4 and zstd, in the same formats as Kafka's Java client.

gzip is one stream with the JDK's header. snappy is the block stream of snappy-java ("xerial"). lz4 is the LZ4 frame
format: kcli writes the same subset of this format as Kafka, and reads everything that Kafka reads. zstd is one plain
frame. The library of a codec is imported when the codec is first used.

A few compressed bytes can become gigabytes, so compression and decompression work in pieces. A piece needs little
memory, and the caller of `inflate` can stop after every piece.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from kcli.errors import CorruptRecordException, UnsupportedCompressionTypeException
from kcli.model.buffers import Buffer

if TYPE_CHECKING:
    from zstandard import ZstdDecompressor

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""The largest decompressed batch that may be in memory as a whole. The value is 128 times Kafka's default of
max.message.bytes."""

PIECE_BYTES = 1 << 20
"""The approximate size of a piece. A piece is small compared with a broker's memory. But a piece is large enough that
the calls for each piece take little of the total time.
"""

MAX_PARTS = 256
"""The most blocks or frames in one piece. There is a limit, because a malicious client can send a stream with many
thousands of empty blocks."""


class Codec(IntEnum):
    """The compression codec, numbered as in bits 0-2 of a batch's attributes. `label` is the name in configurations and
    in the output of tools."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        return self.name.lower()


def codec_named(name: str) -> Codec:
    """The codec with this name in `compression.type`. The value `uncompressed` means Codec.NONE."""
    try:
        return Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    except KeyError:
        known = ", ".join(codec.label for codec in Codec)
        raise UnsupportedCompressionTypeException(
            f"Unknown compression name: {name} (known: {known})"
        ) from None


def compress(codec: Codec, payload: Buffer, level: int | None = None) -> bytes:
    """Compresses `payload`. A `level` of None means Kafka's default for the codec. `none` and snappy have no levels."""
    return b"".join(deflate(codec, (payload,), level))


def deflate(codec: Codec, pieces: Iterable[Buffer], level: int | None = None) -> Iterator[Buffer]:
    """Compresses pieces of a payload. Yields the compressed bytes in pieces."""
    match codec:
        case Codec.NONE:
            return iter(pieces)
        case Codec.GZIP:
            return _gzip(pieces, GZIP_DEFAULT_LEVEL if level is None else level)
        case Codec.SNAPPY:
            return _snappy(pieces)
        case Codec.LZ4:
            return _lz4(pieces, LZ4_DEFAULT_LEVEL if level is None else level)
        case Codec.ZSTD:
            return _zstd(pieces, ZSTD_DEFAULT_LEVEL if level is None else level)


def decompress(codec: Codec, payload: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompresses `payload`. Raises CorruptRecordException if `payload` is invalid, and InflatesTooFar if the result
    would have more than `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    for part in _parts(codec, payload):
        size += len(part)
        if size > limit:
            raise InflatesTooFar(f"A {codec.label} batch inflates to more than {limit} bytes, the limit")
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def decompress_small(codec: Codec, payload: Buffer, limit: int) -> bytes | None:
    """Decompresses `payload`. Returns None if the decompression would take long.

    The work takes long if the decompressed payload has more than `limit` bytes or MAX_PARTS blocks.
    """
    parts: list[bytes] = []
    size = 0
    for part in (
        _unzstd(payload, _thread_decompressor.zstd()) if codec is Codec.ZSTD else _parts(codec, payload)
    ):
        size += len(part)
        parts.append(part)
        if size > limit or len(parts) > MAX_PARTS:
            return None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def inflate(codec: Codec, payload: Buffer) -> Iterator[bytes]:
    """The decompressed bytes in pieces of about PIECE_BYTES. Some pieces are smaller, or even empty.

    A piece of snappy or lz4 may be as large as its block. Raises CorruptRecordException at the place where the stream
    is broken.
    """
    parts: list[bytes] = []
    size = 0
    for part in _parts(codec, payload):
        size += len(part)
        parts.append(part)
        if size >= PIECE_BYTES or len(parts) == MAX_PARTS:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


def _parts(codec: Codec, payload: Buffer) -> Iterator[bytes]:
    """The decompressed bytes, frame by frame and block by block."""
    match codec:
        case Codec.NONE:
            return iter((bytes(payload),))
        case Codec.GZIP:
            return _gunzip(payload)
        case Codec.SNAPPY:
            return _unsnappy(payload)
        case Codec.LZ4:
            return _unlz4(payload)
        case Codec.ZSTD:
            return _unzstd(payload)


class InflatesTooFar(CorruptRecordException):
    """The decompressed batch is larger than its reader's limit. The bytes up to this limit are valid."""


class CutShort(CorruptRecordException):
    """A gzip stream ends inside its data. Kafka reports this as the end of the records, and not as a failed
    decompression, because Java raises an EOFException for gzip only."""


def broken(codec: Codec, why: object) -> CorruptRecordException:
    return CorruptRecordException(f"A {codec.label} batch cannot be decompressed: {why}")


def _blocks(pieces: Iterable[Buffer], size_bytes: int) -> Iterator[memoryview]:
    """Yields the bytes of `pieces` in blocks of `size_bytes`. The last block may be shorter."""
    rest = b""
    for piece in pieces:
        view = memoryview(rest + piece if rest else piece)
        whole = len(view) - len(view) % size_bytes
        for start in range(0, whole, size_bytes):
            yield view[start : start + size_bytes]
        rest = bytes(view[whole:])
    if rest:
        yield memoryview(rest)


# --- gzip

GZIP_DEFAULT_LEVEL = zlib.Z_DEFAULT_COMPRESSION
# The gzip header (RFC 1952) that the JDK writes: deflate, no flags, no time, OS "unknown" (255 since JDK 16).
_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
_GZIP_TRAILER = struct.Struct("<II")
_GZIP_WBITS = 31  # A window of 15 bits. Adding 16 makes zlib expect a gzip header.
# After each call zlib copies the rest of its input. So it gets this number of bytes at a time.
_GZIP_FED_BYTES = PIECE_BYTES


def _gzip(pieces: Iterable[Buffer], level: int) -> Iterator[Buffer]:
    stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    crc = size = 0
    yield _GZIP_HEADER
    for piece in pieces:
        crc, size = zlib.crc32(piece, crc), size + len(piece)
        yield stream.compress(piece)
    yield stream.flush()
    yield _GZIP_TRAILER.pack(crc, size & 0xFFFF_FFFF)


def _gunzip(payload: Buffer) -> Iterator[bytes]:
    """Decompresses all members of gzip data. RFC 1952, section 2.2, allows several members."""
    view = memoryview(payload)
    position = 0
    if len(view) < len(_GZIP_HEADER):
        raise broken(Codec.GZIP, f"{len(view)} bytes cannot hold its header")
    while position < len(view):
        member = zlib.decompressobj(_GZIP_WBITS)
        while not member.eof:
            fed = view[position : position + _GZIP_FED_BYTES]
            try:
                part = member.decompress(fed, PIECE_BYTES)
            except zlib.error as error:
                raise broken(Codec.GZIP, error) from None
            position += len(fed) - len(member.unconsumed_tail) - len(member.unused_data)
            if not part and not fed:
                raise CutShort("A gzip batch cannot be decompressed: the stream ends too early")
            yield part


# --- snappy

# snappy-java's header: magic, version 1, lowest compatible version 1. It may occur again between blocks.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")


_SNAPPY_MAX_RATIO = 22
"""The highest compression ratio of snappy: an element of three bytes can copy 64 bytes. A block with a higher ratio is
invalid."""


def _snappy(pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    import cramjam

    yield _XERIAL_HEADER
    for plain in _blocks(pieces, _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(plain))
        yield _INT32.pack(len(block))
        yield block


def _unsnappy(payload: Buffer) -> Iterator[bytes]:
    view = memoryview(payload)
    if view[:8] != _XERIAL_MAGIC:
        # Old versions of librdkafka wrote a block without a header; snappy-java reads such a block too.
        yield _unsnappy_block(view)
        return
    position = 0
    while position < len(view):
        is_header = view[position : position + 8] == _XERIAL_MAGIC
        if position + (len(_XERIAL_HEADER) if is_header else 4) > len(view):
            raise broken(Codec.SNAPPY, "the stream ends inside a header or a block length")
        if is_header:
            position += len(_XERIAL_HEADER)
            continue
        (length,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 <= length <= len(view) - position:
            raise broken(Codec.SNAPPY, f"a block of {length} bytes where {len(view) - position} are left")
        yield _unsnappy_block(view[position : position + length])
        position += length


def _unsnappy_block(block: memoryview) -> bytes:
    import cramjam

    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > _SNAPPY_MAX_RATIO * len(block):
            raise broken(Codec.SNAPPY, f"a block of {len(block)} bytes claims to hold {claimed}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise broken(Codec.SNAPPY, error) from None


# --- lz4

# In Kafka, level 9 means the *fast* compressor, and every other level means the high compressor (KIP-390).
LZ4_DEFAULT_LEVEL = 9
_LZ4_MAGIC = bytes.fromhex("04224d18")
# FLG 0x60: version 1, independent blocks, no optional fields. BD 0x40: 64 KiB blocks. 0x82: checksum of FLG and BD.
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000
_LZ4_END = bytes(4)
_UINT32_LE = struct.Struct("<I")


def _lz4(pieces: Iterable[Buffer], level: int) -> Iterator[Buffer]:
    from lz4 import block as lz4_block

    yield _LZ4_HEADER
    for plain in _blocks(pieces, _LZ4_BLOCK_BYTES):
        if level == LZ4_DEFAULT_LEVEL:
            packed = lz4_block.compress(plain, store_size=False)
        else:
            packed = lz4_block.compress(plain, mode="high_compression", compression=level, store_size=False)
        if len(packed) < len(plain):
            yield _UINT32_LE.pack(len(packed))
            yield packed
        else:
            yield _UINT32_LE.pack(len(plain) | _LZ4_STORED)
            yield plain
    yield _LZ4_END


def _unlz4(payload: Buffer) -> Iterator[bytes]:
    """Decompresses block by block. The library's functions for whole frames cannot be used: these functions refuse the
    wrong header checksums that messages of magic 0 have (KAFKA-3160)."""
    from lz4 import block as lz4_block

    for block in lz4_blocks(payload):
        try:
            part = (
                bytes(block.content)
                if block.is_stored
                else lz4_block.decompress(block.content, uncompressed_size=block.max_bytes)
            )
        except (lz4_block.LZ4BlockError, ValueError) as error:
            raise broken(Codec.LZ4, error) from None
        yield part


class Lz4Block(NamedTuple):
    """A block of an lz4 frame. `max_bytes` is the most bytes that the decompressed block may have."""

    content: memoryview
    is_stored: bool
    max_bytes: int


def lz4_blocks(payload: Buffer) -> Iterator[Lz4Block]:
    """Yields the blocks of an lz4 frame. Raises CorruptRecordException if the frame is invalid."""
    view = memoryview(payload)
    position, block_limit, block_checksums = _lz4_header(view)
    while True:
        if position + 4 > len(view):
            raise broken(Codec.LZ4, "the frame ends without its end mark")
        (word,) = _UINT32_LE.unpack_from(view, position)
        position += 4
        if word == 0:
            return
        length = word & ~_LZ4_STORED
        if length > block_limit or position + length > len(view):
            raise broken(Codec.LZ4, f"a block of {length} bytes where {len(view) - position} are left")
        stored = view[position : position + length]
        position += length
        if block_checksums:
            position = _check_lz4_block(view, position, stored)
        yield Lz4Block(stored, bool(word & _LZ4_STORED), block_limit)


def _lz4_header(view: memoryview) -> tuple[int, int, bool]:
    """The position of the first block, the largest block size, and whether blocks have checksums."""
    if len(view) < len(_LZ4_HEADER) or view[:4] != _LZ4_MAGIC:
        raise broken(Codec.LZ4, "it does not start with the LZ4 frame magic")
    flags, descriptor = view[4], view[5]
    if flags >> 6 != 1:
        raise broken(Codec.LZ4, f"frame version {flags >> 6}, expected 1")
    if flags & 0x03:
        raise broken(Codec.LZ4, f"reserved bits or a dictionary in the flags 0x{flags:02x}")
    if not flags & 0x20:
        raise broken(Codec.LZ4, "dependent blocks, which Kafka does not read")
    size_id = descriptor >> 4
    if descriptor & 0x8F or not 4 <= size_id <= 7:
        raise broken(Codec.LZ4, f"block descriptor 0x{descriptor:02x}, expected 0x40 to 0x70")
    content_size_bytes = 8 if flags & 0x08 else 0
    return 7 + content_size_bytes, 1 << (8 + 2 * size_id), bool(flags & 0x10)


def _check_lz4_block(view: memoryview, position: int, stored: memoryview) -> int:
    if position + 4 > len(view):
        raise broken(Codec.LZ4, "the frame ends inside a block checksum")
    (expected,) = _UINT32_LE.unpack_from(view, position)
    if xxh32(stored) != expected:
        raise broken(Codec.LZ4, "a block checksum does not match")
    return position + 4


_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFF_FFFF


def xxh32(payload: Buffer) -> int:
    """The 32-bit xxHash with seed 0 (specification of xxHash, section "XXH32"). This slow Python code is used only for
    the checksums of blocks. Few clients write such checksums."""
    size = len(payload)
    position = 0
    if size >= 16:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        for words in struct.iter_unpack("<4I", memoryview(payload)[: size - size % 16]):
            lanes = [
                _rotate(lane + word * _P2, 13) * _P1 & _MASK for lane, word in zip(lanes, words, strict=True)
            ]
        position = size - size % 16
        digest = sum(_rotate(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        digest = _P5
    digest = (digest + size) & _MASK
    while position + 4 <= size:
        (word,) = _UINT32_LE.unpack_from(payload, position)
        digest = _rotate(digest + word * _P3, 17) * _P4 & _MASK
        position += 4
    for byte in payload[position:]:
        digest = _rotate(digest + byte * _P5, 11) * _P1 & _MASK
    digest = (digest ^ digest >> 15) * _P2 & _MASK
    digest = (digest ^ digest >> 13) * _P3 & _MASK
    return digest ^ digest >> 16


def _rotate(value: int, turn: int) -> int:
    value &= _MASK
    return (value << turn | value >> (32 - turn)) & _MASK


# --- zstd

ZSTD_DEFAULT_LEVEL = 3
_ZSTD_PART_BLOCKS = 8
"""The number of blocks that one call decompresses. The library cannot limit the size of its output, and a decompressed
block can have 128 KiB. So the number of blocks is limited.
"""
_ZSTD_MAX_HEADER_BYTES = 18
_ZSTD_BLOCK_HEADER_BYTES = 3
_ZSTD_RLE = 1
_ZSTD_CHECKSUM_BYTES = 4
_ZSTD_SKIPPABLE = range(0x184D_2A50, 0x184D_2A60)


def _zstd(pieces: Iterable[Buffer], level: int) -> Iterator[Buffer]:
    """Compresses as the Java client does: without content size and checksum, and with a flush at the end. Because of
    the flush, the last block is empty."""
    import zstandard

    stream = zstandard.ZstdCompressor(level=level).compressobj()
    for piece in pieces:
        yield stream.compress(piece)
    yield stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    yield stream.flush()


class _ThreadDecompressor(threading.local):
    """The decompressor of a thread for small payloads. To make one takes longer than to use it."""

    def __init__(self) -> None:
        self._zstd: ZstdDecompressor | None = None

    def zstd(self) -> ZstdDecompressor:
        if self._zstd is None:
            import zstandard

            self._zstd = zstandard.ZstdDecompressor()
        return self._zstd


_thread_decompressor = _ThreadDecompressor()


def _unzstd(payload: Buffer, decompressor: ZstdDecompressor | None = None) -> Iterator[bytes]:
    """Decompresses all frames, a few blocks at a time. A `decompressor` may be used for one payload at a time."""
    import zstandard

    decompressor = decompressor or zstandard.ZstdDecompressor()
    view = memoryview(payload)
    position = 0
    while position < len(view):
        frame = decompressor.decompressobj()
        try:
            block = _first_zstd_block(view, position)
            while not frame.eof:
                if position >= len(view):
                    raise broken(Codec.ZSTD, "the stream ends too early")
                block = _zstd_blocks(view, block)
                part = frame.decompress(view[position:block])
                position = min(block, len(view)) - len(frame.unused_data)
                yield part
        except zstandard.ZstdError as error:
            raise broken(Codec.ZSTD, error) from None


def _first_zstd_block(view: memoryview, position: int) -> int:
    """The position of a frame's first block (RFC 8878, section 3.1.1), or the end of a skippable frame."""
    import zstandard

    head = view[position : position + _ZSTD_MAX_HEADER_BYTES]
    if len(head) >= 8 and int.from_bytes(head[:4], "little") in _ZSTD_SKIPPABLE:
        return position + 8 + int.from_bytes(head[4:8], "little")
    return position + int(zstandard.frame_header_size(head))


def _zstd_blocks(view: memoryview, block: int) -> int:
    """The position after the next few blocks of a frame. If these blocks include the last block, the position is after
    the checksum."""
    for _ in range(_ZSTD_PART_BLOCKS):
        head = int.from_bytes(view[block : block + _ZSTD_BLOCK_HEADER_BYTES], "little")
        is_last, kind, size = head & 1, head >> 1 & 3, head >> 3
        block += _ZSTD_BLOCK_HEADER_BYTES + (1 if kind == _ZSTD_RLE else size)
        if is_last:
            return block + _ZSTD_CHECKSUM_BYTES
        if block >= len(view):
            break
    return block


_MAX_RATIOS = {
    Codec.NONE: 1,
    Codec.GZIP: 1032,  # deflate: two bits can stand for 258 bytes
    Codec.SNAPPY: _SNAPPY_MAX_RATIO,
    Codec.LZ4: 255,  # one byte can stand for 255 bytes
    Codec.ZSTD: 32_768,  # a block of four bytes can stand for 128 KiB
}


def most_bytes(codec: Codec, size_bytes: int) -> int:
    """The most bytes that `size_bytes` compressed bytes can become."""
    return size_bytes * _MAX_RATIOS[codec]


_FIRST_BYTES = {Codec.GZIP: b"\x1f\x8b", Codec.LZ4: b"\x04\x22\x4d\x18", Codec.ZSTD: b"\x28\xb5\x2f\xfd"}


def begins_as(codec: Codec, data: Buffer) -> bool:
    """Whether `data` begins with the first bytes of this codec's format. Snappy data may begin with any bytes, so the
    result for snappy is always True."""
    expected = _FIRST_BYTES.get(codec, b"")
    return bytes(data[: len(expected)]) == expected
