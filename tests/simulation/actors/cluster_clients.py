"""Clients of a simulated cluster of several brokers. The clients find the leaders with Metadata requests. After a
change of leader, they send requests to the new leader.

The clients report each answer to the `ReplicationWatch`, and keep the values for a comparison at the end.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kcli.client.connection import Connection
from kcli.client.records.produce import produce_request
from kcli.errors import ErrorCode, NetworkException, ProtocolError
from kcli.model.addresses import Address
from kcli.model.request_values import READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_header, read_records
from kcli.protocol.batches.compression import Codec
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import list_offsets as lo
from kcli.protocol.messages import metadata as md
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from simulation.actors.clients import EARLIEST, IN_FLIGHT_MAX, PASSING, fetch_request, partitions_of
from simulation.checks.replication_watch import ReplicationWatch
from simulation.world.cluster import BROKER_PORT, SimCluster, machine_name

TROUBLE = (OSError, TimeoutError, NetworkException, ProtocolError)
# An answer that does not arrive within this time is given up. It is shorter than librdkafka's 60 s, so that a run with
# cut links needs less simulated time.
REQUEST_TIMEOUT_S = 8.0
BACKOFF_S = 0.1
# Errors that end without any action of the client, or when the client has found the new leader.
MOVING = PASSING | {
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.REPLICA_NOT_AVAILABLE,
}


@dataclass(slots=True)
class ClusterWorld:
    """The state that all clients share."""

    cluster: SimCluster
    watch: ReplicationWatch
    rng: random.Random
    ending: bool = False
    """Whether clients should finish their work and begin no new work."""
    written: bool = False
    """Whether all producers have finished."""
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)


UNCLEAN, RETAINED, COMPACTED = "unclean", "retained", "compacted"
"""The names of topics that may lose records: by unclean elections, retention or compaction."""
KEYS = 5
"""The number of keys of a compacted topic. It is small, so that compaction finds old records."""


class Moved(Exception):
    """Raised if a client must ask for the leader or the coordinator again."""


class ClusterClient:
    """A client with one connection for each broker. It knows the leaders from its last Metadata request."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = random.Random(world.rng.randrange(1 << 62))
        self.leaders: dict[TopicPartition, md.MetadataResponsePartition] = {}
        self._host = world.cluster.network.host(name)
        self._connections: dict[int, Connection] = {}
        self._opening: dict[int, asyncio.Lock] = {}

    async def ask(
        self,
        broker: int,
        message: object,
        key: ApiKey,
        *,
        at_most: int = 99,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Any:
        """Sends a request to a broker. After an error in TROUBLE, the next request opens a new connection."""
        connection = await self._connection(broker)
        try:
            version = min(connection.version_for(key), at_most)
            return await connection.request(message, key, version=version, timeout=timeout_s)
        except TROUBLE:
            connection.close()
            raise

    async def _connection(self, broker: int) -> Connection:
        # One connection for each broker, because requests on several connections would lose their order.
        async with self._opening.setdefault(broker, asyncio.Lock()):
            connection = self._connections.get(broker)
            if connection is None or connection.is_closed:
                address = Address(machine_name(broker), BROKER_PORT)
                connection = await Connection.open(self._host, address, self.name, REQUEST_TIMEOUT_S)
                self._connections[broker] = connection
            return connection

    async def leader(self, partition: TopicPartition) -> int:
        """The leader of a partition. Raises Moved if the leader is not known at the moment."""
        known = self.leaders.get(partition)
        if known is None:
            await self.refresh([partition.topic])
            known = self.leaders.get(partition)
        if known is None or known.leader_id < 0:
            self.leaders.pop(partition, None)
            raise Moved
        return known.leader_id

    async def refresh(self, topics: Iterable[str]) -> None:
        """Asks any broker for the leaders."""
        broker = self.any_broker()
        named = tuple(md.MetadataRequestTopic(name=name) for name in topics)
        request = md.MetadataRequest(topics=named, allow_auto_topic_creation=False)
        response: md.MetadataResponse = await self.ask(broker, request, ApiKey.METADATA)
        for topic in response.topics:
            for found in topic.partitions:
                assert topic.name is not None
                partition = TopicPartition(topic.name, found.partition_index)
                known = self.leaders.get(partition)
                # Old metadata of a broker must not lead a client back to an earlier leader (KIP-320).
                if known is None or found.leader_epoch >= known.leader_epoch:
                    self.leaders[partition] = found

    def forget_leader(self, partition: TopicPartition) -> None:
        self.leaders.pop(partition, None)

    def any_broker(self) -> int:
        return self.rng.choice(self.world.cluster.brokers).node_id

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(least_s + (most_s - least_s) * self.rng.random())

    def note(self, text: str) -> None:
        self.world.cluster.loop.note(f"{self.name}: {text}", keep=False)


@dataclass(slots=True)
class Batch:
    """A batch that was sent and is not answered yet."""

    sequence: int
    values: list[bytes]
    keys: list[bytes | None]
    encoded: bytes


class ReplicatedProducer:
    """An idempotent producer with acks=all, for one partition. The producer has several unanswered requests at a time,
    and repeats each request until an answer arrives.

    `acknowledged` has the values of answered batches, in order. `uncertain` has the values of batches that were given
    up.
    """

    def __init__(self, world: ClusterWorld, name: str, partition: TopicPartition) -> None:
        self.client = ClusterClient(world, name)
        self.world = world
        self.name = name
        self.partition = partition
        self.acknowledged: list[bytes] = []
        self.uncertain: set[bytes] = set()
        self.places: list[tuple[int, bytes, bytes]] = []
        """Offset, key and value of each acknowledged record of a compacted topic."""
        self.errors: dict[str, int] = {}
        self._rng = self.client.rng
        self._unanswered: deque[Batch] = deque()
        self._made = 0
        self._producer_id = -1
        self._sequence = 0
        self._is_known = False
        """Whether the leader has answered a batch of this producer id."""

    @property
    def is_done(self) -> bool:
        return self.world.ending and not self._unanswered

    async def run(self) -> None:
        while not self.is_done:
            try:
                await self._produce()
            except (Moved, *TROUBLE) as error:
                self.client.note(repr(error))
                self.client.forget_leader(self.partition)
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
        self.client.close()

    async def _produce(self) -> None:
        if self._producer_id < 0:
            await self._begin()
        leader = await self.client.leader(self.partition)
        in_flight = deque(self._send(leader, each) for each in self._unanswered)
        try:
            while not self.is_done:
                self._fill(leader, in_flight)
                if not in_flight:
                    await self.client.pause(0.0, 0.2)
                    continue
                self._take_answer(self._unanswered[0], await in_flight[0])
                in_flight.popleft()
                if self._rng.random() < 0.6:
                    await self.client.pause(0.0, 0.2)
        finally:
            for task in in_flight:
                task.cancel()
            await asyncio.gather(*in_flight, return_exceptions=True)

    async def _begin(self) -> None:
        request = ip.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        response = await self.client.ask(self.client.any_broker(), request, ApiKey.INIT_PRODUCER_ID)
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in MOVING, f"{self.name}: InitProducerId: {response.error_code!r}"
            raise Moved
        self._producer_id, self._sequence, self._is_known = response.producer_id, 0, False

    def _fill(self, leader: int, in_flight: deque[asyncio.Task[p.ProduceResponse]]) -> None:
        """Sends a few new batches. The first batch of a producer id is sent alone, because a broker accepts any
        sequence number from a new producer. If the second batch arrived first, the broker would accept it and refuse
        the first batch.
        """
        wanted = self._rng.randint(1, IN_FLIGHT_MAX) if self._is_known else 1
        while not self.world.ending and len(in_flight) < wanted:
            batch = self._make()
            self._unanswered.append(batch)
            in_flight.append(self._send(leader, batch))

    def _make(self) -> Batch:
        count = self._rng.randint(1, 3)
        size = self._rng.choice((0, 10, 200, 3_000))
        values = [f"{self.name} {self._made + nth} ".encode() + b"x" * size for nth in range(count)]
        self._made += count
        now_ms = self.world.cluster.node.clock.now_ms()
        keys = [self._key() for _ in values]
        encoded = encode_batch(
            [Record(-1, now_ms, key, value) for key, value in zip(keys, values, strict=True)],
            codec=self._rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4)),
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        batch = Batch(self._sequence, values, keys, encoded)
        self._sequence += count
        return batch

    def _key(self) -> bytes | None:
        return b"key %d" % self._rng.randrange(KEYS) if self.partition.topic == COMPACTED else None

    def _send(self, leader: int, batch: Batch) -> asyncio.Task[p.ProduceResponse]:
        request = produce_request({self.partition: batch.encoded}, self.world.topic_ids, timeout_ms=3_000)
        asking = self.client.ask(leader, request, ApiKey.PRODUCE, at_most=self._rng.choice((12, 13)))
        return asyncio.get_running_loop().create_task(asking)

    def _take_answer(self, batch: Batch, response: p.ProduceResponse) -> None:
        """Raises Moved if all unanswered batches must be sent again."""
        answer = response.responses[0].partition_responses[0]
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._unanswered.popleft()
            self._is_known = True
            self.acknowledged += batch.values
            if code is ErrorCode.NONE and answer.base_offset >= 0:
                crc = read_header(batch.encoded).crc
                self.world.watch.acknowledged(self.partition, answer.base_offset, crc)
                self.places += [
                    (answer.base_offset + nth, key, value)
                    for nth, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True))
                    if key is not None
                ]
            return
        self.errors[code.name] = self.errors.get(code.name, 0) + 1
        if code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            # A leader that has started again knows only the last batch of each producer, because a snapshot has only
            # the last batch. After an unclean election, batches are missing.
            self._give_up()
            raise Moved
        assert code in MOVING, f"{self.name}: produce to {self.partition} failed with {code!r}"
        raise Moved

    def _give_up(self) -> None:
        """Begins again with a new producer id. Whether the unanswered batches were written is unknown."""
        for batch in self._unanswered:
            self.uncertain.update(batch.values)
        self._unanswered.clear()
        self._producer_id = -1


class ReplicatedConsumer:
    """Reads partitions from their start. The consumer reads from leaders, and at times from followers (KIP-392).
    `values` has the records of each partition in order.
    """

    isolation_level = READ_UNCOMMITTED

    def __init__(
        self, world: ClusterWorld, name: str, partitions: Iterable[TopicPartition], *, from_followers: bool
    ) -> None:
        self.client = ClusterClient(world, name)
        self.world = world
        self.name = name
        self.positions = dict.fromkeys(partitions, 0)
        self.values: dict[TopicPartition, list[bytes]] = {each: [] for each in self.positions}
        self.resets = 0
        self.read_from_followers = 0
        self._from_followers = from_followers

    @property
    def is_done(self) -> bool:
        return self.world.written and not self._unread()

    def _unread(self) -> list[TopicPartition]:
        """The partitions that have records after the consumer's position."""
        ends = self.world.watch.partitions
        return [each for each, at in self.positions.items() if at < ends[each].end]

    async def run(self) -> None:
        while not self.is_done:
            # When nothing more is written, a read of a partition without new records would only wait for its time-out.
            partition = self.client.rng.choice(self._unread() if self.world.written else list(self.positions))
            try:
                await self._read(partition)
            except (Moved, *TROUBLE) as error:
                self.client.note(repr(error))
                self.client.forget_leader(partition)
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
        self.client.close()

    async def _read(self, partition: TopicPartition) -> None:
        leader = await self.client.leader(partition)
        known = self.client.leaders[partition]
        broker = leader
        if self._from_followers and self.client.rng.random() < 0.5:
            broker = self.client.rng.choice(known.replica_nodes)
        request = fetch_request(
            {partition: self.positions[partition]},
            self.world.topic_ids,
            max_bytes=self.client.rng.choice((1, 5_000, 1_000_000)),
            isolation_level=self.isolation_level,
        )
        response = await self.client.ask(broker, request, ApiKey.FETCH)
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in MOVING, f"{self.name}: fetch: {response.error_code!r}"
            raise Moved
        for name, data in partitions_of(response, self.world.topic_ids):
            await self._take(name, data, broker, is_leader=broker == leader)
        await self.client.pause(0.0, 0.1)

    async def _take(
        self, partition: TopicPartition, data: f.PartitionData, broker: int, *, is_leader: bool
    ) -> None:
        code = data.error_code
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # A follower may lack records that a consumer has read from the leader (KIP-392).
            if is_leader:
                await self._reset(partition)
            return
        if code is not ErrorCode.NONE:
            assert code in MOVING, f"{self.name}: fetch of {partition} from {broker} failed with {code!r}"
            raise Moved
        self.read_from_followers += not is_leader and bool(data.records)
        self.positions[partition] = self._take_records(partition, data)

    def _take_records(self, partition: TopicPartition, data: f.PartitionData) -> int:
        """Checks and keeps the records of an answer. Returns the next position."""
        position = self.positions[partition]
        for at, header in iter_batches(data.records or b""):
            assert header.next_offset <= data.high_watermark, (
                f"{self.name}: {partition}: read {header.base_offset}, the high watermark is {data.high_watermark}"
            )
            self.world.watch.read(partition, header)
            for record in read_records(data.records or b"", at):
                if record.offset >= position:
                    assert record.offset == position or partition.topic == COMPACTED, (
                        f"{partition}: read {record.offset} after {position - 1}"
                    )
                    position = record.offset + 1
                    if not header.is_control:
                        self.values[partition].append(record.value or b"")
            if partition.topic == COMPACTED:
                position = max(position, header.next_offset)
        return position

    async def _reset(self, partition: TopicPartition) -> None:
        """Begins again at the start of the log, after an unclean election or retention has removed records."""
        committed = self.world.watch.partitions[partition]
        stale = committed.end >= self.positions[partition]
        # After an unclean election, the former leader may have answered with records that only it ever had.
        losses = committed.losses or (partition.topic == UNCLEAN and not stale and len(committed.leaders) > 1)
        assert losses or stale, f"{self.name}: {partition}: {self.positions[partition]} is out of range"
        if partition.topic == RETAINED:
            self.positions[partition] = max(self.positions[partition], await self._earliest(partition))
        if losses:
            self.resets += 1
            self.positions[partition] = max(0, await self._earliest(partition))
            self.values[partition].clear()
        raise Moved

    async def _earliest(self, partition: TopicPartition) -> int:
        topic, index = partition
        wanted = lo.ListOffsetsPartition(partition_index=index, timestamp=EARLIEST)
        request = lo.ListOffsetsRequest(
            replica_id=-1, topics=(lo.ListOffsetsTopic(name=topic, partitions=(wanted,)),)
        )
        response = await self.client.ask(await self.client.leader(partition), request, ApiKey.LIST_OFFSETS)
        answer = response.topics[0].partitions[0]
        if answer.error_code is not ErrorCode.NONE:
            assert answer.error_code in MOVING, f"ListOffsets: {answer}"
            raise Moved
        offset: int = answer.offset
        return offset


def check_values(producer: ReplicatedProducer, values: list[bytes]) -> None:
    """Checks the values of a partition that a consumer has read from its start: every acknowledged value exactly once,
    and in order. Two kinds of values may be missing: values of batches that were given up, and values that retention or
    compaction may have removed before the consumer read them."""
    prefix = f"{producer.name} ".encode()
    found = [value for value in values if value.startswith(prefix)]
    assert len(found) == len(set(found)), f"{producer.name}: a value is in {producer.partition} twice"
    certain = [value for value in found if value not in producer.uncertain]
    expected = producer.acknowledged
    if producer.partition.topic in (RETAINED, COMPACTED):
        read = set(certain)
        expected = [value for value in expected if value in read]
    assert certain == expected, (
        f"{producer.name}: {len(expected)} values are acknowledged, {len(certain)} are in "
        f"{producer.partition}; the first difference: {_first_difference(expected, certain)}"
    )


def check_latest(
    producer: ReplicatedProducer, latest: dict[bytes, tuple[int, bytes]], values: list[bytes]
) -> None:
    """Checks a compacted partition. `latest` has the last record of each key on the replicas.

    No acknowledged record may be newer than the last record of its key. A consumer must have read the last records.
    """
    for offset, key, value in producer.places:
        last = latest.get(key)
        assert last is not None and (last[0] > offset or last == (offset, value)), (
            f"{producer.partition}: {key!r} was acknowledged at {offset}, and its last record is {last}"
        )
    read = set(values)
    for key, (offset, value) in latest.items():
        assert value in read, f"{producer.partition}: no consumer has read {key!r} at {offset}"


def _first_difference(expected: list[bytes], found: list[bytes]) -> str:
    for nth, (wanted, value) in enumerate(zip(expected, found, strict=False)):
        if wanted != value:
            return f"{nth}: {wanted[:30]!r}, found {value[:30]!r}"
    return f"at the end, {min(len(expected), len(found))}"
