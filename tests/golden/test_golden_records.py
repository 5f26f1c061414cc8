"""Batches, codecs and record schemas against every byte of a log directory that Kafka 4.1 wrote."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from kcli.protocol.batches.batch import BatchHeader, crc_is_valid, encode_batch, iter_batches, read_records
from kcli.protocol.batches.compression import Codec, compress, decompress
from kcli.protocol.batches.control import UnknownControlRecord, decode_control, encode_control
from kcli.protocol.records import consumer_offsets, metadata, share_state, transaction_state


def _batches(golden: Path, pattern: str = "*/*.log") -> Iterator[tuple[Path, bytes, int, BatchHeader]]:
    paths = sorted((golden / "logdir-clean").glob(pattern))
    assert paths
    for path in paths:
        log = path.read_bytes()
        for position, header in iter_batches(log):
            yield path, log, position, header


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def test_every_record_reads_as_kafkas_consumer_read_it(golden: Path) -> None:
    read = {}
    for path, log, position, header in _batches(golden):
        assert crc_is_valid(log, position, header)
        records = list(read_records(log, position))
        assert len(records) == header.records_count
        topic, _, partition = path.parent.name.rpartition("-")
        if not header.is_control:
            read.update({(topic, int(partition), record.offset): record for record in records})
    with (golden / "manifest.jsonl").open() as manifest:
        for line in manifest:
            wanted = json.loads(line)
            record = read[wanted["topic"], wanted["partition"], wanted["offset"]]
            assert (record.timestamp_ms, record.key, record.value) == (
                wanted["timestamp"],
                _bytes(wanted["key"]),
                _bytes(wanted["value"]),
            )
            assert record.headers == tuple((name, _bytes(value)) for name, value in wanted["headers"])


def test_uncompressed_batches_are_written_byte_for_byte(golden: Path) -> None:
    count = 0
    for path, log, position, header in _batches(golden):
        if header.codec or header.is_log_append_time:
            continue
        batch = encode_batch(
            read_records(log, position),
            base_offset=header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            delete_horizon_ms=header.delete_horizon_ms,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
            last_offset_delta=header.last_offset_delta,
            max_timestamp_ms=header.max_timestamp_ms if not header.records_count else None,
        )
        assert batch == log[position : position + header.size_bytes], (path, position)
        count += 1
    assert count > 1000


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_deterministic_codecs_are_written_as_java_writes_them(golden: Path, codec: Codec) -> None:
    count = 0
    for pattern in (f"codec-java-{codec.label}-*/*.log", f"recompress-{codec.label}-*/*.log"):
        for path, log, position, header in _batches(golden, pattern):
            stream = log[position + 61 : position + header.size_bytes]
            assert compress(codec, decompress(codec, stream)) == stream, (path, position)
            count += 1
    assert count > 5


def test_metadata_records_are_written_byte_for_byte(golden: Path) -> None:
    count = 0
    for pattern in (
        "__cluster_metadata-0/*.log",
        "__cluster_metadata-0/*.checkpoint",
        "bootstrap.checkpoint",
    ):
        for _, log, position, header in _batches(golden, pattern):
            for record in read_records(log, position):
                assert record.value is not None
                if header.is_control:
                    control = decode_control(record.key, record.value)
                    assert not isinstance(control, UnknownControlRecord)
                    again = encode_control(control, timestamp_ms=record.timestamp_ms)
                    assert (again.key, again.value) == (record.key, record.value)
                else:
                    decoded, version = metadata.decode_metadata_record(record.value)
                    assert metadata.encode_metadata_record(decoded, version) == record.value
                    assert metadata.write_version_for(decoded, 27) == version
                count += 1
    assert count > 1000


@pytest.mark.parametrize(
    ("topic", "records"),
    [
        ("__consumer_offsets", consumer_offsets),
        ("__transaction_state", transaction_state),
        ("__share_group_state", share_state),
    ],
)
def test_coordinator_records_are_written_byte_for_byte(golden: Path, topic: str, records: ModuleType) -> None:
    count = 0
    for _, log, position, header in _batches(golden, f"{topic}-*/*.log"):
        for record in read_records(log, position) if not header.is_control else ():
            key = records.decode_key(record.key)
            assert records.encode_key(key) == record.key
            if record.value is not None:
                value, version = records.decode_value(key, record.value)
                assert records.encode_value(value, version) == record.value
                assert records.encode_value(value) == record.value
            count += 1
    assert count > 3
