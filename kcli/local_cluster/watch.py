"""The decisions of the parent process: when a node that ended is started again, and in which order nodes stop.

The functions and classes here only compute from times and exit codes. They start no process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_RESTARTS = 5
"""The most restarts. A node that dies again and again has a permanent problem, such as a full disk. So a user must read
its log."""
FIRST_PAUSE_S = 1.0
PAUSE_FACTOR = 2.0
"""The pause before a restart doubles each time: 1, 2, 4, 8 and 16 seconds."""
STEADY_S = 60.0
"""A node that ran for this time or longer has recovered from its last death. So its restarts are counted from zero."""


@dataclass(slots=True)
class Restarts:
    """The restarts of one node."""

    enabled: bool
    count: int = 0

    def pause_after(self, ran_seconds: float) -> float | None:
        """Returns the seconds until a failed node is started again, or None if the node is not started again."""
        if ran_seconds >= STEADY_S:
            self.count = 0
        if not self.enabled or self.count >= MAX_RESTARTS:
            return None
        self.count += 1
        return FIRST_PAUSE_S * PAUSE_FACTOR ** (self.count - 1)


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A node that is to be stopped."""

    node_id: int
    is_voter: bool


def stop_batches(running: Sequence[RunningNode], voters: int) -> list[list[int]]:
    """Returns the ids of the nodes in the order of a rolling stop. The nodes of one batch stop at the same time.

    First the nodes that are not voters stop, one after another. Then voters stop, one after another, until only a
    majority of all `voters` is left. These nodes are the last batch and stop together, because without a majority there
    is no active controller, and so no controlled shutdown.
    """
    batches = [[node.node_id] for node in running if not node.is_voter]
    left = [node.node_id for node in running if node.is_voter]
    while len(left) > voters // 2 + 1:
        batches.append([left.pop()])
    if left:
        batches.append(left)
    return batches
