"""The beans of a broker, with the object names and attributes of Kafka.

Some beans have no meaning in a broker with one event loop and are left out: request and response queue times, further
network threads. The beans for the idle ratio of Kafka's handler and network threads have the idle
ratio of the event loop. It is the share of the time in which the thread of the loop used no CPU.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kcli import KAFKA_VERSION
from kcli.errors import KafkaError
from kcli.metadata.image import MetadataImage, PartitionImage
from kcli.model.ids import NO_LEADER
from kcli.protocol.wire.api import ApiKey
from kcli.replica.leader import LeaderState
from kcli.runtime.process import process_figures
from kcli.server.beans.bean import Bean, bean, gauge, histogram, meter
from kcli.server.beans.fetcher_beans import fetcher_beans
from kcli.server.beans.lag_beans import lag_beans
from kcli.server.handlers.ports import BrokerPorts, NodePorts
from kcli.server.metrics.meters import Attributes, Meter
from kcli.server.metrics.metrics import listener_counts
from kcli.server.metrics.requests import ApiTimes
from kcli.server.network.listener import SocketServer
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.log_cleaning import LogCleaning
from kcli.server.partitions.parked import ParkedFetch
from kcli.storage.store.store import LogStore

SERVER, NETWORK, CONTROLLER, LOG, CLUSTER = (
    "kafka.server",
    "kafka.network",
    "kafka.controller",
    "kafka.log",
    "kafka.cluster",
)
GROUP = "kafka.coordinator.group"
CLASSIC, CONSUMER = "classic", "consumer"
_CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
# The domain of beans that Kafka does not have, for a process without a JVM.
OWN = "kcli"

# Kafka's values of BrokerState.
_STARTING, _RUNNING = 1, 3

# A field of Traffic -> Kafka's name, the unit, and whether there is also a bean for each topic.
_TRAFFIC: dict[str, tuple[str, str, bool]] = {
    "messages_in": ("MessagesInPerSec", "messages", True),
    "bytes_in": ("BytesInPerSec", "bytes", True),
    "bytes_out": ("BytesOutPerSec", "bytes", True),
    "replication_bytes_in": ("ReplicationBytesInPerSec", "bytes", False),
    "replication_bytes_out": ("ReplicationBytesOutPerSec", "bytes", False),
    "reassignment_bytes_in": ("ReassignmentBytesInPerSec", "bytes", False),
    "bytes_rejected": ("BytesRejectedPerSec", "bytes", True),
    "produces": ("TotalProduceRequestsPerSec", "requests", True),
    "fetches": ("TotalFetchRequestsPerSec", "requests", True),
    "failed_produces": ("FailedProduceRequestsPerSec", "requests", True),
    "failed_fetches": ("FailedFetchRequestsPerSec", "requests", True),
    "corrupt_batches": ("InvalidMessageCrcRecordsPerSec", "requests", False),
}
# A field of Traffic -> the name of the bean of the replica manager, and the unit.
_ISR_CHANGES = {
    "isr_expands": ("IsrExpandsPerSec", "expands"),
    "isr_shrinks": ("IsrShrinksPerSec", "shrinks"),
    "failed_isr_updates": ("FailedIsrUpdatesPerSec", "failedUpdates"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BeanSources:
    """The sources of the beans. In a broker, `ports` are a `BrokerPorts` and `cleaning` is not None."""

    ports: NodePorts
    sockets: SocketServer
    logs: LogStore
    cleaning: LogCleaning | None
    is_ready: Callable[[], bool]


def broker_beans(sources: BeanSources) -> Iterator[Bean]:
    """Yields all beans. Each bean is made when the caller asks for it, so the caller can do other work between two
    beans."""
    for make in (_server, _process, _traffic, _requests, _sockets, _controller, _raft, _log_dirs, _logs):
        yield from make(sources)
    if isinstance(sources.ports, BrokerPorts):
        for make_of_broker in (
            _fetch_sessions,
            replica_beans,
            fetcher_beans,
            _groups,
            lag_beans,
            partition_beans,
        ):
            yield from make_of_broker(sources.ports)
    if sources.cleaning is not None:
        yield from _cleaner(sources, sources.cleaning)


# The process.


def _server(sources: BeanSources) -> Iterator[Bean]:
    metrics = sources.ports.metrics
    yield gauge(SERVER, "KafkaServer", "BrokerState", _RUNNING if sources.is_ready() else _STARTING)
    yield gauge(SERVER, "KafkaServer", "ClusterId", sources.ports.metadata.cluster_id)
    about: Attributes = {"start-time-ms": metrics.started_ms, "version": KAFKA_VERSION}
    yield bean(SERVER, "app-info", about)
    yield bean(SERVER, "app-info", about, id=str(sources.ports.node_id))
    now = metrics.clock.monotonic()
    idle = metrics.loop_idle.attributes("percent", now)
    yield meter(SERVER, "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", idle)
    yield gauge(NETWORK, "SocketServer", "NetworkProcessorAvgIdlePercent", idle["OneMinuteRate"])


def _process(sources: BeanSources) -> Iterator[Bean]:
    figures = process_figures()
    yield bean(
        OWN,
        "Process",
        {
            "AvailableProcessors": figures.processors,
            "MaxFileDescriptorCount": figures.descriptors_max,
            "OpenFileDescriptorCount": figures.open_descriptors,
            "ProcessCpuSeconds": figures.cpu_seconds,
            "ResidentMemoryBytes": figures.resident_bytes,
            "StartTimeMs": sources.ports.metrics.started_ms,
            "TaskCount": len(asyncio.all_tasks()),
            "ThreadCount": figures.threads,
            "VirtualMemoryBytes": figures.virtual_bytes,
        },
    )


# Requests and connections.


def _traffic(sources: BeanSources) -> Iterator[Bean]:
    now = sources.ports.metrics.clock.monotonic()
    for topic, meters in sources.ports.metrics.meters():
        for field, (name, event_type, by_topic) in _TRAFFIC.items():
            if topic is None:
                yield meter(
                    SERVER, "BrokerTopicMetrics", name, _attributes(meters.get(field), event_type, now)
                )
            elif by_topic and field in meters:
                attributes = meters[field].attributes(event_type, now)
                yield meter(SERVER, "BrokerTopicMetrics", name, attributes, topic=topic)
        if topic is None:
            for field, (name, event_type) in _ISR_CHANGES.items():
                yield meter(SERVER, "ReplicaManager", name, _attributes(meters.get(field), event_type, now))


def _attributes(found: Meter | None, event_type: str, now: float) -> Attributes:
    return (found or Meter(now)).attributes(event_type, now)


def _requests(sources: BeanSources) -> Iterator[Bean]:
    requests = sources.ports.metrics.requests
    now = sources.ports.metrics.clock.monotonic()
    for key, times in sorted(requests.apis.items()):
        yield from _of_api(times, times.name, now)
        # Kafka counts fetches of followers separately. If there is only one broker, every fetch comes from a consumer.
        if key == ApiKey.FETCH and len(sources.ports.metadata.brokers) == 1:
            yield from _of_api(times, "FetchConsumer", now)
    connections = list(sources.sockets.connections)
    held_back = sum(connection.held_back_count for connection in connections)
    unanswered = sum(connection.unanswered_count for connection in connections)
    yield gauge(NETWORK, "RequestChannel", "RequestQueueSize", held_back)
    yield gauge(NETWORK, "RequestChannel", "ResponseQueueSize", unanswered)


def _of_api(times: ApiTimes, request: str, now: float) -> Iterator[Bean]:
    for version, of_version in list(times.versions.items()):
        attributes = of_version.meter.attributes("requests", now)
        yield meter(
            NETWORK, "RequestMetrics", "RequestsPerSec", attributes, request=request, version=str(version)
        )
    for code, errors in list(times.error_meters.items()):
        attributes = errors.attributes("requests", now)
        yield meter(NETWORK, "RequestMetrics", "ErrorsPerSec", attributes, request=request, error=code.name)
    for name, observed in (
        ("TotalTimeMs", times.total_ms),
        ("LocalTimeMs", times.local_ms),
        ("RemoteTimeMs", times.remote_ms),
        ("RequestBytes", times.request_bytes),
    ):
        yield histogram(NETWORK, "RequestMetrics", name, observed.attributes(), request=request)


def _sockets(sources: BeanSources) -> Iterator[Bean]:
    for name, listener in sources.sockets.listeners.items():
        attributes: Attributes = {
            "connection-count": len(listener.served),
            "expired-connections-killed-count": listener.logins.expired,
            "successful-authentication-no-reauth-total": listener.logins.succeeded_without_again,
        }
        for what, count in listener_counts(listener).items():
            attributes[f"{what}-rate"] = sources.ports.metrics.listener_rate(listener, what)
            attributes[f"{what}-total"] = count
        yield bean(
            SERVER,
            "socket-server-metrics",
            attributes,
            listener=name,
            networkProcessor="0",
        )


def _fetch_sessions(broker: BrokerPorts) -> Iterator[Bean]:
    sessions = broker.fetch_sessions
    yield gauge(SERVER, "FetchSessionCache", "NumIncrementalFetchSessions", len(sessions))
    partitions = sum(len(session.targets) for session in sessions)
    yield gauge(SERVER, "FetchSessionCache", "NumIncrementalFetchPartitionsCached", partitions)
    yield bean(SERVER, "LeaderReplication", {"byte-rate": broker.leader_quota.bytes_per_second})


# Replicas, and what the controller knows.


def replica_beans(broker: BrokerPorts) -> Iterator[Bean]:
    replicas = broker.replicas
    led = list(replicas)
    states = [leader.state for leader in led]
    images = [_image_of(broker, leader) for leader in led]
    for name, value in (
        ("PartitionCount", len(replicas) + replicas.followed_count),
        ("LeaderCount", len(led)),
        ("UnderReplicatedPartitions", sum(map(_is_under_replicated, states, images))),
        ("UnderMinIsrPartitionCount", sum(not state.isr.is_sufficient for state in states)),
        ("AtMinIsrPartitionCount", sum(len(state.isr.members) == state.isr.required for state in states)),
        ("OfflineReplicaCount", replicas.offline_count),
        ("ReassigningPartitions", sum(bool(image and (image.adding or image.removing)) for image in images)),
        ("ProducerIdCount", sum(len(leader.log.producers.producers) for leader in led)),
    ):
        yield gauge(SERVER, "ReplicaManager", name, value)
    parked = {
        "Produce": sum(len(leader.commits) for leader in led),
        "Fetch": _parked_fetches(broker),
        "DeleteRecords": sum(len(leader.deletions) for leader in led),
    }
    for operation, count in parked.items():
        yield gauge(SERVER, "DelayedOperationPurgatory", "PurgatorySize", count, delayedOperation=operation)


def _parked_fetches(broker: BrokerPorts) -> int:
    """The number of parked fetches. A session watches some partitions for its fetch, which is then not in their
    lists."""
    replicas = (*broker.replicas, *broker.replicas.followed)
    waiters: list[object] = [each for replica in replicas for each in replica.parked_fetches]
    waiters += [session.parked for session in broker.fetch_sessions]
    return len({id(each) for each in waiters if isinstance(each, ParkedFetch) and not each.finished})


def _image_of(broker: BrokerPorts, leader: LeaderPartition) -> PartitionImage | None:
    return broker.metadata.partition(leader.topic, leader.partition)


def _is_under_replicated(state: LeaderState, image: PartitionImage | None) -> bool:
    """Whether the ISR is too small. Replicas that a reassignment adds do not count until it is complete (KIP-455)."""
    adding = () if image is None else image.adding
    return len(state.isr.members) < len(state.replicas) - len(adding)


def _all_partitions(image: MetadataImage) -> Iterator[tuple[str, int, PartitionImage]]:
    for topic in image.topics:
        for number, partition in topic.partitions.items():
            yield topic.name, number, partition


def _controller(sources: BeanSources) -> Iterator[Bean]:
    image = sources.ports.metadata
    partitions = [partition for *_, partition in _all_partitions(image)]
    fenced = sum(registration.fenced for registration in image.brokers.values())
    for name, value in (
        ("ActiveControllerCount", int(sources.ports.quorum.leader_id == sources.ports.node_id)),
        ("ActiveBrokerCount", len(image.brokers) - fenced),
        ("FencedBrokerCount", fenced),
        ("GlobalTopicCount", len(image.topics)),
        ("GlobalPartitionCount", len(partitions)),
        ("OfflinePartitionsCount", sum(partition.leader == NO_LEADER for partition in partitions)),
        (
            "PreferredReplicaImbalanceCount",
            sum(partition.leader != partition.replicas[0] for partition in partitions),
        ),
        ("LastAppliedRecordOffset", image.offset),
        ("LastAppliedRecordTimestamp", image.timestamp_ms),
        ("LastCommittedRecordOffset", sources.ports.quorum.high_watermark - 1),
    ):
        yield gauge(CONTROLLER, "KafkaController", name, value)


def _raft(sources: BeanSources) -> Iterator[Bean]:
    quorum = sources.ports.quorum
    yield bean(
        SERVER,
        "raft-metrics",
        {
            "current-epoch": quorum.epoch,
            "current-leader": quorum.leader_id,
            "current-state": quorum.state,
            "current-vote": -1,
            "high-watermark": quorum.high_watermark,
            "log-end-epoch": quorum.log_epoch,
            "log-end-offset": quorum.log_end_offset,
            "number-of-voters": len(quorum.voters.voters),
        },
    )
    yield bean(
        SERVER,
        "broker-metadata-metrics",
        {
            "last-applied-record-offset": sources.ports.metadata.offset,
            "last-applied-record-timestamp": sources.ports.metadata.timestamp_ms,
        },
    )


# Groups.


def _groups(broker: BrokerPorts) -> Iterator[Bean]:
    try:
        runners = list(broker.groups.runners())
    except KafkaError:
        return  # while groups are being loaded, their count would be wrong
    states: dict[str, Counter[str]] = {CLASSIC: Counter(), CONSUMER: Counter()}
    for runner in runners:
        for group in runner.ask(lambda shard, _: shard.list_groups()):
            protocol = str(getattr(group.group_type, "value", group.group_type)).lower()
            states.setdefault(protocol, Counter())[group.group_state] += 1
    metrics = "group-coordinator-metrics"
    for protocol, counts in states.items():
        yield bean(SERVER, metrics, {"group-count": counts.total()}, protocol=protocol)
        if protocol != CLASSIC:
            for state, count in sorted(counts.items()):
                yield bean(SERVER, metrics, {f"{protocol}-group-count": count}, state=state)
    total = sum(counts.total() for counts in states.values())
    yield gauge(GROUP, "GroupMetadataManager", "NumGroups", total)
    for state in _CLASSIC_STATES:
        yield gauge(GROUP, "GroupMetadataManager", f"NumGroups{state}", states[CLASSIC][state])


# Logs.


def _log_dirs(sources: BeanSources) -> Iterator[Bean]:
    directories = sources.logs.directories
    offline = sum(directory.error is not None for directory in directories)
    yield gauge(LOG, "LogManager", "OfflineLogDirectoryCount", offline)
    for directory in directories:
        yield gauge(
            LOG,
            "LogManager",
            "LogDirectoryOffline",
            int(directory.error is not None),
            logDirectory=directory.path,
        )


def _cleaner(sources: BeanSources, cleaning: LogCleaning) -> Iterator[Bean]:
    uncleanable = Counter(log.directory.path for log in cleaning.uncleanable())
    for directory in sources.logs.directories:
        yield gauge(
            LOG,
            "LogCleanerManager",
            "uncleanable-partitions-count",
            uncleanable[directory.path],
            logDirectory=directory.path,
        )
    since = sources.ports.clock.now_ms() - cleaning.last_run_ms if cleaning.last_run_ms else 0
    yield gauge(LOG, "LogCleanerManager", "time-since-last-run-ms", since)
    last = cleaning.last_result
    kept = 100 * last.bytes_after // last.bytes_before if last is not None and last.bytes_before else 0
    yield gauge(LOG, "LogCleaner", "cleaner-recopy-percent", kept)


def _logs(sources: BeanSources) -> Iterator[Bean]:
    for (topic, partition), log in list(sources.logs.logs.items()):
        for name, value in (
            ("LogEndOffset", log.log_end_offset),
            ("LogStartOffset", log.log_start_offset),
            ("NumLogSegments", len(log.segments)),
            ("Size", log.size_bytes),
        ):
            yield gauge(LOG, "Log", name, value, topic=topic, partition=str(partition))


def partition_beans(broker: BrokerPorts) -> Iterator[Bean]:
    for replica in (*broker.replicas, *broker.replicas.followed):
        counts = _isr_counts(broker, replica) if isinstance(replica, LeaderPartition) else _NOT_LED
        log = replica.log
        lag = max(log.high_watermark - log.last_stable_offset, 0)
        for name, value in (*counts.items(), ("LastStableOffsetLag", lag)):
            yield gauge(
                CLUSTER, "Partition", name, value, topic=replica.topic, partition=str(replica.partition)
            )


def _isr_counts(broker: BrokerPorts, leader: LeaderPartition) -> dict[str, int]:
    state = leader.state
    return {
        "AtMinIsr": int(len(state.isr.members) == state.isr.required),
        "InSyncReplicasCount": len(state.isr.members),
        "ReplicasCount": len(state.replicas),
        "UnderMinIsr": int(not state.isr.is_sufficient),
        "UnderReplicated": int(_is_under_replicated(state, _image_of(broker, leader))),
    }


# Only the leader knows these counts. In Kafka they are 0 on other brokers.
_NOT_LED = dict.fromkeys(
    ("AtMinIsr", "InSyncReplicasCount", "ReplicasCount", "UnderMinIsr", "UnderReplicated"), 0
)
