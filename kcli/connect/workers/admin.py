"""Admin calls for connectors and tasks. Each call has a client of its own, because the calls are rare."""

from __future__ import annotations

from collections.abc import Mapping

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.topics import NewTopic
from kcli.client.config import client_config
from kcli.errors import ErrorCode, KafkaError
from kcli.formats.connect.errors import ConnectException


def admin_client(properties: Mapping[str, str]) -> AdminClient:
    return AdminClient(client_config(properties))


async def topic_exists(properties: Mapping[str, str], body: object) -> bool:
    """Answers a task. Raises KafkaError."""
    match body:
        case {"topic": str(topic)}:
            async with admin_client(properties) as client:
                (described,) = (await client.describe_topics([topic])).values()
            if not isinstance(described, KafkaError):
                return True
            if described.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            raise described
    raise ConnectException("a request without a topic")


async def create_topic(properties: Mapping[str, str], body: object) -> None:
    """Creates a topic for a task. Raises KafkaError, also if the topic exists."""
    match body:
        case {
            "topic": str(name),
            "partitions": int(partitions),
            "replication_factor": int(replicas),
            "configs": dict(configs),
        }:
            topic = NewTopic(name=name, partitions=partitions, replication_factor=replicas, configs=configs)
            async with admin_client(properties) as client:
                (error,) = (await client.create_topics([topic])).values()
            if error is not None:
                raise error
            return
    raise ConnectException("a request without a topic")
