"""By default compressed records are not read, but a batch that does not begin as its codec does is."""

from __future__ import annotations

import pytest

from kcli.config.topic import LogConfig
from kcli.errors import UnknownServerException
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch, read_header
from kcli.protocol.batches.compression import Codec
from kcli.storage.log.record_validation import Validation, examine

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
NOW_MS = 1_700_000_000_000


def examined(batch: bytes, validation: Validation) -> object:
    return examine(batch, read_header(batch, 0), LogConfig(), NOW_MS, "t-0", validation)


def batch_of(codec: Codec) -> bytes:
    return encode_batch([Record(-1, NOW_MS, b"k", b"v" * 100, (), -1)], codec=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_sound_batches_are_not_decompressed(codec: Codec) -> None:
    assert examined(batch_of(codec), Validation.UNCOMPRESSED) is None
    assert examined(batch_of(codec), Validation.ALL) is not None


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_what_is_not_compressed_at_all_is_refused(codec: Codec) -> None:
    compressed, plain = batch_of(codec), batch_of(Codec.NONE)
    batch = compressed[:HEADER_SIZE] + plain[HEADER_SIZE:]
    with pytest.raises(UnknownServerException):
        examined(batch, Validation.UNCOMPRESSED)
    assert examined(batch, Validation.NONE) is None
