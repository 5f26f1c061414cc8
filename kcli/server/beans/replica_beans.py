"""The beans with totals of all replicas on this broker: kafka.server:type=ReplicaManager."""

from __future__ import annotations

from collections import Counter

from kcli.metadata.image import PartitionImage
from kcli.replica.leader import LeaderState
from kcli.server.beans.bean import gauge
from kcli.server.beans.sources import SERVER, STEPS_PER_PAUSE, Beans, BrokerSources
from kcli.server.partitions.leader_partition import LeaderPartition

LATE_TRANSACTION_MS = 300_000
"""A transaction is late if it is older than transaction.max.timeout.ms plus this time, as in Kafka."""


def replica_beans(broker: BrokerSources) -> Beans:
    replicas = broker.replicas
    counts: Counter[str] = Counter()
    longest_ms = broker.config.integer("transaction.max.timeout.ms") + LATE_TRANSACTION_MS
    late_before_ms = broker.clock.now_ms() - longest_ms
    for number, leader in enumerate(list(replicas)):
        _count(broker, leader, counts, late_before_ms)
        if number % STEPS_PER_PAUSE == 0:
            yield None
    for name, value in (
        ("PartitionCount", len(replicas) + replicas.followed_count),
        ("LeaderCount", len(replicas)),
        ("OfflineReplicaCount", replicas.offline_count),
        *((name, counts[name]) for name in _COUNTED),
    ):
        yield gauge(SERVER, "ReplicaManager", name, value)


_COUNTED = (
    "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount",
    "AtMinIsrPartitionCount",
    "ReassigningPartitions",
    "ProducerIdCount",
    "PartitionsWithLateTransactionsCount",
)


def _count(broker: BrokerSources, leader: LeaderPartition, counts: Counter[str], late_before_ms: int) -> None:
    state, producers = leader.state, leader.log.producers.state
    image = image_of(broker, leader)
    counts["UnderReplicatedPartitions"] += is_under_replicated(state, image)
    counts["UnderMinIsrPartitionCount"] += not state.isr.is_sufficient
    counts["AtMinIsrPartitionCount"] += len(state.isr.members) == state.isr.required
    counts["ReassigningPartitions"] += image is not None and bool(image.adding or image.removing)
    counts["ProducerIdCount"] += len(producers)
    counts["PartitionsWithLateTransactionsCount"] += producers.has_open_transaction_before(late_before_ms)


def image_of(broker: BrokerSources, leader: LeaderPartition) -> PartitionImage | None:
    return broker.metadata.partition(leader.topic, leader.partition)


def is_under_replicated(state: LeaderState, image: PartitionImage | None) -> bool:
    """Whether the ISR has fewer members than the partition has replicas. Replicas that a reassignment adds do not count
    until the reassignment is complete (KIP-455).
    """
    adding = () if image is None else image.adding
    return len(state.isr.members) < len(state.replicas) - len(adding)
