"""The metrics of a broker: counts, and the rates that are computed from the counts when beans are read.

The traffic of topics is always counted, because this takes only a few additions for each batch. The times of requests
are measured only if there is a metrics endpoint. In this case, `tick` must be called every second.
"""

from __future__ import annotations

from collections.abc import Collection, Generator

from kcli.errors import ErrorCode
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.clock import Clock
from kcli.runtime.process import thread_cpu_seconds
from kcli.server.metrics.buckets import CountedLater
from kcli.server.metrics.exemplars import Exemplars
from kcli.server.metrics.meters import TICK_SECONDS, Attributes, Meter
from kcli.server.metrics.requests import RequestMetrics
from kcli.server.metrics.topics import Meters, TopicMeters
from kcli.server.metrics.traffic import TrafficTable
from kcli.server.metrics.waits import Waits
from kcli.server.metrics.watched import Watches, Window

TICK_MS = 1_000

_NANOSECONDS = 1_000_000_000


class Metrics:
    def __init__(
        self,
        clock: Clock,
        *,
        samples: int = 2,
        window_seconds: float = 30.0,
        waiting_by_design: Collection[ApiKey] = (),
    ) -> None:
        """Makes the metrics. `samples` and `window_seconds` are for Kafka's own rates (metrics.num.samples,
        metrics.sample.window.ms)."""
        self.clock = clock
        self.traffic = TrafficTable()
        self.requests = RequestMetrics(clock, waiting_by_design)
        self.exemplars = Exemplars()
        self.waits = Waits()
        self.appends = CountedLater()
        """The durations of appends to the logs, in seconds."""
        self.started_ms = clock.now_ms()
        self.loop_idle = Meter(clock.monotonic())  # counts seconds without work
        self._began = clock.monotonic()
        self.watches = Watches(Window(samples, window_seconds), self._began)
        self.topics = TopicMeters(self.traffic, self._began)
        self._ticked_at = self._began
        self._topics_ticked_at = self._began
        self._cpu_seconds: float | None = None

    # Counts.

    def request_failed(self, key: ApiKey, code: ErrorCode) -> None:
        """Counts an error in an answer, for a whole request or for one of its partitions."""
        if code is not ErrorCode.NONE:
            self.requests.failed(key, code)

    # Time.

    def tick(self) -> Generator[None, None, None]:
        """Updates the rates from the counts, in steps. Call this method in the thread of the event loop, because it
        measures the CPU time of this thread.
        """
        now = self.clock.monotonic()
        cpu_seconds = thread_cpu_seconds()
        if self._cpu_seconds is not None:
            worked = cpu_seconds - self._cpu_seconds
            self.loop_idle.count += max(now - self._ticked_at - worked, 0.0)
        self._cpu_seconds, self._ticked_at = cpu_seconds, now
        self.loop_idle.tick(now)
        self.requests.fold()
        self.appends.fold()
        self.watches.tick(now)
        yield
        if now - self._topics_ticked_at >= TICK_SECONDS:
            self._topics_ticked_at = now
            yield from self.topics.look(now)

    # Sources of beans.

    def of_all_topics(self) -> Generator[None, None, Meters]:
        """Returns the meters of all topics together, one for each field of Traffic. Yields between the steps of the
        work.
        """
        return (yield from self.topics.look(self.clock.monotonic()))

    def of_topic(self, topic: str) -> Meters:
        """The meters of one topic. A count that is still 0 has no meter."""
        return self.topics.of(topic, self.clock.monotonic())

    def idle(self, now: float) -> Attributes:
        """Returns the attributes of the meter of idle time. The rates are in idle seconds per second, so they are
        fractions. The count is in nanoseconds, as in Kafka.
        """
        attributes = self.loop_idle.attributes("percent", now)
        return attributes | {
            "Count": int(self.loop_idle.count * _NANOSECONDS),
            "RateUnit": "NANOSECONDS",
        }
