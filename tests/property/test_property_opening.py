"""The checks by columns, for batches that take long, agree with the checks one by one, for small ones."""

from __future__ import annotations

import dataclasses

import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcli.config.topic import LogConfig
from kcli.errors import ErrorCode, KafkaError
from kcli.protocol.batches import compression, record_parts
from kcli.protocol.batches.batch import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    encode_batch,
    read_header,
    read_records,
)
from kcli.protocol.batches.compression import Codec, compress
from kcli.storage.log import record_validation
from kcli.storage.log.late_opening import opening_of
from kcli.storage.log.record_validation import Validation
from kcli.storage.log.validation import (
    CheckedBatch,
    UnopenedBatch,
    check_client_batch,
    place,
)
from rigs.examples import examples
from rigs.steps import last_of

NOW_MS = 1_700_000_000_000
CONFIGS = [
    LogConfig(),
    dataclasses.replace(LogConfig(), cleanup_policy=("compact",)),
    dataclasses.replace(LogConfig(), cleanup_policy=("compact",), message_timestamp_before_max_ms=20),
    dataclasses.replace(LogConfig(), message_timestamp_type="LogAppendTime", compression_type="lz4"),
    dataclasses.replace(LogConfig(), compression_type="uncompressed", max_message_bytes=2_000),
    dataclasses.replace(LogConfig(), compression_type="zstd"),
]

texts = st.one_of(st.none(), st.binary(max_size=30), st.integers(0, 300).map(bytes))
quickly = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Batches of a producer: sound ones, ones with odd offsets, ones that break rules, and broken ones."""
    step = draw(st.sampled_from([1, 1, 0, 3]))
    late_ms = draw(st.sampled_from([0, 0, 50, 10_000_000, -50]))
    shapes = draw(st.lists(st.tuples(texts, texts, st.integers(0, 40)), min_size=1, max_size=4))
    repeat = draw(st.sampled_from([1, 3, 40]))
    rows = [(key, value, delay) for key, value, delay in shapes for _ in range(repeat)]
    records = [
        Record(
            nth * step,
            NOW_MS + delay + (late_ms if nth % 5 == 4 else 0),
            key,
            value,
            (("h", b"x"),) * (nth % 2),
        )
        for nth, (key, value, delay) in enumerate(rows)
    ]
    codec = draw(st.sampled_from(list(Codec)))
    stamped = draw(st.sampled_from([None, None, None, NOW_MS]))
    plain = encode_batch(records, log_append_time_ms=stamped, last_offset_delta=len(rows) - 1)
    payload = bytearray(plain[HEADER_SIZE:])
    for _ in range(draw(st.sampled_from([0, 0, 0, 1]))):
        payload[draw(st.integers(0, len(payload) - 1))] = draw(st.integers(0, 255))
    batch = bytearray(plain[:HEADER_SIZE]) + compress(codec, payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[22] |= codec
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


Written = tuple[BatchHeader, list[Record]]
Refused = tuple[ErrorCode, list[int]]


def outcome(batch: bytes, config: LogConfig, *, is_small: bool) -> Written | Refused:
    """The batch that is written, or the error and the records that it names."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("SMALL_BYTES", "SMALL_PLAIN_BYTES"):
            patch.setattr(record_validation, limit, 1 << 30 if is_small else 0)
        patch.setattr(record_parts, "LARGE_BYTES", 200)
        if not is_small:
            patch.setattr(compression, "PIECE_BYTES", 100)
        try:
            checked = check_client_batch(batch, config, NOW_MS, "t-0", Validation.ALL)
            assert isinstance(checked, CheckedBatch if is_small else UnopenedBatch)
            if isinstance(checked, UnopenedBatch):
                checked = last_of(opening_of(checked))
            placed = place(checked.records, checked.header, config, 7, 3, NOW_MS, checked.batch_survey)
        except KafkaError as error:
            return error.code, [index for index, _ in getattr(error, "record_errors", ())]
    written = b"".join(placed.buffers)
    header = read_header(written)
    return header._replace(crc=0, batch_length=0), list(read_records(written))


@quickly
@given(batches(), st.sampled_from(CONFIGS))
def test_both_ways_write_and_refuse_the_same(batch: bytes, config: LogConfig) -> None:
    assert outcome(batch, config, is_small=True) == outcome(batch, config, is_small=False)


def test_timestamps_that_exceed_64_bits_wrap_around() -> None:
    """A small batch that must be encoded again, because the topic has another codec."""
    batch = bytearray(encode_batch([Record(-1, 0, b"k", b"v"), Record(-1, 2**62, b"k", b"v")]))
    batch[27:35] = (2**63 - 5).to_bytes(8, "big")
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    config = LogConfig(
        compression_type="zstd",
        message_timestamp_after_max_ms=2**63 - 1,
        message_timestamp_before_max_ms=2**63 - 1,
    )
    found = outcome(bytes(batch), config, is_small=True)
    assert [record.timestamp_ms for record in found[1]] == [2**63 - 5, 2**62 - 5 - 2**63]
    assert found == outcome(bytes(batch), config, is_small=False)
