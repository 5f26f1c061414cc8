"""A client that creates a topic, writes to it and deletes it, again and again, always with the same name."""

from __future__ import annotations

from typing import Any

from kcli.client.records.produce import produce_request
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.wire.api import ApiKey
from simulation.actors.cluster_clients import BACKOFF_S, TROUBLE, ClusterClient, ClusterWorld, Moved

NAME = "passing"
PARTITIONS = 2
REPLICATION_FACTOR = 3
TIMEOUT_MS = 5_000
BATCHES_MAX = 6


class PassingTopic:
    """Creates, fills and deletes the topic. At the end of the run, all files and records of the topic must be gone from
    all brokers."""

    def __init__(self, world: ClusterWorld) -> None:
        self.client = ClusterClient(world, "owner of passing topics")
        self.world = world
        self.deleted = 0
        """The number of answered deletions."""
        self._exists = False

    @property
    def is_done(self) -> bool:
        return self.world.ending and not self._exists

    async def run(self) -> None:
        while not self.is_done:
            try:
                if not self._exists:
                    await self._create()
                for _ in range(self.client.rng.randint(0, BATCHES_MAX)):
                    await self._write()
                await self.client.pause(0.0, 2.0)
                await self._delete()
                await self.client.pause(0.0, 1.0)
            except (Moved, *TROUBLE) as error:
                self.client.note(repr(error))
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
        self.client.close()

    async def _create(self) -> None:
        new = ct.CreatableTopic(name=NAME, num_partitions=PARTITIONS, replication_factor=REPLICATION_FACTOR)
        request = ct.CreateTopicsRequest(topics=(new,), timeout_ms=TIMEOUT_MS)
        # Without an answer, the topic may exist or not. A deletion finds out.
        self._exists = True
        response: Any = await self.client.ask(self.client.any_broker(), request, ApiKey.CREATE_TOPICS)
        (created,) = response.topics
        if created.error_code is ErrorCode.NONE:
            self.world.topic_ids[NAME] = created.topic_id
            self.client.leaders.clear()
        elif created.error_code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            self._exists = False
            raise Moved

    async def _write(self) -> None:
        """Sends one batch. Ignores the answer, because the broker may still know a deleted topic with this name."""
        partition = self.client.rng.randrange(PARTITIONS)
        value = b"x" * self.client.rng.choice((10, 2_000))
        now_ms = self.world.cluster.node.clock.now_ms()
        batch = encode_batch([Record(-1, now_ms, None, value)])
        request = produce_request(
            {TopicPartition(NAME, partition): batch}, self.world.topic_ids, timeout_ms=TIMEOUT_MS
        )
        await self.client.ask(self.client.any_broker(), request, ApiKey.PRODUCE, at_most=12)

    async def _delete(self) -> None:
        request = dt.DeleteTopicsRequest(
            topics=(dt.DeleteTopicState(name=NAME),), topic_names=(NAME,), timeout_ms=TIMEOUT_MS
        )
        response: Any = await self.client.ask(self.client.any_broker(), request, ApiKey.DELETE_TOPICS)
        (answer,) = response.responses
        if answer.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self._exists = False
            self.deleted += answer.error_code is ErrorCode.NONE
        else:
            raise Moved
