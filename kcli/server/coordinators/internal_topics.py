"""The topics in which brokers keep the state of their coordinators, and how they are configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
)


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """`prefix` begins the broker keys that say how many partitions and replicas it gets."""

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
    "__consumer_offsets",
    "offsets.topic",
    lambda config: {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
    },
)
TRANSACTION_TOPIC = InternalTopic(
    "__transaction_state",
    "transaction.state.log",
    lambda config: {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
        "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
        "unclean.leader.election.enable": "false",
    },
)
