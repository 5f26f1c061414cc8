"""Creating topics that a client asked for and that do not exist (auto.create.topics.enable).

The request goes to the controller in the background. Each topic is asked for once at a time, however many clients ask.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcli.config.broker import BrokerConfig
from kcli.controller.topics import DEFAULT
from kcli.model import topic_names
from kcli.protocol.messages.create_topics import CreatableTopic
from kcli.server.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC, InternalTopic
from kcli.server.requests.context import RequestContext

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
