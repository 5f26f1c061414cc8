"""The world of the simulated clients, and the client that all of them use.

A client finds the leaders with Metadata requests, and has one connection for each broker. A cluster of one broker is
no exception. Clients report each answer to the `ReplicationWatch`.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kcli.client.connection import Connection
from kcli.client.coordinator import coordinators_in, find_request
from kcli.client.records import fetch as records
from kcli.client.records.fetch import FetchLimits
from kcli.client.records.fetch_plan import FetchPosition, PlannedFetch
from kcli.errors import ErrorCode, KafkaError, NetworkException, ProtocolError
from kcli.model.addresses import Address
from kcli.model.request_values import CoordinatorType
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import fetch as f
from kcli.protocol.messages import list_offsets as lo
from kcli.protocol.messages import metadata as md
from kcli.protocol.wire.api import ApiKey
from simulation.checks.replication_watch import ReplicationWatch
from simulation.checks.topic_ledger import TopicLedger
from simulation.world.cluster import BROKER_PORT, SimCluster, machine_name

TROUBLE = (OSError, TimeoutError, NetworkException, ProtocolError)
"""The errors of a connection that every client survives."""
# An answer that does not arrive within this time is given up. It is shorter than librdkafka's 60 s, so that a run with
# cut links needs less simulated time.
REQUEST_TIMEOUT_S = 8.0
BACKOFF_S = 0.1
LATEST, EARLIEST = -1, -2
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
UNCLEAN, RETAINED, COMPACTED = "unclean", "retained", "compacted"
"""The names of topics that may lose records: by unclean elections, retention or compaction."""

Fetched = tuple[TopicPartition, f.PartitionData]


@dataclass(slots=True)
class World:
    """The state that all clients share."""

    cluster: SimCluster
    watch: ReplicationWatch
    rng: random.Random
    ending: bool = False
    """Whether clients should finish their work and begin no new work."""
    written: bool = False
    """Whether all producers have finished."""
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)
    topics: TopicLedger = field(default_factory=TopicLedger)


class Moved(Exception):
    """Raised if a client must ask for the leader or the coordinator again."""


class Client:
    """A client with one connection for each broker. It knows the leaders from its last Metadata request."""

    def __init__(self, world: World, name: str) -> None:
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

    async def listed_offset(self, partition: TopicPartition, timestamp: int) -> int:
        """The offset that the leader lists for EARLIEST or LATEST. Raises Moved if it does not answer at the moment."""
        topic, index = partition
        named = lo.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        request = lo.ListOffsetsRequest(
            replica_id=-1, topics=(lo.ListOffsetsTopic(name=topic, partitions=(named,)),)
        )
        response = await self.ask(await self.leader(partition), request, ApiKey.LIST_OFFSETS)
        answer = response.topics[0].partitions[0]
        if answer.error_code is not ErrorCode.NONE:
            assert answer.error_code in MOVING, f"ListOffsets: {answer}"
            raise Moved
        offset: int = answer.offset
        return offset

    async def coordinator(self, key: str, kind: CoordinatorType) -> int:
        """Asks any broker for a coordinator. Raises Moved if there is no coordinator at the moment."""
        request = find_request([key], kind)
        response = await self.ask(self.any_broker(), request, ApiKey.FIND_COORDINATOR)
        node = coordinators_in(response, [key], kind)[key]
        if isinstance(node, KafkaError):
            assert node.code in MOVING, f"{self.name}: FindCoordinator: {node.code!r}"
            raise Moved(node.code)
        return node.id

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


def fetch_request(
    positions: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, uuid.UUID],
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


def partitions_of(response: f.FetchResponse, topic_ids: Mapping[str, uuid.UUID]) -> list[Fetched]:
    names: dict[uuid.UUID | None, str] = {topic_id: name for name, topic_id in topic_ids.items()}
    return list(records.fetched_partitions(response, names).items())


async def eventually(condition: Callable[[], bool], within_s: float, what: str) -> None:
    """Waits until `condition` is true. Fails after `within_s` seconds of simulated time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not condition():
        assert loop.time() < deadline, f"not within {within_s} s: {what}"
        await asyncio.sleep(0.1)
