"""The console reads a topic of a running node: forwards, backwards, with filters, at the end and live."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.console.messages import scan
from kcli.console.messages.decoding import Decoder
from kcli.console.messages.fetching import TopicFetcher, UnknownTopic
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.matching import Selection
from kcli.console.messages.positions import Origin, Start, UnknownPartition
from kcli.console.messages.rows import Decoders
from kcli.console.messages.scan import Scan, ScanRequest
from kcli.console.messages.tail import Tail
from kcli.console.messages.work import Workers
from kcli.protocol.batches.compression import Codec
from rigs.console_topics import NOW, cluster, create, data_of, produce, record
from rigs.node import RunningNode

DECODERS = Decoders(Decoder(), Decoder())


async def scanned(
    client: AdminClient,
    start: Start,
    text: str | None = None,
    limit: int = 50,
    read_committed: bool = False,
    **more: Any,
) -> tuple[list[dict], dict]:
    """The rows of a scan, and the data of its last event."""
    workers = Workers()
    selection = Selection(
        decoders=DECODERS, record_filter=None if text is None else RecordFilter(text), limit=limit
    )
    request = ScanRequest(start=start, selection=selection, **more)
    fetcher = TopicFetcher(client, "t", read_committed=read_committed)
    events = [event async for event in Scan(fetcher, request, workers).events()]
    await workers.close()
    rows = [row for event in events if event.name == "message" for row in data_of(event)["rows"]]
    assert events[-1].name == "done"
    return rows, data_of(events[-1])


def numbers(rows: list[dict]) -> list[int]:
    return [int(row["key"]["text"][1:]) for row in rows]


TRANSACTIONS = {
    "transaction_state_log_num_partitions": "1",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}
EARLIEST, LATEST = Start(Origin.EARLIEST), Start(Origin.LATEST)


def test_partitions_are_merged_in_the_order_of_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 5)  # partitions 3 and 4 stay empty
            for partition in range(3):
                await produce(
                    client, "t", [record(n) for n in range(partition, 30, 3)], partition, Codec.ZSTD
                )
            rows, done = await scanned(client, EARLIEST, limit=20)
            assert numbers(rows) == list(range(20))
            assert done["reason"] == "limit"
            cursor = {int(each): offset for each, offset in done["cursor"].items()}
            rows, done = await scanned(client, EARLIEST, limit=20, cursor=cursor)
            assert numbers(rows) == list(range(20, 30))
            assert done["reason"] == "end"
            rows, done = await scanned(client, LATEST, limit=20)
            assert numbers(rows) == list(range(29, 9, -1))
            cursor = {int(each): offset for each, offset in done["cursor"].items()}
            rows, done = await scanned(client, LATEST, limit=20, cursor=cursor)
            assert numbers(rows) == list(range(9, -1, -1))
            assert done["reason"] == "end"

    asyncio.run(run())


def test_offset_time_and_partition_choose_the_records(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 2)
            for partition in range(2):
                await produce(client, "t", [record(n) for n in range(10)], partition)
            rows, _ = await scanned(client, Start(Origin.OFFSET, 7), partitions=(1,))
            assert [(row["partition"], row["offset"]) for row in rows] == [(1, 7), (1, 8), (1, 9)]
            rows, _ = await scanned(client, Start(Origin.TIME, NOW + 8000))
            assert numbers(rows) == [8, 8, 9, 9]
            rows, _ = await scanned(client, Start(Origin.TIME, NOW + 80_000))
            assert rows == []
            rows, _ = await scanned(client, Start(Origin.OFFSET, 99))
            assert rows == []
            with pytest.raises(UnknownPartition):
                await scanned(client, EARLIEST, partitions=(2,))

    asyncio.run(run())


def test_a_filter_reads_on_in_both_directions_until_it_has_enough(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 2)
            for begin in range(0, 2000, 500):
                for partition in range(2):
                    await produce(client, "t", [record(n) for n in range(begin, begin + 500)], partition)
            rows, done = await scanned(client, EARLIEST, "value.n == 1990 && partition == 1")
            assert numbers(rows) == [1990]
            assert done["records"] == 4000
            rows, done = await scanned(client, LATEST, "value.n < 4", limit=4)
            assert numbers(rows) == [3, 3, 2, 2]
            rows, done = await scanned(client, LATEST, 'key matches "^k19[0-9]9$"', limit=2, partitions=(0,))
            assert numbers(rows) == [1999, 1989]
            assert done["records"] < 500
            rows, done = await scanned(client, EARLIEST, max_seconds=0.0)
            assert rows == [] and done["reason"] == "time"
            assert done["cursor"] == {"0": 0, "1": 0}

    asyncio.run(run())


def test_large_records_are_read_backwards_in_small_windows(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, message_max_bytes="20000000") as (client, _):
            await create(client, "t", max_message_bytes="20000000")
            for n in range(4):
                await produce(client, "t", [record(n, value=b"x" * 3_000_000)])
            rows, _ = await scanned(client, LATEST, limit=3)
            assert numbers(rows) == [3, 2, 1]
            assert rows[0]["value"]["size"] == 3_000_000
            assert rows[0]["value"]["cut"] and len(rows[0]["value"]["text"]) == 2000

    asyncio.run(run())


def aborted(node: RunningNode) -> None:
    """Writes a record in a transaction, and aborts it."""
    from confluent_kafka import Producer

    servers = f"127.0.0.1:{node.port()}"
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "x", "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", key=b"k1", value=b"")
    producer.flush(30)
    producer.abort_transaction(30)


def test_aborted_transactions_are_left_out_on_demand(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path, **TRANSACTIONS) as (client, node):
            await create(client, "t")
            await produce(client, "t", [record(0)])
            await asyncio.to_thread(aborted, node)
            await produce(client, "t", [record(2)])
            rows, _ = await scanned(client, EARLIEST)
            assert numbers(rows) == [0, 1, 2]
            for start in (EARLIEST, LATEST):
                rows, _ = await scanned(client, start, read_committed=True)
                assert sorted(numbers(rows)) == [0, 2]

    asyncio.run(run())


def test_a_scan_ends_at_a_limit_with_a_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK_BYTES", 1024)

    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t")
            for n in range(10):
                await produce(client, "t", [record(n, value=b"x" * 2000)])
            rows, done = await scanned(client, EARLIEST, "offset < 0", max_records=3)
            assert rows == [] and (done["reason"], done["cursor"]) == ("records", {"0": 3})
            rows, done = await scanned(client, EARLIEST, "offset < 0", max_bytes=4000)
            assert (done["reason"], done["cursor"]) == ("bytes", {"0": 2})

    asyncio.run(run())


def test_a_missing_topic_has_its_own_error(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            with pytest.raises(UnknownTopic):
                await TopicFetcher(client, "t").open()

    asyncio.run(run())


def test_a_tail_shows_new_records_and_reports_what_it_left_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with cluster(tmp_path) as (client, _):
            await create(client, "t", 2)
            await produce(client, "t", [record(0)])
            workers = Workers()
            selection = Selection(decoders=DECODERS, limit=50)
            async with AdminClient(client.config) as own:
                events = Tail(TopicFetcher(own, "t"), selection, workers).events()
                first = await anext(events)
                assert first.name == "progress" and data_of(first)["records"] == 0
                await produce(client, "t", [record(1)])
                assert numbers(data_of(await anext(events))["rows"]) == [1]
                # While the page does not read, nothing is stored. Then the tail continues near the end.
                for begin in range(0, 60_000, 10_000):
                    await produce(client, "t", [record(n, value=b"") for n in range(begin, begin + 10_000)])
                seen, dropped = 0, 0
                while seen + dropped < 60_000:
                    event = await anext(events)
                    if event.name == "message":
                        seen += len(data_of(event)["rows"])
                        assert len(data_of(event)["rows"]) <= 50
                    elif event.name == "dropped":
                        dropped = data_of(event)["total"]
                        break
                assert dropped >= 50_000
                await events.aclose()
            await workers.close()

    asyncio.run(run())
