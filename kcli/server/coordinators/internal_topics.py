"""The internal topics that store the state of coordinators, and the settings with which these topics are created."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.model.topic_names import GROUP_METADATA_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from kcli.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic. `prefix` is the first part of the broker keys that set its number of partitions and its
    replication factor, such as `offsets.topic`.
    """

    name: str
    prefix: str
    configs: Callable[[BrokerConfig], Mapping[str, str]]

    def creation(self, config: BrokerConfig) -> CreatableTopic:
        return CreatableTopic(
            name=self.name,
            num_partitions=config.integer(f"{self.prefix}.num.partitions"),
            replication_factor=config.integer(f"{self.prefix}.replication.factor"),
            configs=tuple(
                CreatableTopicConfig(name=name, value=value) for name, value in self.configs(config).items()
            ),
        )


GROUP_TOPIC = InternalTopic(
    GROUP_METADATA_TOPIC,
    "offsets.topic",
    lambda config: {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
    },
)
TRANSACTION_TOPIC = InternalTopic(
    TRANSACTION_STATE_TOPIC,
    "transaction.state.log",
    lambda config: {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
        "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    },
)
SHARE_TOPIC = InternalTopic(
    SHARE_STATE_TOPIC,
    "share.coordinator.state.topic",
    lambda config: {
        "compression.type": "producer",
        "cleanup.policy": "delete",
        "min.insync.replicas": str(config.integer("share.coordinator.state.topic.min.isr")),
        "segment.bytes": str(config.integer("share.coordinator.state.topic.segment.bytes")),
        # Old records are deleted when a snapshot replaces them, never because of their age.
        "retention.ms": "-1",
    },
)
INTERNAL = {topic.name: topic for topic in (GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)}
