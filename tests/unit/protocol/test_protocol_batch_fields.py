"""The fields of a batch's header that are read without the rest of it equal those of the whole header."""

from __future__ import annotations

import pytest

from kcli.protocol.batches.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    FLAGS_POSITION,
    MAGIC_POSITION,
    TRANSACTIONAL,
    Record,
    encode_batch,
    read_header,
    read_producer,
)
from kcli.protocol.batches.compression import Codec


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("transactional", [True, False])
def test_magic_codec_and_transactional_flag(codec: Codec, transactional: bool) -> None:
    batch = encode_batch(
        [Record(0, 1, b"k", b"v", (), -1)],
        codec=codec,
        transactional=transactional,
        producer_id=7,
        producer_epoch=3,
        base_sequence=5,
    )
    header = read_header(batch)
    assert batch[MAGIC_POSITION] == header.magic == CURRENT_MAGIC
    assert batch[FLAGS_POSITION] & CODEC_MASK == header.codec
    assert bool(batch[FLAGS_POSITION] & TRANSACTIONAL) == header.is_transactional


def test_the_producer_at_any_position() -> None:
    batch = encode_batch(
        [Record(0, 1, b"k", b"v", (), -1)], producer_id=2**40, producer_epoch=3, base_sequence=5
    )
    assert read_producer(batch) == read_producer(b"xyz" + batch, 3) == (2**40, 3, 5)
