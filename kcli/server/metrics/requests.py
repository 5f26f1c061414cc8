"""How many requests there are, how long each takes, and which were the slowest.

`MeasuredDispatch` stands before a dispatch and takes the time. What it does for each request is two looks at the clock,
one count and two appends; `fold`, once a second and before every reading, makes histograms of the lists.

A request's time is local while the event loop works on it, remote while it waits (for commits, for records, for other
members of a group), as in Kafka. There is no queue between network and handlers here, and so no time in one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TypeVar

from kcli.errors import ErrorCode
from kcli.protocol.api import API, ApiKey
from kcli.protocol.packing import read_request_header
from kcli.runtime.clock import Clock
from kcli.server.connection import Answer, Connection, Serve, Waiting
from kcli.server.metrics.meters import Histogram, Meter

Label = TypeVar("Label", int, ErrorCode)

_HEAD = Struct(">hh")
# As many as fit on a screen.
SLOWEST_MAX = 20
# What takes no longer is nothing to look for, however little else there is.
SLOW_MIN_SECONDS = 0.001
# A request that was slow longer ago says little of what is wrong now.
SLOWEST_MAX_AGE_SECONDS = 300.0

# These wait because they were asked to: for records, for members, for the end of an interval. Only their work counts.
_WAITS_BY_DESIGN = frozenset(
    {ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH}
)


class ApiTimes:
    """One API's requests. The lists hold what came since the last fold; times are in seconds there."""

    __slots__ = (
        "error_meters",
        "errors",
        "handled",
        "local_ms",
        "name",
        "remote_ms",
        "request_bytes",
        "sizes",
        "total_ms",
        "version_meters",
        "versions",
        "waited",
    )

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.handled: list[float] = []
        self.waited: list[tuple[float, float]] = []  # local, total
        self.sizes: list[int] = []
        self.versions: dict[int, int] = {}
        self.errors: dict[ErrorCode, int] = {}
        self.version_meters: dict[int, Meter] = {}
        self.error_meters: dict[ErrorCode, Meter] = {}
        self.total_ms = Histogram(now)
        self.local_ms = Histogram(now)
        self.remote_ms = Histogram(now)
        self.request_bytes = Histogram(now)

    @property
    def count(self) -> int:
        return sum(self.versions.values())

    def fold(self, now: float) -> None:
        handled, self.handled = self.handled, []
        waited, self.waited = self.waited, []
        sizes, self.sizes = self.sizes, []
        local = [seconds * 1000 for seconds in handled]
        self.total_ms.fold(local + [total * 1000 for _, total in waited], now)
        self.local_ms.fold(local + [worked * 1000 for worked, _ in waited], now)
        self.remote_ms.fold([(total - worked) * 1000 for worked, total in waited], now, zeros=len(handled))
        self.request_bytes.fold(sizes, now)


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A request that took long. `time_ms` is the wall clock at its end."""

    api: str
    version: int
    client_id: str
    listener: str
    host: str
    took_ms: float
    local_ms: float
    time_ms: int


class SlowestRequests:
    """The slowest ones of the last minutes. `threshold` is what a request must exceed to be among them, in seconds."""

    def __init__(self) -> None:
        self.threshold = SLOW_MIN_SECONDS
        self._heap: list[tuple[float, int, float, SlowRequest]] = []  # took, order of arrival, when, what
        self._arrivals = 0

    def note(self, request: SlowRequest, now: float) -> None:
        self._arrivals += 1
        entry = (request.took_ms / 1000, self._arrivals, now, request)
        if len(self._heap) < SLOWEST_MAX:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)
        self._set_threshold()

    def forget_old(self, now: float) -> None:
        kept = [entry for entry in self._heap if now - entry[2] <= SLOWEST_MAX_AGE_SECONDS]
        if len(kept) < len(self._heap):
            heapq.heapify(kept)
            self._heap = kept
            self._set_threshold()

    def _set_threshold(self) -> None:
        self.threshold = self._heap[0][0] if len(self._heap) == SLOWEST_MAX else SLOW_MIN_SECONDS

    def __iter__(self) -> Iterator[SlowRequest]:
        """The slowest first."""
        return (entry[3] for entry in sorted(self._heap, reverse=True))


class RequestMetrics:
    """The requests of one broker."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.slowest = SlowestRequests()
        self.apis: dict[int, ApiTimes] = {}
        self._began = clock.monotonic()

    def of(self, key: int) -> ApiTimes:
        found = self.apis.get(key)
        if found is None:
            found = self.apis[key] = ApiTimes(API[ApiKey(key)].name, self.clock.monotonic())
        return found

    def failed(self, key: ApiKey, code: ErrorCode) -> None:
        """A request, or a partition of one, was answered with an error."""
        errors = self.of(key).errors
        errors[code] = errors.get(code, 0) + 1

    def fold(self) -> None:
        now = self.clock.monotonic()
        self.slowest.forget_old(now)
        for times in self.apis.values():
            if times.sizes or times.waited:
                times.fold(now)
            _take_over(times.version_meters, times.versions, now, self._began)
            _take_over(times.error_meters, times.errors, now, self._began)


def _take_over(meters: dict[Label, Meter], counts: dict[Label, int], now: float, began: float) -> None:
    for label, count in counts.items():
        meter = meters.get(label)
        if meter is None:
            meter = meters[label] = Meter(now, began=began)
        meter.count = count
        meter.tick(now)


class MeasuredDispatch:
    """Serves as the dispatch behind it does, and takes the time."""

    __slots__ = ("_apis", "_metrics", "_now", "_serve")

    def __init__(self, serve: Serve, metrics: RequestMetrics) -> None:
        self._serve = serve
        self._metrics = metrics
        self._apis = metrics.apis
        self._now: Callable[[], float] = metrics.clock.monotonic

    def __call__(self, connection: Connection, frame: memoryview) -> Answer | Waiting:
        began = self._now()
        answer = self._serve(connection, frame)
        local = self._now() - began
        key, version = _HEAD.unpack_from(frame)
        times = self._apis.get(key) or self._metrics.of(key)
        versions = times.versions
        if version in versions:
            versions[version] += 1
        else:
            self._first_of(times, key, version)
        times.sizes.append(len(frame))
        if type(answer) is Waiting:
            return self._measured(answer, began, local, times, connection, frame)
        times.handled.append(local)
        if local > self._metrics.slowest.threshold:
            self._note(ApiKey(key), _caller(connection, frame), local, local)
        return answer

    def _first_of(self, times: ApiTimes, key: int, version: int) -> None:
        spec = API[ApiKey(key)]
        # ApiVersions is answered in version 0 whatever was asked (KIP-511): no client makes up versions here.
        if not spec.min_version <= version <= spec.max_version:
            version = 0
        times.versions[version] = times.versions.get(version, 0) + 1

    def _measured(
        self,
        waiting: Waiting,
        began: float,
        local: float,
        times: ApiTimes,
        connection: Connection,
        frame: memoryview,
    ) -> Waiting:
        key, caller = ApiKey(_HEAD.unpack_from(frame)[0]), _caller(connection, frame)

        def finish(future: object, finish: Callable[..., Answer] = waiting.finish) -> Answer:
            resumed = self._now()
            try:
                return finish(future)
            finally:
                now = self._now()
                worked, total = local + now - resumed, now - began
                times.waited.append((worked, total))
                took = worked if key in _WAITS_BY_DESIGN else total
                if took > self._metrics.slowest.threshold:
                    self._note(key, caller, took, worked)

        return Waiting(waiting.future, finish)

    def _note(self, key: ApiKey, caller: _Caller, took: float, local: float) -> None:
        slow = SlowRequest(
            api=API[key].name,
            version=caller.version,
            client_id=caller.client_id,
            listener=caller.listener,
            host=caller.host,
            took_ms=took * 1000,
            local_ms=local * 1000,
            time_ms=self._metrics.clock.now_ms(),
        )
        self._metrics.slowest.note(slow, self._now())


@dataclass(frozen=True, slots=True)
class _Caller:
    version: int
    client_id: str
    listener: str
    host: str


def _caller(connection: Connection, frame: memoryview) -> _Caller:
    _, version, _, client_id, _ = read_request_header(frame)
    return _Caller(version, client_id or "", connection.listener, connection.peer_host)
