"""The parts that only observe a node: its traces and its metrics endpoint.

Their code is imported only if the configuration asks for them, so that other nodes start faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.runtime.clock import Clock
from kcli.server.handlers.ports import NodePorts
from kcli.server.metrics.metrics import Metrics
from kcli.server.metrics.requests import measured
from kcli.server.network.connection import Serve
from kcli.server.quorum.channels import ControllerChannels
from kcli.server.quorum.controller_role import ControllerRole
from kcli.server.quorum.counts import PartitionCounts
from kcli.server.requests.dispatch import Dispatch
from kcli.server.roles.broker_role import BrokerRole
from kcli.server.roles.listeners import Listeners
from kcli.server.roles.shared import Shared

if TYPE_CHECKING:
    from kcli.server.beans.exposition.endpoint import MetricsEndpoint
    from kcli.server.requests.node_traces import NodeTraces


def node_traces(config: BrokerConfig, clock: Clock, metrics: Metrics) -> NodeTraces | None:
    """Makes the export of traces, if a key kcli.trace.* asks for it. Raises ConfigError."""
    if not config.has_traces:
        return None
    from kcli.server.requests.node_traces import NodeTraces

    return NodeTraces(config, clock, metrics)


def observed(
    dispatch: Dispatch, traces: NodeTraces | None, endpoint: MetricsEndpoint | None, metrics: Metrics
) -> Serve:
    """Returns a function that serves requests with `dispatch` and observes them."""
    serve: Serve = dispatch if traces is None else traces.around(dispatch)
    return serve if endpoint is None else measured(serve, metrics.requests)


def metrics_endpoint(
    shared: Shared,
    listeners: Listeners,
    channels: ControllerChannels,
    *,
    controller: ControllerRole | None,
    broker: BrokerRole | None,
    ports: NodePorts,
    is_ready: Callable[[], bool],
) -> MetricsEndpoint | None:
    """Makes the metrics endpoint, if the configuration has an address for it. Raises ConfigError."""
    address = shared.config.metrics_address
    if address is None:
        return None
    from kcli.server.beans.exposition.endpoint import MetricsEndpoint
    from kcli.server.beans.exposition.endpoint_security import endpoint_security
    from kcli.server.beans.sources import BeanSources, BrokerParts

    partition_counts = None
    if controller is not None:
        partition_counts = PartitionCounts()
        shared.loader.subscribe(partition_counts.apply)
    parts = None
    if broker is not None:
        parts = BrokerParts(
            cleaning=broker.cleaning,
            lifecycle=broker.lifecycle,
            assignments=broker.assignments,
            links={"txn-marker-channel": broker.marker_links},
        )
    sources = BeanSources(
        ports=ports,
        sockets=listeners.sockets,
        logs=shared.logs,
        quotas=listeners.quotas,
        controller=controller,
        partition_counts=partition_counts,
        parts=parts,
        channels=channels.by_purpose,
        is_ready=is_ready,
    )
    security = endpoint_security(shared.config, listeners.security.tls_of)
    return MetricsEndpoint(sources, shared.network, *address, security, listeners.security.certificates)
