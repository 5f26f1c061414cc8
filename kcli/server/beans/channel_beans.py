"""The beans of the connections that this node opens to other nodes."""

from __future__ import annotations

from kcli.model.connection_counts import ConnectionCounts
from kcli.server.beans.bean import Kind, bean
from kcli.server.beans.sources import SERVER, Beans, BeanSources
from kcli.server.metrics.meters import QUANTILES, Attributes

# The fields of ConnectionCounts, by Kafka's names without their endings -rate and -total.
_COUNTS = {
    "connection-close": "closed",
    "connection-creation": "opened",
    "incoming-byte": "bytes_in",
    "outgoing-byte": "bytes_out",
    "request": "requests",
    "response": "answers",
}
FORWARDING = "forwarding"
_P99, _P999 = QUANTILES.index(0.99), QUANTILES.index(0.999)


def channel_beans(sources: BeanSources) -> Beans:
    node = str(sources.node_id)
    yield bean(SERVER, "raft-channel-metrics", traffic(sources, sources.raft.connection_counts))
    for purpose, channel in sources.channels.items():
        yield bean(SERVER, f"{purpose}-metrics", traffic(sources, channel.remote.counts), BrokerId=node)
    if FORWARDING in sources.channels:
        yield bean(SERVER, "ForwardingManager", _forwarding(sources))
    broker = sources.broker
    if broker is not None:
        yield bean(SERVER, "txn-marker-channel-metrics", traffic(sources, broker.marker_links.counts))
        for fetcher in broker.fetchers:
            tags = {"broker-id": str(fetcher.leader), "fetcher-id": str(fetcher.number)}
            attributes = traffic(sources, fetcher.counts)
            yield bean(SERVER, "replica-fetcher-metrics", attributes, kind=Kind.SENSORS, **tags)


def traffic(sources: BeanSources, counts: ConnectionCounts) -> Attributes:
    """Returns the attributes for connections with one purpose, such as forwarding. `counts` has the counts of their
    traffic."""
    now = sources.now
    watched = sources.metrics.watches.counts(counts)
    attributes: Attributes = {
        "connection-count": counts.opened - counts.closed,
        "network-io-rate": sum(watched.rate(counts, field, now) for field in ("requests", "answers")),
        "network-io-total": counts.requests + counts.answers,
    }
    for name, field in _COUNTS.items():
        attributes[f"{name}-rate"] = watched.rate(counts, field, now)
        attributes[f"{name}-total"] = getattr(counts, field)
    return attributes


def _forwarding(sources: BeanSources) -> Attributes:
    remote = sources.channels[FORWARDING].remote
    attributes: Attributes = {"QueueLength": remote.queue_length}
    for name, observed in (("QueueTimeMs", remote.queued_ms), ("RemoteTimeMs", remote.remote_ms)):
        quantiles = sources.metrics.watches.values(observed, sources.now).histogram.quantiles()
        attributes |= {f"{name}.p99": quantiles[_P99], f"{name}.p999": quantiles[_P999]}
    return attributes
