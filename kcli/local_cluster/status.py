"""The present status of a cluster on one machine, from its processes and from the answers of its servers."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.cluster import ClusterDescription
from kcli.client.admin.quorum import QuorumDescription, QuorumReplica
from kcli.client.admin.topics import PartitionDescription, TopicDescription
from kcli.client.config import client_config
from kcli.errors import KcliError
from kcli.local_cluster.directory import ClusterNode, LocalCluster
from kcli.local_cluster.node_process import last_start_is_over

ANSWER_LIMIT_MS = 3000
"""A node that is ready answers in milliseconds, also on a busy machine. A longer wait means that it is starting, or
that its process hangs or is paused."""
RUNNING, STARTING, NO_ANSWER, DOWN = "running", "starting", "no answer", "down"
ACTIVE, FENCED, UNREGISTERED = "active", "fenced", "unregistered"
LEADER, VOTER, OBSERVER = "leader", "voter", "observer"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node. A value of None means that no server reported it, or that the node does not have the role.

    `leads` is the number of partitions that the node leads. `under_replicated` is the number of these
    partitions with a replica that is not in sync. A partition without a leader counts for the node with its
    first replica.
    """

    node: int
    state: str
    pid: int | None
    address: str | None
    controller_port: int | None
    quorum: str | None = None
    broker: str | None = None
    rack: str | None = None
    leads: int | None = None
    under_replicated: int | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """The answers of the servers. None means that no server answered."""

    brokers: ClusterDescription | None = None
    quorum: QuorumDescription | None = None
    partitions: Sequence[PartitionDescription] | None = None
    answering: frozenset[int] = field(default_factory=frozenset)


async def cluster_status(cluster: LocalCluster) -> list[NodeStatus]:
    """Returns the status of each node. Asks all nodes at the same time, each for a limited time."""
    pids = {node.node_id: node.pid for node in cluster.nodes}
    alive = [node for node in cluster.nodes if pids[node.node_id] is not None and node.config.is_broker]
    reported = await _ask(alive)
    return [node_status(node, pids[node.node_id], reported) for node in cluster.nodes]


async def _ask(nodes: Sequence[ClusterNode]) -> Reported:
    answers = await asyncio.gather(*(_described(node.address) for node in nodes))
    answering = [node for node, answer in zip(nodes, answers, strict=True) if answer is not None]
    if not answering:
        return Reported()
    async with _client(",".join(node.address for node in answering)) as client:
        return Reported(
            brokers=next(answer for answer in answers if answer is not None),
            quorum=await _quorum(client),
            partitions=await _partitions(client),
            answering=frozenset(node.node_id for node in answering),
        )


def _client(servers: str) -> AdminClient:
    return AdminClient(client_config({}, bootstrap_servers=servers, api_timeout_ms=ANSWER_LIMIT_MS))


async def _described(address: str) -> ClusterDescription | None:
    try:
        async with _client(address) as client:
            return await client.describe_cluster(include_fenced=True)
    except (KcliError, OSError):
        return None


async def _quorum(client: AdminClient) -> QuorumDescription | None:
    try:
        return await client.describe_quorum()
    except (KcliError, OSError):  # without a majority, no leader answers
        return None


async def _partitions(client: AdminClient) -> Sequence[PartitionDescription] | None:
    try:
        topics = await client.describe_topics([topic.name for topic in await client.list_topics()])
    except (KcliError, OSError):
        return None
    return [
        partition
        for topic in topics.values()
        if isinstance(topic, TopicDescription)
        for partition in topic.partitions
    ]


def node_status(node: ClusterNode, pid: int | None, reported: Reported) -> NodeStatus:
    """Returns the status of a node from its process and the answers of the servers."""
    config = node.config
    leads, missing = _counts(reported.partitions)
    is_known = config.is_broker and reported.partitions is not None
    return NodeStatus(
        node=node.node_id,
        state=_state(node, pid, reported),
        pid=pid,
        address=node.address if config.is_broker else None,
        controller_port=config.controller_listeners[0].port if config.is_controller else None,
        quorum=_place_in_quorum(node, reported.quorum),
        broker=_registration(node.node_id, reported.brokers) if config.is_broker else None,
        rack=config.rack,
        leads=leads[node.node_id] if is_known else None,
        under_replicated=missing[node.node_id] if is_known else None,
    )


def _state(node: ClusterNode, pid: int | None, reported: Reported) -> str:
    if pid is None:
        return DOWN
    # A node that is only a controller is not asked, because it serves no clients.
    if node.node_id in reported.answering or not node.config.is_broker:
        return RUNNING
    return NO_ANSWER if last_start_is_over(node.output_file) else STARTING


def _counts(partitions: Sequence[PartitionDescription] | None) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """Returns for each node the number of partitions that it leads, and how many of these have a replica that is not in
    sync.
    """
    leads: Counter[int] = Counter()
    missing: Counter[int] = Counter()
    for partition in partitions or ():
        if partition.leader is not None:
            leads[partition.leader] += 1
        if len(partition.isr) < len(partition.replicas) or partition.leader is None:
            missing[partition.replicas[0] if partition.leader is None else partition.leader] += 1
    return leads, missing


def _place_in_quorum(node: ClusterNode, quorum: QuorumDescription | None) -> str | None:
    if quorum is None:
        return None
    directory_id = node.directory_id
    if _is_among(quorum.voters, node.node_id, directory_id):
        return LEADER if node.node_id == quorum.leader_id else VOTER
    return OBSERVER if _is_among(quorum.observers, node.node_id, directory_id) else None


def _is_among(replicas: Sequence[QuorumReplica], node_id: int, directory_id: uuid.UUID | None) -> bool:
    """Whether a replica has the node's id and directory id. A voter from the configuration (kraft.version 0) has no
    directory id. A node with a new disk is another replica than before (KIP-853).
    """
    return any(replica.id == node_id and replica.directory_id in (None, directory_id) for replica in replicas)


def _registration(node_id: int, brokers: ClusterDescription | None) -> str | None:
    if brokers is None:
        return None
    registration = next((broker for broker in brokers.nodes if broker.id == node_id), None)
    if registration is None:
        return UNREGISTERED
    return FENCED if registration.is_fenced else ACTIVE
