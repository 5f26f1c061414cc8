"""The counts and durations of a task, which the worker shows under Kafka's names."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.tolerance import ErrorCounts

INTERVAL_S = 1.0
"""The time between two reports to the worker."""
WINDOW_S = 60.0
"""The time over which rates, averages and maxima are taken: two samples of 30 s, as Kafka's defaults are."""

Attributes = dict[str, float]


class Total:
    """A count, and its rate per second in the last WINDOW_S."""

    __slots__ = ("_samples", "value")

    def __init__(self) -> None:
        self.value = 0
        self._samples: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def attributes(self, name: str) -> Attributes:
        now = time.monotonic()
        while len(self._samples) > 1 and now - self._samples[0][0] > WINDOW_S:
            self._samples.popleft()
        since, before = self._samples[0]
        self._samples.append((now, self.value))
        rate = (self.value - before) / max(now - since, INTERVAL_S)
        return {f"{name}-rate": rate, f"{name}-total": self.value}


class Sizes:
    """The maximum and the average of values in the last WINDOW_S. Values of the same second are kept together."""

    __slots__ = ("_seconds",)

    def __init__(self) -> None:
        self._seconds: deque[list[float]] = deque()  # second, count, sum, maximum, minimum

    def add(self, value: float) -> None:
        second = time.monotonic() // 1
        last = self._seconds[-1] if self._seconds else None
        if last is None or last[0] != second:
            self._seconds.append([second, 1, value, value, value])
            while second - self._seconds[0][0] > WINDOW_S:
                self._seconds.popleft()
            return
        last[1] += 1
        last[2] += value
        last[3] = max(last[3], value)
        last[4] = min(last[4], value)

    def attributes(self, name: str, unit: str = "") -> Attributes:
        since = time.monotonic() - WINDOW_S
        recent = [second for second in self._seconds if second[0] >= since]
        count = sum(second[1] for second in recent)
        average = sum(second[2] for second in recent) / count if count else 0.0
        most = max((second[3] for second in recent), default=0.0)
        return {f"{name}-max{unit}": most, f"{name}-avg{unit}": average}

    def minimum(self) -> float:
        return min((second[4] for second in self._seconds), default=0.0)


@dataclass(slots=True)
class TaskMetrics:
    """The metrics that sources and sinks share (connector-task-metrics), and their reports."""

    batch_size: Sizes = field(default_factory=Sizes)
    commit_ms: Sizes = field(default_factory=Sizes)
    commits: int = 0
    commit_failures: int = 0
    paused_s: float = 0.0
    started: float = field(default_factory=time.monotonic)
    _due: float = 0.0
    _last: Mapping[str, object] = field(default_factory=dict)

    def committed(self, seconds: float, *, failed: bool) -> None:
        self.commits += 1
        self.commit_failures += failed
        self.commit_ms.add(seconds * 1000)

    def report(
        self, channel: Channel, errors: ErrorCounts, group: str, own: Callable[[], Attributes]
    ) -> None:
        """Sends the metrics if they are due and have changed. `own` returns those of the group of the task."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + INTERVAL_S
        metrics: dict[str, object] = {
            "connector-task-metrics": self._attributes(now),
            group: own(),
            "task-error-metrics": _error_attributes(errors),
        }
        if metrics != self._last:
            self._last = metrics
            channel.note("metrics", metrics)

    def _attributes(self, now: float) -> Attributes:
        failed = self.commit_failures / self.commits if self.commits else 0.0
        paused = self.paused_s / max(now - self.started, 0.001)
        return {
            **self.batch_size.attributes("batch-size"),
            **self.commit_ms.attributes("offset-commit", "-time-ms"),
            "offset-commit-success-percentage": 1.0 - failed if self.commits else 0.0,
            "offset-commit-failure-percentage": failed,
            "pause-ratio": round(min(paused, 1.0), 2),
            "running-ratio": round(max(1.0 - paused, 0.0), 2),
        }


def _error_attributes(counts: ErrorCounts) -> Attributes:
    return {
        "total-record-failures": counts.failures,
        "total-record-errors": counts.errors,
        "total-records-skipped": counts.skipped,
        "total-retries": counts.retries,
        "total-errors-logged": counts.logged,
        "deadletterqueue-produce-requests": counts.dead_letter_requests,
        "deadletterqueue-produce-failures": counts.dead_letter_failures,
        "last-error-timestamp": counts.last_ms,
    }
