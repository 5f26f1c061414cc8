"""The parts that only observe a node: its traces and its metrics endpoint.

Their code is imported only if the configuration asks for them, so that other nodes start faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.config.broker import BrokerConfig
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network
from kcli.server.metrics.metrics import Metrics
from kcli.server.metrics.requests import measured
from kcli.server.network.connection import Serve
from kcli.server.quorum.counts import PartitionCounts
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.offers import Offers, filled
from kcli.server.roles.listeners import Listeners

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
    config: BrokerConfig, network: Network, loader: MetadataLoader, listeners: Listeners, offers: Offers
) -> MetricsEndpoint | None:
    """Makes the metrics endpoint, if the configuration has an address for it. Its beans read what the parts of the node
    offer. Raises ConfigError."""
    if config.metrics_address is None:
        return None
    from kcli.server.beans.exposition.endpoint import MetricsEndpoint
    from kcli.server.beans.exposition.endpoint_security import endpoint_security
    from kcli.server.beans.sources import BeanSources, BrokerSources

    partition_counts = None
    if config.is_controller:
        # It counts from the first change on, so it cannot wait until the parts follow the metadata.
        partition_counts = PartitionCounts()
        loader.subscribe(partition_counts.apply)
    broker = filled(BrokerSources, offers) if config.is_broker else None
    sources = filled(BeanSources, {**offers, "partition_counts": partition_counts, "broker": broker})
    security = endpoint_security(config, listeners.security.tls_of)
    return MetricsEndpoint(
        sources, network, *config.metrics_address, security, listeners.security.certificates
    )
