"""Stops nodes one after another, so that the other nodes can become leaders of the partitions of each node."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcli.local_cluster.watch import RunningNode, stop_batches
from kcli.runtime.clock import Clock, SystemClock

POLL_S = 0.1
"""The pause between two checks of the processes. A check costs a system call for each node."""
LAST_WAIT_S = 3.0
"""If the last nodes take longer than this, they wait for an active controller that no longer runs. The wait is useless,
because no other node could become the leader of their partitions. So a second SIGTERM ends the wait.
"""
STOP_LIMIT_S = 60.0
"""A node that has not stopped within this time is killed. The node then checks its logs at its next start."""


@dataclass(frozen=True, slots=True)
class StoppableNode:
    """A running node: its state, and the signals that stop it."""

    node_id: int
    is_voter: bool
    is_alive: Callable[[], bool]
    send: Callable[[signal.Signals], None]


class RollingStop:
    """Stops the nodes of a cluster. `voters` is the number of all its voters.

    `report` gets the id of a node and the event. As soon as `is_urgent` returns True, the nodes that still run are
    killed.
    """

    def __init__(
        self,
        voters: int,
        report: Callable[[int, str], None],
        *,
        is_urgent: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._voters = voters
        self._report = report
        self._is_urgent = is_urgent
        self._clock = clock or SystemClock()
        self._pause = pause

    def stop(self, running: Sequence[StoppableNode]) -> None:
        """Stops the nodes in the order of `stop_batches`, and returns when they have ended."""
        nodes = {node.node_id: node for node in running}
        batches = stop_batches([RunningNode(node.node_id, node.is_voter) for node in running], self._voters)
        for batch in batches:
            stopping = [nodes[node_id] for node_id in batch]
            self._signal(stopping, signal.SIGTERM, "stopping")
            is_last = batch is batches[-1]
            if is_last and not self._have_ended(stopping, LAST_WAIT_S) and not self._is_urgent():
                self._signal(stopping, signal.SIGTERM, "stopping without a controller")
            if not self._have_ended(stopping, STOP_LIMIT_S):
                self._signal(stopping, signal.SIGKILL, "killed")
                self._reap(stopping)
            for node in stopping:
                self._report(node.node_id, "stopped")

    def _signal(self, nodes: Sequence[StoppableNode], number: signal.Signals, event: str) -> None:
        for node in nodes:
            if node.is_alive():
                node.send(number)
                self._report(node.node_id, event)

    def _reap(self, nodes: Sequence[StoppableNode]) -> None:
        """Waits for the end of processes that were killed, which takes only a short time."""
        while any(node.is_alive() for node in nodes):
            self._pause(POLL_S)

    def _have_ended(self, nodes: Sequence[StoppableNode], seconds: float) -> bool:
        """Waits until all nodes have ended. Returns False if the time is over, or if the stop is urgent."""
        deadline = self._clock.monotonic() + seconds
        while any(node.is_alive() for node in nodes):
            if self._clock.monotonic() > deadline or self._is_urgent():
                return False
            self._pause(POLL_S)
        return True
