"""Raw batches go into a running node and come out of it as they are. The doctor writes and reads a record with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kcli.client.client import Client
from kcli.client.diagnosis.cluster import ClusterWalk
from kcli.client.diagnosis.finding import Finding
from kcli.client.records.fetch import FetchLimits
from kcli.client.records.records import Records, value_of
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.protocol.batches.compression import Codec
from rigs.console_topics import cluster, create

LIMITS = FetchLimits(max_wait_ms=0, partition_max_bytes=1 << 20)


def test_a_compressed_batch_comes_out_as_it_went_in(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 2)
            records, place = Records(client), TopicPartition("t", 1)
            batch = bytes(encode_batch([Record(-1, 5, b"k", b"v" * 1000)] * 3, codec=Codec.LZ4))
            answers = await records.produce({place: batch}, timeout_ms=10_000)
            assert value_of(answers[place]).base_offset == 0
            answer = value_of((await records.fetch({place: 0}, LIMITS))[place])
            assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 3)
            assert read_header(bytes(answer.records)).crc == read_header(batch).crc
            await client.delete_records({place: 2})
            offset, answer = await records.read(place, 0, LIMITS)
            assert (offset, answer.log_start_offset) == (2, 2)

    asyncio.run(run())


async def findings(client: Client, topic: str) -> list[Finding]:
    return [each async for each in ClusterWalk(client, "User:me").write_and_read(topic)]


def test_the_doctor_writes_a_record_and_reads_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t")
            written, read = await findings(client, "t")
            assert written.text.startswith("a record was written at offset 0 of t-0")
            assert read.text == "the record was read from t-0"

    asyncio.run(run())
