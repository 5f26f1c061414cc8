"""The records of a topic: lists, the live tail, one record, downloads, and the analysis of a topic."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from kcli.console.answers import File
from kcli.console.calls import Call
from kcli.console.messages.analysis import Analysis
from kcli.console.messages.events import Event
from kcli.console.messages.fetching import TopicFetcher
from kcli.console.messages.positions import Origin
from kcli.console.messages.rows import Json, whole
from kcli.console.messages.scan import Scan, ScanRequest
from kcli.console.messages.single import Download as RecordDownload
from kcli.console.messages.single import read_one
from kcli.console.messages.tail import Tail
from kcli.console.pages.message_changes import CHANGES
from kcli.console.pages.message_parameters import (
    commands_of,
    cursor_of,
    decoders_of,
    filter_of,
    is_committed,
    partitions_of,
    selection_of,
    start_of,
)
from kcli.console.pages.message_sharing import refusals, workers_of
from kcli.console.routes import Download, Feed, Read
from kcli.http.events import EventStream

RAW_PIECE_BYTES = 1 << 20

TAIL_API_MS = 4_000
"""The time after which a live tail reports that a partition does not answer. The tail then tries again."""


async def read_records(call: Call, stream: EventStream) -> None:
    """GET /topics/{topic}/messages: a list of records, from a start or a cursor."""
    with refusals():
        selection = selection_of(call)
        request = ScanRequest(
            start=start_of(call), partitions=partitions_of(call), cursor=cursor_of(call), selection=selection
        )
        async with fetching(call) as fetcher, workers_of(call).place():
            await passed_on(Scan(fetcher, request, workers_of(call)).events(), stream, commands_of(call))


async def follow_records(call: Call, stream: EventStream) -> None:
    """GET /topics/{topic}/messages/tail: new records, until the page closes the stream."""
    with refusals():
        selection, partitions = selection_of(call), partitions_of(call)
        async with fetching(call, api_ms=TAIL_API_MS) as fetcher, workers_of(call).place():
            await passed_on(Tail(fetcher, selection, workers_of(call), partitions).events(), stream)


async def analyse(call: Call, stream: EventStream) -> None:
    """GET /topics/{topic}/analysis: figures about a whole topic. The analysis ends if the page closes the stream."""
    with refusals():
        start, partitions = start_of(call, Origin.EARLIEST), partitions_of(call)
        async with fetching(call) as fetcher, workers_of(call).place():
            await passed_on(Analysis(fetcher, workers_of(call)).events(start, partitions), stream)


async def show_record(call: Call) -> dict[str, Json]:
    """GET /topics/{topic}/messages/record?partition=P&offset=O: one record, with a long part of its value."""
    decoders = decoders_of(call)
    with refusals():
        async with fetching(call) as fetcher:
            place = call.integer("partition", 0), call.integer("offset", 0)
            record = await read_one(fetcher, workers_of(call), *place)
            return await workers_of(call).run(lambda: whole(record, decoders))


async def check_filter(call: Call) -> dict[str, bool]:
    """GET /messages/filter?filter=TEXT: whether a filter is valid. An error has the position of the mistake."""
    with refusals():
        filter_of(call)
    return {"is_valid": True}


async def download_raw(call: Call) -> File:
    """GET /topics/{topic}/messages/raw?partition=P&offset=O&part=value: the bytes of a key or value."""
    partition, offset = call.integer("partition", 0), call.integer("offset", 0)
    part = "key" if call.query("part") == "key" else "value"
    with refusals():
        async with fetching(call) as fetcher:
            record = await read_one(fetcher, workers_of(call), partition, offset)
    raw = (record.key if part == "key" else record.value) or b""
    name = f"{call.part('topic')}-{partition}-{offset}.{part}"
    return File(name=name, content_type="application/octet-stream", parts=_pieces(raw))


async def _pieces(raw: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(raw), RAW_PIECE_BYTES):
        yield raw[at : at + RAW_PIECE_BYTES]


async def download_records(call: Call) -> File:
    """GET /topics/{topic}/messages/download: the matching records as JSON Lines, as console-consumer prints them."""
    with refusals():
        selection, start, partitions = (
            selection_of(call, is_download=True),
            start_of(call),
            partitions_of(call),
        )

    async def lines() -> AsyncIterator[bytes]:
        async with fetching(call) as fetcher, workers_of(call).place():
            download = RecordDownload(fetcher, start, selection, workers_of(call))
            async with aclosing(download.pieces(partitions)) as pieces:
                async for piece in pieces:
                    yield piece

    return File(name=f"{call.part('topic')}.jsonl", content_type="application/x-ndjson", parts=lines())


@asynccontextmanager
async def fetching(call: Call, api_ms: int | None = None) -> AsyncIterator[TopicFetcher]:
    """A reader of the topic in the URL. A broker answers the requests of a connection one after another, so a long
    Fetch would delay other requests of the page. Therefore the reader has its own connections."""
    async with call.connection.client() as client:
        if api_ms is not None:
            client.config = replace(client.config, default_api_timeout_ms=api_ms, request_timeout_ms=api_ms)
        yield TopicFetcher(client, call.part("topic"), read_committed=is_committed(call))


async def passed_on(
    events: AsyncGenerator[Event, None], stream: EventStream, last: dict[str, Json] | None = None
) -> None:
    """Sends events to the page. Adds `last` to the data of the event `done`."""
    async with aclosing(events):
        async for event in events:
            more = last if event.name == "done" and last is not None else {}
            await stream.send(event.name, {**event.data, **more})


ROUTES = (
    Read("/messages/filter", check_filter, needs_cluster=False),
    Feed("/topics/{topic}/messages/tail", follow_records, needs_cluster=False),
    Read("/topics/{topic}/messages/record", show_record),
    Download("/topics/{topic}/messages/raw", download_raw),
    Download("/topics/{topic}/messages/download", download_records),
    Feed("/topics/{topic}/messages", read_records),
    Feed("/topics/{topic}/analysis", analyse),
    *CHANGES,
)
