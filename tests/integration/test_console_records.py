"""The console reads one record, downloads, sends, and analyses a topic of a running node."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.console.messages.analysis import Analysis
from kcli.console.messages.decoding import Decoder
from kcli.console.messages.fetching import TopicFetcher, UnknownTopic
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.matching import Selection
from kcli.console.messages.positions import Origin, Start
from kcli.console.messages.record import ReadRecord
from kcli.console.messages.rows import Decoders
from kcli.console.messages.sending import InvalidRecord, NewRecord, encoded, plan, send
from kcli.console.messages.single import Download, NoSuchRecord, read_one
from kcli.console.messages.work import Workers
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.compression import Codec
from rigs.console_topics import NOW, cluster, create, data_of, produce, record

EARLIEST = Start(Origin.EARLIEST)


async def one(client: AdminClient, partition: int, offset: int) -> ReadRecord:
    workers = Workers()
    try:
        return await read_one(TopicFetcher(client, "t"), workers, partition, offset)
    finally:
        await workers.close()


def test_one_record_is_read_whole(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t")
            headers = (("a", b"1"), ("a", None))
            records = [record(0), record(1, value=b"x" * 500_000, headers=headers), record(2)]
            await produce(client, "t", records, codec=Codec.GZIP)
            found = await one(client, 0, 1)
            assert found.value == b"x" * 500_000 and found.headers == headers and found.key == b"k1"
            await client.delete_records({TopicPartition("t", 0): 1})
            for offset in (0, 3, 99):
                with pytest.raises(NoSuchRecord):
                    await one(client, 0, offset)

    asyncio.run(run())


def test_a_sent_record_arrives_in_the_partition_of_its_key(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 10)
            new = NewRecord(key=b"abc", value=None, headers=(("h", b"\xff"),), timestamp_ms=NOW)
            assert await plan(client, "t", new) == 7
            sent = await send(client, "t", new)
            assert (sent.partition, sent.offset) == (7, 0)
            found = await one(client, 7, 0)
            assert (found.key, found.value, found.timestamp_ms) == (b"abc", None, NOW)
            assert found.headers == (("h", b"\xff"),)
            assert (await send(client, "t", NewRecord(value=b"v", partition=3))).partition == 3
            with pytest.raises(InvalidRecord, match="no partition 10"):
                await send(client, "t", NewRecord(partition=10))
            with pytest.raises(UnknownTopic):
                await send(client, "nothing", NewRecord())

    asyncio.run(run())


def test_texts_of_a_page_become_bytes() -> None:
    assert encoded(None, "text", "key") is None
    assert encoded("x", "null", "key") is None
    assert encoded("", "text", "key") == b""
    assert encoded("ü", "text", "key") == "ü".encode()
    assert encoded("00 fF\n01", "hex", "key") == b"\x00\xff\x01"
    assert encoded('{"a": 1}', "json", "value") == b'{"a": 1}'
    for text, form in (("{", "json"), ("0", "hex"), ("zz", "hex"), ("\ud800", "text"), ("a", "xml")):
        with pytest.raises(InvalidRecord):
            encoded(text, form, "key")


def test_a_download_has_the_matching_records_as_lines(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 2)
            for partition in range(2):
                await produce(client, "t", [record(n, value=b"\xff%d" % n) for n in range(100)], partition)
            decoders = Decoders(Decoder(), Decoder())
            selection = Selection(decoders=decoders, record_filter=RecordFilter("offset >= 60"), limit=60)
            workers = Workers()
            download = Download(TopicFetcher(client, "t"), EARLIEST, selection, workers)
            content = b"".join([piece async for piece in download.pieces()])
            await workers.close()
            lines = [json.loads(line) for line in content.splitlines()]
            places = [(line["partition"], line["offset"]) for line in lines]
            assert places == [(0, n) for n in range(60, 100)] + [(1, n) for n in range(60, 80)]
            assert lines[0]["key"] == "k60" and list(lines[0]["value"]) == ["base64"]

    asyncio.run(run())


def test_an_analysis_counts_everything_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 3)
            records = [record(n, key=None if n % 4 == 0 else b"k%d" % (n % 50)) for n in range(1000)]
            await produce(client, "t", records, 0, Codec.LZ4)
            await produce(client, "t", [record(0, key=b"gone", value=None, headers=(("h", b""),))], 2)
            workers = Workers()
            analysis = Analysis(TopicFetcher(client, "t"), workers)
            events = [event async for event in analysis.events(EARLIEST)]
            await workers.close()
            assert events[0].name == "progress" and events[-1].name == "done"
            done = data_of(events[-1])
            figures = done["figures"]
            assert (figures["records"], figures["null_keys"], figures["tombstones"]) == (1001, 250, 1)
            assert figures["distinct_keys"] == len({each.key for each in records if each.key} | {b"gone"})
            assert figures["distinct_values"] == pytest.approx(1000, rel=0.03)
            assert figures["first_timestamp"] == NOW and figures["last_timestamp"] == NOW + 999_000
            assert figures["hours"] == [[NOW, 1001]]
            assert figures["value_sizes"]["max"] == 10 and figures["headers"] == 1
            assert done["is_complete"] and [each["records"] for each in done["partitions"]] == [1000, 0, 1]
            assert done["offsets"] == done["total_offsets"] == 1001

    asyncio.run(run())
