"""The five codecs, in the same frame formats as Kafka's Java client.

gzip is one member with the JDK's header. snappy is the block stream of snappy-java ("xerial"). lz4 is the LZ4 frame
format: kcli writes the same subset of it as Kafka, and reads everything that Kafka reads. zstd is one plain frame. The
library of a codec is imported at its first use.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum

from kcli.errors import CorruptRecordException, UnsupportedCompressionTypeException
from kcli.model.buffers import Buffer

MAX_DECOMPRESSED_BYTES = 128 * 1024 * 1024
"""The largest decompressed size of a batch: 128 times Kafka's default max.message.bytes. A larger batch is refused,
because it is probably an attack."""


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
    """The codec with this name in `compression.type`. The name `uncompressed` of topic configs gives no compression."""
    try:
        return Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    except KeyError:
        known = ", ".join(codec.label for codec in Codec)
        raise UnsupportedCompressionTypeException(
            f"Unknown compression name: {name} (known: {known})"
        ) from None


def compress(codec: Codec, payload: Buffer, level: int | None = None) -> bytes:
    """Compresses `payload`. A `level` of None means Kafka's default for the codec. `none` and snappy have no levels."""
    match codec:
        case Codec.NONE:
            return bytes(payload)
        case Codec.GZIP:
            return _gzip(payload, GZIP_DEFAULT_LEVEL if level is None else level)
        case Codec.SNAPPY:
            return _snappy(payload)
        case Codec.LZ4:
            return _lz4(payload, LZ4_DEFAULT_LEVEL if level is None else level)
        case Codec.ZSTD:
            return _zstd(payload, ZSTD_DEFAULT_LEVEL if level is None else level)


def decompress(codec: Codec, payload: Buffer, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Decompresses `payload`. Raises CorruptRecordException if it is invalid or decompresses to more than `limit`
    bytes."""
    match codec:
        case Codec.NONE:
            return bytes(payload)
        case Codec.GZIP:
            return _gunzip(payload, limit)
        case Codec.SNAPPY:
            return _unsnappy(payload, limit)
        case Codec.LZ4:
            return _unlz4(payload, limit)
        case Codec.ZSTD:
            return _unzstd(payload, limit)


def _too_big(codec: Codec, limit: int) -> CorruptRecordException:
    return CorruptRecordException(f"A {codec.label} batch inflates to more than {limit} bytes, the limit")


def _broken(codec: Codec, why: object) -> CorruptRecordException:
    return CorruptRecordException(f"A {codec.label} batch cannot be decompressed: {why}")


# --- gzip

GZIP_DEFAULT_LEVEL = zlib.Z_DEFAULT_COMPRESSION
# The gzip header (RFC 1952) that the JDK writes: deflate, no flags, no time, OS "unknown" (255 since JDK 16).
_GZIP_HEADER = bytes.fromhex("1f8b08000000000000ff")
_GZIP_TRAILER = struct.Struct("<II")
_GZIP_WBITS = 31  # a window of 15 bits, plus 16 for gzip's header


def _gzip(payload: Buffer, level: int) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    trailer = _GZIP_TRAILER.pack(zlib.crc32(payload), len(payload) & 0xFFFF_FFFF)
    return b"".join((_GZIP_HEADER, deflate.compress(payload), deflate.flush(), trailer))


def _gunzip(payload: Buffer, limit: int) -> bytes:
    """Decompresses all gzip members. RFC 1952, section 2.2, allows several."""
    parts: list[bytes] = []
    size = 0
    rest: Buffer = payload
    while len(rest):
        member = zlib.decompressobj(_GZIP_WBITS)
        try:
            part = member.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise _broken(Codec.GZIP, error) from None
        size += len(part)
        if size > limit:
            raise _too_big(Codec.GZIP, limit)
        if not member.eof:
            raise _broken(Codec.GZIP, "the stream ends too early")
        parts.append(part)
        rest = member.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


# --- snappy

# snappy-java's header: magic, version 1, lowest compatible version 1. It may occur again between blocks.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_INT32 = struct.Struct(">i")


def _snappy(payload: Buffer) -> bytes:
    import cramjam

    parts = [_XERIAL_HEADER]
    view = memoryview(payload)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _unsnappy(payload: Buffer, limit: int) -> bytes:
    view = memoryview(payload)
    if view[:8] != _XERIAL_MAGIC:
        return _unsnappy_block(view, limit)  # a block without header, as of old librdkafka
    parts: list[bytes] = []
    size = 0
    position = 0
    while position < len(view):
        is_header = view[position : position + 8] == _XERIAL_MAGIC
        if position + (len(_XERIAL_HEADER) if is_header else 4) > len(view):
            raise _broken(Codec.SNAPPY, "the stream ends inside a header or a block length")
        if is_header:
            position += len(_XERIAL_HEADER)
            continue
        (length,) = _INT32.unpack_from(view, position)
        position += 4
        if not 0 <= length <= len(view) - position:
            raise _broken(Codec.SNAPPY, f"a block of {length} bytes where {len(view) - position} are left")
        part = _unsnappy_block(view[position : position + length], limit, size)
        size += len(part)
        parts.append(part)
        position += length
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnappy_block(block: memoryview, limit: int, before: int = 0) -> bytes:
    import cramjam

    try:
        if before + cramjam.snappy.decompress_raw_len(block) > limit:
            raise _too_big(Codec.SNAPPY, limit)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _broken(Codec.SNAPPY, error) from None


# --- lz4

# Kafka's level 9 is the *fast* compressor, every other level the high one (KIP-780).
LZ4_DEFAULT_LEVEL = 9
_LZ4_MAGIC = bytes.fromhex("04224d18")
# FLG 0x60: version 1, independent blocks, no optional fields. BD 0x40: 64 KiB blocks. 0x82: checksum of FLG and BD.
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x8000_0000
_LZ4_END = bytes(4)
_UINT32_LE = struct.Struct("<I")


def _lz4(payload: Buffer, level: int) -> bytes:
    from lz4 import block as lz4_block

    parts: list[Buffer] = [_LZ4_HEADER]
    view = memoryview(payload)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        if level == LZ4_DEFAULT_LEVEL:
            packed = lz4_block.compress(plain, store_size=False)
        else:
            packed = lz4_block.compress(plain, mode="high_compression", compression=level, store_size=False)
        if len(packed) < len(plain):
            parts += (_UINT32_LE.pack(len(packed)), packed)
        else:
            parts += (_UINT32_LE.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_END)
    return b"".join(parts)


def _unlz4(payload: Buffer, limit: int) -> bytes:
    """Decompresses lz4 block by block. The library for whole frames is not used, because it refuses the wrong header
    checksums that Kafka wrote in messages of magic 0 (KAFKA-3160)."""
    from lz4 import block as lz4_block

    view = memoryview(payload)
    position, block_limit, block_checksums = _lz4_header(view)
    parts: list[bytes] = []
    size = 0
    while True:
        if position + 4 > len(view):
            raise _broken(Codec.LZ4, "the frame ends without its end mark")
        (word,) = _UINT32_LE.unpack_from(view, position)
        position += 4
        if word == 0:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        length = word & ~_LZ4_STORED
        if length > block_limit or position + length > len(view):
            raise _broken(Codec.LZ4, f"a block of {length} bytes where {len(view) - position} are left")
        stored = view[position : position + length]
        position += length
        if block_checksums:
            position = _check_lz4_block(view, position, stored)
        try:
            part = (
                bytes(stored)
                if word & _LZ4_STORED
                else lz4_block.decompress(stored, uncompressed_size=block_limit)
            )
        except (lz4_block.LZ4BlockError, ValueError) as error:
            raise _broken(Codec.LZ4, error) from None
        size += len(part)
        if size > limit:
            raise _too_big(Codec.LZ4, limit)
        parts.append(part)


def _lz4_header(view: memoryview) -> tuple[int, int, bool]:
    """The position of the first block, the largest block size, and whether blocks have checksums."""
    if len(view) < len(_LZ4_HEADER) or view[:4] != _LZ4_MAGIC:
        raise _broken(Codec.LZ4, "it does not start with the LZ4 frame magic")
    flags, descriptor = view[4], view[5]
    if flags >> 6 != 1:
        raise _broken(Codec.LZ4, f"frame version {flags >> 6}, expected 1")
    if flags & 0x03:
        raise _broken(Codec.LZ4, f"reserved bits or a dictionary in the flags 0x{flags:02x}")
    if not flags & 0x20:
        raise _broken(Codec.LZ4, "dependent blocks, which Kafka does not read")
    size_id = descriptor >> 4
    if descriptor & 0x8F or not 4 <= size_id <= 7:
        raise _broken(Codec.LZ4, f"block descriptor 0x{descriptor:02x}, expected 0x40 to 0x70")
    content_size_bytes = 8 if flags & 0x08 else 0
    return 7 + content_size_bytes, 1 << (8 + 2 * size_id), bool(flags & 0x10)


def _check_lz4_block(view: memoryview, position: int, stored: memoryview) -> int:
    if position + 4 > len(view):
        raise _broken(Codec.LZ4, "the frame ends inside a block checksum")
    (expected,) = _UINT32_LE.unpack_from(view, position)
    if xxh32(stored) != expected:
        raise _broken(Codec.LZ4, "a block checksum does not match")
    return position + 4


_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFF_FFFF


def xxh32(payload: Buffer) -> int:
    """The 32-bit xxHash with seed 0 (specification of xxHash, section "XXH32"). It is slow Python, used only for the
    checksums of blocks, which are rare."""
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
_ZSTD_SLICE_BYTES = 1024
"""The compressed bytes that are decompressed before the limit is checked again. A zstd block has at least 4 bytes and
at most 128 KiB of content, so one slice can exceed the limit by at most 32 MiB."""


def _zstd(payload: Buffer, level: int) -> bytes:
    """Compresses to the bytes of the Java client: no content size, no checksum, and a flush before the end, so that the
    last block is empty."""
    import zstandard

    stream = zstandard.ZstdCompressor(level=level).compressobj()
    return b"".join(
        (stream.compress(payload), stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), stream.flush())
    )


def _unzstd(payload: Buffer, limit: int) -> bytes:
    """Decompresses all zstd frames. The input is passed in slices, because the library cannot limit its output."""
    import zstandard

    view = memoryview(payload)
    parts: list[bytes] = []
    size = 0
    position = 0
    while position < len(view):
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            if position >= len(view):
                raise _broken(Codec.ZSTD, "the stream ends too early")
            slice_end = min(position + _ZSTD_SLICE_BYTES, len(view))
            try:
                part = frame.decompress(view[position:slice_end])
            except zstandard.ZstdError as error:
                raise _broken(Codec.ZSTD, error) from None
            position = slice_end - len(frame.unused_data)
            size += len(part)
            if size > limit:
                raise _too_big(Codec.ZSTD, limit)
            parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


_FIRST_BYTES = {Codec.GZIP: b"\x1f\x8b", Codec.LZ4: b"\x04\x22\x4d\x18", Codec.ZSTD: b"\x28\xb5\x2f\xfd"}


def begins_as(codec: Codec, data: Buffer) -> bool:
    """Whether `data` begins like data of this codec. For snappy always True, because its data may begin with any
    bytes."""
    expected = _FIRST_BYTES.get(codec, b"")
    return bytes(data[: len(expected)]) == expected
