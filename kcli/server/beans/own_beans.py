"""Beans that Kafka does not have, in the domain `kcli`. exposition/own_names.py has the names of their metrics.

Only the active controller reports figures of the whole cluster, and only the leader of a partition reports figures of
the partition. So no figure is counted twice in a sum over all nodes.
"""

from __future__ import annotations

import gc
import platform
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kcli import KAFKA_VERSION
from kcli.metadata.image import BrokerRegistration, MetadataImage, TopicImage
from kcli.server.beans.bean import Bean, Kind, bean
from kcli.server.beans.loop_delay import LoopDelay
from kcli.server.beans.sources import OWN, STEPS_PER_PAUSE, Beans, BeanSources, BrokerSources
from kcli.server.metrics.buckets import Buckets, CountedLater
from kcli.server.metrics.exemplars import Exemplar, Exemplars
from kcli.server.metrics.metrics import Metrics
from kcli.server.partitions.leader_partition import LeaderPartition

SLOW_SECONDS = 1.0
"""A request counts as slow if its local time is longer than this. The value must be one of TIME_LIMITS_S, because the
histograms count requests only between these limits."""

Certificates = Callable[[], Iterable[tuple[str, str, float]]]
"""Returns the listener, the subject and the expiry time (in seconds since 1970) of each certificate of this node."""


@dataclass(frozen=True, slots=True)
class OwnSources:
    """The sources of the beans that Kafka does not have."""

    node: BeanSources
    loop_delay: LoopDelay
    certificates: Certificates


def own_beans(sources: OwnSources) -> Beans:
    """Yields the beans of a node that Kafka does not have."""
    yield from _python()
    yield from _loop(sources.loop_delay)
    yield from _certificates(sources.certificates())
    yield from _requests(sources.node.metrics)
    yield _appends(sources.node.metrics.appends)
    yield from _sizes(sources.node)
    yield from _volumes(sources.node)
    node = sources.node
    if node.quorum.leader_id == node.node_id:
        yield from _cluster(node.metadata, node.node_id)
    if node.broker is not None:
        yield from _led_partitions(node.broker)


# The process.


def _python() -> Beans:
    about = {"implementation": platform.python_implementation(), "version": platform.python_version()}
    yield bean(OWN, "python", {**about})
    for generation, figures in enumerate(gc.get_stats()):
        yield bean(
            OWN,
            "python-gc",
            {
                "collections": figures["collections"],
                "objects-collected": figures["collected"],
                "objects-uncollectable": figures["uncollectable"],
            },
            kind=Kind.COUNTERS,
            generation=str(generation),
        )


def _loop(delay: LoopDelay) -> Beans:
    yield bean(OWN, "event-loop", delay.delays.attributes(), "delay-seconds", kind=Kind.BUCKETS)
    yield bean(OWN, "event-loop", {"delay-max-seconds": delay.largest()})


def _appends(appends: CountedLater) -> Bean:
    appends.fold()
    return bean(OWN, "disk", appends.buckets.attributes(), "append-seconds", kind=Kind.BUCKETS)


def _certificates(certificates: Iterable[tuple[str, str, float]]) -> Beans:
    for listener, subject, end_s in certificates:
        figures = {"expiry-timestamp-seconds": end_s}
        yield bean(OWN, "certificate", {**figures}, listener=listener, subject=subject)


# Requests.


def _requests(metrics: Metrics) -> Beans:
    """Yields the beans of request times. The beans of request_beans.py come first, and have added the newest times to
    the histograms.
    """
    for times in list(metrics.requests.apis.values()):
        api = times.name
        total = bean(
            OWN, "request", times.total_s.attributes(), "duration-seconds", kind=Kind.BUCKETS, api=api
        )
        yield total._replace(exemplars=_exemplars(metrics.exemplars, api, times.total_s))
        local = times.local_s.attributes()
        yield bean(OWN, "request", local, "local-duration-seconds", kind=Kind.BUCKETS, api=api)
        yield bean(OWN, "request", {"slow": times.local_s.above(SLOW_SECONDS)}, kind=Kind.COUNTERS, api=api)


def _exemplars(traced: Exemplars, api: str, buckets: Buckets) -> dict[str, Exemplar]:
    by_limit = {limit: traced.of(api, above, to) for limit, above, to in buckets.ranges()}
    return {limit: exemplar for limit, exemplar in by_limit.items() if exemplar is not None}


# Sizes on this broker.


def _sizes(node: BeanSources) -> Beans:
    """The bytes of each topic on this broker, and the bytes of all logs together."""
    sizes: Counter[str] = Counter()
    for number, log in enumerate(list(node.logs.logs.values()), 1):
        sizes[log.topic] += log.size_bytes
        if number % STEPS_PER_PAUSE == 0:
            yield None
    for topic, size in sizes.items():
        yield bean(OWN, "topic-size", {"bytes": size}, topic=topic)
    yield bean(OWN, "broker-size", {"bytes": sizes.total()}, broker=str(node.node_id))


def _volumes(node: BeanSources) -> Beans:
    for directory in node.logs.directories:
        if directory.error is not None:
            continue
        try:
            total, usable = directory.disk.space(directory.path)
        except OSError:
            continue  # the next write finds the broken disk, and takes the directory offline
        figures = {"total-bytes": total, "usable-bytes": usable}
        yield bean(OWN, "log-dir", {**figures}, directory=directory.path)


# The cluster, from its active controller.


def _cluster(image: MetadataImage, controller: int) -> Beans:
    alive = [broker for broker in image.brokers.values() if not broker.fenced]
    yield bean(
        OWN,
        "cluster",
        {
            "brokers": len(alive),
            "broker-count": str(len(alive)),
            "cluster-id": image.cluster_id,
            "controller": str(controller),
            "version": KAFKA_VERSION,
        },
    )
    for broker in alive:
        yield _broker(broker, controller)
    for topic in image.topics:
        yield _topic(topic)


def _topic(topic: TopicImage) -> Bean:
    replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
    return bean(
        OWN,
        "topic",
        {
            "partitions": len(topic.partitions),
            "partition-count": str(len(topic.partitions)),
            "replication-factor": str(replicas),
        },
        topic=topic.name,
    )


def _broker(registration: BrokerRegistration, controller: int) -> Bean:
    endpoint = next(iter(registration.endpoints.values()))
    return bean(
        OWN,
        "broker",
        {
            "address": f"{endpoint.host}:{endpoint.port}",
            "host": endpoint.host,
            "is-controller": str(registration.id == controller).lower(),
            "port": str(endpoint.port),
            "rack": registration.rack or "",
        },
        broker=str(registration.id),
    )


# The partitions that this broker leads.


def _led_partitions(broker: BrokerSources) -> Beans:
    for leader in list(broker.replicas):  # topics come and go between two turns of a scrape
        yield _partition(broker, leader)


def _partition(broker: BrokerSources, leader: LeaderPartition) -> Bean:
    state = leader.state
    replicas, isr = len(state.replicas), len(state.isr.members)
    image = broker.metadata.partition(leader.topic, leader.partition)
    is_preferred = image is not None and bool(image.replicas) and image.replicas[0] == broker.node_id
    return bean(
        OWN,
        "topic-partition",
        {
            "current-offset": leader.log.high_watermark,
            "in-sync-replica": isr,
            "leader": broker.node_id,
            "leader-is-preferred": int(is_preferred),
            "oldest-offset": leader.log.log_start_offset,
            "replicas": replicas,
            "under-replicated-partition": int(isr < replicas),
        },
        topic=leader.topic,
        partition=str(leader.partition),
    )
