"""The beans of the process: its state, its version, its load, its disk traffic."""

from __future__ import annotations

import asyncio

from kcli import KAFKA_VERSION
from kcli.runtime.process import disk_traffic, process_figures
from kcli.server.beans.bean import Bean, bean, gauge, meter
from kcli.server.beans.sources import ASSIGNMENTS, NETWORK, OWN, SERVER, Beans, BeanSources, BrokerSources
from kcli.server.metrics.meters import Attributes
from kcli.server.quorum.broker_lifecycle import BrokerState


def server_beans(sources: BeanSources) -> Beans:
    yield from _state(sources)
    yield from _idle(sources)
    yield _process(sources)


def _state(sources: BeanSources) -> Beans:
    metrics, broker = sources.metrics, sources.broker
    owner = "ControllerServer"
    if broker is not None:
        owner = "KafkaServer"
        yield gauge(SERVER, owner, "BrokerState", int(_broker_state(sources, broker)))
        waiting = broker.assignments.waiting_count
        yield gauge(ASSIGNMENTS, "AssignmentsManager", "QueuedReplicaToDirAssignments", waiting)
    yield gauge(SERVER, owner, "ClusterId", sources.metadata.cluster_id)
    traffic = disk_traffic()
    if traffic is not None:
        yield gauge(SERVER, owner, "linux-disk-read-bytes", traffic.read_bytes)
        yield gauge(SERVER, owner, "linux-disk-write-bytes", traffic.written_bytes)
    about: Attributes = {"start-time-ms": metrics.started_ms, "version": KAFKA_VERSION}
    yield bean(SERVER, "app-info", about)
    yield bean(SERVER, "app-info", about, id=str(sources.node_id))


def _broker_state(sources: BeanSources, broker: BrokerSources) -> BrokerState:
    """The state of the broker. It is RUNNING as soon as clients are served."""
    state = broker.lifecycle.state
    if state in (BrokerState.NOT_RUNNING, BrokerState.STARTING, BrokerState.RUNNING):
        return BrokerState.RUNNING if sources.is_ready() else BrokerState.STARTING
    return state


def _idle(sources: BeanSources) -> Beans:
    idle = sources.metrics.idle(sources.now)
    yield meter(SERVER, "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", idle)
    yield gauge(NETWORK, "SocketServer", "NetworkProcessorAvgIdlePercent", idle["OneMinuteRate"])
    yield gauge(NETWORK, "Processor", "IdlePercent", idle["OneMinuteRate"], networkProcessor="0")


def _process(sources: BeanSources) -> Bean:
    figures = process_figures()
    return bean(
        OWN,
        "Process",
        {
            "AvailableProcessors": figures.processors,
            "MaxFileDescriptorCount": figures.descriptors_max,
            "OpenFileDescriptorCount": figures.open_descriptors,
            "ProcessCpuSeconds": figures.cpu_seconds,
            "ResidentMemoryBytes": figures.resident_bytes,
            "StartTimeMs": sources.metrics.started_ms,
            "TaskCount": len(asyncio.all_tasks()),
            "ThreadCount": figures.threads,
            "VirtualMemoryBytes": figures.virtual_bytes,
        },
    )
