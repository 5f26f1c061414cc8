"""Clients of a simulated cluster: an idempotent producer, and a consumer.

The clients report each answer of the broker to the `Ledger`, which compares the answers with the promises of the
cluster.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kcli.client.connection import Connection
from kcli.client.records import fetch as records
from kcli.client.records.fetch import FetchLimits
from kcli.client.records.fetch_plan import FetchPosition, PlannedFetch
from kcli.client.records.produce import produce_request
from kcli.errors import ErrorCode, NetworkException
from kcli.model.addresses import Address
from kcli.model.ids import NO_OFFSET
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.batches.compression import Codec
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import list_offsets as lo
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from simulation.checks.invariants import Content, Ledger
from simulation.world.cluster import BROKER_PORT, SimCluster

# Errors that a client survives. Any other error fails the simulation.
TROUBLE = (OSError, TimeoutError, NetworkException)
REQUEST_TIMEOUT_S = 15.0
BACKOFF_S = 0.1
# The number of unanswered batches, as in Java's producer. A broker recognises only the last five batches of a producer
# if they are sent again.
IN_FLIGHT_MAX = 5
LATEST, EARLIEST = -1, -2
# The number of keys. It is small, so that compaction finds old records.
KEYS = 5
COMPACTED, RETAINED = "compacted", "retained"
"""The prefixes of the names of topics whose old records are deleted, by compaction or by retention.bytes."""
# Errors that end without any action of the client.
PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


Fetched = tuple[TopicPartition, f.PartitionData]


class Link(Protocol):
    """The way of a client to its broker or brokers."""

    @property
    def losses(self) -> int:
        """The number of data losses (`Ledger.losses`) at the time when the link was opened."""

    @property
    def is_current(self) -> bool:
        """Whether the last request went to the broker that was responsible for it at that time."""

    async def ask(self, message: object, key: ApiKey, *, at_most: int = 99) -> Any:
        """Sends a request. Returns the answer."""

    async def fetch(self, positions: dict[TopicPartition, int]) -> list[Fetched]:
        """Reads records of partitions from the given positions."""

    def close(self) -> None: ...


class ActorWorld(Protocol):
    """The world that an actor needs: a cluster, and links to it."""

    @property
    def cluster(self) -> SimCluster: ...

    @property
    def rng(self) -> random.Random: ...

    async def open_link(self, name: str) -> Link:
        """Opens a link for the client `name`."""


@dataclass(slots=True)
class World:
    """The state that all actors share."""

    cluster: SimCluster
    ledger: Ledger
    rng: random.Random
    ending: bool = False
    """Whether actors should finish their work and begin no new work."""
    written: bool = False
    """Whether all producers have finished writing."""
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)

    @property
    def coordinator_life(self) -> int:
        """A number that grows when another coordinator, or a new process, serves the groups."""
        return self.cluster.node.life

    @property
    def coordinator_began_s(self) -> float:
        """The time before which the present life of the coordinator did not serve the groups."""
        return self.cluster.node.began_s

    async def open_link(self, name: str) -> Link:
        losses = self.ledger.losses
        address = Address(self.cluster.node.name, BROKER_PORT)
        host = self.cluster.network.host(name)
        connection = await Connection.open(host, address, name, REQUEST_TIMEOUT_S)
        return NodeLink(connection, losses, self.topic_ids)


@dataclass(slots=True)
class NodeLink:
    """A connection to the only broker."""

    connection: Connection
    losses: int
    topic_ids: dict[str, uuid.UUID]

    @property
    def is_current(self) -> bool:
        return True

    async def ask(self, message: object, key: ApiKey, *, at_most: int = 99) -> Any:
        connection = self.connection
        version = min(connection.version_for(key), at_most)
        return await connection.request(message, key, version=version, timeout=REQUEST_TIMEOUT_S)

    async def fetch(self, positions: dict[TopicPartition, int]) -> list[Fetched]:
        response = await self.ask(fetch_request(positions, self.topic_ids), ApiKey.FETCH)
        assert response.error_code is ErrorCode.NONE, f"fetch failed with {response.error_code!r}"
        return partitions_of(response, self.topic_ids)

    def close(self) -> None:
        self.connection.close()


class Actor(ABC):
    """A client on its own simulated machine. The client connects, works, and connects again after a failure."""

    def __init__(self, world: ActorWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = random.Random(world.rng.randrange(1 << 62))
        self.link: Link | None = None

    async def run(self) -> None:
        """Connects and works until `is_done` is true."""
        while not self.is_done:
            try:
                await self._connected()
            except TROUBLE as error:
                self.world.cluster.loop.note(
                    f"{self.name}: {error!r}", keep=not isinstance(error, ConnectionRefusedError)
                )
                await asyncio.sleep(BACKOFF_S * (1 + self.rng.random()))

    async def _connected(self) -> None:
        link = self.link = await self.world.open_link(self.name)
        try:
            await self.work(link)
        finally:
            link.close()
            if self.link is link:  # a member that has died may have a new task already
                self.link = None

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether the actor has no work left."""

    @abstractmethod
    async def work(self, link: Link) -> None:
        """Works on a connection. `run` calls this method again after each failure."""

    async def pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(least_s + (most_s - least_s) * self.rng.random())


@dataclass(slots=True)
class Batch:
    partition: TopicPartition
    sequence: int
    contents: list[Content]
    encoded: bytes


class Producer(Actor):
    """An idempotent producer with acks=all and several unanswered requests.

    The producer repeats each request until an answer arrives.
    """

    world: World

    def __init__(self, world: World, name: str, partitions: list[TopicPartition], *, big: bool) -> None:
        super().__init__(world, name)
        self.acknowledged = 0
        self.given_up = 0
        self._partitions = partitions
        self._big = big
        self._made = 0
        self._unanswered: deque[Batch] = deque()
        self._forget()

    def _forget(self) -> None:
        """Begins again with a new producer id, because the broker has lost the producer's state.

        Whether unanswered batches were written is unknown.
        """
        self.given_up += len(self._unanswered)
        self._unanswered.clear()
        self._sequences: dict[TopicPartition, int] = {}
        self._producer_id = -1
        self._lives = -1

    @property
    def is_done(self) -> bool:
        return self.world.ending and not self._unanswered

    async def work(self, link: Link) -> None:
        if self._producer_id < 0:
            await self._begin(link)
            if self._producer_id < 0:
                return
        in_flight: deque[asyncio.Task[p.ProduceResponse]] = deque(
            self._send(link, each) for each in self._unanswered
        )
        try:
            while not self.is_done:
                self._fill(link, in_flight)
                if not in_flight:
                    await self.pause(0.0, 0.3)
                    continue
                if not self._handle_answer(self._unanswered[0], await in_flight[0], link):
                    return
                in_flight.popleft()
                if self.rng.random() < 0.5:
                    await self.pause(0.0, 0.3)
        finally:
            for task in in_flight:
                task.cancel()
            await asyncio.gather(*in_flight, return_exceptions=True)

    async def _begin(self, link: Link) -> None:
        response = await link.ask(
            ip.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1),
            ApiKey.INIT_PRODUCER_ID,
        )
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in PASSING, f"InitProducerId: {response.error_code!r}"
            await self.pause(0.0, BACKOFF_S)
            return
        self.world.ledger.producer_id_given(response.producer_id)
        self._producer_id = response.producer_id
        self._lives = self.world.cluster.node.life

    def _fill(self, link: Link, in_flight: deque[asyncio.Task[p.ProduceResponse]]) -> None:
        """Sends a few new batches.

        The first batch to a partition is sent alone, because a broker accepts any sequence number from a new producer.
        If the second batch arrived first, the broker would accept it and refuse the first batch.
        """
        wanted = self.rng.randint(1, IN_FLIGHT_MAX)
        while not self.world.ending and len(in_flight) < wanted:
            partition = self.rng.choice(self._partitions)
            if partition not in self._sequences and in_flight:
                return
            is_first = partition not in self._sequences
            batch = self._make(partition)
            self._unanswered.append(batch)
            in_flight.append(self._send(link, batch))
            if is_first:
                return

    def _make(self, partition: TopicPartition) -> Batch:
        count = self.rng.randint(1, 4)
        size = self.rng.choice((0, 10, 200, 200_000 if self._big and self.rng.random() < 0.1 else 3_000))
        contents: list[Content] = [
            (
                f"key {self.rng.randrange(KEYS)}".encode(),
                f"{self.name} {self._made + nth} ".encode() + b"x" * size,
            )
            for nth in range(count)
        ]
        self._made += count
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + count
        now_ms = self.world.cluster.node.clock.now_ms()
        encoded = encode_batch(
            [Record(-1, now_ms, key, value) for key, value in contents],
            codec=self.rng.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD)),
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        return Batch(partition, sequence, contents, encoded)

    def _send(self, link: Link, batch: Batch) -> asyncio.Task[p.ProduceResponse]:
        version = self.rng.choice((9, 11, 12, 13))
        request = produce_request({batch.partition: batch.encoded}, self.world.topic_ids, timeout_ms=5_000)
        return asyncio.get_running_loop().create_task(link.ask(request, ApiKey.PRODUCE, at_most=version))

    def _handle_answer(self, batch: Batch, response: p.ProduceResponse, link: Link) -> bool:
        """Handles an answer. Returns False if all unanswered batches must be sent again."""
        (topic,) = response.responses
        (answer,) = topic.partition_responses
        code = answer.error_code
        restarted = self.world.cluster.node.life != self._lives
        if code is ErrorCode.NONE or (code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and restarted):
            self._unanswered.popleft()
            self.acknowledged += len(batch.contents)
            if answer.base_offset != NO_OFFSET and code is ErrorCode.NONE:
                for offset, content in enumerate(batch.contents, answer.base_offset):
                    self.world.ledger.acknowledged(batch.partition, offset, content, losses=link.losses)
            return True
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # After a restart, a broker knows only the last batch of each producer and not the last five, because a
            # snapshot has only the last batch.
            assert restarted, f"{self.name}: {batch.partition} refused sequence {batch.sequence}"
            self._forget()
            return False
        assert code in PASSING, f"{self.name}: produce to {batch.partition} failed with {code!r}"
        return False


class Consumer(Actor):
    """Reads partitions from start to end, and compares the records with the `Ledger`.

    If `sessions` is True, the consumer uses incremental fetches (KIP-227).
    """

    world: World

    def __init__(self, world: World, name: str, partitions: list[TopicPartition], *, sessions: bool) -> None:
        super().__init__(world, name)
        self.positions = dict.fromkeys(partitions, 0)
        self._sessions = sessions
        self._losses = 0

    @property
    def is_done(self) -> bool:
        return self.world.written and all(
            position >= self.world.ledger.end(partition) for partition, position in self.positions.items()
        )

    async def work(self, link: Link) -> None:
        session_id, epoch = 0, 0 if self._sessions else -1
        sent: dict[TopicPartition, int] = {}
        while not self.is_done:
            changed = self.positions if epoch <= 0 else _changes(self.positions, sent)
            response = await link.ask(
                fetch_request(
                    changed,
                    self.world.topic_ids,
                    session_id=session_id,
                    epoch=epoch,
                    max_bytes=self._max_bytes(),
                ),
                ApiKey.FETCH,
                at_most=self.rng.choice((12, 13, 16, 17)) if not self._sessions else 17,
            )
            if response.error_code is not ErrorCode.NONE:
                assert response.error_code in (
                    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                ), f"{self.name}: fetch failed with {response.error_code!r}"
                session_id, epoch, sent = 0, 0, {}
                continue
            sent = dict(self.positions)
            await self._read_answer(response, link)
            if self._sessions:
                session_id, epoch = response.session_id, 0 if response.session_id == 0 else epoch + 1
            if self.rng.random() < 0.2:
                await self.pause(0.0, 0.5)

    def _max_bytes(self) -> int:
        return self.rng.choice((1, 1_000, 50_000, 1_000_000))

    async def _read_answer(self, response: f.FetchResponse, link: Link) -> None:
        for partition, data in partitions_of(response, self.world.topic_ids):
            code = data.error_code
            if code is ErrorCode.NONE:
                position = self.positions[partition]
                self.positions[partition] = read_into(self.world.ledger, partition, position, data, link)
            elif code is ErrorCode.OFFSET_OUT_OF_RANGE:
                position = self.positions[partition]
                self.positions[partition] = await reset_offset(self.world.ledger, link, partition, position)
            else:
                assert code in PASSING, f"{self.name}: fetch of {partition} failed with {code!r}"
                await self.pause(0.0, BACKOFF_S)


def _changes(
    positions: dict[TopicPartition, int], sent: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    return {key: position for key, position in positions.items() if sent.get(key) != position}


def fetch_request(
    positions: dict[TopicPartition, int],
    topic_ids: dict[str, uuid.UUID],
    *,
    session_id: int = 0,
    epoch: int = -1,
    max_bytes: int = 1_000_000,
    isolation_level: int = 0,
) -> f.FetchRequest:
    listed = tuple(
        (key, FetchPosition(topic_ids[key.topic], position)) for key, position in positions.items()
    )
    limits = FetchLimits(
        max_wait_ms=500, max_bytes=max_bytes, partition_max_bytes=max_bytes, isolation_level=isolation_level
    )
    return records.fetch_request(PlannedFetch(session_id, epoch, listed), limits)


def partitions_of(response: f.FetchResponse, topic_ids: dict[str, uuid.UUID]) -> list[Fetched]:
    names: dict[uuid.UUID | None, str] = {topic_id: name for name, topic_id in topic_ids.items()}
    return list(records.fetched_partitions(response, names).items())


class Readings(Protocol):
    """The part of a ledger that learns which records clients have read."""

    @property
    def losses(self) -> int: ...

    def acknowledged(
        self, partition: TopicPartition, offset: int, content: Content, *, losses: int
    ) -> None: ...


def read_into(
    ledger: Readings, partition: TopicPartition, position: int, data: f.PartitionData, link: Link
) -> int:
    """Compares the records from `position` with the `Ledger`. Returns the next position."""
    for at, header in iter_batches(data.records or b""):
        assert header.next_offset <= data.high_watermark, (
            f"{partition}: batch {header.base_offset} is given out, the high watermark is {data.high_watermark}"
        )
        for record in read_records(data.records or b"", at):
            if record.offset < position:
                continue
            assert record.offset == position or ledger.losses or partition[0].startswith(COMPACTED), (
                f"{partition}: read {record.offset} after {position - 1}"
            )
            ledger.acknowledged(partition, record.offset, (record.key, record.value), losses=link.losses)
            position = record.offset + 1
        # After compaction, a batch may be empty, or may lack its last records.
        position = max(position, header.next_offset)
    return position


async def reset_offset(ledger: Readings, link: Link, partition: TopicPartition, position: int) -> int:
    """Returns the new position after OFFSET_OUT_OF_RANGE. Fails if no records were lost or deleted."""
    assert ledger.losses or partition[0].startswith(RETAINED), f"{partition}: {position} is out of range"
    earliest = await _listed_offset(link, partition, EARLIEST)
    return earliest if position < earliest else await _listed_offset(link, partition, LATEST)


async def _listed_offset(link: Link, partition: TopicPartition, timestamp: int) -> int:
    """Returns the listed offset, or 0 if no broker can answer at the moment."""
    topic, index = partition
    wanted = lo.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    request = lo.ListOffsetsRequest(
        replica_id=-1, topics=(lo.ListOffsetsTopic(name=topic, partitions=(wanted,)),)
    )
    response = await link.ask(request, ApiKey.LIST_OFFSETS)
    (answer,) = response.topics[0].partitions
    assert answer.error_code is ErrorCode.NONE or answer.error_code in PASSING, f"ListOffsets: {answer}"
    offset: int = answer.offset
    return max(offset, 0)


async def eventually(condition: Callable[[], bool], within_s: float, what: str) -> None:
    """Waits until `condition` is true. Fails after `within_s` seconds of simulated time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        assert loop.time() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.1)
