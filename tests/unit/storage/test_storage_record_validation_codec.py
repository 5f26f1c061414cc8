"""By default compressed records are not read, but a batch that does not begin as its codec does is."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from kcli.config.topic import LogConfig
from kcli.errors import UnknownServerException
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.storage.log.record_validation import Validation
from kcli.storage.log.validation import CheckedBatch, check_client_batch

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
NOW_MS = 1_700_000_000_000


def examined(batch: bytes, validation: Validation) -> object:
    checked = check_client_batch(batch, LogConfig(), NOW_MS, "t-0", validation)
    assert isinstance(checked, CheckedBatch)
    return checked.batch_survey


def batch_of(codec: Codec) -> bytes:
    return encode_batch([Record(-1, NOW_MS, b"k", b"v" * 100, (), -1)], codec=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_sound_batches_are_not_decompressed(codec: Codec) -> None:
    assert examined(batch_of(codec), Validation.UNCOMPRESSED) is None
    assert examined(batch_of(codec), Validation.ALL) is not None


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_plain_records_marked_as_compressed_are_refused(codec: Codec) -> None:
    compressed, plain = batch_of(codec), batch_of(Codec.NONE)
    batch = bytearray(compressed[:HEADER_SIZE] + plain[HEADER_SIZE:])
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    with pytest.raises(UnknownServerException):
        examined(bytes(batch), Validation.UNCOMPRESSED)
    assert examined(bytes(batch), Validation.NONE) is None
