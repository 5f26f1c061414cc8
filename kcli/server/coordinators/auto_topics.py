"""Creating topics that a client asked for and that do not exist (auto.create.topics.enable).

The request goes to the controller in the background. Each topic is asked for once at a time, however many clients ask.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kcli.config.broker import BrokerConfig
from kcli.controller.topics import DEFAULT
from kcli.errors import ErrorCode, KafkaError
from kcli.model import topic_names
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.server.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC, InternalTopic
from kcli.server.requests.context import RequestContext

_log = logging.getLogger("kcli.server.AutoTopicCreation")

CREATE_TIMEOUT_MS = 30_000
"""The time that a request between brokers may take (request.timeout.ms)."""

SHARE_TOPIC = InternalTopic(
    topic_names.SHARE_STATE_TOPIC,
    "share.coordinator.state.topic",
    lambda config: {
        "compression.type": "producer",
        "cleanup.policy": "delete",
        "min.insync.replicas": str(config.integer("share.coordinator.state.topic.min.isr")),
        "segment.bytes": str(config.integer("share.coordinator.state.topic.segment.bytes")),
        # Old state is deleted up to what snapshots make superfluous, never by its age.
        "retention.ms": "-1",
    },
)
_INTERNAL = {topic.name: topic for topic in (GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)}


def create_missing(context: RequestContext, names: Iterable[str]) -> None:
    """Has the controller create what may be created under these names; refusals go to the log."""
    config = context.broker.config
    topics = [_creation(config, name) for name in names if topic_names.is_valid(name)]
    if topics:
        context.broker.quorum.create_in_background(topics, context)


def _creation(config: BrokerConfig, name: str) -> CreatableTopic:
    """Internal topics have settings of their own; others get this broker's where its file has any, else the
    controller's.
    """
    internal = _INTERNAL.get(name)
    if internal is not None:
        return internal.creation(config)
    partitions = config.integer("num.partitions") if config.is_set("num.partitions") else DEFAULT
    replicas = DEFAULT
    if config.is_set("default.replication.factor"):
        replicas = config.integer("default.replication.factor")
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)


async def create(context: RequestContext, topic: InternalTopic) -> bool:
    """Has the controller create an internal topic; False, with the reason in the log, if it is refused."""
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
