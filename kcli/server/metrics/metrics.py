"""The metrics of a broker: counts, and the rates that are computed from the counts when beans are read.

The traffic of topics is always counted, because this takes only a few additions for each batch. The times of requests
are measured only if there is a metrics endpoint. In this case, `tick` must be called every second.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.errors import ErrorCode
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import Clock
from kcli.runtime.process import thread_cpu_seconds
from kcli.server.metrics.exemplars import Exemplars
from kcli.server.metrics.meters import Meter, WindowedRate
from kcli.server.metrics.requests import RequestMetrics
from kcli.server.metrics.traffic import NAMES, Traffic, TrafficTable

if TYPE_CHECKING:
    from kcli.server.network.listener import Acceptor

TICK_MS = 1_000

Meters = dict[str, Meter]


class Metrics:
    def __init__(self, clock: Clock, *, samples: int = 2, window_seconds: float = 30.0) -> None:
        """Makes the metrics. `samples` and `window_seconds` are for Kafka's own rates (metrics.num.samples,
        metrics.sample.window.ms)."""
        self.clock = clock
        self.traffic = TrafficTable()
        self.requests = RequestMetrics(clock)
        self.exemplars = Exemplars()
        self.started_ms = clock.now_ms()
        self.loop_idle = Meter(clock.monotonic())  # counts seconds without work
        self._began = clock.monotonic()
        self._samples = samples
        self._window_seconds = window_seconds
        self._total: Meters = {}
        self._of_topics: dict[str, Meters] = {}
        self._connections: dict[tuple[str, str], WindowedRate] = {}
        self._ticked_at = self._began
        self._cpu_seconds: float | None = None

    # Counts.

    def request_failed(self, key: ApiKey, code: ErrorCode) -> None:
        """Counts a request, or one partition of it, that is answered with an error."""
        if code is not ErrorCode.NONE:
            self.requests.failed(key, code)

    # Time.

    def tick(self, listeners: dict[str, Acceptor]) -> None:
        """Folds the counts into the rates. Call this method on the thread of the event loop, because it measures the
        CPU time of that thread."""
        now = self.clock.monotonic()
        cpu_seconds = thread_cpu_seconds()
        if self._cpu_seconds is not None:
            worked = cpu_seconds - self._cpu_seconds
            self.loop_idle.count += max(now - self._ticked_at - worked, 0.0)
        self._cpu_seconds, self._ticked_at = cpu_seconds, now
        self.loop_idle.tick(now)
        self.refresh(listeners)

    def refresh(self, listeners: dict[str, Acceptor]) -> None:
        """Updates every meter. Call this method before each read of the metrics too, so that all counts are current."""
        now = self.clock.monotonic()
        self.requests.fold()
        self._copy_counts(self._total, self.traffic.total(), now)
        for gone in self._of_topics.keys() - self.traffic.topics.keys():
            del self._of_topics[gone]
        for topic, traffic in self.traffic.topics.items():
            self._copy_counts(self._of_topics.setdefault(topic, {}), traffic, now)
        for name, listener in listeners.items():
            for what, count in listener_counts(listener).items():
                self._rate(name, what).tick(count, now)

    # Sources of beans.

    def meters(self) -> Iterator[tuple[str | None, Meters]]:
        """The meters of all topics together (with the name None), then the meters of each topic. Meters have the names
        of the fields of Traffic."""
        yield None, self._total
        yield from list(self._of_topics.items())

    def listener_rate(self, listener: Acceptor, what: str) -> float:
        """The rate per second of one of the `listener_counts`."""
        count = listener_counts(listener)[what]
        return self._rate(listener.settings.name, what).a_second(count, self.clock.monotonic())

    def _rate(self, listener: str, what: str) -> WindowedRate:
        key = (listener, what)
        if key not in self._connections:
            self._connections[key] = WindowedRate(self._samples, self._window_seconds, self._began)
        return self._connections[key]

    def _copy_counts(self, meters: Meters, traffic: Traffic, now: float) -> None:
        for name in NAMES:
            count = getattr(traffic, name)
            meter = meters.get(name)
            if meter is None:
                if not count:
                    continue  # most counts of most topics stay at 0
                meter = meters[name] = Meter(now, began=self._began)
            meter.count = count
            meter.tick(now)


def listener_counts(listener: Acceptor) -> dict[str, int]:
    """The counts of connections and logins since the start, by Kafka's names without their ending `-total`."""
    logins = listener.logins
    return {
        "connection-close": listener.closed_count,
        "connection-creation": listener.opened_count,
        "failed-authentication": logins.failed,
        "failed-reauthentication": logins.failed_again,
        "successful-authentication": logins.succeeded,
        "successful-reauthentication": logins.succeeded_again,
    }
