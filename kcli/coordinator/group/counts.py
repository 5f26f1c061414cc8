"""Counts the work of a group coordinator since its start, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False, weakref_slot=True)
class GroupCounts:
    """The numbers of committed, expired and deleted offsets, and of rebalances. An offset is counted for each
    partition. A rebalance of a classic group is counted when the leader has sent the assignments. For a consumer group,
    each new group epoch counts as a rebalance."""

    commits: int = 0
    expirations: int = 0
    deletions: int = 0
    classic_rebalances: int = 0
    consumer_rebalances: int = 0
