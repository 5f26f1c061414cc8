"""The beans of requests that wait (in Kafka's "purgatories"), of their expirations, and of fetch sessions."""

from __future__ import annotations

from kcli.server.beans.bean import gauge, meter
from kcli.server.beans.sources import SERVER, Beans, BrokerSources


def purgatory_beans(broker: BrokerSources) -> Beans:
    waits = broker.metrics.waits
    for operation, waiting in (
        ("Produce", waits.produces),
        ("Fetch", waits.fetches),
        ("DeleteRecords", waits.deletions),
    ):
        for name, value in (
            ("PurgatorySize", waiting.watched),
            ("NumDelayedOperations", waiting.operations),
        ):
            yield gauge(SERVER, "DelayedOperationPurgatory", name, value, delayedOperation=operation)
    yield from _expirations(broker)
    yield from _fetch_sessions(broker)


def _expirations(broker: BrokerSources) -> Beans:
    now, expired = broker.metrics.clock.monotonic(), broker.metrics.waits.expired
    watched = broker.metrics.watches.counts(expired)
    for type_, field, tags in (
        ("DelayedFetchMetrics", "consumer_fetches", {"fetcherType": "consumer"}),
        ("DelayedFetchMetrics", "follower_fetches", {"fetcherType": "follower"}),
        ("DelayedProduceMetrics", "produces", {}),
        ("DelayedDeleteRecordsMetrics", "deletions", {}),
    ):
        attributes = watched.meter(expired, field, "requests", now)
        yield meter(SERVER, type_, "ExpiresPerSec", attributes, **tags)


def _fetch_sessions(broker: BrokerSources) -> Beans:
    sessions, now = broker.fetch_sessions, broker.metrics.clock.monotonic()
    partitions = 0
    for session in sessions:
        partitions += len(session.targets)
    yield gauge(SERVER, "FetchSessionCache", "NumIncrementalFetchSessions", len(sessions))
    yield gauge(SERVER, "FetchSessionCache", "NumIncrementalFetchPartitionsCached", partitions)
    watched = broker.metrics.watches.counts(sessions.counts)
    attributes = watched.meter(sessions.counts, "evictions", "evictions", now)
    yield meter(SERVER, "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec", attributes)
