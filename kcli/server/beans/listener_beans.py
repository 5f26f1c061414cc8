"""The beans of listeners and of their connections."""

from __future__ import annotations

from collections import Counter

from kcli.server.beans.bean import bean, gauge, meter
from kcli.server.beans.sources import NETWORK, SERVER, STEPS_PER_PAUSE, Beans, BeanSources
from kcli.server.metrics.meters import Attributes
from kcli.server.network.listener import Acceptor

_GROUP = "socket-server-metrics"
_NANOSECONDS = 1_000_000_000

# The fields of ListenerCounts and LoginCounts, by Kafka's names without their endings -rate and -total. As in Kafka,
# the names are those of a client: the bytes that this node sends are requests, and the bytes that it receives are
# responses.
_COUNTS = {
    "connection-close": "closed",
    "connection-creation": "opened",
    "incoming-byte": "bytes_in",
    "outgoing-byte": "bytes_out",
    "request": "answers",
    "response": "requests",
}
_LOGINS = {
    "failed-authentication": "failed",
    "failed-reauthentication": "failed_again",
    "successful-authentication": "succeeded",
    "successful-reauthentication": "succeeded_again",
}

SOFTWARE_MAX = 100
"""The most versions of client software that have a bean of their own, as in Kafka."""
OTHER_SOFTWARE = "(others)"
"""The software name in the bean for all other versions together. No client can have this name, because ApiVersions
refuses a software name with parentheses."""


def listener_beans(sources: BeanSources) -> Beans:
    expired = 0
    accept_rate = 0.0
    for name, listener in sources.sockets.listeners.items():
        yield bean(SERVER, _GROUP, _traffic(sources, listener), listener=name, networkProcessor="0")
        yield from _of_listener(sources, name, listener)
        yield from _software(name, listener)
        expired += listener.logins.expired
        accept_rate += _accept_rate(sources, listener)
    yield bean(SERVER, _GROUP, {"broker-connection-accept-rate": accept_rate})
    for host, rate in sources.quotas.connections.rates():
        yield bean(SERVER, _GROUP, {"connection-accept-rate": rate}, ip=host)
    yield gauge(NETWORK, "SocketServer", "ExpiredConnectionsKilledCount", expired)
    yield from _memory(sources)


def _traffic(sources: BeanSources, listener: Acceptor) -> Attributes:
    now, watches = sources.now, sources.metrics.watches
    attributes: Attributes = {
        "connection-count": len(listener.served),
        "expired-connections-killed-count": listener.logins.expired,
        "successful-authentication-no-reauth-total": listener.logins.succeeded_without_again,
    }
    for counts, names in ((listener.counts, _COUNTS), (listener.logins, _LOGINS)):
        watched = watches.counts(counts)
        for name, field in names.items():
            attributes[f"{name}-rate"] = watched.rate(counts, field, now)
            attributes[f"{name}-total"] = getattr(counts, field)
    watched = watches.counts(listener.counts)
    answers = watched.growth(listener.counts, "answers")
    again = watches.values(listener.logins.again_ms, now)
    io_rate = sum(watched.rate(listener.counts, field, now) for field in ("reads", "answers"))
    return attributes | {
        "network-io-rate": io_rate,
        "network-io-total": listener.counts.reads + listener.counts.answers,
        "request-size-avg": watched.growth(listener.counts, "bytes_out") / answers if answers else 0.0,
        "request-size-max": watches.values(listener.counts.largest_answer, now).largest,
        "reauthentication-latency-avg": again.average,
        "reauthentication-latency-max": again.largest,
        **_waiting(sources, now),
    }


def _waiting(sources: BeanSources, now: float) -> Attributes:
    """The time in which the event loop, which serves all listeners, waited for input."""
    idle = sources.metrics.loop_idle
    return {
        "io-wait-ratio": min(idle.one_minute_rate, 1.0),
        "io-wait-time-ns-total": int(idle.count * _NANOSECONDS),
    }


def _of_listener(sources: BeanSources, name: str, listener: Acceptor) -> Beans:
    watches, counts = sources.metrics.watches, listener.counts
    watched = watches.counts(counts)
    if listener.holds:
        listener.count_held()
    yield bean(
        SERVER,
        _GROUP,
        {
            "connection-accept-rate": _accept_rate(sources, listener),
            "connection-accept-throttle-time": watches.values(counts.rate_delays_ms, sources.now).average,
            "ip-connection-accept-throttle-time": watches.values(counts.quota_delays_ms, sources.now).average,
        },
        listener=name,
    )
    blocked = watched.meter(listener.counts, "held_ns", "blocked time", sources.now)
    for period in ("MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate"):
        blocked[period] = float(blocked[period]) / _NANOSECONDS
    blocked["RateUnit"] = "NANOSECONDS"
    yield meter(NETWORK, "Acceptor", "AcceptorBlockedPercent", blocked, listener=name)


def _accept_rate(sources: BeanSources, listener: Acceptor) -> float:
    watched = sources.metrics.watches.counts(listener.counts)
    return watched.rate(listener.counts, "accepted", sources.now)


def _software(name: str, listener: Acceptor) -> Beans:
    """Yields the number of connections for each software name and version of clients (KIP-511). If there are more than
    SOFTWARE_MAX versions, the versions with the fewest connections are counted together as OTHER_SOFTWARE."""
    by_software: Counter[tuple[str, str]] = Counter()
    for number, connection in enumerate(list(listener.served)):
        by_software[connection.facts.software] += 1
        if number % STEPS_PER_PAUSE == 0:
            yield None
    counts = by_software.most_common(SOFTWARE_MAX)
    others = by_software.total() - sum(count for _, count in counts)
    if others:
        counts.append(((OTHER_SOFTWARE, ""), others))
    for (software, version), count in counts:
        yield bean(
            SERVER,
            _GROUP,
            {"connections": count},
            clientSoftwareName=software,
            clientSoftwareVersion=version,
            listener=name,
            networkProcessor="0",
        )


def _memory(sources: BeanSources) -> Beans:
    """The memory for frames that do not fit into the buffer that all connections share."""
    frames = sources.sockets.shared.frames
    used = frames.held_bytes
    total = frames.small.bytes_max + frames.large.bytes_max
    yield gauge(NETWORK, "SocketServer", "MemoryPoolUsed", used)
    yield gauge(NETWORK, "SocketServer", "MemoryPoolAvailable", max(total - used, 0))
