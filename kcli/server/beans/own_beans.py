"""The figures that Kafka lacks and operators ask for, in the domain `kcli`. Their names for Prometheus are in
exposition/own_names.py.

The figures of the whole cluster (brokers, partitions of topics) come from the active controller only, and those of a
partition from its leader only. So a sum over all nodes counts nothing twice.
"""

from __future__ import annotations

import gc
import platform
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kcli import KAFKA_VERSION
from kcli.metadata.image import BrokerRegistration, MetadataImage
from kcli.server.beans.bean import Bean, Kind, bean
from kcli.server.beans.loop_delay import LoopDelay
from kcli.server.beans.sources import OWN, STEPS_PER_PAUSE, Beans, BeanSources
from kcli.server.handlers.ports import BrokerPorts
from kcli.server.partitions.leader_partition import LeaderPartition

Certificates = Callable[[], Iterable[tuple[str, str, float]]]
"""Returns the listener, the subject and the end (in seconds since 1970) of each certificate that this node shows."""


@dataclass(frozen=True, slots=True)
class OwnSources:
    """The sources of the own beans."""

    node: BeanSources
    loop_delay: LoopDelay
    certificates: Certificates


def own_beans(sources: OwnSources) -> Beans:
    """Yields the own beans of a node."""
    yield from _python()
    yield from _loop(sources.loop_delay)
    yield from _certificates(sources.certificates())
    yield from _sizes(sources.node)
    yield from _volumes(sources.node)
    ports = sources.node.ports
    if ports.quorum.leader_id == ports.node_id:
        yield from _cluster(ports.metadata, ports.node_id)
    if isinstance(ports, BrokerPorts):
        yield from _led_partitions(ports)


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


def _certificates(found: Iterable[tuple[str, str, float]]) -> Beans:
    for listener, subject, end_s in found:
        figures = {"expiry-timestamp-seconds": end_s}
        yield bean(OWN, "certificate", {**figures}, listener=listener, subject=subject)


# Sizes on this broker.


def _sizes(node: BeanSources) -> Beans:
    """The bytes of each topic on this broker, and of all its logs."""
    sizes: Counter[str] = Counter()
    for number, log in enumerate(list(node.logs.logs.values()), 1):
        sizes[log.topic] += log.size_bytes
        if number % STEPS_PER_PAUSE == 0:
            yield None
    for topic, size in sizes.items():
        yield bean(OWN, "topic-size", {"bytes": size}, topic=topic)
    yield bean(OWN, "broker-size", {"bytes": sizes.total()}, broker=str(node.ports.node_id))


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
    alive = [each for each in image.brokers.values() if not each.fenced]
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
    for each in alive:
        yield _broker(each, controller)
    for topic in image.topics:
        yield bean(OWN, "topic", {"partitions": len(topic.partitions)}, topic=topic.name)


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


def _led_partitions(broker: BrokerPorts) -> Beans:
    for leader in broker.replicas:
        yield _partition(broker, leader)


def _partition(broker: BrokerPorts, leader: LeaderPartition) -> Bean:
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
