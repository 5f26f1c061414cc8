"""The throttles of a reassignment: the throttled replicas of topics, and the rates of brokers (KIP-73, KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.configs import AlterConfig
from kcli.client.admin.reassignments import Reassignment
from kcli.client.reassign.assignment import Assignment
from kcli.errors import KafkaError
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.topic_partition import TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_THROTTLES = frozenset({LEADER_RATE, FOLLOWER_RATE, LEADER_REPLICAS, FOLLOWER_REPLICAS})
_DYNAMIC = frozenset({ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG})


@dataclass(frozen=True, slots=True)
class Move:
    """The move of a partition: the brokers that send its records, and the brokers that receive these records."""

    sources: frozenset[int]
    destinations: frozenset[int]


def moves_of(
    running: Mapping[TopicPartition, Reassignment], proposed: Assignment, current: Assignment
) -> dict[TopicPartition, Move]:
    """Returns the moves that are in progress after the proposed moves have started. If a partition is already moving,
    the sources of its move are the brokers that send its records now.
    """
    moves = {
        partition: Move(
            frozenset(reassignment.replicas) - frozenset(reassignment.adding), frozenset(reassignment.adding)
        )
        for partition, reassignment in running.items()
    }
    for partition, replicas in proposed.items():
        sources = moves[partition].sources if partition in moves else frozenset(current.get(partition, ()))
        moves[partition] = Move(sources, frozenset(replicas) - sources)
    return moves


async def limit_moves(client: AdminClient, moves: Mapping[TopicPartition, Move], rate: int) -> None:
    """Sets the throttle of moves between brokers. Raises KafkaError if the cluster refuses it."""
    topics = sorted({topic for topic, _ in moves})
    await _alter(
        client,
        {
            ConfigResource(ConfigResourceType.TOPIC, topic): [
                AlterConfig(name=LEADER_REPLICAS, value=_replicas(topic, moves, destinations=False)),
                AlterConfig(name=FOLLOWER_REPLICAS, value=_replicas(topic, moves, destinations=True)),
            ]
            for topic in topics
        },
    )
    brokers = sorted({broker for move in moves.values() for broker in move.sources | move.destinations})
    await _alter(
        client,
        {
            _broker(broker): [
                AlterConfig(name=LEADER_RATE, value=str(rate)),
                AlterConfig(name=FOLLOWER_RATE, value=str(rate)),
            ]
            for broker in brokers
        },
    )


async def limit_log_dirs(client: AdminClient, brokers: Iterable[int], rate: int) -> None:
    """Sets the throttle of moves between log directories. Raises KafkaError if the cluster refuses it."""
    await _alter(
        client,
        {
            _broker(broker): [AlterConfig(name=LOG_DIR_RATE, value=str(rate))]
            for broker in sorted(set(brokers))
        },
    )


async def throttles_of(
    client: AdminClient, brokers: Iterable[int], topics: Iterable[str]
) -> dict[ConfigResource, list[str]]:
    """Returns the names of the throttles between brokers that are set on these brokers and topics. Raises
    KafkaError."""
    resources = [_broker(broker) for broker in brokers]
    resources += [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    throttles: dict[ConfigResource, list[str]] = {}
    for resource, settings in (await client.describe_configs(resources)).items() if resources else ():
        if isinstance(settings, KafkaError):
            raise settings
        names = [
            setting.name for setting in settings if setting.name in _THROTTLES and setting.source in _DYNAMIC
        ]
        if names:
            throttles[resource] = names
    return throttles


async def clear_brokers(client: AdminClient, brokers: Iterable[int]) -> None:
    """Removes all throttle rates of brokers. Raises KafkaError if the cluster refuses it."""
    await _alter(
        client,
        {_broker(broker): _deleted(LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE) for broker in brokers},
    )


async def clear_broker_moves(client: AdminClient, broker: int) -> None:
    """Removes the throttle of moves between brokers from one broker. Raises KafkaError if the broker refuses it."""
    await _alter(client, {_broker(broker): _deleted(LEADER_RATE, FOLLOWER_RATE)})


async def clear_topics(client: AdminClient, topics: Iterable[str]) -> None:
    """Removes the throttled replicas of topics. Raises KafkaError if the cluster refuses it."""
    await _alter(
        client,
        {
            ConfigResource(ConfigResourceType.TOPIC, topic): _deleted(LEADER_REPLICAS, FOLLOWER_REPLICAS)
            for topic in topics
        },
    )


def _broker(broker: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker))


def _deleted(*names: str) -> list[AlterConfig]:
    return [AlterConfig(name=name, value=None, op=ConfigOperation.DELETE) for name in names]


def _replicas(topic: str, moves: Mapping[TopicPartition, Move], *, destinations: bool) -> str:
    """Returns the throttled replicas as `partition:broker,…`, sorted as text, as Kafka's tool writes them."""
    return ",".join(
        sorted(
            f"{number}:{broker}"
            for (name, number), move in moves.items()
            if name == topic
            for broker in (move.destinations if destinations else move.sources)
        )
    )


async def _alter(client: AdminClient, changes: Mapping[ConfigResource, Iterable[AlterConfig]]) -> None:
    if not changes:
        return
    for error in (await client.incremental_alter_configs(changes)).values():
        if error is not None:
            raise error
