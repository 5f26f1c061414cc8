"""Attacks its own broker, and measures how long a neighbour waits and how much memory the broker takes.

    python bench/hostile.py [--only unread-fetches,slow-frames] [--topics 10000] [--settle 30]

Each attack runs in its own process. Meanwhile a neighbour sends one small request after another. The table has the
neighbour's latency, the broker's peak memory during the attack, and its memory `--settle` seconds after the attack. The
memory of the broker's child processes is included.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from pathlib import Path

from crc32c import crc32c
from hostile_batches import HOSTILE_BATCHES, HostileBatch
from hostile_groups import ATTACKS as GROUPS
from hostile_requests import ATTACKS as LARGE_REQUESTS
from measure import resident_mb

from kcli.protocol.batches.batch import HEADER_SIZE, Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.protocol.messages import api_versions, create_topics, fetch, metadata, produce
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.descriptors import raise_limit
from kcli.testing.broker_process import BrokerProcess

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rigs.hostile_batches import batch_of, large_values

TOPIC = "hostile"
PARTITIONS = 10
PARTITION_BYTES = 13_000_000
COMPACTED = "compacted"
TOPICS = 500
# A node refuses a request that creates more than 10,000 partitions.
TOPICS_PER_REQUEST = 1000
FRAME_BYTES = 100_000_000
IDLE_CONNECTIONS = 5000
PING_EVERY_SECONDS = 0.005
SEGMENT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack. `run` gets the port of the broker, and returns when the attack is over."""

    text: str
    run: Callable[[int], Awaitable[None]]


# The attacks.


async def unread_fetches(port: int) -> None:
    wants = tuple(
        fetch.FetchPartition(partition=index, partition_max_bytes=2**31 - 1) for index in range(PARTITIONS)
    )
    topics = (fetch.FetchTopic(topic=TOPIC, partitions=wants),)
    request = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=2**31 - 1, session_epoch=-1, topics=topics
    )
    frame = codec.encode_request(request, ApiKey.FETCH, 12, 1, "hostile")
    writers = [await _unread(port, frame) for _ in range(100)]
    await asyncio.sleep(10)
    _close(writers)


async def unread_metadata(port: int) -> None:
    writers = [await _unread(port, _all_topics() * 20) for _ in range(500)]
    await asyncio.sleep(10)
    _close(writers)


async def pipelined_metadata(port: int) -> None:
    async def pipeline() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_all_topics() * 3000)
        for _ in range(3000):
            await _skip_answer(reader)
        writer.close()

    await asyncio.gather(*(pipeline() for _ in range(50)))


async def large_fetch(port: int) -> None:
    topics = tuple(
        fetch.FetchTopic(topic=f"unknown-{number}", partitions=(fetch.FetchPartition(partition=0),))
        for number in range(200_000)
    )
    request = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1_000_000, session_epoch=-1, topics=topics
    )
    await _call(port, codec.encode_request(request, ApiKey.FETCH, 12, 1, "hostile"))


async def slow_frames(port: int) -> None:
    async def send() -> None:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(FRAME_BYTES.to_bytes(4, "big"))
            for _ in range(200):
                writer.write(bytes(450_000))
                await asyncio.wait_for(writer.drain(), 10)
                await asyncio.sleep(0.1)
        except (OSError, TimeoutError):
            pass  # the broker does not read the connection, or has closed it
        writer.transport.abort()

    await asyncio.gather(*(send() for _ in range(100)))


async def idle_connections(port: int) -> None:
    """Opens connections, sends no byte, and keeps them open for a while."""
    raise_limit()
    opened: list[asyncio.StreamWriter] = []
    for _ in range(IDLE_CONNECTIONS):
        with contextlib.suppress(OSError):  # the broker refuses connections above its limit
            opened.append((await asyncio.open_connection("127.0.0.1", port))[1])
    await asyncio.sleep(5)
    _close(opened)


async def long_names(port: int) -> None:
    """Sends requests with the longest possible names, each of which the broker refuses."""
    topic = create_topics.CreatableTopic(name="y" * 32_700, num_partitions=1, replication_factor=1)
    request = create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=100)
    frame = codec.encode_request(request, ApiKey.CREATE_TOPICS, 2, 1, "hostile")
    for _ in range(1000):
        await _call(port, frame)


async def hostile_batch(batch: HostileBatch, port: int) -> None:
    partition = produce.PartitionProduceData(index=0, records=batch.make(int(time.time() * 1000)))
    topic = produce.TopicProduceData(name=COMPACTED, partition_data=(partition,))
    request = produce.ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=(topic,))
    await _call(port, codec.encode_request(request, ApiKey.PRODUCE, 9, 1, "hostile"))


async def many_producer_ids(port: int) -> None:
    """One record with each of 300,000 invented producer ids, then a roll of the segment."""
    record = Record(-1, _now_ms(), None, b"ab")
    batch = bytearray(encode_batch([record], producer_id=1, producer_epoch=0, base_sequence=0))

    def frame(nth: int) -> bytes:
        batch[43:51] = (1_000_000 + nth).to_bytes(8, "big")
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
        return _produce(TOPIC, bytes(batch))

    await _pipeline(port, (frame(nth) for nth in range(300_000)))
    large = _produce(TOPIC, encode_batch([Record(-1, _now_ms(), None, bytes(1_000_000))]))
    await _pipeline(port, repeat(large, SEGMENT_BYTES // 1_000_000))


async def claimed_counts(port: int) -> None:
    """Batches of one record that claim 2^31-1 records."""
    record = encode_batch([Record(0, _now_ms(), b"k", b"v")])[HEADER_SIZE:]
    batch = batch_of([record], 2**31 - 1, _now_ms(), Codec.SNAPPY)
    await _pipeline(port, (_produce(TOPIC, batch) for _ in range(10_000)))


async def small_bombs(port: int) -> None:
    """Batches of one kilobyte that each become a megabyte, all on one connection."""
    batch = large_values(1, 1_000_000, _now_ms(), codec=Codec.GZIP)
    await _pipeline(port, (_produce(TOPIC, batch) for _ in range(3_000)))


ATTACKS = {
    "unread-fetches": Attack("100 readers that never read 10 partitions of 13 MB", unread_fetches),
    "unread-metadata": Attack("500 readers that never read 20 Metadata of 500 topics", unread_metadata),
    "pipelined-metadata": Attack("50 x 3,000 pipelined Metadata of 500 topics", pipelined_metadata),
    "large-fetch": Attack("a Fetch of 200,000 unknown partitions", large_fetch),
    "idle-connections": Attack(f"{IDLE_CONNECTIONS:,} connections that send nothing", idle_connections),
    "long-names": Attack("1,000 CreateTopics with a name of 32,700 characters", long_names),
    "slow-frames": Attack("100 frames of 100 MB at 4.5 MB/s each", slow_frames),
    "producer-ids": Attack("300,000 invented producer ids, then a roll", many_producer_ids),
    "claimed-counts": Attack("10,000 batches of 1 record that claim 2^31-1", claimed_counts),
    "small-bombs": Attack("3,000 batches of 1 kB of gzip that become 1 MB", small_bombs),
    **{
        attack.__name__.replace("_", "-"): Attack(attack.__name__.replace("_", " "), attack)
        for attack in (*LARGE_REQUESTS, *GROUPS)
    },
    **{
        f"batch-{number}": Attack(batch.name, partial(hostile_batch, batch))
        for number, batch in enumerate(HOSTILE_BATCHES, 1)
    },
}
"""By name. The requests of `hostile_requests` want --topics 10000."""


def _all_topics() -> bytes:
    return codec.encode_request(metadata.MetadataRequest(topics=None), ApiKey.METADATA, 12, 1, "hostile")


async def _unread(port: int, frames: bytes) -> asyncio.StreamWriter:
    _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    transport = writer.transport
    assert isinstance(transport, asyncio.Transport)
    transport.pause_reading()
    writer.write(frames)
    return writer


def _now_ms() -> int:
    return int(time.time() * 1000)


def _produce(topic: str, batch: bytes) -> bytes:
    partition = produce.PartitionProduceData(index=0, records=batch)
    data = produce.TopicProduceData(name=topic, partition_data=(partition,))
    request = produce.ProduceRequest(acks=1, timeout_ms=60_000, topic_data=(data,))
    return codec.encode_request(request, ApiKey.PRODUCE, 9, 1, "hostile")


async def _pipeline(port: int, frames: Iterator[bytes]) -> None:
    """Sends frames without waiting for the answers, but at most some hundred before their answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while part := list(islice(frames, 200)):
        writer.writelines(part)
        for _ in part:
            await _skip_answer(reader)
    writer.close()


async def _call(port: int, frame: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(frame)
    await _skip_answer(reader)
    writer.close()


async def _skip_answer(reader: asyncio.StreamReader) -> None:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    while size:
        size -= len(await reader.read(min(size, 1_000_000)) or bytes(size))


def _close(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.transport.abort()


# The measurement.


class Neighbour(threading.Thread):
    """A client that sends small requests, and notes the seconds until each answer."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._stopping = threading.Event()
        self.seconds: list[float] = []

    def run(self) -> None:
        asyncio.run(self._ping())

    def stop(self) -> list[float]:
        self._stopping.set()
        self.join()
        return sorted(self.seconds)

    async def _ping(self) -> None:
        request = api_versions.ApiVersionsRequest(client_software_name="n", client_software_version="1")
        frame = codec.encode_request(request, ApiKey.API_VERSIONS, 3, 1, "neighbour")
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while not self._stopping.is_set():
            began = time.perf_counter()
            writer.write(frame)
            await _skip_answer(reader)
            self.seconds.append(time.perf_counter() - began)
            await asyncio.sleep(PING_EVERY_SECONDS)
        writer.close()


class Memory(threading.Thread):
    """Notes the largest memory of a process and its children, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._stopping = threading.Event()
        self.peak = 0.0

    def run(self) -> None:
        while not self._stopping.wait(0.05):
            self.peak = max(self.peak, resident_mb(self._pid))

    def stop(self) -> float:
        self._stopping.set()
        self.join()
        return self.peak


def prepare(broker: BrokerProcess, more_topics: int) -> None:
    """Creates the topics and records of the attacks, and `more_topics` for large requests."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    topics = [NewTopic(TOPIC, PARTITIONS, 1), *(NewTopic(f"t{number}", 4, 1) for number in range(TOPICS))]
    topics.append(NewTopic(COMPACTED, 1, 1, config={"cleanup.policy": "compact"}))
    topics += [NewTopic(f"topic-{number:05}", 1, 1) for number in range(more_topics)]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for first in range(0, len(topics), TOPICS_PER_REQUEST):
        for created in admin.create_topics(topics[first : first + TOPICS_PER_REQUEST]).values():
            created.result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
    for partition in range(PARTITIONS):
        for _ in range(PARTITION_BYTES // 100_000):
            producer.produce(TOPIC, bytes(100_000), partition=partition)
        producer.flush()


def measure(broker: BrokerProcess, name: str, settle_seconds: float) -> str:
    assert broker.process is not None
    memory, neighbour = Memory(broker.process.pid), Neighbour(broker.port)
    memory.start()
    neighbour.start()
    began = time.perf_counter()
    attack = [sys.executable, __file__, "--attack", name, "--port", str(broker.port)]
    subprocess.run(attack, check=True, timeout=600)
    took = time.perf_counter() - began
    latencies, peak = neighbour.stop(), memory.stop()
    time.sleep(settle_seconds)
    after = resident_mb(broker.process.pid)
    p99, worst = latencies[int(len(latencies) * 0.99)] * 1000, latencies[-1] * 1000
    return f"{ATTACKS[name].text:<64}{p99:>9.1f}{worst:>10.1f}{peak:>10.0f}{after:>10.0f}{took:>9.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(ATTACKS), help="attacks, separated by commas")
    parser.add_argument(
        "--topics", type=int, default=0, help="topics of one partition besides those of the attacks"
    )
    parser.add_argument("--settle", type=float, default=30.0, help="seconds before the memory afterwards")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack is not None:
        asyncio.run(_attack(ATTACKS[options.attack], options.port))
        return
    with (
        tempfile.TemporaryDirectory(prefix="kcli-bench-") as directory,
        BrokerProcess(directory, {"kcli.metrics.listener": "127.0.0.1:0"}) as broker,
    ):
        prepare(broker, options.topics)
        print(f"{'attack':<64}{'p99 ms':>9}{'worst ms':>10}{'peak MB':>10}{'after MB':>10}{'took s':>9}")
        for name in options.only.split(","):
            print(measure(broker, name, options.settle), flush=True)


async def _attack(attack: Attack, port: int) -> None:
    await attack.run(port)


if __name__ == "__main__":
    main()
