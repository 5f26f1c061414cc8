"""The brokers and topics of a cluster, and the number of partitions on each broker. Several pages share these
values."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kcli.client.admin.admin import AdminClient
from kcli.client.client import Node
from kcli.console.cache import Aged
from kcli.console.calls import Call
from kcli.model.ids import NO_LEADER
from kcli.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

OLDER_SECONDS = 50.0
"""While a new answer is loaded, a list may show an answer that is at most this much older than LIST_SECONDS. An answer
about 100,000 partitions takes about a second.
"""

NO_PORT = -1
"""The port of a broker whose address is not known."""

TOPICS_PER_TURN = 200
"""The topics that are counted in one iteration of the event loop: about a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """A topic and the state of its partitions."""

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The brokers, the topics sorted by name, and how many partitions each broker leads and has."""

    cluster_id: str
    controller_id: int
    """The active controller, or NO_LEADER."""
    brokers: tuple[Node, ...]
    """All brokers, also fenced ones."""
    topics: tuple[TopicSummary, ...]
    leaders: Counter[int]
    replicas: Counter[int]
    preferred: Counter[int]
    """The number of partitions whose first replica is on the broker, by broker."""
    out_of_sync: Counter[int]
    """The number of replicas that are not in the ISR of their partition, by broker."""

    @property
    def alive(self) -> tuple[Node, ...]:
        """The brokers that are not fenced."""
        return tuple(node for node in self.brokers if not node.is_fenced)


async def cached_topology(call: Call) -> Aged[Topology]:
    """The topology, at most some seconds old."""
    return await call.cached("topology", lambda: _load(call), older_seconds=OLDER_SECONDS)


async def all_topics(admin: AdminClient) -> MetadataResponse:
    """All topics with their partitions, as the cluster sends them."""

    async def attempt() -> MetadataResponse:
        return await admin.metadata(None)

    return await admin.call("listTopics", attempt)


async def _load(call: Call) -> Topology:
    cluster, controller = await asyncio.gather(
        call.admin.describe_registered(), call.admin.active_controller()
    )
    response = await all_topics(call.admin)
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    preferred: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    topics = []
    for number, topic in enumerate(response.topics):
        topics.append(_summary(topic))
        for partition in topic.partitions:
            leaders[partition.leader_id] += 1
            for replica in partition.replica_nodes:
                replicas[replica] += 1
            if partition.replica_nodes:
                preferred[partition.replica_nodes[0]] += 1
            if len(partition.isr_nodes) < len(partition.replica_nodes):
                out_of_sync.update(set(partition.replica_nodes).difference(partition.isr_nodes))
        if number % TOPICS_PER_TURN == 0:
            await asyncio.sleep(0)
    return Topology(
        cluster_id=cluster.cluster_id,
        controller_id=controller,
        brokers=_with_absent(cluster.nodes, replicas),
        topics=tuple(sorted(topics, key=lambda topic: topic.name)),
        leaders=leaders,
        replicas=replicas,
        preferred=preferred,
        out_of_sync=out_of_sync,
    )


def _with_absent(nodes: tuple[Node, ...], replicas: Iterable[int]) -> tuple[Node, ...]:
    """All brokers, sorted by id. A broker with replicas that is not in `nodes` is added as fenced, because Kafka before
    4.0 lists no fenced brokers."""
    absent = set(replicas).difference(node.id for node in nodes)
    all_nodes = [*nodes, *(Node(broker, "", NO_PORT, is_fenced=True) for broker in absent)]
    return tuple(sorted(all_nodes, key=lambda node: node.id))


def _summary(topic: MetadataResponseTopic) -> TopicSummary:
    partitions = topic.partitions
    return TopicSummary(
        name=topic.name or "",
        is_internal=topic.is_internal,
        partitions=len(partitions),
        replication_factor=max((len(partition.replica_nodes) for partition in partitions), default=0),
        under_replicated=sum(
            len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions
        ),
        offline=sum(partition.leader_id == NO_LEADER for partition in partitions),
        error=topic.error_code.name if topic.error_code else None,
    )
