"""Records that are wrong under a right checksum, sent over a real socket: each gets the answer that Kafka gives."""

from __future__ import annotations

import asyncio
import dataclasses
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from kcli.config.topic import LogConfig
from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch, iter_batches, read_records
from kcli.protocol.batches.compression import Codec, compress
from kcli.protocol.messages import fetch, produce
from kcli.protocol.wire.api import ApiKey
from rigs.data_path import BrokerRig, topic_image

TOPIC = topic_image("t", 1)
NOW_MS = 1_700_000_000_000


def batch_of(
    payload: bytes, count: int, *, codec: Codec = Codec.NONE, attributes: int = 0, max_ms: int = NOW_MS
) -> bytes:
    """A batch by hand: header and checksum are right whatever the records are."""
    body = compress(codec, payload, None) if codec else payload
    batch = bytearray(HEADER_SIZE + len(body))
    struct.pack_into(">qiibIhiqqqhii", batch, 0, 0, len(batch) - 12, -1, 2, 0, codec | attributes, count - 1,
                     NOW_MS, max_ms, -1, -1, -1, count)  # fmt: skip
    batch[HEADER_SIZE:] = body
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def record(
    offset: int = 0,
    *,
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    size: int | None = None,
    time: bytes = b"\x00",
) -> bytes:
    body = b"\x00" + time + bytes([offset << 1]) + key + value + headers
    return bytes([(len(body) if size is None else size) << 1]) + body


GOOD = record(0) + record(1)
NULL = b"\x01"
NULL_HEADER_KEY = b"\x02" + NULL + b"\x02x"

WRONG = {
    "a record too short for its fields": (record(0, size=9) + record(1), 2),
    "a record too long": (record(0) + record(1, size=30), 2),
    "a negative size": (b"\x01" + GOOD, 2),
    "a key beyond its record": (record(0, key=b"\x40k") + record(1), 2),
    "a value beyond its record": (record(0, value=b"\x7ev") + record(1), 2),
    "a header without a key": (record(0, headers=NULL_HEADER_KEY), 1),
    "more headers than bytes": (record(0, headers=b"\x40"), 1),
    "a negative number of headers": (record(0, headers=b"\x01"), 1),
    "bytes after the last record": (GOOD + b"\x00", 2),
    "a record more than the header says": (GOOD + record(2), 2),
    "a record less than the header says": (record(0), 2),
    "no records": (b"", 3),
    "a varint without an end": (b"\xff" * 20, 1),
    "one of sixty": (b"".join(record(n, value=b"\x04v" if n == 50 else b"\x02v") for n in range(60)), 60),
}  # fmt: skip


def produced(
    directory: Path, *batches: bytes, config: LogConfig | None = None, version: int = 12
) -> tuple[list[produce.PartitionProduceResponse], list[tuple[int, int, bytes]], list[int]]:
    """The answers, and what the log holds then: (offset, timestamp, value) of each record, and the newest time."""
    rows = []

    async def main() -> bytes:
        async with BrokerRig(directory, TOPIC, config=config) as rig:
            client = await rig.connect()
            for records in batches:
                data = produce.PartitionProduceData(index=0, records=records)
                topic = produce.TopicProduceData(
                    name=TOPIC.name, topic_id=TOPIC.topic_id, partition_data=(data,)
                )
                request = produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=(topic,))
                response = await client.call(request, ApiKey.PRODUCE, version)
                rows.append(response.responses[0].partition_responses[0])
            wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
            of_topic = fetch.FetchTopic(topic=TOPIC.name, topic_id=TOPIC.topic_id, partitions=(wanted,))
            request = fetch.FetchRequest(
                max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, replica_id=-1, topics=(of_topic,)
            )
            response = await client.call(request, ApiKey.FETCH, 12)
            return response.responses[0].partitions[0].records if response.responses else b""

    raw = asyncio.run(main()) or b""
    headers = list(iter_batches(raw))
    read = [
        (each.offset, each.timestamp_ms, each.value)
        for position, header in headers
        for each in read_records(raw[position : position + header.size_bytes])
    ]
    return rows, read, [header.max_timestamp_ms for _, header in headers]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=["plain", "lz4"])
def test_structures_that_cannot_be(tmp_path: Path, codec: Codec) -> None:
    batches = [batch_of(payload, count, codec=codec) for payload, count in WRONG.values()]
    rows, read, _ = produced(tmp_path, *batches, batch_of(GOOD, 2, codec=codec))
    answers = dict(zip(WRONG, [row.error_code for row in rows], strict=False))
    assert answers == dict.fromkeys(WRONG, ErrorCode.INVALID_RECORD)
    # The whole batch is refused, and clients have a text for the code.
    assert {(row.base_offset, row.record_errors, row.error_message) for row in rows[:-1]} == {(-1, (), None)}
    assert (rows[-1].error_code, rows[-1].base_offset) == (ErrorCode.NONE, 0)
    assert [value for *_, value in read] == [b"v", b"v"]


def test_a_stream_that_does_not_decompress(tmp_path: Path) -> None:
    batch = batch_of(b"\x00" * 40, 2, attributes=Codec.GZIP)
    rows, read, _ = produced(tmp_path, batch)
    assert rows[0].error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert read == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=["plain", "gzip"])
def test_offsets_with_gaps_are_made_dense(tmp_path: Path, codec: Codec) -> None:
    rows, read, _ = produced(tmp_path, *[batch_of(record(3) + record(7), 2, codec=codec)] * 2)
    assert [row.base_offset for row in rows] == [0, 2]
    assert [offset for offset, *_ in read] == [0, 1, 2, 3]


def test_a_newest_time_that_is_not_the_records_is_corrected(tmp_path: Path) -> None:
    late = batch_of(record(0) + record(1, time=b"\x0a"), 2, max_ms=NOW_MS + 900)
    _, read, newest = produced(tmp_path, late)
    assert newest == [NOW_MS + 5] == [max(time for _, time, _ in read)]


def test_each_record_without_a_key_is_named(tmp_path: Path) -> None:
    compacted = dataclasses.replace(LogConfig(), cleanup_policy=("compact",))
    records = b"".join(record(n, key=NULL if n in (1, 30) else b"\x02k") for n in range(40))
    (row, good), read, _ = produced(tmp_path, batch_of(records, 40), batch_of(GOOD, 2), config=compacted)
    assert row.error_code is ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in row.record_errors] == [1, 30]
    reason = "Compacted topic cannot accept message without key in topic partition t-0"
    assert {each.batch_index_error_message for each in row.record_errors} == {reason}
    assert row.error_message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three "
        f"errors at most: [RecordError(batchIndex=1, message='{reason}'), "
        f"RecordError(batchIndex=30, message='{reason}')]"
    )
    assert good.error_code is ErrorCode.NONE and len(read) == 2


def test_each_record_out_of_time_is_named(tmp_path: Path) -> None:
    bounded = dataclasses.replace(LogConfig(), message_timestamp_before_max_ms=1000)
    records = encode_batch([Record(-1, NOW_MS, b"k", b"v")] * 2)
    (row,), read, _ = produced(tmp_path, records, config=bounded)
    assert row.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in row.record_errors] == [0, 1]
    said = row.record_errors[1].batch_index_error_message
    assert said.startswith(
        f"Timestamp {NOW_MS} of message with offset 1 is out of range. The timestamp should be"
    )
    assert row.error_message == "One or more records have been rejected due to invalid timestamp"
    assert read == []


def test_a_producer_does_not_say_log_append_time(tmp_path: Path) -> None:
    config = dataclasses.replace(LogConfig(), message_timestamp_type="LogAppendTime")
    (row,), _, _ = produced(tmp_path, batch_of(GOOD, 2, attributes=0x08), config=config)
    assert row.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index_error_message for each in row.record_errors] == [
        f"Invalid timestamp type in message DefaultRecord(offset={offset}, timestamp={NOW_MS}, key=1 bytes, "
        "value=1 bytes). Producer should not set timestamp type to LogAppendTime."
        for offset in (0, 1)
    ]
