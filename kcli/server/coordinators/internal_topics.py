"""The topics brokers keep their coordinators' state in: how they are configured, and creating one when it is needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.errors import ErrorCode, KafkaError
from kcli.model.topic_names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kcli.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kcli.server.requests.context import RequestContext

_log = logging.getLogger("kcli.server.AutoTopicCreation")

CREATE_TIMEOUT_MS = 30_000
"""As long as a request of our own may take (request.timeout.ms)."""


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


async def create(context: RequestContext, topic: InternalTopic) -> bool:
    """Has the controller create it; False, with the reason in the log, when it would not."""
    creation = topic.creation(context.broker.config)
    request = CreateTopicsRequest(topics=(creation,), timeout_ms=CREATE_TIMEOUT_MS)
    try:
        response = await context.broker.quorum.create_topics(request, context)
    except KafkaError as error:
        _log.error("Topic %s cannot be created: %s", topic.name, error.message)
        return False
    for result in response.topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            _log.error("Topic %s cannot be created: %s", topic.name, result.error_message)
            return False
    return True
