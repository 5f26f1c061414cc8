"""A client that creates topics, writes to them, lets them grow and deletes them, always with the same few names.

A new topic must not get anything from a deleted topic of the same name. The client reports each answer to the
`TopicLedger`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewPartitions, NewTopic
from kcli.client.config import ClientConfig
from kcli.client.records.produce import produce_request
from kcli.errors import (
    ErrorCode,
    InvalidReplicationFactorException,
    KafkaError,
    TopicExistsException,
    UnknownTopicOrPartitionException,
)
from kcli.model.addresses import Address
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, MOVING, TROUBLE, Client, Moved, World
from simulation.checks.topic_ledger import PromisedTopic
from simulation.world.cluster import BROKER_PORT

PREFIX = "passing-"
"""How the names of all these topics begin."""
PARTITIONS = 2
PARTITIONS_MAX = 6
REQUEST_TIMEOUT_MS = 5_000
API_TIMEOUT_MS = 15_000


class TopicOwner:
    """Works until the story ends. If `keeps` is False, the owner then deletes its topics, and all files and records of
    the topics must be gone from all brokers."""

    def __init__(self, world: World, nth: int, names: int, *, replication_factor: int, keeps: bool) -> None:
        self.client = Client(world, f"owner of topics {nth}")
        self.world = world
        self.deleted = 0
        """The number of answered deletions."""
        self._names = [f"{PREFIX}{nth}-{each}" for each in range(names)]
        self._replication_factor = replication_factor
        self._keeps = keeps
        self._may_exist: dict[str, None] = {}
        """The names of topics that may exist. Without an answer, only a deletion finds out."""
        self._values = 0
        self._has_ended = False

    @property
    def is_done(self) -> bool:
        return self._has_ended

    async def run(self) -> None:
        rng = self.client.rng
        while not self.world.ending or (self._may_exist and not self._keeps):
            name = rng.choice(list(self._may_exist) if self.world.ending else self._names)
            try:
                async with self._admin() as admin:
                    await self._work(admin, name)
            except (Moved, *TROUBLE, KafkaError) as error:
                assert getattr(error, "retriable", True), f"{self.client.name} is refused: {error!r}"
                self.client.note(repr(error))
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
            await self.client.pause(0.0, 0.2 if self.world.ending else 2.0)
        self._has_ended = True
        self.client.close()

    def _admin(self) -> AdminClient:
        config = ClientConfig(
            servers=tuple(Address(node.name, BROKER_PORT) for node in self.world.cluster.brokers),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            default_api_timeout_ms=API_TIMEOUT_MS,
        )
        return AdminClient(config, self.world.cluster.network.host(self.client.name))

    async def _work(self, admin: AdminClient, name: str) -> None:
        topic = self.world.topics.topics.get(name)
        if self.world.ending:
            await self._delete(admin, name)
        elif topic is None or topic.may_be_deleted:
            await self._create(admin, name)
        else:
            match self.client.rng.randrange(4):
                case 0:
                    await self._delete(admin, name)
                case 1 if topic.partitions < PARTITIONS_MAX:
                    await self._grow(admin, name, topic.partitions + 1)
                case _:
                    await self._fill(name, topic)

    async def _create(self, admin: AdminClient, name: str) -> None:
        lives = [(node.life, node.is_up) for node in self.world.cluster.brokers]
        new = NewTopic(name=name, partitions=PARTITIONS, replication_factor=self._replication_factor)
        self._may_exist[name] = None
        (error,) = (await admin.create_topics([new])).values()
        lacks_brokers = isinstance(error, InvalidReplicationFactorException) and self._may_be_fenced(lives)
        exists = isinstance(error, TopicExistsException)
        assert error is None or error.retriable or lacks_brokers or exists, repr(error)
        (found,) = (await admin.describe_topics([name])).values()
        if isinstance(found, KafkaError) or found.topic_id is None:
            return
        if found.topic_id in self.world.topics.deleted:
            # A broker that is behind may still show the deleted topic of this name.
            assert len(self.world.cluster.brokers) > 1, f"{name} was deleted and is there"
            return
        self.world.topics.created(name, found.topic_id, PARTITIONS)
        self.world.topic_ids[name] = found.topic_id
        self.client.leaders.clear()

    def _may_be_fenced(self, lives: Sequence[tuple[int, bool]]) -> bool:
        """Whether too few brokers may be left for the replicas. The only broker of a cluster is fenced, as in Kafka, if
        it stops or if its session expires."""
        brokers = self.world.cluster.brokers
        is_disturbed = any(node.clock.is_disturbed or node.was_paused for node in brokers)
        return len(brokers) > 1 or is_disturbed or lives != [(node.life, True) for node in brokers]

    async def _grow(self, admin: AdminClient, name: str, partitions: int) -> None:
        (error,) = (await admin.create_partitions([NewPartitions(topic=name, count=partitions)])).values()
        if error is None:
            self.world.topics.grown(name, partitions)

    async def _delete(self, admin: AdminClient, name: str) -> None:
        topic = self.world.topics.topics.get(name)
        if topic is not None:
            topic.may_be_deleted = True
        (error,) = (await admin.delete_topics([name])).values()
        assert error is None or error.retriable or isinstance(error, UnknownTopicOrPartitionException), repr(
            error
        )
        if error is None:
            self.deleted += 1
            self.world.topics.is_deleted(name)
        elif isinstance(error, UnknownTopicOrPartitionException):
            self.world.topics.is_unknown(name)
        else:
            return
        self._may_exist.pop(name, None)

    async def _fill(self, name: str, topic: PromisedTopic) -> None:
        """Sends one batch to each partition, like a producer that is not idempotent."""
        await asyncio.gather(
            *(self._write(TopicPartition(name, index), topic) for index in range(topic.partitions))
        )

    async def _write(self, partition: TopicPartition, topic: PromisedTopic) -> None:
        losses = self.world.watch.losses
        self._values += 1
        size = self.client.rng.choice((10, 2_000))
        value = b"%s %d " % (str(topic.topic_id).encode(), self._values) + b"x" * size
        content = (b"key", value)
        now_ms = self.world.cluster.node.clock.now_ms()
        batch = encode_batch([Record(-1, now_ms, *content)], base_sequence=-1)
        request = produce_request(
            {partition: batch}, {partition.topic: topic.topic_id}, timeout_ms=REQUEST_TIMEOUT_MS
        )
        response = await self.client.ask(
            await self.client.leader(partition),
            request,
            ApiKey.PRODUCE,
            at_most=self.client.rng.choice((12, 13)),
        )
        answer = response.responses[0].partition_responses[0]
        if answer.error_code is not ErrorCode.NONE:
            assert answer.error_code in MOVING, f"produce to {partition}: {answer.error_code!r}"
            raise Moved
        if losses == self.world.watch.losses:
            self.world.watch.acknowledged(partition, answer.base_offset, read_header(batch).crc, [content])
