"""Creates the internal topics of the connectors: one partition, compacted."""

from __future__ import annotations

import logging

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.errors import (
    ClusterAuthorizationException,
    TopicAuthorizationException,
    TopicExistsException,
    UnsupportedVersionException,
)
from kcli.formats.connect.errors import ConnectException

_log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorUtils")

_USABLE = (TopicAuthorizationException, ClusterAuthorizationException, UnsupportedVersionException)
"""The errors after which the topic may exist all the same."""


async def create_internal_topic(client: AdminClient, topic: str, replication_factor: int) -> None:
    """Creates a topic if it is missing. Raises ConnectException."""
    new = NewTopic(
        name=topic,
        partitions=1,
        replication_factor=replication_factor,
        configs={"cleanup.policy": "compact"},
    )
    results = await client.create_topics([new])
    error = results[topic]
    if error is None:
        _log.info("Created topic '%s'", topic)
    elif isinstance(error, _USABLE):
        _log.debug("The topic '%s' cannot be created: %s. It may exist.", topic, error)
    elif not isinstance(error, TopicExistsException):
        raise ConnectException(f"Error while attempting to create/find topic '{topic}'") from error
