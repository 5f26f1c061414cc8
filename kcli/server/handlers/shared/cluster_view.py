"""The cluster as a client on one listener sees it: its live brokers and offline replicas."""

from __future__ import annotations

from dataclasses import dataclass

from kcli.controller.election import directory_online
from kcli.errors import ErrorCode
from kcli.metadata.image import BrokerRegistration, Endpoint, MetadataImage, PartitionImage
from kcli.model.ids import NO_LEADER
from kcli.runtime.rng import Rng


def alive_brokers(image: MetadataImage, listener: str) -> list[tuple[BrokerRegistration, Endpoint]]:
    """The unfenced brokers with their endpoint on this listener, by id."""
    alive = []
    for _, broker in sorted(image.brokers.items()):
        endpoint = broker.endpoints.get(listener)
        if endpoint is not None and not broker.fenced:
            alive.append((broker, endpoint))
    return alive


def random_alive_broker(image: MetadataImage, rng: Rng) -> int:
    """The id of a live broker. Clients use this broker as the controller, because every broker forwards requests to the
    controller (KIP-590). -1 if no broker is alive.
    """
    alive = [broker.id for broker in image.brokers.values() if not broker.fenced]
    return alive[rng.randrange(len(alive))] if alive else NO_LEADER


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition as a client on one listener sees it. `error_code` is not NONE if no leader is available on this
    listener.
    """

    error_code: ErrorCode
    leader_id: int
    offline_replicas: tuple[int, ...]


def view_partition(
    image: MetadataImage, partition: PartitionImage, listener: str, *, no_listener: ErrorCode
) -> PartitionView:
    """The view of a partition through a listener. `no_listener` is the error if the leader is alive but does not have
    this listener.
    """
    offline = tuple(
        replica for replica in partition.replicas if _is_offline(image, partition, replica, listener)
    )
    leader = image.brokers.get(partition.leader)
    if leader is None:
        return PartitionView(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, offline)
    if listener not in leader.endpoints:
        return PartitionView(no_listener, NO_LEADER, offline)
    return PartitionView(ErrorCode.NONE, leader.id, offline)


def _is_offline(image: MetadataImage, partition: PartitionImage, replica: int, listener: str) -> bool:
    broker = image.brokers.get(replica)
    return (
        broker is None
        or broker.fenced
        or listener not in broker.endpoints
        or not directory_online(broker, partition.directory(replica))
    )
