"""An administrator in a simulation: creates, grows, fills and deletes topics, and uses their names again."""

from __future__ import annotations

import asyncio
import random
import uuid

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
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.wire.api import ApiKey
from kcli.server.node import Node
from simulation.actors.clients import PASSING, World
from simulation.world.cluster import BROKER_PORT

PARTITIONS = 2
# The names of topics. Names are used again, because a new topic must not get anything from a deleted topic of the same
# name.
NAMES = ("a0", "a1", "a2")


def admin_of(world: World) -> AdminClient:
    config = ClientConfig(
        servers=(Address(world.cluster.node.name, BROKER_PORT),),
        request_timeout_ms=5_000,
        default_api_timeout_ms=30_000,
    )
    return AdminClient(config, world.cluster.network.host("admin"))


class Administrator:
    """Works for some seconds of simulated time, and reports each answer to the `Ledger`."""

    def __init__(self, world: World, seconds: float) -> None:
        self.world = world
        self.ledger = world.ledger
        self.rng = random.Random(world.rng.randrange(1 << 62))
        self._end = world.cluster.loop.time() + seconds
        self._written = 0

    async def run(self) -> None:
        loop = self.world.cluster.loop
        while loop.time() < self._end:
            await asyncio.sleep(self.rng.random() * 2)
            try:
                async with admin_of(self.world) as admin:
                    await self._work(admin)
            except (KafkaError, OSError) as error:
                assert getattr(error, "retriable", True), f"the administrator was refused: {error!r}"
                loop.note(f"admin: {error!r}")

    async def _work(self, admin: AdminClient) -> None:
        name = self.rng.choice(NAMES)
        topic = self.ledger.topics.get(name)
        if topic is None or topic.may_be_deleted:
            await self._create(admin, name)
            return
        match self.rng.randrange(4):
            case 0:
                await self._delete(admin, name)
            case 1:
                wanted = topic.partitions + 1
                (error,) = (await admin.create_partitions([NewPartitions(topic=name, count=wanted)])).values()
                if error is None:
                    self.ledger.topic_grows(name, wanted)
            case _:
                await self._fill(admin, name, topic.topic_id)

    async def _create(self, admin: AdminClient, name: str) -> None:
        asked = self.world.cluster.node.running
        (error,) = (await admin.create_topics([NewTopic(name=name, partitions=PARTITIONS)])).values()
        # As in Kafka, the only broker is fenced if it stops or if its session expires. Then no broker is left for the
        # replicas.
        fenced = isinstance(error, InvalidReplicationFactorException) and self._may_be_fenced(asked)
        exists = isinstance(error, TopicExistsException)
        assert error is None or error.retriable or fenced or exists, repr(error)
        (found,) = (await admin.describe_topics([name])).values()
        if not isinstance(found, KafkaError) and found.topic_id is not None:
            assert found.topic_id not in self.ledger.deleted, f"{name} was deleted and is there"
            self.ledger.topic_created(name, found.topic_id, PARTITIONS)

    def _may_be_fenced(self, asked: Node | None) -> bool:
        node = self.world.cluster.node
        return asked is not node.running or node.clock.skew_ms > 0

    async def _delete(self, admin: AdminClient, name: str) -> None:
        self.ledger.topics[name].may_be_deleted = True
        (error,) = (await admin.delete_topics([name])).values()
        if error is None:
            self.ledger.topic_deleted(name)
        else:
            assert isinstance(error, UnknownTopicOrPartitionException) or error.retriable, repr(error)

    async def _fill(self, admin: AdminClient, name: str, topic_id: uuid.UUID) -> None:
        """Sends one batch to each partition in one request, like a producer that is not idempotent."""
        losses = self.ledger.losses
        now_ms = self.world.cluster.node.clock.now_ms()
        contents = {}
        for partition in range(PARTITIONS):
            self._written += 1
            contents[partition] = (b"key", f"{topic_id} {self._written}".encode())
        batches = {
            TopicPartition(name, partition): encode_batch([Record(-1, now_ms, *content)], base_sequence=-1)
            for partition, content in contents.items()
        }
        request = produce_request(batches, {name: topic_id}, timeout_ms=5_000)
        response = await admin.send(request, ApiKey.PRODUCE)
        for answer in response.responses[0].partition_responses:
            if answer.error_code is not ErrorCode.NONE:
                assert answer.error_code in PASSING, f"produce to {name}: {answer.error_code!r}"
                continue
            content = contents[answer.index]
            self.ledger.acknowledged(
                TopicPartition(name, answer.index), answer.base_offset, content, losses=losses
            )
