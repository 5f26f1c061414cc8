"""The beans of the transaction coordinator, of transaction markers, and of the verification of partitions."""

from __future__ import annotations

from kcli.server.beans.bean import bean, gauge, histogram, meter
from kcli.server.beans.sources import SERVER, TRANSACTION, Beans, BrokerSources


def transaction_beans(broker: BrokerSources) -> Beans:
    now, watches = broker.metrics.clock.monotonic(), broker.metrics.watches
    loads = watches.values(broker.transactions.shards.times.load_ms, now)
    yield bean(
        SERVER,
        "transaction-coordinator-metrics",
        {"partition-load-time-avg": loads.average, "partition-load-time-max": loads.largest},
    )
    waiting = broker.transactions.markers.leaderless_count
    yield gauge(TRANSACTION, "TransactionMarkerChannelManager", "UnknownDestinationQueueSize", waiting)
    verifier = broker.verifier
    failures = watches.counts(verifier.counts).meter(verifier.counts, "failures", "failures", now)
    yield meter(SERVER, "AddPartitionsToTxnManager", "VerificationFailureRate", failures)
    times = watches.values(verifier.times_ms, now).histogram.attributes()
    yield histogram(SERVER, "AddPartitionsToTxnManager", "VerificationTimeMs", times)
