"""The live tail of a topic that gets a million records a second: what the page gets, and what the console does for it.

Nothing here depends on the time. A turn of the tail is a quarter of a second, so each turn finds 250,000 new records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from kcli.console.messages import tail
from kcli.console.messages.decoding import Decoder
from kcli.console.messages.fetching import Bounds, Fetched, TopicFetcher
from kcli.console.messages.filters.record_filter import RecordFilter
from kcli.console.messages.matching import Selection
from kcli.console.messages.rows import Decoders
from kcli.console.messages.tail import TURN_ROWS, Tail
from kcli.console.messages.work import Workers
from kcli.errors import KafkaError
from kcli.protocol.batches.batch import encode_batch
from kcli.protocol.batches.compression import Codec
from rigs.console_topics import data_of, record

PARTITIONS = 4
RECORDS_A_TURN = 250_000
BATCH_RECORDS = 12_500
TURNS = 40
BATCH = encode_batch((record(n, value=b"v") for n in range(BATCH_RECORDS)), codec=Codec.LZ4)


class Flood(TopicFetcher):
    """A topic that grows with each look at its ends."""

    def __init__(self) -> None:
        self.topic = "flood"
        self.looks = self.fetches = 0
        self.end = 0

    async def open(self) -> list[int]:
        return list(range(PARTITIONS))

    async def bounds(self, partitions: Iterable[int]) -> tuple[dict[int, Bounds], dict[int, KafkaError]]:
        self.looks += 1
        self.end = (self.looks - 1) * RECORDS_A_TURN // PARTITIONS
        return {partition: Bounds(0, self.end) for partition in partitions}, {}

    async def fetch(
        self, partition: int, offset: int, *, max_bytes: int = 0, max_wait_ms: int = 0
    ) -> Fetched:
        self.fetches += 1
        first = offset // BATCH_RECORDS * BATCH_RECORDS
        batch = first.to_bytes(8, "big") + BATCH[8:]  # the base offset is not in the CRC
        return Fetched(partition=partition, offset=offset, records=batch, aborted=None, end=self.end)


async def followed(flood: Flood, selection: Selection) -> tuple[list[int], int, int]:
    """The rows of each event, the dropped records, and the examined records, after some turns."""
    workers = Workers()
    rows: list[int] = []
    numbers = {"dropped": 0, "progress": 0}
    events = Tail(flood, selection, workers).events()
    async for event in events:
        if event.name == "message":
            rows.append(len(data_of(event)["rows"]))
        else:
            numbers[event.name] = data_of(event)["total" if event.name == "dropped" else "records"]
        if event.name == "progress" and flood.looks > TURNS:
            break
    await events.aclose()
    await workers.close()
    return rows, numbers["dropped"], numbers["progress"]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "TURN_SECONDS", 0.0)


def test_every_record_is_shown_or_counted_as_left_out() -> None:
    flood = Flood()
    rows, dropped, _ = asyncio.run(
        followed(flood, Selection(decoders=Decoders(Decoder(), Decoder()), limit=1))
    )
    assert max(rows) == TURN_ROWS and len(rows) <= TURNS
    behind = flood.end * PARTITIONS - sum(rows) - dropped
    assert 0 <= behind <= PARTITIONS * tail.BEHIND_RECORDS
    assert dropped > 0.9 * flood.end * PARTITIONS


def test_the_work_of_a_turn_does_not_grow_with_the_speed_of_the_topic() -> None:
    flood = Flood()
    asyncio.run(followed(flood, Selection(decoders=Decoders(Decoder(), Decoder()), limit=1)))
    assert flood.fetches <= flood.looks * PARTITIONS


def test_a_filter_that_matches_nothing_examines_a_part_and_leaves_out_the_rest() -> None:
    flood = Flood()
    selection = Selection(
        decoders=Decoders(Decoder(), Decoder()), record_filter=RecordFilter('key == "no such key"'), limit=1
    )
    rows, dropped, examined = asyncio.run(followed(flood, selection))
    assert rows == []
    assert dropped + examined + PARTITIONS * tail.BEHIND_RECORDS >= flood.end * PARTITIONS
