"""The beans of the controller role: kafka.controller:type=KafkaController and the elections."""

from __future__ import annotations

from kcli.metadata.image import BrokerRegistration
from kcli.server.beans.bean import Bean, gauge, histogram, meter
from kcli.server.beans.sources import CONTROLLER, Beans, BeanSources
from kcli.server.quorum.active_controller import session_ms
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.counts import PartitionCounts

_TYPE = "KafkaController"

# Kafka's values of BrokerRegistrationState.
_FENCED, _IN_CONTROLLED_SHUTDOWN, _ACTIVE = 10, 20, 30


def controller_beans(sources: BeanSources) -> Beans:
    """Yields the beans of the controller role. A node without this role has no such beans. As in Kafka, each controller
    reports figures of the whole cluster, so a sum over controllers would be wrong.
    """
    role, counts = sources.controller, sources.partition_counts
    if role is None or counts is None:
        return
    yield _gauge("ActiveControllerCount", int(role.is_active))
    yield from _cluster(sources, counts)
    yield from _records(sources)
    yield from _work(sources, role)
    yield from _elections(sources, counts)
    yield from _brokers(sources, role)


def _gauge(name: str, value: int, **labels: str) -> Bean:
    return gauge(CONTROLLER, _TYPE, name, value, **labels)


def _cluster(sources: BeanSources, counts: PartitionCounts) -> Beans:
    image = sources.metadata
    states = [_state(broker) for broker in image.brokers.values()]
    for name, value in (
        ("ActiveBrokerCount", states.count(_ACTIVE)),
        ("FencedBrokerCount", states.count(_FENCED)),
        ("ControlledShutdownBrokerCount", states.count(_IN_CONTROLLED_SHUTDOWN)),
        ("GlobalTopicCount", len(image.topics)),
        ("GlobalPartitionCount", counts.partitions),
        ("OfflinePartitionsCount", counts.leaderless),
        ("PreferredReplicaImbalanceCount", counts.not_preferred),
        ("MetadataErrorCount", sources.loader.apply_errors),
        ("IgnoredStaticVoters", int(ignores_static_voters(sources))),
    ):
        yield _gauge(name, value)


def ignores_static_voters(sources: BeanSources) -> bool:
    """Whether controller.quorum.voters is set but has no effect, because the quorum stores its voters in the metadata
    log (KIP-853)."""
    return bool(sources.config.quorum_voters) and sources.quorum.kraft_version > 0


def _state(broker: BrokerRegistration) -> int:
    if broker.fenced:
        return _FENCED
    return _ACTIVE if broker.active else _IN_CONTROLLED_SHUTDOWN


def _records(sources: BeanSources) -> Beans:
    image = sources.metadata
    yield _gauge("LastAppliedRecordOffset", image.offset)
    yield _gauge("LastAppliedRecordTimestamp", image.timestamp_ms)
    yield _gauge("LastAppliedRecordLagMs", applied_lag_ms(sources))
    yield _gauge("LastCommittedRecordOffset", sources.quorum.high_watermark - 1)


def applied_lag_ms(sources: BeanSources) -> int:
    """The age of the newest metadata that this node has applied. 0 on the active controller, as in Kafka."""
    role = sources.controller
    if role is not None and role.is_active:
        return 0
    return max(sources.clock.now_ms() - sources.metadata.timestamp_ms, 0)


def _work(sources: BeanSources, role: ControllerRole) -> Beans:
    counts = role.counts
    yield _gauge("TimedOutBrokerHeartbeatCount", counts.timed_out_heartbeats)
    yield _gauge("EventQueueOperationsStartedCount", counts.operations_started)
    yield _gauge("EventQueueOperationsTimedOutCount", counts.operations_timed_out)
    yield _gauge("NewActiveControllersCount", sources.raft.driver.counts.new_leaders)
    for name, observed in (
        ("EventQueueTimeMs", role.times.queued_ms),
        ("EventQueueProcessingTimeMs", role.times.processed_ms),
    ):
        attributes = sources.metrics.watches.values(observed, sources.now).histogram.attributes()
        yield histogram(CONTROLLER, "ControllerEventManager", name, attributes)


def _elections(sources: BeanSources, counts: PartitionCounts) -> Beans:
    elections = counts.elections
    watched = sources.metrics.watches.counts(elections)
    for name, field in (
        ("UncleanLeaderElectionsPerSec", "unclean"),
        ("ElectionFromEligibleLeaderReplicasPerSec", "from_eligible"),
    ):
        attributes = watched.meter(elections, field, "elections", sources.now)
        yield meter(CONTROLLER, "ControllerStats", name, attributes)


def _brokers(sources: BeanSources, role: ControllerRole) -> Beans:
    for broker in list(sources.metadata.brokers.values()):
        label = str(broker.id)
        yield _gauge("BrokerRegistrationState", _state(broker), broker=label)
        if role.active is not None:
            sessions, now_ms = role.active.controller.sessions, session_ms(sources.clock)
            silent_ms = sessions.silent_ms(broker.id, now_ms)
            yield _gauge("TimeSinceLastHeartbeatReceivedMs", silent_ms, broker=label)
