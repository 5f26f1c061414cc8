"""Admin calls about the metadata quorum (KIP-836, KIP-853)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.client import Destination, raise_for
from kcli.errors import KafkaError
from kcli.model.addresses import Address
from kcli.model.ids import NO_LEADER
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client
    from kcli.protocol.messages.describe_quorum import ReplicaState


ACTIVE_CONTROLLER_SECONDS = 2.0
"""The longest wait for the id of the active controller. If there is no active controller, brokers answer much later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """The position of a node in the metadata log. Times are in milliseconds, or None if unknown."""

    id: int
    directory_id: uuid.UUID | None
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of a controller."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum as its leader sees it. `endpoints` has the endpoints of each voter by id."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: dict[int, tuple[Endpoint, ...]]


async def describe_quorum(client: Client) -> QuorumDescription:
    """Returns the leader of the metadata log, and the position of each replica in that log."""
    from kcli.protocol.messages import describe_quorum as messages

    request = messages.DescribeQuorumRequest(
        topics=(
            messages.RequestTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=(messages.RequestPartitionData(partition_index=0),),
            ),
        )
    )

    async def attempt() -> QuorumDescription:
        response = await client.send(request, ApiKey.DESCRIBE_QUORUM)
        raise_for(response.error_code, response.error_message)
        ((partition,),) = (topic.partitions for topic in response.topics)
        raise_for(partition.error_code, partition.error_message)
        return QuorumDescription(
            leader_id=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            high_watermark=partition.high_watermark,
            voters=tuple(map(_replica, partition.current_voters)),
            observers=tuple(map(_replica, partition.observers)),
            endpoints={
                node.node_id: tuple(
                    Endpoint(listener.name, listener.host, listener.port) for listener in node.listeners
                )
                for node in response.nodes
            },
        )

    return await client.call("describeMetadataQuorum", attempt)


async def active_controller(client: Client) -> int:
    """Returns the id of the active controller, or NO_LEADER if the request fails or takes too long.

    Metadata and DescribeCluster do not return this id. Their controller id is a random broker, which forwards requests
    to the active controller.
    """
    try:
        async with asyncio.timeout(ACTIVE_CONTROLLER_SECONDS):
            return (await describe_quorum(client)).leader_id
    except (KafkaError, TimeoutError):
        return NO_LEADER


async def add_voter(
    client: Client, voter_id: int, directory_id: uuid.UUID, endpoints: Iterable[Endpoint]
) -> None:
    """Makes a controller a voter. Raises DuplicateVoterException if the controller is a voter already."""
    from kcli.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener

    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=client.config.default_api_timeout_ms,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=tuple(
            Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port) for endpoint in endpoints
        ),
    )

    async def attempt() -> None:
        response = await client.send(request, ApiKey.ADD_RAFT_VOTER, to=Destination.CONTROLLER)
        raise_for(response.error_code, response.error_message)

    await client.call("addRaftVoter", attempt)


async def remove_voter(client: Client, voter_id: int, directory_id: uuid.UUID) -> None:
    """Removes a voter. Raises VoterNotFoundException if the controller is not a voter."""
    from kcli.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)

    async def attempt() -> None:
        response = await client.send(request, ApiKey.REMOVE_RAFT_VOTER, to=Destination.CONTROLLER)
        raise_for(response.error_code, response.error_message)

    await client.call("removeRaftVoter", attempt)


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        id=state.replica_id,
        directory_id=state.replica_directory_id,
        log_end_offset=state.log_end_offset,
        last_fetch_ms=state.last_fetch_timestamp if state.last_fetch_timestamp >= 0 else None,
        last_caught_up_ms=state.last_caught_up_timestamp if state.last_caught_up_timestamp >= 0 else None,
    )
