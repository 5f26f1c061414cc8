"""The metrics of rebalances, under Kafka's names (connect-worker-rebalance-metrics, connect-coordinator-metrics)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from kcli.runtime.clock import Clock

Attributes = Mapping[str, float | str]

REBALANCES_MAX = 100
"""The rebalances whose durations are remembered, for the average and the maximum."""


class RebalanceMetrics:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ms: int | None = None
        self._ended_ms: int | None = None
        self._completed = 0
        self._durations_ms: deque[int] = deque(maxlen=REBALANCES_MAX)

    def started(self) -> None:
        """A rebalance begins, if none is going on."""
        if self._started_ms is None:
            self._started_ms = self._clock.now_ms()

    def succeeded(self) -> None:
        now_ms = self._clock.now_ms()
        if self._started_ms is not None:
            self._durations_ms.append(now_ms - self._started_ms)
        self._started_ms, self._ended_ms = None, now_ms
        self._completed += 1

    def beans(
        self, *, protocol: str, leader: str, generation: int, connectors: int, tasks: int
    ) -> Mapping[str, Attributes]:
        durations = self._durations_ms
        since_ms = -1 if self._ended_ms is None else self._clock.now_ms() - self._ended_ms
        return {
            "kafka.connect:type=connect-worker-rebalance-metrics": {
                "connect-protocol": protocol,
                "leader-name": leader,
                "epoch": float(generation),
                "completed-rebalances-total": float(self._completed),
                "rebalancing": float(self._started_ms is not None),
                "rebalance-avg-time-ms": sum(durations) / len(durations) if durations else 0.0,
                "rebalance-max-time-ms": float(max(durations, default=0)),
                "time-since-last-rebalance-ms": float(since_ms),
            },
            "kafka.connect:type=connect-coordinator-metrics": {
                "assigned-connectors": float(connectors),
                "assigned-tasks": float(tasks),
            },
        }
