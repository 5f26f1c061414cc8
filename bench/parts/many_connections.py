"""The part `connections`: 1,000 and 5,000 connections, most of them idle, beside a few.

All connections are in one process, which sends the requests directly. A connection begins with ApiVersions, as that of
a client. Some of them then produce a record and fetch one, again and again, each with one request at a time.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from measure import Bench

from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import api_versions, fetch, produce
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey

FEW = 10
MANY = (1000, 5000)
ACTIVE_EVERY = 20
"""One of so many connections is active. If there are few connections, all are active."""
AT_A_TIME = 100
"""Connections that are opened together: fewer than the queue of a listener holds."""
ROUNDS = 20_000
SETTLE_S = 2.0
"""The time after which idle memory is measured."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Frames:
    """The requests that active connections send."""

    produce: bytes
    fetch: bytes


def many_connections(bench: Bench) -> None:
    topic = bench.topic("connections")
    empty_mb = bench.memory_mb()
    few = asyncio.run(_measure(bench, topic, FEW, empty_mb))
    for count in MANY:
        cpu_s = asyncio.run(_measure(bench, topic, count, empty_mb))
        bench.add(f"CPU per message, {count:,} to {FEW} connections", cpu_s / few, "ratio")


async def _measure(bench: Bench, topic: str, count: int, empty_mb: float) -> float:
    """Returns the CPU seconds of the broker for all rounds. `empty_mb` is its memory without connections."""
    cpu, begun = bench.cpu_s(), time.perf_counter()
    opened: list[Streams] = []
    while len(opened) < count:
        together = min(AT_A_TIME, count - len(opened))
        opened += await asyncio.gather(*(_open(bench.broker.port) for _ in range(together)))
    seconds, cpu = time.perf_counter() - begun, bench.cpu_s() - cpu
    name = f"{count:,} connections"
    bench.add(f"{name}: opened", count / seconds, "1/s")
    bench.add(f"{name}: broker CPU of each", cpu / count * 1e6, "CPU-µs")
    await asyncio.sleep(SETTLE_S)
    bench.add(f"{name}: memory of each", (bench.memory_mb() - empty_mb) / count * 1000, "kB")
    active = opened[:: ACTIVE_EVERY if count > FEW else 1]
    used = await _exchange(bench, topic, active)
    bench.add(f"{name}, {len(active)} active: broker CPU", used / (2 * ROUNDS) * 1e6, "CPU-µs/request")
    bench.add(
        f"{name}, {len(active)} active: memory of each", (bench.memory_mb() - empty_mb) / count * 1000, "kB"
    )
    for _reader, writer in opened:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _reader, writer in opened))
    return used


async def _exchange(bench: Bench, topic: str, active: list[Streams]) -> float:
    """Produces and fetches ROUNDS times over all active connections. Returns the CPU seconds of the broker."""
    cpu, left = bench.cpu_s(), iter(range(ROUNDS))
    frames = [_frames(topic, partition) for partition in range(4)]

    async def work(number: int, streams: Streams) -> None:
        chosen = frames[number % len(frames)]
        for _ in left:
            await _ask(streams, chosen.produce)
            await _ask(streams, chosen.fetch)

    await asyncio.gather(*(work(number, streams) for number, streams in enumerate(active)))
    return bench.cpu_s() - cpu


async def _open(port: int) -> Streams:
    streams = await asyncio.open_connection("127.0.0.1", port)
    request = api_versions.ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    await _ask(streams, codec.encode_request(request, ApiKey.API_VERSIONS, 3, 1, "bench"))
    return streams


async def _ask(streams: Streams, frame: bytes) -> bytes:
    reader, writer = streams
    writer.write(frame)
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _frames(topic: str, partition: int) -> Frames:
    """A produce of one record, and a fetch of the first record of the partition."""
    records = encode_batch([Record(-1, int(time.time() * 1000), None, b"x" * 100, (), -1)])
    data = produce.PartitionProduceData(index=partition, records=records)
    written = produce.ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),)
    )
    wanted = fetch.FetchPartition(partition=partition, partition_max_bytes=1)
    read = fetch.FetchRequest(
        min_bytes=1, max_bytes=1, topics=(fetch.FetchTopic(topic=topic, partitions=(wanted,)),)
    )
    return Frames(
        codec.encode_request(written, ApiKey.PRODUCE, 9, 1, "bench"),
        codec.encode_request(read, ApiKey.FETCH, 12, 1, "bench"),
    )
