"""The beans of the groups that this broker coordinates."""

from __future__ import annotations

from collections import Counter

from kcli.server.beans.bean import bean, gauge
from kcli.server.beans.sources import GROUP, SERVER, STEPS_PER_PAUSE, Beans, BrokerSources
from kcli.server.metrics.meters import QUANTILES, Attributes

CLASSIC, CONSUMER = "classic", "consumer"
_METRICS = "group-coordinator-metrics"
_CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")


_RATES = {
    "offset-commit": "commits",
    "offset-expiration": "expirations",
    "offset-deletion": "deletions",
    "group-completed-rebalance": "classic_rebalances",
    "consumer-group-rebalance": "consumer_rebalances",
}
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def group_beans(broker: BrokerSources) -> Beans:
    yield from _groups(broker)
    yield bean(SERVER, _METRICS, _work(broker) | _times(broker))
    for state, count in broker.groups.shards.counts_by_state.items():
        yield bean(SERVER, _METRICS, {"num-partitions": count}, state=state)


def _work(broker: BrokerSources) -> Attributes:
    counts, now = broker.groups.counts, broker.metrics.clock.monotonic()
    watched = broker.metrics.watches.counts(counts)
    attributes: Attributes = {}
    for name, field in _RATES.items():
        attributes[f"{name}-count"] = getattr(counts, field)
        attributes[f"{name}-rate"] = watched.rate(counts, field, now)
    return attributes


def _times(broker: BrokerSources) -> Attributes:
    times, now, watches = broker.groups.shards.times, broker.metrics.clock.monotonic(), broker.metrics.watches
    loads = watches.values(times.load_ms, now)
    attributes: Attributes = {
        "partition-load-time-avg": loads.average,
        "partition-load-time-max": loads.largest,
        "thread-idle-ratio-avg": min(broker.metrics.loop_idle.one_minute_rate, 1.0),
    }
    for name, observed in (
        ("event-processing-time-ms", times.processing_ms),
        ("event-purgatory-time-ms", times.purgatory_ms),
        ("batch-flush-time-ms", times.flush_ms),
    ):
        watched = watches.values(observed, now)
        quantiles = dict(zip(QUANTILES, watched.histogram.quantiles(), strict=True))
        attributes[f"{name}-max"] = watched.largest
        attributes |= {f"{name}-{suffix}": quantiles[at] for suffix, at in _PERCENTILES.items()}
    return attributes


def _groups(broker: BrokerSources) -> Beans:
    """Counts the groups of the loaded shards. A shard that is being loaded is missing."""
    states: dict[str, Counter[str]] = {CLASSIC: Counter(), CONSUMER: Counter()}
    offsets = 0
    for runner in broker.groups.shards.loaded():
        for number, (protocol, state) in enumerate(runner.look(lambda shard, _: shard.group_states())):
            states.setdefault(protocol, Counter())[state] += 1
            if number % STEPS_PER_PAUSE == 0:
                yield None
        offsets += runner.look(lambda shard, _: shard.offset_count)
        yield None
    for protocol, counts in states.items():
        yield bean(SERVER, _METRICS, {"group-count": counts.total()}, protocol=protocol)
    for state in _CONSUMER_STATES:
        yield bean(SERVER, _METRICS, {"consumer-group-count": states[CONSUMER][state]}, state=state)
    yield gauge(GROUP, "GroupMetadataManager", "NumOffsets", offsets)
    yield gauge(GROUP, "GroupMetadataManager", "NumGroups", states[CLASSIC].total())
    for state in _CLASSIC_STATES:
        yield gauge(GROUP, "GroupMetadataManager", f"NumGroups{state}", states[CLASSIC][state])
