"""Finds cycles in the graph of dependencies between transactions, as defined by Adya and the checker Elle.

The graph has an edge from transaction A to transaction B for each of these facts:

    - ww: in some partition, a record of B follows a record of A;
    - wr: B has polled a record of A;
    - rw: A has polled a partition up to the last record before a record of B.

In a serializable database, these edges form no cycle. Kafka promises less. The records of open transactions interleave
in a partition, so cycles with a ww edge are normal. A poll may lag behind the log, so cycles with an rw edge are
normal. A cycle of only wr edges is impossible, because a poll returns only records that were committed before the poll.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simulation.checks.components import cyclic_components
from simulation.checks.operations import Operation

Versions = Mapping[int, Sequence[tuple[int, Operation]]]
"""The committed records of each partition in order. Each record is an offset and the transaction that wrote it."""
Edges = dict[int, set[int]]


@dataclass(frozen=True, slots=True)
class Cycles:
    """Groups of transactions that form a cycle. Each field allows more kinds of edges than the field before it. A group
    is in the first field that allows all edges of its cycle."""

    reads: list[list[Operation]]
    """Cycles of wr edges only."""
    writes: list[list[Operation]]
    """Cycles of ww edges only (G0)."""
    writes_and_reads: list[list[Operation]]
    """Cycles of ww and wr edges (G1c)."""
    lagging: list[list[Operation]]
    """Cycles that also contain rw edges."""


def cycles(operations: Iterable[Operation], versions: Versions, writer: Mapping[str, Operation]) -> Cycles:
    nodes = {id(each): each for each in operations if each.is_transaction}
    ww, wr, rw = _writes(nodes, versions), _reads(nodes, writer), _lags(nodes, versions)

    def groups(*kinds: Edges, beyond: Sequence[list[Operation]] = ()) -> list[list[Operation]]:
        merged: Edges = defaultdict(set)
        for kind in kinds:
            for source, targets in kind.items():
                merged[source] |= targets
        found = [[nodes[each] for each in group] for group in cyclic_components(nodes, merged)]
        known = {frozenset(map(id, group)) for group in beyond}
        return [group for group in found if frozenset(map(id, group)) not in known]

    reads, writes = groups(wr), groups(ww)
    both = groups(ww, wr, beyond=[*reads, *writes])
    return Cycles(reads, writes, both, groups(ww, wr, rw, beyond=[*reads, *writes, *both]))


def _writes(nodes: Mapping[int, Operation], versions: Versions) -> Edges:
    edges: Edges = defaultdict(set)
    for records in versions.values():
        order = [id(each) for _, each in records if id(each) in nodes]
        for one, other in itertools.pairwise(order):
            if one != other:
                edges[one].add(other)
    return edges


def _reads(nodes: Mapping[int, Operation], writer: Mapping[str, Operation]) -> Edges:
    edges: Edges = defaultdict(set)
    for reader in nodes.values():
        for polled in reader.polled:
            for _, value in polled.records:
                one = writer.get(value)
                if one is not None and one is not reader and one.is_transaction:
                    edges[id(one)].add(id(reader))
    return edges


def _lags(nodes: Mapping[int, Operation], versions: Versions) -> Edges:
    following = {
        partition: {offset: after for (offset, _), (_, after) in itertools.pairwise(records)}
        for partition, records in versions.items()
    }
    edges: Edges = defaultdict(set)
    for reader in nodes.values():
        last: dict[int, int] = {}
        for polled in reader.polled:
            for offset, _ in polled.records:
                last[polled.partition] = max(offset, last.get(polled.partition, -1))
        for partition, offset in last.items():
            after = following.get(partition, {}).get(offset)
            if after is not None and after is not reader and id(after) in nodes:
                edges[id(reader)].add(id(after))
    return edges
