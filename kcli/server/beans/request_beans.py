"""The beans of requests: kafka.network:type=RequestMetrics and RequestChannel."""

from __future__ import annotations

from kcli.server.beans.bean import gauge, histogram, meter
from kcli.server.beans.sources import NETWORK, Beans, BeanSources
from kcli.server.metrics.requests import ApiTimes

_TYPE = "RequestMetrics"


def request_beans(sources: BeanSources) -> Beans:
    requests = sources.metrics.requests
    requests.fold()
    now = sources.now
    for times in sorted(
        (*requests.apis.values(), *requests.kinds.values()), key=lambda api_times: api_times.name
    ):
        yield from _of_api(times, now)
    yield from _channel(sources)


def _of_api(times: ApiTimes, now: float) -> Beans:
    request = times.name
    for version, of_version in list(times.versions.items()):
        attributes = of_version.meter.attributes("requests", now)
        yield meter(NETWORK, _TYPE, "RequestsPerSec", attributes, request=request, version=str(version))
    for code, errors in list(times.error_meters.items()):
        attributes = errors.attributes("requests", now)
        yield meter(NETWORK, _TYPE, "ErrorsPerSec", attributes, request=request, error=code.name)
    for name, observed in (
        ("RequestQueueTimeMs", times.queue_ms),
        ("LocalTimeMs", times.local_ms),
        ("RemoteTimeMs", times.remote_ms),
        ("ThrottleTimeMs", times.throttle_ms),
        ("ResponseSendTimeMs", times.send_ms),
        ("TotalTimeMs", times.total_ms),
        ("RequestBytes", times.request_bytes),
    ):
        yield histogram(NETWORK, _TYPE, name, observed.attributes(), request=request)


def _channel(sources: BeanSources) -> Beans:
    held_back = unanswered = 0
    for number, connection in enumerate(list(sources.sockets.connections)):
        held_back += connection.held_back_count
        unanswered += connection.unanswered_count
        if number % _CONNECTIONS_PER_PAUSE == 0:
            yield None
    yield gauge(NETWORK, "RequestChannel", "RequestQueueSize", held_back)
    yield gauge(NETWORK, "RequestChannel", "ResponseQueueSize", unanswered)
    yield gauge(NETWORK, "RequestChannel", "ResponseQueueSize", unanswered, processor="0")


_CONNECTIONS_PER_PAUSE = 200
"""Connections that are counted between two pauses. Each of them takes about a microsecond."""
