"""Trace ids of requests, for the exemplars of histograms (OpenMetrics)."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp

STEPS_PER_DOUBLING = 2
"""The number of ranges of durations in each doubling. One trace is kept for each range. The upper limit of a range is
1.3 to 1.5 times the lower limit. A bucket of a histogram is larger than a range. So a whole range lies in each bucket,
and its trace can be shown with the bucket."""


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A traced request. `time_ms` is the wall-clock time of its end."""

    seconds: float
    trace_id: str
    time_ms: int


class Exemplars:
    """The newest traced request for each pair of an API and a range of durations. There are about 80 ranges, from
    a nanosecond to an hour, so the number of exemplars is limited."""

    def __init__(self) -> None:
        self._newest: dict[str, dict[int, Exemplar]] = {}

    def note(self, api: str, seconds: float, trace_id: str, time_ms: int) -> None:
        self._newest.setdefault(api, {})[_step(seconds)] = Exemplar(seconds, trace_id, time_ms)

    def of(self, api: str, above_seconds: float, to_seconds: float) -> Exemplar | None:
        """The newest traced request with a duration in `(above_seconds, to_seconds]`, which is a histogram bucket."""
        exemplars = [
            exemplar
            for exemplar in self._newest.get(api, {}).values()
            if above_seconds < exemplar.seconds <= to_seconds
        ]
        return max(exemplars, key=lambda exemplar: exemplar.time_ms, default=None)


def _step(seconds: float) -> int:
    fraction, exponent = frexp(max(seconds, 1e-9))
    return exponent * STEPS_PER_DOUBLING + int((fraction - 0.5) * 2 * STEPS_PER_DOUBLING)
