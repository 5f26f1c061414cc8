"""Plans that distribute replicas evenly, and their description for the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcli.client.reassign.assignment import Assignment, ReassignError
from kcli.client.reassign.balance import (
    BrokerLoad,
    BrokerPlace,
    ImpossibleError,
    applied,
    balanced,
    loads,
)
from kcli.client.reassign.batches import batches, copied_bytes, copied_replicas
from kcli.client.reassign.cluster_state import ClusterState
from kcli.model.amounts import bytes_text, listed
from kcli.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker before and after the moves. Only the chosen topics count."""

    broker: int
    rack: str | None
    replicas_before: int
    replicas_after: int
    preferred_leaders_before: int
    preferred_leaders_after: int
    bytes_before: int
    bytes_after: int


def even_changes(
    state: ClusterState,
    *,
    leaving: frozenset[int] = frozenset(),
    replication_factor: int | None = None,
    rack_aware: bool = True,
) -> Assignment:
    """Returns the new replicas of the partitions that change. After the changes, the replicas are evenly distributed,
    and the brokers in `leaving` are empty.

    Raises ReassignError if this is not possible.
    """
    stay = [
        BrokerPlace(broker.id, broker.rack if rack_aware else None)
        for broker in state.brokers
        if broker.id not in leaving
    ]
    _check_brokers(state, leaving)
    try:
        return balanced(stay, state.partitions, replication_factor=replication_factor)
    except ImpossibleError as error:
        raise ReassignError(str(error)) from None


def check_leaders(state: ClusterState, changes: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """Raises ReassignError if a partition that changes has no leader."""
    if offline := sorted(partition for partition in changes if state.leaders[partition] is None):
        names = listed([f"{topic}-{number}" for topic, number in offline])
        raise ReassignError(
            f"Without a leader, records cannot be copied: {names}. Start a broker that has these records."
        )


def broker_rows(state: ClusterState, changes: Mapping[TopicPartition, tuple[int, ...]]) -> list[BrokerRow]:
    """Returns the load of each broker before and after the changes."""
    ids = [node.id for node in state.brokers]
    old, new = loads(ids, state.partitions), loads(ids, applied(state.partitions, changes))
    racks = {node.id: node.rack for node in state.brokers}
    empty = BrokerLoad(0, 0, 0)
    rows = []
    for broker in sorted({*old, *new}):
        was, will = old.get(broker, empty), new.get(broker, empty)
        counts = (was.replicas, will.replicas, was.leaders, will.leaders, was.size_bytes, will.size_bytes)
        rows.append(BrokerRow(broker, racks.get(broker), *counts))
    return rows


def changes_text(state: ClusterState, changes: Mapping[TopicPartition, tuple[int, ...]]) -> str:
    """Returns the amount of work as text: replicas, bytes and batches."""
    before = state.assignment
    copied = [partition for partition in changes if set(changes[partition]) - set(before[partition])]
    parts = []
    if copied:
        size = bytes_text(copied_bytes(changes, before, state.sizes))
        parts.append(
            f"{_plural(copied_replicas(changes, before), 'replica')} ({size}) of {_plural(len(copied), 'partition')}"
        )
    if len(copied) < len(changes):
        parts.append(f"the leaders of {_plural(len(changes) - len(copied), 'partition')}")
    count = len(batches(changes, before))
    return f"{' and '.join(parts)} in {_plural(count, 'batch', 'batches')}."


def _check_brokers(state: ClusterState, leaving: frozenset[int]) -> None:
    """Raises ReassignError if a broker must get or keep replicas but does not run, or does not exist."""
    used = {broker for partition in state.partitions for broker in partition.replicas}
    running = {node.id for node in state.brokers}
    for broker in sorted(leaving - used - running):
        raise ReassignError(f"Broker {broker} does not run and has no replicas")
    for broker in sorted(used - running - leaving):
        raise ReassignError(
            f"Broker {broker} has replicas but does not run. Start it, or move its replicas away with --decommission."
        )


def _plural(count: int, noun: str, several: str = "") -> str:
    return f"1 {noun}" if count == 1 else f"{count} {several or noun + 's'}"
