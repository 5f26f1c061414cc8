"""The beans of the groups that this broker coordinates."""

from __future__ import annotations

from collections import Counter

from kcli.server.beans.bean import bean, gauge
from kcli.server.beans.sources import GROUP, SERVER, STEPS_PER_PAUSE, Beans
from kcli.server.handlers.ports import BrokerPorts

CLASSIC, CONSUMER = "classic", "consumer"
_METRICS = "group-coordinator-metrics"
_CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
_CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")


def group_beans(broker: BrokerPorts) -> Beans:
    yield from _groups(broker)


def _groups(broker: BrokerPorts) -> Beans:
    """Counts the groups of the loaded shards. A shard that is being loaded is missing."""
    states: dict[str, Counter[str]] = {CLASSIC: Counter(), CONSUMER: Counter()}
    offsets = 0
    for runner in broker.groups.shards.loaded():
        for number, (protocol, state) in enumerate(runner.ask(lambda shard, _: shard.group_states())):
            states.setdefault(protocol, Counter())[state] += 1
            if number % STEPS_PER_PAUSE == 0:
                yield None
        offsets += runner.ask(lambda shard, _: shard.offset_count)
        yield None
    for protocol, counts in states.items():
        yield bean(SERVER, _METRICS, {"group-count": counts.total()}, protocol=protocol)
    for state in _CONSUMER_STATES:
        yield bean(SERVER, _METRICS, {"consumer-group-count": states[CONSUMER][state]}, state=state)
    yield gauge(GROUP, "GroupMetadataManager", "NumOffsets", offsets)
    yield gauge(GROUP, "GroupMetadataManager", "NumGroups", states[CLASSIC].total())
    for state in _CLASSIC_STATES:
        yield gauge(GROUP, "GroupMetadataManager", f"NumGroups{state}", states[CLASSIC][state])
