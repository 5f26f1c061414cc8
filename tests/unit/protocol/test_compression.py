from __future__ import annotations

import gzip
import struct

import pytest

from kcli.errors import CorruptRecordException, UnsupportedCompressionTypeException
from kcli.protocol.batches.compression import Codec, codec_named, compress, decompress, xxh32

CODECS = [codec for codec in Codec if codec is not Codec.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog " * 5000
NOISE = bytes((index * 7919 + index**3) % 251 ^ (index >> 3) & 0xFF for index in range(70_000))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("payload", [b"", b"x", TEXT, NOISE], ids=["empty", "one", "text", "noise"])
def test_decompressing_gives_the_compressed_bytes_back(codec: Codec, payload: bytes) -> None:
    assert decompress(codec, compress(codec, payload)) == payload
    assert decompress(codec, memoryview(compress(codec, memoryview(payload)))) == payload


@pytest.mark.parametrize(
    ("codec", "head"),
    [
        (Codec.GZIP, "1f8b08000000000000ff"),
        (Codec.SNAPPY, "82534e41505059000000000100000001"),
        (Codec.LZ4, "04224d18604082"),
        # Frame header descriptor 0: no content size, no checksum, no dictionary.
        (Codec.ZSTD, "28b52ffd00"),
    ],
)
def test_frames_begin_as_the_java_client_begins_them(codec: Codec, head: str) -> None:
    assert compress(codec, TEXT).startswith(bytes.fromhex(head))


def test_snappy_blocks_hold_32_kib_each() -> None:
    stream = compress(Codec.SNAPPY, NOISE)
    sizes = []
    position = 16
    while position < len(stream):
        (length,) = struct.unpack_from(">i", stream, position)
        sizes.append(len(decompress(Codec.SNAPPY, stream[position + 4 : position + 4 + length])))
        position += 4 + length
    assert sizes == [32768, 32768, len(NOISE) - 65536]


def test_snappy_reads_concatenated_streams_and_bare_blocks() -> None:
    stream = compress(Codec.SNAPPY, b"one")
    assert decompress(Codec.SNAPPY, stream + stream) == b"oneone"
    bare = stream[20:]
    assert decompress(Codec.SNAPPY, bare) == b"one"


def test_lz4_stores_what_does_not_shrink() -> None:
    frame = compress(Codec.LZ4, b"abc")
    assert frame == bytes.fromhex("04224d18604082") + b"\x03\x00\x00\x80abc" + bytes(4)


def test_lz4_levels_other_than_nine_use_the_high_compressor() -> None:
    assert len(compress(Codec.LZ4, TEXT + NOISE, 12)) < len(compress(Codec.LZ4, TEXT + NOISE))
    assert decompress(Codec.LZ4, compress(Codec.LZ4, TEXT, 17)) == TEXT


def test_lz4_reads_optional_parts_of_a_frame() -> None:
    # Version 1, independent, block checksums, content size, content checksum; 1 MiB blocks; any header checksum.
    header = bytes.fromhex("04224d18") + b"\x7c\x60" + struct.pack("<Q", 3) + b"\x00"
    block = b"\x03\x00\x00\x80abc" + struct.pack("<I", xxh32(b"abc"))
    assert decompress(Codec.LZ4, header + block + bytes(4) + b"sums") == b"abc"
    wrong = block[:-1] + bytes([block[-1] ^ 1])
    with pytest.raises(CorruptRecordException, match="block checksum"):
        decompress(Codec.LZ4, header + wrong + bytes(4))


@pytest.mark.parametrize(
    ("flags", "descriptor", "why"),
    [
        (0x40, 0x40, "dependent blocks"),
        (0xA0, 0x40, "frame version"),
        (0x62, 0x40, "reserved"),
        (0x60, 0x30, "block descriptor"),
        (0x60, 0xC0, "block descriptor"),
    ],
)
def test_lz4_refuses_frames_kafka_does_not_read(flags: int, descriptor: int, why: str) -> None:
    frame = bytes.fromhex("04224d18") + bytes([flags, descriptor, 0]) + b"\x01\x00\x00\x80a" + bytes(4)
    with pytest.raises(CorruptRecordException, match=why):
        decompress(Codec.LZ4, frame)


@pytest.mark.parametrize(
    ("payload", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_matches_its_published_values(payload: bytes, digest: int) -> None:
    assert xxh32(payload) == digest


def test_gzip_and_zstd_read_several_members() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, TEXT) + compress(Codec.ZSTD, b"two")) == TEXT + b"two"


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(1_000_000))
    with pytest.raises(CorruptRecordException, match="inflates to more than 999999 bytes"):
        decompress(codec, bomb, limit=999_999)
    assert len(decompress(codec, bomb, limit=1_000_000)) == 1_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_cut_short_is_refused(codec: Codec) -> None:
    stream = compress(codec, NOISE)
    for length in (3, 9, 20, len(stream) // 2, len(stream) - 1):
        with pytest.raises(CorruptRecordException, match=codec.label):
            decompress(codec, stream[:length])


def test_a_broken_zstd_frame_is_refused() -> None:
    stream = bytearray(compress(Codec.ZSTD, TEXT))
    stream[0] ^= 0xFF
    with pytest.raises(CorruptRecordException, match="zstd"):
        decompress(Codec.ZSTD, stream)


def test_levels_reach_the_codec() -> None:
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.ZSTD, 1, 19)):
        assert len(compress(codec, NOISE + TEXT, high)) <= len(compress(codec, NOISE + TEXT, low))


def test_codecs_by_name() -> None:
    assert codec_named("zstd") is Codec.ZSTD
    assert codec_named("uncompressed") is Codec.NONE
    assert Codec.LZ4.label == "lz4"
    with pytest.raises(UnsupportedCompressionTypeException, match=r"brotli.*known: none, gzip"):
        codec_named("brotli")
