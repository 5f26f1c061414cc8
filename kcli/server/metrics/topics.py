"""Computes the rates of topics from their counts.

A broker may have thousands of topics, and most of them have no traffic. Every few seconds, `look` compares the counts
of each topic with the counts of the comparison before. Only for a topic with new traffic, `look` also computes rates.
The rates of the other topics only decay, and a late computation gives the same result. So these rates are computed only
when they are read.
"""

from __future__ import annotations

from collections.abc import Generator
from operator import add, sub

from kcli.server.metrics.meters import Meter
from kcli.server.metrics.traffic import NAMES, Counts, Traffic, TrafficTable, counts_of

Meters = dict[str, Meter]
"""The meters of a topic. The key is the field of Traffic. A count that is still 0 has no meter."""

_NO_COUNTS = counts_of(Traffic())


class Followed:
    """The meters of one topic, or of all topics together."""

    __slots__ = ("_began", "_is_up_to_date", "_looked_at", "_meters", "counts")

    def __init__(self, began: float) -> None:
        """Makes the meters. `began` is the time at which counting began."""
        self.counts = _NO_COUNTS
        self._began = self._looked_at = began
        self._is_up_to_date = True
        self._meters: Meters = {}

    def look(self, counts: Counts, now: float) -> None:
        """Updates the meters from the present counts. Call this method at least every TICK_SECONDS, because the growth
        of a count since the last call is assigned to the time since the last call."""
        if counts != self.counts or not self._is_up_to_date:
            self._update(counts, now)
        self._looked_at = now

    def _update(self, counts: Counts, now: float) -> None:
        self.counts = counts
        for name, count in zip(NAMES, counts, strict=True):
            meter = self._meters.get(name)
            if meter is None:
                if not count:
                    continue  # most counts of most topics stay at 0
                meter = self._meters[name] = Meter(now, began=self._began)
            meter.tick(self._looked_at)  # the time without growth
            meter.count = count
            meter.tick(now)
        self._is_up_to_date = all(meter.is_up_to_date for meter in self._meters.values())

    def meters(self, now: float) -> Meters:
        """Returns the meters, with their rates at the time `now`."""
        for meter in self._meters.values():
            meter.tick(now)
        return self._meters


class TopicMeters:
    """The meters of each topic in a table of traffic, and of all topics together."""

    def __init__(self, traffic: TrafficTable, began: float) -> None:
        self._traffic = traffic
        self._began = began
        self._total = Followed(began)
        self._followed: dict[str, Followed] = {}
        self._sum = _NO_COUNTS  # of the counts in _followed
        traffic.on_forget = self._forget

    def look(self, now: float) -> Generator[None, None, Meters]:
        """Updates the meters of every topic, and yields after each topic. Returns the meters of all topics together,
        whose counts never decrease."""
        for topic in list(self._traffic.topics):
            self._look(topic, now)
            yield
        self._total.look(_plus(self._sum, counts_of(self._traffic.elsewhere)), now)
        return self._total.meters(now)

    def of(self, topic: str, now: float) -> Meters:
        """The present meters of one topic."""
        self._look(topic, now)
        followed = self._followed.get(topic)
        return {} if followed is None else followed.meters(now)

    def _look(self, topic: str, now: float) -> None:
        traffic = self._traffic.topics.get(topic)
        if traffic is None:
            return  # deleted meanwhile
        followed = self._followed.get(topic)
        if followed is None:
            followed = self._followed[topic] = Followed(self._began)
        counts = counts_of(traffic)
        if counts != followed.counts:
            self._sum = _plus(self._sum, _minus(counts, followed.counts))
        followed.look(counts, now)

    def _forget(self, topic: str) -> None:
        gone = self._followed.pop(topic, None)
        if gone is not None:
            self._sum = _minus(self._sum, gone.counts)


def _plus(counts: Counts, more: Counts) -> Counts:
    return tuple(map(add, counts, more))


def _minus(counts: Counts, less: Counts) -> Counts:
    return tuple(map(sub, counts, less))
