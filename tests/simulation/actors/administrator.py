"""An administrator of a simulated cluster: creates topics, moves replicas, elects leaders, and changes configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.configs import ConfigResourceType
from kcli.protocol.messages import alter_partition_reassignments as ar
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.messages import incremental_alter_configs as ia
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import TROUBLE, Client, World

TOPIC_TIMEOUT_MS = 5_000
# Values that change often while records are written. None of them may lose an acknowledged record.
CONFIGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("segment.ms", ("1000", "604800000")),
    ("max.message.bytes", ("1048588", "2000000")),
    ("min.insync.replicas", ("1", "2", "2")),
)


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class Administrator:
    """Sends requests to any broker, which forwards them to the controller. Refusals are normal while nodes fail."""

    def __init__(self, world: World, topics: Sequence[Topic]) -> None:
        self.client = Client(world, "administrator")
        self.world = world
        self.done = 0
        """The number of requests that succeeded."""
        self.moved_trimmed = 0
        """The number of partitions that were moved after their first records had been deleted."""
        self._topics = topics
        self._rng = self.client.rng

    async def create_topics(self) -> None:
        for topic in self._topics:
            await self._create(topic)

    async def _create(self, topic: Topic) -> None:
        configs = tuple(
            ct.CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()
        )
        new = ct.CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=configs,
        )
        request = ct.CreateTopicsRequest(topics=(new,), timeout_ms=TOPIC_TIMEOUT_MS)
        broker = self.client.any_broker()
        response: Any = await self.client.ask(broker, request, ApiKey.CREATE_TOPICS)
        (created,) = response.topics
        assert created.error_code is ErrorCode.NONE, f"{topic.name}: {created}"
        self.world.topic_ids[topic.name] = created.topic_id

    async def run(self, end: float) -> None:
        loop = self.world.cluster.loop
        while loop.time() < end:
            await self.client.pause(0.0, 6.0)
            topic = self._rng.choice(self._topics)
            try:
                match self._rng.randrange(4):
                    case 0 | 1:
                        await self._reassign(topic)
                    case 2:
                        await self._elect(topic)
                    case _:
                        await self._change_config(topic)
            except TROUBLE as error:
                self.client.note(repr(error))
        self.client.close()

    async def _reassign(self, topic: Topic) -> None:
        """Moves a partition to other brokers, changes the order of its replicas, or cancels a move."""
        brokers = [node.node_id for node in self.world.cluster.brokers]
        replicas: tuple[int, ...] | None = tuple(self._rng.sample(brokers, topic.replication_factor))
        if self._rng.random() < 0.2:
            replicas = None
        index = self._rng.randrange(topic.partitions)
        partition = ar.ReassignablePartition(partition_index=index, replicas=replicas)
        request = ar.AlterPartitionReassignmentsRequest(
            timeout_ms=TOPIC_TIMEOUT_MS,
            topics=(ar.ReassignableTopic(name=topic.name, partitions=(partition,)),),
        )
        broker = self.client.any_broker()
        response: Any = await self.client.ask(broker, request, ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        answers = response.responses
        done = response.error_code is ErrorCode.NONE and answers[0].partitions[0].error_code is ErrorCode.NONE
        self._note(f"{topic.name}-{index} moves to {replicas}: {done}", done)
        self.moved_trimmed += done and replicas is not None and self.world.watch.log_start(topic.name) > 0

    async def _elect(self, topic: Topic) -> None:
        partitions = tuple(range(topic.partitions))
        request = el.ElectLeadersRequest(
            election_type=0,
            topic_partitions=(el.TopicPartitions(topic=topic.name, partitions=partitions),),
            timeout_ms=TOPIC_TIMEOUT_MS,
        )
        response: Any = await self.client.ask(self.client.any_broker(), request, ApiKey.ELECT_LEADERS)
        self._note(
            f"preferred election of {topic.name}: {response.error_code!r}",
            response.error_code is ErrorCode.NONE,
        )

    async def _change_config(self, topic: Topic) -> None:
        name, values = self._rng.choice(CONFIGS)
        if name == "min.insync.replicas":
            values = tuple(each for each in values if int(each) <= topic.replication_factor)
        value = self._rng.choice(values)
        config = ia.AlterableConfig(name=name, config_operation=0, value=value)
        resource = ia.AlterConfigsResource(
            resource_type=int(ConfigResourceType.TOPIC), resource_name=topic.name, configs=(config,)
        )
        request = ia.IncrementalAlterConfigsRequest(resources=(resource,))
        response: Any = await self.client.ask(
            self.client.any_broker(), request, ApiKey.INCREMENTAL_ALTER_CONFIGS
        )
        code = response.responses[0].error_code
        self._note(f"{topic.name} gets {name}={value}: {code!r}", code is ErrorCode.NONE)

    def _note(self, text: str, done: bool) -> None:
        self.done += done
        self.world.cluster.loop.note(f"administrator: {text}")
