"""The number of requests, their times, and the slowest requests.

`measured` wraps the dispatch of requests and measures the time. Each request costs two reads of the clock and two
appends to lists. `fold` moves the values from the lists into counts and histograms, once a second and before every read
of the metrics. As in Kafka, the local time of a request is the time in which the broker works on it. The remote time is
the time in which the request waits for commits, for records or for other members of a group.

Most requests are served as soon as they are received. If a client sends many requests together, the requests wait in a
queue (`network/request_line.py`). This wait is the queue time. A small answer is passed to the socket immediately, so
its send time is 0. Kafka has a queue for answers, and this broker has none. If an answer waits for an earlier answer of
its connection, this wait is part of the remote time.
"""

from __future__ import annotations

import asyncio
import heapq
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from kcli.errors import ErrorCode
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.packing import read_request_header
from kcli.runtime.clock import Clock
from kcli.server.metrics.buckets import Buckets
from kcli.server.metrics.meters import Histogram, Meter, summary
from kcli.server.network.connection import Connection, Serve
from kcli.server.network.request_facts import RequestFacts
from kcli.server.network.waiting import Answer, Stopwatch, Waiting

_HEAD = Struct(">hh")
_MS_PER_SECOND = 1000
# The most slow requests that are listed. This many lines fit on a screen.
SLOWEST_MAX = 20
# Faster requests are never listed as slow.
SLOW_MIN_SECONDS = 0.001
# Older slow requests do not explain present problems.
SLOWEST_MAX_AGE_SECONDS = 300.0

FETCH_CONSUMER, FETCH_FOLLOWER = "FetchConsumer", "FetchFollower"
VERIFICATION = "AddPartitionsToTxnVerification"
CLIENT_METRICS_RESOURCES = "ListClientMetricsResources"
"""The kinds of requests that have their own beans. The beans of an API also include the requests of its kinds, except
VERIFICATION."""


Head = tuple[int, int]
"""The API key and the version of a request, which are at the beginning of its frame."""


class VersionTimes:
    """Measures the requests in one version of one API, or the requests of one kind (such as FetchConsumer). The lists
    and arrays have the times (in seconds) and the sizes of the requests since the last fold. If this object measures a
    kind, `whole` is the object for all requests in the same version of the API, of any kind. The kind VERIFICATION has
    no `whole`. Times and sizes are in arrays, because an array stores plain numbers. A list would keep a Python object
    for each number until the next fold.
    """

    __slots__ = (
        "api",
        "count",
        "handled",
        "kinds",
        "meter",
        "queued",
        "sends",
        "sizes",
        "throttled",
        "version",
        "waited",
        "whole",
    )

    def __init__(
        self, api: ApiTimes, version: int, now: float, began: float, whole: VersionTimes | None = None
    ) -> None:
        self.api = api
        self.version = version
        self.whole = whole
        self.kinds: dict[str, VersionTimes] = {}
        self.handled = array("d")
        self.waited: list[tuple[float, float]] = []  # seconds: local, total
        self.sizes = array("q")
        # These three lists have only the times that are not 0.
        self.queued: list[float] = []
        self.throttled: list[float] = []
        self.sends: list[float] = []
        self.count = 0
        self.meter = Meter(now, began=began)

    def sent(self, seconds: float) -> None:
        """Stores the time that the connection needed to send a large answer."""
        self.sends.append(seconds)

    def fold(self, now: float) -> None:
        if self.handled or self.waited:
            taken = Taken(self.handled, self.waited, self.sizes, self.queued, self.throttled, self.sends)
            self.handled, self.waited, self.sizes = array("d"), [], array("q")
            self.queued, self.throttled, self.sends = [], [], []
            self._add(taken, now)
        self.meter.count = self.count
        self.meter.tick(now)

    def _add(self, taken: Taken, now: float) -> None:
        self.count += taken.requests
        self.api.fold(taken, now)
        if self.whole is not None:
            self.whole._add(taken, now)


class Taken(NamedTuple):
    """The values of the requests since the last fold. See `VersionTimes`."""

    handled: array[float]
    waited: list[tuple[float, float]]
    sizes: array[int]
    queued: list[float]
    throttled: list[float]
    sends: list[float]

    @property
    def requests(self) -> int:
        return len(self.handled) + len(self.waited)


class ApiTimes:
    """The requests of one API in all versions: histograms of times (in milliseconds) and of sizes (in bytes), and the
    errors in answers.
    """

    __slots__ = (
        "error_meters",
        "errors",
        "local_ms",
        "local_s",
        "name",
        "queue_ms",
        "remote_ms",
        "request_bytes",
        "results",
        "send_ms",
        "throttle_ms",
        "total_ms",
        "total_s",
        "versions",
    )

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        # The same times as total_ms and local_ms, with limits that are the same on every broker.
        self.total_s = Buckets()
        self.local_s = Buckets()
        self.versions: dict[int, VersionTimes] = {}
        self.errors: dict[ErrorCode, int] = {}
        # Results of partitions that count in addition to the requests. As in Kafka, a Produce counts once for each of
        # its partitions, and a Fetch once more for itself.
        self.results = 0
        self.error_meters: dict[ErrorCode, Meter] = {}
        self.total_ms = Histogram(now)
        self.local_ms = Histogram(now)
        self.remote_ms = Histogram(now)
        self.queue_ms = Histogram(now)
        self.throttle_ms = Histogram(now)
        self.send_ms = Histogram(now)
        self.request_bytes = Histogram(now)

    def fold(self, taken: Taken, now: float) -> None:
        handled, waited = taken.handled, taken.waited
        # A request that did not wait has only local time.
        _add(handled, (self.total_s, self.local_s), (self.total_ms, self.local_ms), now)
        self.remote_ms.fold_zeros(len(handled), now)
        _add([total for _, total in waited], (self.total_s,), (self.total_ms,), now)
        _add([local for local, _ in waited], (self.local_s,), (self.local_ms,), now)
        self.remote_ms.fold([total - local for local, total in waited], now, scale=_MS_PER_SECOND)
        self.request_bytes.fold(taken.sizes, now)
        for histogram, values in (
            (self.queue_ms, taken.queued),
            (self.throttle_ms, taken.throttled),
            (self.send_ms, taken.sends),
        ):
            histogram.fold(values, now, scale=_MS_PER_SECOND)
            histogram.fold_zeros(max(taken.requests - len(values), 0), now)

    def tick(self, now: float, began: float) -> None:
        """Updates the meters of errors. The meter of `NONE` counts the results without an error."""
        count = self.results + sum(times.count for times in self.versions.values())
        succeeded = max(count - sum(self.errors.values()), 0)
        for code, counted in (*self.errors.items(), (ErrorCode.NONE, succeeded)):
            meter = self.error_meters.get(code)
            if meter is None:
                if not counted:
                    continue
                meter = self.error_meters[code] = Meter(now, began=began)
            meter.count = max(meter.count, counted)
            meter.tick(now)


def _add(
    seconds: Iterable[float], buckets: tuple[Buckets, ...], histograms: tuple[Histogram, ...], now: float
) -> None:
    """Adds times to all `buckets` and `histograms`. The times are sorted and summarized once."""
    ordered = sorted(seconds)
    if not ordered:
        return
    for bucket_counts in buckets:
        bucket_counts.add_sorted(ordered)
    in_ms = summary(ordered, _MS_PER_SECOND)
    for histogram in histograms:
        histogram.add(in_ms, now)


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A slow request. `time_ms` is the wall-clock time of its end."""

    api: str
    version: int
    client_id: str
    listener: str
    host: str
    took_ms: float
    local_ms: float
    time_ms: int


class SlowestRequests:
    """The slowest requests of the last minutes. A request must exceed `threshold` seconds to be added."""

    def __init__(self) -> None:
        self.threshold = SLOW_MIN_SECONDS
        # Each entry has the duration in seconds, the number of the arrival, the end time and the request.
        self._heap: list[tuple[float, int, float, SlowRequest]] = []
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
        entries = [entry for entry in self._heap if now - entry[2] <= SLOWEST_MAX_AGE_SECONDS]
        if len(entries) < len(self._heap):
            heapq.heapify(entries)
            self._heap = entries
            self._set_threshold()

    def _set_threshold(self) -> None:
        self.threshold = self._heap[0][0] if len(self._heap) == SLOWEST_MAX else SLOW_MIN_SECONDS

    def __iter__(self) -> Iterator[SlowRequest]:
        """The slow requests, slowest first."""
        return (entry[3] for entry in sorted(self._heap, reverse=True))


class RequestMetrics:
    """The requests of one broker."""

    def __init__(self, clock: Clock, waiting_by_design: Collection[ApiKey] = ()) -> None:
        """`waiting_by_design`: the APIs whose requests wait on purpose. For the list of slow requests, only their local
        time counts."""
        self.clock = clock
        self.waiting_by_design = waiting_by_design
        self.slowest = SlowestRequests()
        self.apis: dict[int, ApiTimes] = {}
        self.kinds: dict[str, ApiTimes] = {}
        """The kinds of requests that have their own beans. The key is the name of the kind."""
        self.by_head: dict[Head, VersionTimes] = {}
        self._began = clock.monotonic()

    def of(self, key: int) -> ApiTimes:
        api_times = self.apis.get(key)
        if api_times is None:
            api_times = self.apis[key] = ApiTimes(API[ApiKey(key)].name, self.clock.monotonic())
        return api_times

    def of_version(self, head: Head) -> VersionTimes:
        """The counts for requests with the API key and version in `head`."""
        key, version = head
        spec = API[ApiKey(key)]
        is_known = spec.min_version <= version <= spec.max_version
        # An unknown version of ApiVersions is answered in version 0 (KIP-511), and counts as version 0. Without this
        # rule, a client could fill the memory by sending requests with many version numbers.
        version = version if is_known else 0
        version_times = self._of_api(self.of(key), version)
        if key == ApiKey.FETCH:
            version_times = self.of_kind(version_times, FETCH_CONSUMER)
        elif key == ApiKey.LIST_CONFIG_RESOURCES and version == 0:
            version_times = self.of_kind(version_times, CLIENT_METRICS_RESOURCES)
        if is_known:
            self.by_head[head] = version_times
        return version_times

    def of_kind(self, times: VersionTimes, kind: str) -> VersionTimes:
        """Returns the counts of one kind of requests. `times` has the counts of the same API and version."""
        whole = times.whole or times
        version_times = whole.kinds.get(kind)
        if version_times is None:
            api = self.kinds.get(kind)
            if api is None:
                api = self.kinds[kind] = ApiTimes(kind, self.clock.monotonic())
            version_times = whole.kinds[kind] = self._of_api(
                api, whole.version, None if kind == VERIFICATION else whole
            )
        return version_times

    def _of_api(self, api: ApiTimes, version: int, whole: VersionTimes | None = None) -> VersionTimes:
        version_times = api.versions.get(version)
        if version_times is None:
            version_times = api.versions[version] = VersionTimes(
                api, version, self.clock.monotonic(), self._began, whole
            )
        return version_times

    def failed(self, key: ApiKey, code: ErrorCode) -> None:
        """Counts a request, or a partition of a request, that was answered with an error."""
        errors = self.of(key).errors
        errors[code] = errors.get(code, 0) + 1

    def answered(self, key: ApiKey, results: int) -> None:
        """Counts the results of partitions in an answer. The request itself is also counted as a result."""
        self.of(key).results += results

    def fold(self) -> None:
        now = self.clock.monotonic()
        self.slowest.forget_old(now)
        # The kinds are folded first, because this adds their requests to the APIs.
        for api in (*self.kinds.values(), *self.apis.values()):
            for times in api.versions.values():
                times.fold(now)
        for api in self.apis.values():
            api.tick(now, self._began)


def measured(serve: Serve, metrics: RequestMetrics) -> Serve:
    """Wraps `serve` and measures the time. The wrapper is a closure, because a closure is faster than an object with
    attributes."""
    now: Callable[[], float] = metrics.clock.monotonic
    head_of: Callable[[memoryview], Head] = _HEAD.unpack_from
    by_head, slowest = metrics.by_head, metrics.slowest

    def serve_measured(connection: Connection, frame: memoryview) -> Answer | Waiting:
        began = now()
        answer = serve(connection, frame)
        local = now() - began
        head = head_of(frame)
        times = by_head.get(head) or metrics.of_version(head)
        facts = connection.facts
        if facts.has_news:
            times = _noted(metrics, times, facts)
        if type(answer) is Waiting:
            begun = Begun(began, local, len(frame))
            _measure(answer, metrics, times, begun, _caller(connection, frame), facts)
            return answer
        facts.answering = times
        times.sizes.append(len(frame))
        times.handled.append(local)
        if local > slowest.threshold:
            _note(metrics, times, _caller(connection, frame), local, local)
        return answer

    return serve_measured


def _noted(metrics: RequestMetrics, times: VersionTimes, facts: RequestFacts) -> VersionTimes:
    """Moves the facts that were recorded about a request into the counts. Returns the counts of the request's kind, or
    `times` if the request has no kind."""
    facts.has_news = False
    if facts.kind:
        times = metrics.of_kind(times, facts.kind)
        facts.kind = ""
    if facts.queued_seconds:
        times.queued.append(facts.queued_seconds)
        facts.queued_seconds = 0.0
    if facts.throttled_seconds:
        times.throttled.append(facts.throttled_seconds)
        facts.throttled_seconds = 0.0
    return times


class Begun(NamedTuple):
    """A request that has begun at the time `at`. The broker has worked on it for `local` seconds so far."""

    at: float
    local: float
    size_bytes: int


def _measure(
    waiting: Waiting,
    metrics: RequestMetrics,
    times: VersionTimes,
    begun: Begun,
    caller: _Caller,
    facts: RequestFacts,
) -> None:
    """Measures a request until its answer is taken."""

    work = Stopwatch(metrics.clock.monotonic)
    waiting.timers.append(work)

    def taken(_task: asyncio.Future[Answer]) -> None:
        nonlocal times
        worked, total = begun.local + work.worked_seconds, metrics.clock.monotonic() - begun.at
        if facts.has_news:
            times = _noted(metrics, times, facts)
        facts.answering = times
        times.sizes.append(begun.size_bytes)
        times.waited.append((worked, total))
        took = worked if caller.key in metrics.waiting_by_design else total
        if took > metrics.slowest.threshold:
            _note(metrics, times, caller, took, worked)

    waiting.on_taken.append(taken)


@dataclass(frozen=True, slots=True)
class _Caller:
    key: int
    version: int
    client_id: str
    listener: str
    host: str


def _caller(connection: Connection, frame: memoryview) -> _Caller:
    """Reads the client id from the frame. Call this function while the frame is still in memory."""
    key, version, _, client_id, _ = read_request_header(frame)
    return _Caller(key, version, client_id or "", connection.listener, connection.peer_host)


def _note(metrics: RequestMetrics, times: VersionTimes, caller: _Caller, took: float, local: float) -> None:
    slow = SlowRequest(
        api=times.api.name,
        version=caller.version,
        client_id=caller.client_id,
        listener=caller.listener,
        host=caller.host,
        took_ms=took * 1000,
        local_ms=local * 1000,
        time_ms=metrics.clock.now_ms(),
    )
    metrics.slowest.note(slow, metrics.clock.monotonic())
