"""The work of a group coordinator since the start, for its metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False, weakref_slot=True)
class GroupCounts:
    """A commit, expiry or deletion of offsets is counted once for each partition. A classic group completes a rebalance
    when its leader has sent the assignments. For a consumer group, each new group epoch counts as a rebalance."""

    commits: int = 0
    expirations: int = 0
    deletions: int = 0
    classic_rebalances: int = 0
    consumer_rebalances: int = 0
