"""The beans of each partition: kafka.cluster:type=Partition."""

from __future__ import annotations

from kcli.server.beans.bean import gauges
from kcli.server.beans.replica_beans import image_of, is_under_replicated
from kcli.server.beans.sources import CLUSTER, Beans, BrokerSources
from kcli.server.metrics.meters import Attributes
from kcli.server.partitions.leader_partition import LeaderPartition


def partition_beans(broker: BrokerSources) -> Beans:
    for replica in (*broker.replicas, *broker.replicas.followed):
        counts = _isr_counts(broker, replica) if isinstance(replica, LeaderPartition) else _NOT_LED
        log = replica.log
        lag = max(log.high_watermark - log.last_stable_offset, 0)
        values: Attributes = {**counts, "LastStableOffsetLag": lag}
        yield gauges(CLUSTER, "Partition", values, topic=replica.topic, partition=str(replica.partition))


def _isr_counts(broker: BrokerSources, leader: LeaderPartition) -> dict[str, int]:
    state = leader.state
    return {
        "AtMinIsr": int(len(state.isr.members) == state.isr.required),
        "InSyncReplicasCount": len(state.isr.members),
        "ReplicasCount": len(state.replicas),
        "UnderMinIsr": int(not state.isr.is_sufficient),
        "UnderReplicated": int(is_under_replicated(state, image_of(broker, leader))),
    }


# Only the leader knows these counts. In Kafka they are 0 on other brokers.
_NOT_LED = dict.fromkeys(
    ("AtMinIsr", "InSyncReplicasCount", "ReplicasCount", "UnderMinIsr", "UnderReplicated"), 0
)
